// The staging memory of one place, through which messages are relayed. The place is a GPU or the
// host. The host's staging memory is page-locked.
//
// The pool takes memory from the driver in slabs, up to a bound. It frees no slab before the pool
// is destroyed, because freeing would wait for the GPU. A block belongs to one message at a time.
// The next message on the same stream can take the block as soon as the earlier message's end is
// known. Messages on other streams can take the block when the first message is complete.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/transfer/contexts.hpp"

namespace interlace::cuda {

class staging_pool {
 public:
  struct block {
    device_address address = 0;
    std::uint64_t bytes = 0;
  };

  // `place` is the number of a GPU, or host_place. `bound` is in bytes.
  staging_pool(contexts& of, int place, std::uint64_t bound);
  ~staging_pool();
  staging_pool(const staging_pool&) = delete;
  staging_pool& operator=(const staging_pool&) = delete;

  // Takes a block of at least `bytes` bytes, aligned to 256 bytes. All messages that used the block
  // end before the next work on the stream. Returns no value if the bound is reached or if the
  // place has no more memory. Throws device_error for any other failure of the driver.
  std::optional<block> take(std::uint64_t bytes, const stream_identity& stream);
  // Blocks until all blocks that were given back so far can be used again.
  void wait();
  // Frees the block once `end` is complete, or at once if `end` is null. Does not call CUDA, so
  // callbacks of the driver may call this function.
  void give(block used, shared_completion end);

  std::uint64_t reserved() const { return reserved_; }  // bytes taken from the driver
  std::uint64_t in_use() const { return in_use_; }      // bytes of blocks that are taken

 private:
  struct lingering {
    block memory;
    shared_completion end;
  };

  std::optional<block> take_last_block(std::uint64_t bytes, const stream_identity& stream);
  void reclaim();
  void take_returned();
  void insert_free(block freed);
  std::optional<block> first_fit(std::uint64_t bytes);
  bool grow(std::uint64_t bytes);

  contexts& contexts_;
  int place_;
  std::uint64_t bound_;
  std::atomic<std::uint64_t> reserved_{0};
  std::atomic<std::uint64_t> in_use_{0};
  std::mutex mutex_;  // guards the following members, up to lingering_
  std::vector<block> slabs_;
  // the address and size of each free range; two free ranges of a slab never touch
  std::map<device_address, std::uint64_t> free_;
  std::vector<lingering> lingering_;
  // Guards returned_. No thread may call CUDA while it holds this mutex, because callbacks of the
  // driver take the mutex.
  std::mutex returned_mutex_;
  std::vector<block> returned_;
};

struct placed_block {
  int place = host_place;  // GPU to whose pool the block belongs, or host_place
  staging_pool::block memory;
};

}  // namespace interlace::cuda
