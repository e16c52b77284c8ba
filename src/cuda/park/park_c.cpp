// Implements the C functions of interlace/park.h.
#include "interlace/park.h"

#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/host_memory.hpp"
#include "cuda/park/parking.hpp"
#include "cuda/transfer/c_results.hpp"
#include "interlace/copy.hpp"

namespace interlace {
namespace {

// A little is left to the rest of the machine.
constexpr double most_of_available = 0.97;

cuda::parking& pools() {
  // Never destroyed: the driver may be gone before the process's last objects.
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

// As `guarded`; the lack of host memory has its own result.
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
  if (given == nullptr) throw usage_error("there is no place for the answer");
  return *given;
}

void report_to(interlace_park_report* report, const cuda::park_report& found) {
  if (report == nullptr) return;
  *report = {found.bytes, found.gpu_bytes, found.locked_bytes, found.seconds};
}

cuda::device_address address_of(const void* memory) {
  return reinterpret_cast<cuda::device_address>(memory);
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

interlace_result interlace_pool_park(const char* pool, int place, int keep_pool,
                                     void* const* without_contents, size_t count,
                                     interlace_park_report* report) {
  return interlace::parked([&] {
    if (count != 0 && without_contents == nullptr)
      throw interlace::usage_error("the addresses without contents are a null pointer");
    std::vector<interlace::cuda::device_address> without;
    for (const void* one : std::span(without_contents, count))
      without.push_back(interlace::address_of(one));
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
    if (size <= found->size()) throw interlace::usage_error("there is no place for the name");
    std::memcpy(&interlace::place(name), found->c_str(), found->size() + 1);
  });
}

interlace_result interlace_park_idle_bytes(uint64_t* bytes) {
  return interlace::parked([&] { interlace::place(bytes) = interlace::pools().idle_host_bytes(); });
}

interlace_result interlace_park_free_idle(void) {
  return interlace::parked([&] { interlace::pools().free_idle_host_memory(); });
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
    std::fprintf(stderr, "interlace: parkable memory is wanted outside of interlace.parkable\n");
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
