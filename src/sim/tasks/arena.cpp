#include "sim/tasks/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "interlace/base/errors.hpp"

namespace interlace::sim {

namespace {

// The first access to a page takes most of the time. Several threads touch pages faster than one.
void fill(std::byte* data, std::uint64_t bytes, std::uint32_t threads) {
  constexpr std::uint64_t least = std::uint64_t{8} << 20U;  // for less, a thread costs too much
  const std::uint64_t parts = std::clamp<std::uint64_t>(bytes / least, 1, std::max(1U, threads));
  std::vector<std::jthread> others;
  for (std::uint64_t k = 1; k < parts; ++k) {
    const std::uint64_t begin = bytes * k / parts;
    const std::uint64_t end = bytes * (k + 1) / parts;
    others.emplace_back([=] { std::memset(data + begin, 0xff, end - begin); });
  }
  std::memset(data, 0xff, bytes / parts);
}

}  // namespace

arena::arena(std::uint32_t slots) : used_(slots, 0) {
  // Only address space is reserved here. If the process has a limit on address space, smaller slots
  // may still fit.
  for (slot_bits_ = 36; slot_bits_ >= 30; --slot_bits_) {
    reserved_ = std::uint64_t{slots} << slot_bits_;
    void* p = mmap(nullptr, reserved_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) {
      base_ = static_cast<std::byte*>(p);
      // Huge pages help gathers, which touch memory everywhere in the arena.
      (void)madvise(p, reserved_, MADV_HUGEPAGE);
      return;
    }
  }
  throw device_error("cannot reserve " + std::to_string(reserved_ >> 30U) +
                     " GiB of address space for the simulated memory; raise the limit (ulimit -v)");
}

arena::~arena() { munmap(base_, reserved_); }

std::byte* arena::take(std::uint32_t slot, std::uint64_t bytes) {
  const std::uint64_t begin = (used_[slot] + 255) / 256 * 256;
  if (begin + bytes > std::uint64_t{1} << slot_bits_) {
    throw usage_error("the data need more than the " +
                      std::to_string((std::uint64_t{1} << slot_bits_) >> 30U) +
                      " GiB that a simulated GPU can hold");
  }
  used_[slot] = begin + bytes;
  std::byte* data = base_ + (std::uint64_t{slot} << slot_bits_) + begin;
  fill(data, bytes, threads_);
  return data;
}

}  // namespace interlace::sim
