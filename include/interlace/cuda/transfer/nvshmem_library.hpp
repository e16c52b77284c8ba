// NVSHMEM, loaded at run time: nothing links it or needs its header. No header of CUDA is needed
// either, so that it is tested with a stand-in where there is none; streams are opaque.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace interlace::cuda {

// What the ranks of a run have in common: rank 0 makes it, and the caller brings it to the others.
struct nvshmem_id {
  int version = (1 << 16) + 128;
  std::array<char, 124> internal{};
};

class nvshmem_library {
 public:
  // Loads the first of the candidates, names as dlopen takes them, that is there. Sets for the
  // whole process what NVSHMEM reads when it starts: no multicast in the switches
  // (NVSHMEM_DISABLE_NVLS) and, where the environment does not say otherwise, no network. Throws
  // usage_error, which says what was tried, if there is none, and if it lacks what is needed.
  explicit nvshmem_library(const std::vector<std::string>& candidates);

  // As NVIDIA writes it: 3.4.5.
  std::string version() const;

  // The binary interface of version 3; 0 is success.
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

// This process as one of several, each with a GPU of its own.
class nvshmem_rank {
 public:
  // Returns when all ranks have called it; the calling thread's current GPU is this rank's. Throws
  // device_error if NVSHMEM cannot start.
  nvshmem_rank(std::unique_ptr<const nvshmem_library> library, std::uint32_t rank,
               std::uint32_t ranks, const nvshmem_id& id);

  std::uint32_t rank() const { return rank_; }
  std::uint32_t ranks() const { return ranks_; }
  std::string version() const { return library_->version(); }

  // Memory that every rank has and reaches by the same address as its own; lives until
  // the rank leaves. All ranks call it with as many bytes, in the same order. nullptr for 0 bytes;
  // throws device_error if there is none.
  void* allocate(std::size_t bytes) const;

  // Enqueue. A put copies to the same address at another rank; behind the barrier, which all ranks
  // enqueue, every put is complete that was enqueued before it.
  void put(void* to, const void* from, std::size_t bytes, std::uint32_t rank, void* stream) const;
  void barrier(void* stream) const;

  // Ends NVSHMEM, when all ranks have called it; nothing else may be called after that. Not done by
  // a destructor: where a rank has failed, the others would wait for it.
  void leave() const;

 private:
  std::unique_ptr<const nvshmem_library> library_;
  std::uint32_t rank_ = 0;
  std::uint32_t ranks_ = 1;
};

}  // namespace interlace::cuda
