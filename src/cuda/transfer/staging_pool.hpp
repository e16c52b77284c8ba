// Memory of one place, a GPU or the host (page-locked), in which messages are staged on their way.
//
// It is taken from the driver in slabs up to a bound and never given back before the pool ends:
// freeing would wait for the GPU. A block goes to a message for good, until the message's end is
// known: then the block may be taken by what its stream does next, at once, and by others when the
// message is complete.
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

  // `place` is a GPU or host_place; `bound` in bytes.
  staging_pool(contexts& of, int place, std::uint64_t bound);
  ~staging_pool();
  staging_pool(const staging_pool&) = delete;
  staging_pool& operator=(const staging_pool&) = delete;

  // At least so many bytes, aligned to 256, that no message uses which the stream's next work does
  // not run behind. Nothing where the bound, or the memory there is, leaves none. Throws
  // device_error where the driver fails otherwise.
  std::optional<block> take(std::uint64_t bytes, const stream_identity& stream);
  // Waits on the host until all that blocks were given back with until now is over.
  void wait();
  // Free when `end` is over; at once where it is null. Calls no CUDA, so that drivers may call it.
  void give(block used, shared_completion end);

  std::uint64_t reserved() const { return reserved_; }  // bytes taken from the driver
  std::uint64_t in_use() const { return in_use_; }      // bytes of blocks that are taken

 private:
  struct lingering {
    block memory;
    shared_completion end;
  };

  std::optional<block> again(std::uint64_t bytes, const stream_identity& stream);
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
  std::mutex mutex_;  // of what follows
  std::vector<block> slabs_;
  std::map<device_address, std::uint64_t>
      free_;  // address, bytes; none touches another of its slab
  std::vector<lingering> lingering_;
  // Never held while CUDA is called: the driver's callbacks wait for it.
  std::mutex returned_mutex_;
  std::vector<block> returned_;
};

struct placed_block {
  int place = host_place;  // whose pool it is of
  staging_pool::block memory;
};

}  // namespace interlace::cuda
