// Kernels send updates to threads of the host. Each thread has a ring of slots in page-locked
// memory. kernel/credit_ring.hpp describes the memory ordering of the ring. ring_readers.hpp has
// the code of the host's threads.
#pragma once

#include <cstdint>

#include "interlace/cuda/updates/bins.cuh"
#include "interlace/cuda/updates/record.cuh"
#include "interlace/cuda/updates/ring_readers.hpp"
#include "interlace/kernel/credit_ring.hpp"

namespace interlace::cuda::updates {

// Describes a wait that passed its deadline. Only the kernel's first thread whose wait expires
// writes this struct.
struct ring_failure {
  unsigned int failed;
  unsigned int ring;
  std::uint64_t ticket;
  std::uint64_t consumed;
};

__device__ __forceinline__ std::uint64_t nanoseconds() {
#if defined(__CUDA_ARCH__)
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
#else
  return 0;
#endif
}

// Sends the records of bins to the host, at most one slot of records in each call. Each ring
// belongs to a thread of the host and takes the records of consecutive bins. The first bin of ring
// k has the number ceil(k * bins / rings).
template <class Codec>
struct send_to_host {
  static constexpr bool by_blocks = true;
  static constexpr std::uint32_t most_records = slot_records;
  Codec codec;
  const kernel::credit_ring* rings;  // addresses of the rings; the list is in the GPU's memory
  unsigned char* slots;              // [rings][slots][slot_bytes], page-locked
  ring_failure* failure;             // page-locked
  unsigned int* failed;              // set after a failure; lies in the GPU's memory
  std::uint64_t deadline_ns;
  std::uint32_t ring_count;
  std::uint32_t bins;

  __device__ __forceinline__ std::uint32_t first_bin(std::uint32_t ring) const {
    return static_cast<std::uint32_t>((std::uint64_t{ring} * bins + ring_count - 1) / ring_count);
  }
  template <class Record>
  __device__ __forceinline__ std::uint64_t element(const Record& r) const {
    return codec.element(r);
  }

  // Sends `count` records, at most slot_records. The whole block must call this function. After a
  // failure, the function drops the records.
  template <class Record>
  __device__ void send(std::uint32_t bin, const Record* records, std::uint32_t count) const {
    __shared__ std::uint64_t ticket_of_block;
    __shared__ bool open_of_block;
    const auto number = static_cast<std::uint32_t>(std::uint64_t{bin} * ring_count / bins);
    const kernel::credit_ring ring = rings[number];
    __syncthreads();
    if (threadIdx.x == 0) {
      const volatile unsigned int* const stopped = failed;
      bool open = *stopped == 0;
      std::uint64_t ticket = 0;
      if (open) {
        ticket = kernel::take_ticket(ring);
        const std::uint64_t begin = nanoseconds();
        bool expired = false;
        open = kernel::wait_for_room(ring, ticket, [&] {
          expired = nanoseconds() - begin > deadline_ns;
          return expired || *stopped != 0;
        });
        if (expired && atomicExch(failed, 1U) == 0) {
          failure->ring = number;
          failure->ticket = ticket;
          failure->consumed = kernel::ring::load_acquire(ring.consumed);
          __threadfence_system();
          failure->failed = 1;
        }
      }
      ticket_of_block = ticket;
      open_of_block = open;
    }
    __syncthreads();
    if (!open_of_block) return;
    const std::uint64_t ticket = ticket_of_block;
    unsigned char* const slot =
        slots + (number * ring.slots + ticket % ring.slots) * slot_bytes<Record>();
    if (threadIdx.x == 0) *reinterpret_cast<slot_header*>(slot) = slot_header{bin, count};
    Record* const to = reinterpret_cast<Record*>(slot + slot_header_bytes);
    constexpr std::uint32_t words_each = sizeof(Record) / sizeof(word_of<Record>);
    const auto* const from = reinterpret_cast<const word_of<Record>*>(records);
    for (std::uint32_t k = threadIdx.x; k < count * words_each; k += blockDim.x)
      __stcs(reinterpret_cast<word_of<Record>*>(to) + k, from[k]);
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence_system();
      kernel::publish_slot(ring, ticket);
    }
  }
};

// Sends the updates of all bins. One whole block sends each slot. Blocks that work at the same time
// send to all rings. A ring gets one bin after another.
template <class Record, class Send>
__device__ __forceinline__ void send_bins(const bin_set<Record>& from, const Send& send) {
  // The number of slots for a bin.
  const std::uint32_t slots = (from.room + slot_records - 1) / slot_records;
  const std::uint64_t turns =
      std::uint64_t{(from.bins + send.ring_count - 1) / send.ring_count} * slots * send.ring_count;
  for (std::uint64_t turn = blockIdx.x; turn < turns; turn += gridDim.x) {
    const auto ring = static_cast<std::uint32_t>(turn % send.ring_count);
    const auto place = static_cast<std::uint32_t>(turn / send.ring_count);
    const std::uint32_t bin = send.first_bin(ring) + place / slots;
    if (bin >= send.first_bin(ring + 1)) continue;
    const std::uint32_t begin = place % slots * slot_records;
    const std::uint32_t end = min(from.filled[bin], from.room);
    if (begin < end)
      send.send(bin, from.pool + std::uint64_t{bin} * from.room + begin,
                min(end - begin, slot_records));
  }
}

}  // namespace interlace::cuda::updates
