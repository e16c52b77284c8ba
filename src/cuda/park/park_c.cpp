// Implements the C functions of interlace/park.h.
#include "interlace/park.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/host_memory.hpp"
#include "cuda/park/parking.hpp"
#include "cuda/transfer/c_results.hpp"
#include "interlace/copy.hpp"

struct interlace_contents {
  std::shared_ptr<interlace::cuda::parking::kept_contents> kept;
};

namespace interlace {
namespace {

// The share of the available host memory that can be page-locked. Other programs keep the remaining
// memory.
constexpr double most_of_available = 0.97;

cuda::parking& pools() {
  // This object is never destroyed, because the driver may be unloaded before the process destroys
  // its last static objects.
  static auto* const own = new cuda::parking(
      driver(),
      [](cuda::device_address to, cuda::device_address from, std::uint64_t bytes,
         CUstream_st* stream) {
        process_copier().copy_async(reinterpret_cast<void*>(to),
                                    reinterpret_cast<const void*>(from), bytes, stream);
      },
      {.available_bytes = []() -> std::optional<std::uint64_t> {
        const auto available = available_host_bytes();
        if (!available) return available;
        return static_cast<std::uint64_t>(static_cast<double>(*available) * most_of_available);
      }});
  return *own;
}

// Does the same as `guarded`, but returns a separate result if the host has too little memory.
template <class Work>
interlace_result parked(const Work& work) noexcept {
  return guarded([&] {
    try {
      work();
    } catch (const cuda::out_of_host_memory& error) {
      throw failed(INTERLACE_OUT_OF_MEMORY, error.what());
    }
  });
}

std::string name_of(const char* pool) {
  if (pool == nullptr) throw usage_error("the name of the pool is a null pointer");
  return pool;
}

template <class Place>
Place& place(Place* given) {
  if (given == nullptr) throw usage_error("the pointer for the result is a null pointer");
  return *given;
}

void report_to(interlace_park_report* report, const cuda::park_report& found) {
  if (report == nullptr) return;
  *report = {found.bytes, found.gpu_bytes, found.locked_bytes, found.seconds};
}

cuda::device_address address_of(const void* memory) {
  return reinterpret_cast<cuda::device_address>(memory);
}

std::vector<cuda::device_address> addresses_of(void* const* given, std::size_t count) {
  if (count != 0 && given == nullptr) throw usage_error("the addresses are a null pointer");
  std::vector<cuda::device_address> found;
  for (const void* one : std::span(given, count)) found.push_back(address_of(one));
  return found;
}

thread_local std::vector<std::string> entered;

}  // namespace
}  // namespace interlace

extern "C" {

int interlace_park_abi(void) { return INTERLACE_PARK_ABI; }

interlace_result interlace_pool_create(const char* pool) {
  return interlace::parked([&] { interlace::pools().make_pool(interlace::name_of(pool)); });
}

interlace_result interlace_pool_allocate(const char* pool, int gpu, size_t bytes, void** memory) {
  return interlace::parked([&] {
    interlace::place(memory) =
        reinterpret_cast<void*>(interlace::pools().allocate(interlace::name_of(pool), gpu, bytes));
  });
}

interlace_result interlace_pool_free(void* memory) {
  return interlace::parked([&] { interlace::pools().free(interlace::address_of(memory)); });
}

interlace_result interlace_pool_prepare(const char* pool, uint64_t* locked_bytes) {
  return interlace::parked([&] {
    const std::uint64_t locked = interlace::pools().prepare(interlace::name_of(pool));
    if (locked_bytes != nullptr) *locked_bytes = locked;
  });
}

interlace_result interlace_pool_park(const char* pool, int place, int keep_pool,
                                     void* const* without_contents, size_t count,
                                     interlace_park_report* report) {
  return interlace::parked([&] {
    const auto without = interlace::addresses_of(without_contents, count);
    interlace::report_to(
        report, interlace::pools().park(
                    interlace::name_of(pool),
                    {.to = place, .keep_pool = keep_pool != 0, .without_contents = without}));
  });
}

interlace_result interlace_pool_resume(const char* pool, interlace_park_report* report) {
  return interlace::parked(
      [&] { interlace::report_to(report, interlace::pools().resume(interlace::name_of(pool))); });
}

interlace_result interlace_pool_look_up(const char* pool, interlace_pool_facts* facts) {
  return interlace::parked([&] {
    const auto found = interlace::pools().facts(interlace::name_of(pool));
    interlace::place(facts) = {found.allocations, found.bytes, found.host_bytes,
                               found.parked ? 1 : 0, found.place};
  });
}

interlace_result interlace_pool_of(const void* memory, char* name, size_t size) {
  return interlace::parked([&] {
    const auto found = interlace::pools().pool_of(interlace::address_of(memory));
    if (!found) throw interlace::usage_error("no pool has this memory");
    if (size <= found->size()) throw interlace::usage_error("the name does not fit in the buffer");
    std::memcpy(&interlace::place(name), found->c_str(), found->size() + 1);
  });
}

interlace_result interlace_park_idle_bytes(uint64_t* bytes) {
  return interlace::parked([&] { interlace::place(bytes) = interlace::pools().idle_host_bytes(); });
}

interlace_result interlace_park_free_idle(void) {
  return interlace::parked([&] { interlace::pools().free_idle_host_memory(); });
}

interlace_result interlace_contents_keep(const interlace_gpu_range* ranges, size_t count,
                                         interlace_contents** contents,
                                         interlace_park_report* report) {
  return interlace::parked([&] {
    if (count != 0 && ranges == nullptr)
      throw interlace::usage_error("the ranges are a null pointer");
    std::vector<interlace::cuda::gpu_range> given;
    for (const interlace_gpu_range& one : std::span(ranges, count))
      given.push_back({interlace::address_of(one.memory), one.bytes, one.gpu});
    interlace_contents*& made = interlace::place(contents);
    interlace::cuda::park_report found;
    made = std::make_unique<interlace_contents>(
               interlace_contents{interlace::pools().keep_contents(given, found)})
               .release();
    interlace::report_to(report, found);
  });
}

interlace_result interlace_contents_restore(interlace_contents* contents, void* const* memory,
                                            size_t count, interlace_park_report* report) {
  return interlace::parked([&] {
    if (contents == nullptr) throw interlace::usage_error("there are no contents to restore");
    const auto wanted = interlace::addresses_of(memory, count);
    interlace::report_to(report, interlace::pools().restore_contents(*contents->kept, wanted));
  });
}

void interlace_contents_destroy(interlace_contents* contents) {
  if (contents == nullptr) return;
  (void)interlace::parked([&] {
    const std::unique_ptr<interlace_contents> ended(contents);
    interlace::pools().drop_contents(*ended->kept);
  });
}

interlace_result interlace_pool_enter(const char* pool) {
  return interlace::parked([&] {
    const std::string name = interlace::name_of(pool);
    if (interlace::pools().facts(name).parked)
      throw interlace::usage_error("pool '" + name +
                                   "' is parked; resume it before it gets memory");
    interlace::entered.push_back(name);
  });
}

interlace_result interlace_pool_leave(void) {
  return interlace::parked([&] {
    if (interlace::entered.empty()) throw interlace::usage_error("this thread has entered no pool");
    interlace::entered.pop_back();
  });
}

void* interlace_park_torch_allocate(ptrdiff_t bytes, int gpu, CUstream_st*) {
  void* memory = nullptr;
  if (interlace::entered.empty()) {
    std::fprintf(stderr,
                 "interlace: parkable memory was requested outside of interlace.parkable\n");
  } else if (interlace_pool_allocate(interlace::entered.back().c_str(), gpu,
                                     static_cast<size_t>(bytes), &memory) != INTERLACE_SUCCESS) {
    std::fprintf(stderr, "interlace: %s\n", interlace_last_error());
  }
  return memory;
}

void interlace_park_torch_free(void* memory, size_t, int, CUstream_st*) {
  if (interlace_pool_free(memory) != INTERLACE_SUCCESS)
    std::fprintf(stderr, "interlace: parked memory is not freed: %s\n", interlace_last_error());
}

}  // extern "C"
