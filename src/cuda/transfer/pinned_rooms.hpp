// Page-locked memory that work on streams uses for a short time. It holds lists of addresses, and
// blocks on their way from or to pageable memory.
//
// Rooms are kept and reused. No function here waits. A room is free when the work that used it is
// complete, or when the graph that owns it has ended.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/transfer/driver_table.hpp"

namespace interlace::cuda {

// The rooms of one context. The context must be current in every call. Thread-safe.
class pinned_rooms {
 public:
  struct room {
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    CUevent_st* last = nullptr;  // the end of the work that used the room last
    std::atomic<bool> taken{true};
  };

  // All rooms together have at most `bound` bytes.
  pinned_rooms(const driver_table& driver, std::size_t bound);
  ~pinned_rooms();
  pinned_rooms(const pinned_rooms&) = delete;
  pinned_rooms& operator=(const pinned_rooms&) = delete;

  // Tells this object that the context has ended, and the memory with it. After this call, the
  // destructor does not call the driver.
  void abandon() { rooms_.clear(); }

  // Takes a room of at least `bytes` bytes. Returns null if the bound is reached and all rooms are
  // in use. Also returns null if the host has no memory that can be locked. Throws device_error if
  // the driver fails in another way.
  room* take(std::size_t bytes);
  // Gives the room back. The room is free when all work that is now on the stream is complete. If
  // the driver fails, the room is never used again, because work that is already enqueued may use
  // it.
  void give(room* used, CUstream_st* stream) noexcept;
  // Gives back a room that was not used.
  void give_unused(room* unused) { unused->taken.store(false, std::memory_order_release); }
  // Makes the graph the owner of the room. The room is free when the graph and all of its
  // executables have ended. Throws device_error. After an error, the graph does not own the room.
  void give_to_graph(room* used, CUgraph_st* graph);

 private:
  // Rooms that a graph owns can outlive this object.
  using shared_rooms = std::vector<std::shared_ptr<room>>;

  const driver_table& driver_;
  std::size_t bound_;
  std::size_t reserved_ = 0;
  std::mutex mutex_;
  shared_rooms rooms_;
  // The index in `rooms_` after the room that was used last. If that room is not free, the search
  // begins at this index: if rooms were used in turn, the room here was used longest ago.
  std::size_t next_ = 0;
};

}  // namespace interlace::cuda
