// Runs the device code of a header on the host. A thread block is a group of fibers that take turns
// at barriers and shuffles. A test must include this file before the header with the device code.
// Thread blocks run one after another, so code in which one block waits for another block never
// ends here.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __shared__ static

struct uint2 {
  unsigned int x, y;
};
inline uint2 make_uint2(unsigned int x, unsigned int y) { return {x, y}; }
using std::max;
using std::min;

struct place_in_grid {
  unsigned int x = 0;
};
inline place_in_grid threadIdx, blockIdx, blockDim, gridDim;

namespace interlace::block_on_host {

class block {
 public:
  explicit block(std::uint32_t threads) : fibers_(threads), words_(threads), warps_(threads / 32) {
    for (fiber& one : fibers_) one.stack = std::make_unique<char[]>(stack_bytes);
  }

  void run(const std::function<void()>& body) {
    body_ = &body;
    for (fiber& one : fibers_) {
      getcontext(&one.context);
      one.context.uc_stack.ss_sp = one.stack.get();
      one.context.uc_stack.ss_size = stack_bytes;
      one.context.uc_link = &scheduler_;
      one.done = false;
      makecontext(&one.context, reinterpret_cast<void (*)()>(&enter), 0);
    }
    current() = this;
    for (bool any = true; any;) {
      any = false;
      for (std::uint32_t t = 0; t < fibers_.size(); ++t) {
        if (fibers_[t].done) continue;
        any = true;
        threadIdx.x = t;
        swapcontext(&scheduler_, &fibers_[t].context);
      }
    }
  }

  void meet_block() { meet(all_, static_cast<std::uint32_t>(fibers_.size())); }
  void meet_warp() { meet(warps_[threadIdx.x / 32], 32); }

  std::uint32_t shuffle(std::uint32_t value, std::uint32_t from) {
    words_[threadIdx.x] = value;
    meet_warp();
    const std::uint32_t got = words_[threadIdx.x / 32 * 32 + from];
    meet_warp();
    return got;
  }

  std::uint32_t ballot(bool value) {
    words_[threadIdx.x] = value ? 1 : 0;
    meet_warp();
    std::uint32_t found = 0;
    for (std::uint32_t k = 0; k < 32; ++k) found |= words_[threadIdx.x / 32 * 32 + k] << k;
    meet_warp();
    return found;
  }

  bool any(bool value) {
    words_[threadIdx.x] = value ? 1 : 0;
    meet_block();
    const bool found = std::any_of(words_.begin(), words_.end(), [](auto w) { return w != 0; });
    meet_block();
    return found;
  }

  static block*& current() {
    static block* one = nullptr;
    return one;
  }

 private:
  static constexpr std::size_t stack_bytes = 64 << 10;
  struct fiber {
    ucontext_t context{};
    std::unique_ptr<char[]> stack;
    bool done = false;
  };
  struct barrier {
    std::uint32_t arrived = 0;
    std::uint64_t times = 0;
  };
  void meet(barrier& at, std::uint32_t threads) {
    const std::uint64_t before = at.times;
    if (++at.arrived == threads) {
      at.arrived = 0;
      ++at.times;
    }
    const std::uint32_t own = threadIdx.x;
    while (at.times == before) swapcontext(&fibers_[own].context, &scheduler_);
  }
  static void enter() {
    block& b = *current();
    (*b.body_)();
    b.fibers_[threadIdx.x].done = true;
  }
  std::vector<fiber> fibers_;
  std::vector<std::uint32_t> words_;
  barrier all_;
  std::vector<barrier> warps_;
  const std::function<void()>* body_ = nullptr;
  ucontext_t scheduler_{};
};

template <class Body>
void launch(std::uint32_t blocks, std::uint32_t threads, const Body& body) {
  block b(threads);
  blockDim.x = threads;
  gridDim.x = blocks;
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) b.run(body);
  block::current() = nullptr;
}

}  // namespace interlace::block_on_host

inline void __syncthreads() { interlace::block_on_host::block::current()->meet_block(); }
inline void __syncwarp() { interlace::block_on_host::block::current()->meet_warp(); }
inline std::uint32_t __shfl_sync(std::uint32_t, std::uint32_t value, std::uint32_t from) {
  return interlace::block_on_host::block::current()->shuffle(value, from);
}
inline std::uint32_t __shfl_up_sync(std::uint32_t, std::uint32_t value, std::uint32_t by) {
  const std::uint32_t lane = threadIdx.x % 32;
  return interlace::block_on_host::block::current()->shuffle(value, lane < by ? lane : lane - by);
}
inline std::uint32_t __ballot_sync(std::uint32_t, bool value) {
  return interlace::block_on_host::block::current()->ballot(value);
}
inline std::uint32_t __popc(std::uint32_t value) {
  return static_cast<std::uint32_t>(__builtin_popcount(value));
}
template <class T>
T atomicAdd(T* p, T value) {
  const T before = *p;
  *p = before + value;
  return before;
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
void __stcs(T* p, T value) {
  *p = value;
}
inline int __syncthreads_or(int value) {
  return interlace::block_on_host::block::current()->any(value != 0) ? 1 : 0;
}
inline void __threadfence_system() {}
template <class T>
T atomicExch(T* p, T value) {
  const T before = *p;
  *p = value;
  return before;
}
