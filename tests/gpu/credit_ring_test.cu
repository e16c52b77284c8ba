// Litmus tests of the ring with credits. A million messages go from a kernel to the host, or
// between blocks of a kernel. Each message has several plain words. Rings of two slots wrap all the
// time.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/kernel/credit_ring.hpp"

namespace interlace::credit_ring_tests {
namespace {

using kernel::credit_ring;

constexpr std::uint32_t words = 32;  // number of words in a message, one for each lane
constexpr std::uint32_t rings = 16;
constexpr std::uint64_t messages = 1'000'000 / rings;  // number of messages in each ring
constexpr std::uint64_t deadline_ns = 20'000'000'000;

__host__ __device__ std::uint64_t word_of(std::uint64_t ring, std::uint64_t ticket,
                                          std::uint64_t word) {
  return (ring << 56U) ^ (ticket * words + word) * 0x9E3779B97F4A7C15U;
}

__device__ std::uint64_t nanoseconds() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

__device__ void pause_at_random(std::uint64_t ticket, std::uint64_t salt) {
  const std::uint64_t r = (ticket + salt) * 0xBF58476D1CE4E5B9U >> 40U;
  if (r % 16 == 0) __nanosleep(static_cast<unsigned>(r % 2000));
}

struct failures {
  unsigned long long expired;
  unsigned long long wrong;
};

// Sends the messages. One warp runs this function.
__device__ void produce(const credit_ring& ring, std::uint64_t number, std::uint64_t* data,
                        std::uint64_t share, failures* failed) {
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint64_t k = 0; k < share; ++k) {
    std::uint64_t ticket = 0;
    int open = 0;
    if (lane == 0) {
      ticket = kernel::take_ticket(ring);
      const std::uint64_t begin = nanoseconds();
      open =
          kernel::wait_for_room(ring, ticket, [&] { return nanoseconds() - begin > deadline_ns; })
              ? 1
              : 0;
      pause_at_random(ticket, number);
    }
    ticket = __shfl_sync(0xffffffffU, ticket, 0);
    if (__shfl_sync(0xffffffffU, open, 0) == 0) {
      if (lane == 0) atomicAdd(&failed->expired, 1ULL);
      return;
    }
    data[ticket % ring.slots * words + lane] = word_of(number, ticket, lane);
    __syncwarp();
    if (lane == 0) kernel::publish_slot(ring, ticket);
  }
}

__global__ void producers(const credit_ring* all, std::uint64_t* data, std::uint64_t share,
                          failures* failed) {
  const credit_ring ring = all[blockIdx.x % rings];
  produce(ring, blockIdx.x % rings, data + blockIdx.x % rings * ring.slots * words, share, failed);
}

__global__ void both_ends(const credit_ring* all, std::uint64_t* data, std::uint64_t share,
                          failures* failed) {
  const std::uint32_t number = blockIdx.x / 2;
  const credit_ring ring = all[number];
  std::uint64_t* const own = data + number * ring.slots * words;
  if (blockIdx.x % 2 == 0) {
    produce(ring, number, own, share, failed);
    return;
  }
  const std::uint32_t lane = threadIdx.x % 32;
  for (std::uint64_t t = 0; t < share; ++t) {
    int ready = 0;
    if (lane == 0) {
      const std::uint64_t begin = nanoseconds();
      ready = kernel::wait_for_slot(ring, t, [&] { return nanoseconds() - begin > deadline_ns; })
                  ? 1
                  : 0;
      pause_at_random(t, 77 + number);
    }
    if (__shfl_sync(0xffffffffU, ready, 0) == 0) {
      if (lane == 0) atomicAdd(&failed->expired, 1ULL);
      return;
    }
    if (own[t % ring.slots * words + lane] != word_of(number, t, lane))
      atomicAdd(&failed->wrong, 1ULL);
    __syncwarp();
    if (lane == 0) kernel::return_credit(ring, t);
  }
}

class made_rings {
 public:
  // Makes the rings. The words and data of the rings are at `place`. Their tickets are on the GPU.
  made_rings(std::uint64_t* place, std::uint64_t slots) {
    auto* const tickets = static_cast<std::uint64_t*>(memory_.take(0, rings * 8));
    INTERLACE_CUDA_CHECK(cudaMemset(tickets, 0, rings * 8));
    for (std::uint32_t k = 0; k < rings; ++k) {
      credit_ring r;
      r.consumed = place + k * 16;
      r.ready = place + rings * 16 + k * slots;
      r.tickets = tickets + k;
      r.slots = slots;
      of.push_back(r);
    }
    data = place + rings * 16 + rings * slots;
    on_gpu = static_cast<credit_ring*>(memory_.take(0, rings * sizeof(credit_ring)));
    INTERLACE_CUDA_CHECK(
        cudaMemcpy(on_gpu, of.data(), rings * sizeof(credit_ring), cudaMemcpyDefault));
    failed = static_cast<failures*>(memory_.take(0, sizeof(failures)));
    INTERLACE_CUDA_CHECK(cudaMemset(failed, 0, sizeof(failures)));
    INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
  }
  static std::size_t bytes(std::uint64_t slots) {
    return (rings * 16 + rings * slots + rings * slots * words) * 8;
  }
  failures seen() const {
    failures f{};
    INTERLACE_CUDA_CHECK(cudaMemcpy(&f, failed, sizeof(f), cudaMemcpyDefault));
    return f;
  }
  std::vector<credit_ring> of;
  std::uint64_t* data = nullptr;
  credit_ring* on_gpu = nullptr;
  failures* failed = nullptr;

 private:
  cuda::device_memory memory_;
};

bool there_is_a_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

void to_the_host(std::uint64_t slots, unsigned producers_each) {
  const cuda::mapped_memory memory(made_rings::bytes(slots));
  const made_rings made(static_cast<std::uint64_t*>(memory.data()), slots);
  const std::uint64_t share = messages / producers_each;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::vector<std::uint64_t> wrong(rings);
  std::vector<std::uint64_t> read(rings);
  const unsigned count = 4;
  std::vector<std::thread> threads;
  for (unsigned n = 0; n < count; ++n) {
    threads.emplace_back([&, n] {
      std::vector<std::uint64_t> next(rings);
      for (std::uint64_t left = rings / count * share * producers_each; left != 0;) {
        const std::uint64_t before = left;
        for (unsigned k = n; k < rings; k += count) {
          const credit_ring& r = made.of[k];
          const std::uint64_t t = next[k];
          if (!kernel::slot_is_ready(r, t)) continue;
          const std::uint64_t* const own = made.data + (k * slots + t % slots) * words;
          for (std::uint32_t w = 0; w < words; ++w) wrong[k] += own[w] != word_of(k, t, w);
          kernel::return_credit(r, t);
          ++next[k];
          ++read[k];
          --left;
        }
        if (before == left && std::chrono::steady_clock::now() > end) return;
      }
    });
  }
  producers<<<rings * producers_each, 32>>>(made.on_gpu, made.data, share, made.failed);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(made.seen().expired, 0U);
  EXPECT_EQ(read, std::vector<std::uint64_t>(rings, share * producers_each));
  EXPECT_EQ(wrong, std::vector<std::uint64_t>(rings));
}

TEST(credit_ring, a_million_messages_reach_the_host_whole) {
  if (!there_is_a_gpu()) GTEST_SKIP() << "needs a GPU";
  to_the_host(2, 1);
}

TEST(credit_ring, several_blocks_share_a_ring_to_the_host) {
  if (!there_is_a_gpu()) GTEST_SKIP() << "needs a GPU";
  to_the_host(2, 4);
  to_the_host(64, 4);
}

TEST(credit_ring, a_million_messages_pass_between_blocks_whole) {
  if (!there_is_a_gpu()) GTEST_SKIP() << "needs a GPU";
  cuda::device_memory memory;
  constexpr std::uint64_t slots = 2;
  auto* const place = static_cast<std::uint64_t*>(memory.take(0, made_rings::bytes(slots)));
  INTERLACE_CUDA_CHECK(cudaMemset(place, 0, made_rings::bytes(slots)));
  const made_rings made(place, slots);
  both_ends<<<2 * rings, 32>>>(made.on_gpu, made.data, messages, made.failed);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
  EXPECT_EQ(made.seen().expired, 0U);
  EXPECT_EQ(made.seen().wrong, 0U);
}

}  // namespace
}  // namespace interlace::credit_ring_tests
