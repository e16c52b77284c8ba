// NVSHMEM, which the program loads at run time. The build needs neither the library nor its header.
// This file needs no CUDA header either, so tests can use a stand-in. Streams are opaque pointers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace interlace::cuda {

// The id that all ranks of a run share. Rank 0 makes the id, and the caller passes it to the other
// ranks.
struct nvshmem_id {
  int version = (1 << 16) + 128;
  std::array<char, 124> internal{};
};

class nvshmem_library {
 public:
  // Loads the first candidate that exists. Candidates are names that dlopen accepts. Sets
  // environment variables of the process, which NVSHMEM reads when it starts. These variables turn
  // off multicast in the switches (NVSHMEM_DISABLE_NVLS). They also turn off the network, unless
  // the environment says otherwise. Throws usage_error if no candidate exists; the error lists all
  // candidates. Also throws usage_error if the library lacks a necessary function.
  explicit nvshmem_library(const std::vector<std::string>& candidates);

  // The version in NVIDIA's notation, such as 3.4.5.
  std::string version() const;

  // The binary interface of version 3. Functions return 0 for success.
  struct functions {
    void (*version_info)(int*, int*, int*);
    int (*get_unique_id)(nvshmem_id*);
    int (*set_unique_id)(int, int, const nvshmem_id*, void*);
    int (*init)(unsigned int, void*);
    void (*finalize)();
    void* (*allocate)(std::size_t);
    void (*put)(void*, const void*, std::size_t, int, void* stream);
    void (*barrier)(void* stream);
  };
  const functions& api() const { return api_; }

  nvshmem_id make_id() const;  // throws device_error

 private:
  functions api_{};
};

// This process as one of several ranks. Each rank has its own GPU.
class nvshmem_rank {
 public:
  // Returns once all ranks have called this constructor. The calling thread's current GPU must be
  // this rank's GPU. Throws device_error if NVSHMEM cannot start.
  nvshmem_rank(std::unique_ptr<const nvshmem_library> library, std::uint32_t rank,
               std::uint32_t ranks, const nvshmem_id& id);

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return ranks_; }
  std::string version() const { return library_->version(); }

  // Allocates memory on every rank. All ranks access this memory at the same address. The memory
  // lives until the rank leaves. All ranks must call this function with the same sizes in the same
  // order. Returns nullptr for 0 bytes. Throws device_error if there is not enough memory.
  void* allocate(std::size_t bytes) const;

  // `put` and `barrier` only enqueue their work. A put copies to the same address on another rank.
  // All ranks must enqueue the barrier. After the barrier, every put that was enqueued before the
  // barrier is complete.
  void put(void* to, const void* from, std::size_t bytes, std::uint32_t rank, void* stream) const;
  void barrier(void* stream) const;

  // Ends NVSHMEM once all ranks have called this function. Afterwards the caller must not call any
  // other function of this class. The destructor does not end NVSHMEM, because the end of NVSHMEM
  // would wait for ranks that have failed.
  void leave() const;

 private:
  std::unique_ptr<const nvshmem_library> library_;
  std::uint32_t rank_ = 0;
  std::uint32_t ranks_ = 1;
};

}  // namespace interlace::cuda
