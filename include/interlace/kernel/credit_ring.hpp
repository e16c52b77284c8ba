// A ring of slots between producers on one device and one consumer on another device, or on the
// host. A slot is free again once the consumer has returned the slot's credit. Producers therefore
// never overwrite an unread slot. Even a ring with a single slot works.
//
//   producer                                     consumer, for ticket 0, 1, 2, ...
//     t = take_ticket(ring)                        wait_for_slot(ring, t, expired)
//     wait_for_room(ring, t, expired)              ... read slot t % ring.slots ...
//     ... write slot t % ring.slots ...            return_credit(ring, t)
//     publish_slot(ring, t)
//
// Memory ordering: publish_slot releases at system scope, and a successful wait_for_slot acquires
// at system scope. The consumer therefore sees everything that the producer's thread wrote before
// publish_slot. return_credit and wait_for_room do the same in the other direction. If several
// threads of a block write a slot, the block must synchronize before one of its threads publishes
// the slot. The order of tickets is the order in which the consumer reads.
//
// Every wait ends. A wait calls `expired()` from time to time, and returns false once `expired()`
// returns true. After that the ring must not be used again, because its consumer would wait forever
// for the slot of the abandoned ticket.
#pragma once

#include <cstdint>

#include "interlace/kernel.hpp"

namespace interlace::kernel {

// The addresses of a ring's words. All words start as zero. The consumer polls `ready`, so place
// `ready` in memory near the consumer. The producers poll `consumed`, so place `consumed` near the
// producers.
struct credit_ring {
  // [slots]; for each slot, the last ticket that was published in it, plus 1
  std::uint64_t* ready = nullptr;
  std::uint64_t* consumed = nullptr;  // number of tickets that the consumer has returned
  std::uint64_t* tickets = nullptr;   // number of tickets that the producers have taken
  std::uint64_t slots = 0;            // number of slots, at least 1
};

namespace ring {

INTERLACE_HOST_DEVICE std::uint64_t load_acquire(const std::uint64_t* p) {
#if defined(__CUDA_ARCH__)
  std::uint64_t v;
  asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
#else
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
#endif
}

INTERLACE_HOST_DEVICE void store_release(std::uint64_t* p, std::uint64_t v) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
#else
  __atomic_store_n(p, v, __ATOMIC_RELEASE);
#endif
}

INTERLACE_HOST_DEVICE std::uint64_t add_relaxed(std::uint64_t* p, std::uint64_t v) {
#if defined(__CUDA_ARCH__)
  std::uint64_t before;
  asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;"
               : "=l"(before)
               : "l"(p), "l"(v)
               : "memory");
  return before;
#else
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
#endif
}

// The number of polls between two calls of `expired`.
inline constexpr std::uint32_t polls = 64;

template <class Done, class Expired>
INTERLACE_HOST_DEVICE bool wait(const Done& done, const Expired& expired) {
  for (std::uint32_t round = 1; !done(); ++round) {
    if (round % polls == 0 && expired()) return false;
#if defined(__CUDA_ARCH__)
    // A pause between polls leaves the link free for other threads, and the memory free for its own
    // GPU.
    if (round > 4) __nanosleep(round < 64 ? 100 : 1000);
#endif
  }
  return true;
}

}  // namespace ring

// Takes the next ticket. The producers of a ring must all be threads of one device, or all be
// threads of the host.
INTERLACE_HOST_DEVICE std::uint64_t take_ticket(const credit_ring& r) {
  return ring::add_relaxed(r.tickets, 1);
}

// Waits until the ticket's slot is free.
template <class Expired>
INTERLACE_HOST_DEVICE bool wait_for_room(const credit_ring& r, std::uint64_t ticket,
                                         const Expired& expired) {
  return ring::wait([&] { return ticket - ring::load_acquire(r.consumed) < r.slots; }, expired);
}

INTERLACE_HOST_DEVICE void publish_slot(const credit_ring& r, std::uint64_t ticket) {
  ring::store_release(r.ready + ticket % r.slots, ticket + 1);
}

INTERLACE_HOST_DEVICE bool slot_is_ready(const credit_ring& r, std::uint64_t ticket) {
  return ring::load_acquire(r.ready + ticket % r.slots) == ticket + 1;
}

// Waits until the ticket's slot is published.
template <class Expired>
INTERLACE_HOST_DEVICE bool wait_for_slot(const credit_ring& r, std::uint64_t ticket,
                                         const Expired& expired) {
  return ring::wait([&] { return slot_is_ready(r, ticket); }, expired);
}

// Frees the slots of this ticket and of all earlier tickets.
INTERLACE_HOST_DEVICE void return_credit(const credit_ring& r, std::uint64_t ticket) {
  ring::store_release(r.consumed, ticket + 1);
}

}  // namespace interlace::kernel
