// A copy engine on a driver whose GPUs are host memory, and memory on each of the GPUs.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cuda/fake_driver.hpp"
#include "cuda/transfer/copy_engine.hpp"
#include "machine/sample.hpp"

namespace interlace::copy_engine_tests {

using cuda::copy_engine;
using cuda::device_address;
using fake::kind;

inline device_address address(const void* pointer) {
  return reinterpret_cast<device_address>(pointer);
}

// Makes the links so slow that the bytes of even a small message take long in comparison with the
// message's fixed costs.
inline machine::machine slowed(machine::machine made) {
  constexpr double times = 1e4;
  made.gpu.copy_bytes_per_s /= times;
  made.gpu.dram.bytes_per_s /= times;
  made.host.memory_bytes_per_s /= times;
  made.host.copy_write_bytes_per_s /= times;
  for (machine::link& edge : made.links) {
    edge.bytes_per_s /= times;
    edge.copy_bytes_per_s /= times;
    edge.copy_both_bytes_per_s /= times;
  }
  return made;
}

// A machine on which all paths help even for small messages, because all links have the same rate
// and there are no overheads.
inline machine::machine mesh(std::uint32_t gpus) {
  machine::machine made = machine::make_machine(gpus);
  made.gpu.copy_engines = 8;
  made.gpu.copy_setup_ps = made.gpu.copy_launch_ps = made.gpu.copy_event_ps = 0;
  made.gpu.copy_bytes_per_s = 1e12;
  made.gpu.dram.bytes_per_s = 1e12;
  made.host.memory_bytes_per_s = 1e12;
  for (std::uint32_t one = 0; one < gpus; ++one) {
    for (std::uint32_t other = one + 1; other < gpus; ++other)
      made.links.push_back(
          machine::make_link(machine::gpu_end(one), machine::gpu_end(other), 50e9));
    made.links.push_back(machine::pcie_link(machine::gpu_end(one), machine::host_end(), 50e9));
  }
  for (machine::link& edge : made.links) edge.latency_ps = 0;
  return slowed(made);
}

// The fake driver accepts any bytes as kernels.
inline constexpr std::byte kernels[1]{};

struct world {
  fake::driver driver;
  std::atomic<std::uint64_t> time_ns{0};
  // The time by which the clock advances at each reading. With the default, every message ends
  // before the next message starts.
  std::uint64_t step_ns = std::uint64_t{100'000'000'000};
  std::vector<std::string> reports;
  copy_options options;
  std::unique_ptr<copy_engine> engine;
  machine::machine described;
  std::vector<std::string> remarks;  // remarks that find_machine returns

  world(machine::machine on, copy_options asked, std::uint64_t seed)
      : driver(static_cast<int>(on.gpu_count), seed), options(asked), described(std::move(on)) {
    driver.table().push(driver.context(0));
    engine = std::make_unique<copy_engine>(
        driver.table(), options,
        [this] {
          cuda::copy_machine found{described, {}};
          found.model = "Fake GPU";
          found.driver = "1.0";
          found.remarks = remarks;
          for (std::uint32_t gpu = 0; gpu < described.gpu_count; ++gpu) {
            found.gpus.push_back(static_cast<int>(gpu));
            found.names.push_back("gpu" + std::to_string(gpu));
          }
          return found;
        },
        [this](const std::string& sentence) { reports.push_back(sentence); },
        [this] { return time_ns += step_ns; }, cuda::kernel_image{kernels, 13000});
  }
  void copy(void* to, const void* from, std::uint64_t bytes, CUstream_st* on) const {
    engine->copy(address(to), address(from), bytes, on);
  }
  void expect_no_errors() {
    for (const std::string& text : driver.errors()) ADD_FAILURE() << text;
  }
};

inline copy_options options_of(copy_executor executor) {
  copy_options made;
  made.executor = executor;
  made.threshold_bytes = 1;
  made.staging_bytes = std::uint64_t{1} << 20U;
  made.traffic_file = "";
  return made;
}

// Memory of a device, and the contents that it must have at the end.
struct buffer {
  std::uint8_t* memory = nullptr;
  std::vector<std::uint8_t> expected;
};

inline void fill(buffer& one, std::mt19937_64& random) {
  for (std::size_t at = 0; at < one.expected.size(); ++at)
    one.memory[at] = one.expected[at] = static_cast<std::uint8_t>(random());
}

inline buffer make_buffer(world& in, kind what, int gpu, std::uint64_t bytes,
                          std::mt19937_64& random) {
  buffer made;
  made.memory = in.driver.memory(what, gpu, bytes);
  made.expected.resize(bytes);
  fill(made, random);
  return made;
}

inline std::uint64_t below(std::mt19937_64& random, std::uint64_t bound) {
  return random() % bound;
}

// Orders two streams: later work on `later` runs after the current work of `earlier`.
inline void wait_for(world& in, CUstream_st* later, CUstream_st* earlier) {
  const auto& table = in.driver.table();
  CUctx_st* of = nullptr;
  table.stream_context(earlier, &of);
  CUevent_st* event = nullptr;
  {
    const cuda::in_context on(table, of);
    ASSERT_EQ(table.event_create(&event, 0), 0);
    ASSERT_EQ(table.event_record(event, earlier), 0);
  }
  ASSERT_EQ(table.stream_wait(later, event, 0), 0);
}

// A world with four GPUs and the host. Every message has several paths. Each GPU and the host have
// a buffer.
struct four_gpus : world {
  std::mt19937_64 random{5};
  std::vector<buffer> gpu;
  buffer host;

  explicit four_gpus(copy_options asked, std::uint64_t seed = 1)
      : world(mesh(4), asked, seed), host(make_buffer(*this, kind::pinned, 0, bytes, random)) {
    for (int number = 0; number < 4; ++number)
      gpu.push_back(make_buffer(*this, kind::gpu, number, bytes, random));
  }
  static constexpr std::uint64_t bytes = 60'000;

  void move(buffer& to, const buffer& from, CUstream_st* on, std::uint64_t size = bytes) const {
    copy(to.memory, from.memory, size, on);
    std::memcpy(to.expected.data(), from.expected.data(), size);
  }
  void expect_right(const buffer& one) {
    driver.synchronize();
    EXPECT_EQ(std::memcmp(one.memory, one.expected.data(), one.expected.size()), 0);
  }
};

}  // namespace interlace::copy_engine_tests
