// The copy engine on a driver that runs on host memory: whatever programs enqueue arrives as CUDA's
// order of streams says, whichever executor runs it, and staging memory is used by one message at a
// time.
#include "cuda/transfer/copy_engine.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/errors.hpp"
#include "cuda/fake_driver.hpp"
#include "machine/sample.hpp"
#include "plan/random_machine.hpp"

namespace interlace::copy_engine_tests {
namespace {

using cuda::copy_engine;
using cuda::device_address;
using fake::kind;

device_address address(const void* pointer) { return reinterpret_cast<device_address>(pointer); }

// A machine on which all paths help, from small messages on: links of one rate, no overheads.
machine::machine mesh(std::uint32_t gpus) {
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
  return made;
}

struct world {
  fake::driver driver;
  std::vector<std::string> reports;
  copy_options options;
  std::unique_ptr<copy_engine> engine;
  machine::machine described;

  world(machine::machine on, copy_options asked, std::uint64_t seed)
      : driver(static_cast<int>(on.gpu_count), seed), options(asked), described(std::move(on)) {
    driver.table().push(driver.context(0));
    engine = std::make_unique<copy_engine>(
        driver.table(), options,
        [this] {
          cuda::copy_machine found{described, {}};
          for (std::uint32_t gpu = 0; gpu < described.gpu_count; ++gpu)
            found.gpus.push_back(static_cast<int>(gpu));
          return found;
        },
        [this](const std::string& sentence) { reports.push_back(sentence); });
  }
  void copy(void* to, const void* from, std::uint64_t bytes, CUstream_st* on) const {
    engine->copy(address(to), address(from), bytes, on);
  }
  void expect_no_errors() {
    for (const std::string& text : driver.errors()) ADD_FAILURE() << text;
  }
};

copy_options options_of(copy_executor executor) {
  copy_options made;
  made.executor = executor;
  made.threshold_bytes = 1;
  made.staging_bytes = std::uint64_t{1} << 20U;
  return made;
}

// Memory of the device and what it has to hold when all is done.
struct buffer {
  std::uint8_t* memory = nullptr;
  std::vector<std::uint8_t> expected;
};

void fill(buffer& one, std::mt19937_64& random) {
  for (std::size_t at = 0; at < one.expected.size(); ++at)
    one.memory[at] = one.expected[at] = static_cast<std::uint8_t>(random());
}

buffer make_buffer(world& in, kind what, int gpu, std::uint64_t bytes, std::mt19937_64& random) {
  buffer made;
  made.memory = in.driver.memory(what, gpu, bytes);
  made.expected.resize(bytes);
  fill(made, random);
  return made;
}

std::uint64_t below(std::mt19937_64& random, std::uint64_t bound) { return random() % bound; }

// What the one stream does next runs behind what the other has to do now.
void wait_for(world& in, CUstream_st* later, CUstream_st* earlier) {
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

// Streams with memory of their own, which they copy to and fro; now and then one waits for another
// and takes over its memory.
void run_random_program(std::uint64_t seed, copy_statistics& total) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const bool regular = below(random, 2) == 0;
  machine::machine on = regular ? mesh(2 + static_cast<std::uint32_t>(below(random, 3)))
                                : plan::random_machine(random);
  copy_options options = options_of(static_cast<copy_executor>(below(random, 4)));
  options.graphs = 1 + static_cast<std::uint32_t>(below(random, 6));
  if (below(random, 3) == 0) options.staging_bytes = std::uint64_t{8} << 10U;
  const auto gpus = static_cast<int>(on.gpu_count);
  world in(std::move(on), options, seed + 1);
  const auto& table = in.driver.table();

  constexpr std::uint64_t bytes = 40'000;
  struct user {
    CUstream_st* stream = nullptr;
    std::vector<buffer> buffers;
  };
  std::vector<user> users(1 + below(random, 5));
  for (std::size_t at = 0; at < users.size(); ++at) {
    const int gpu = static_cast<int>(below(random, static_cast<std::uint64_t>(gpus)));
    users[at].stream = at == 0 ? nullptr : in.driver.stream(gpu, below(random, 2) == 0);
    for (int place = 0; place <= gpus; ++place)
      users[at].buffers.push_back(make_buffer(
          in, place == gpus ? (below(random, 8) == 0 ? kind::pageable : kind::pinned) : kind::gpu,
          place % gpus, bytes, random));
  }
  const std::uint64_t sizes = 1 + below(random, 4);  // few: shapes come again
  for (int message = 0; message < 40; ++message) {
    user& by = users[below(random, users.size())];
    const std::size_t from = below(random, by.buffers.size());
    const std::size_t to = below(random, by.buffers.size());
    if (from == to) {
      user& other = users[below(random, users.size())];
      if (&by == &other) continue;
      wait_for(in, other.stream, by.stream);
      wait_for(in, by.stream, other.stream);
      std::swap(by.buffers, other.buffers);
      continue;
    }
    const std::uint64_t size =
        bytes / 2 / (1 + below(random, sizes)) - (below(random, 8) == 0 ? 1 : 0);
    const std::uint64_t from_offset = below(random, bytes - size);
    const std::uint64_t to_offset = below(random, bytes - size);
    in.copy(by.buffers[to].memory + to_offset, by.buffers[from].memory + from_offset, size,
            by.stream);
    std::memcpy(by.buffers[to].expected.data() + to_offset,
                by.buffers[from].expected.data() + from_offset, size);
    CUctx_st* current = nullptr;
    table.current(&current);
    ASSERT_EQ(current, in.driver.context(0));
  }
  in.driver.synchronize();
  for (const user& one : users)
    for (const buffer& each : one.buffers)
      ASSERT_EQ(std::memcmp(each.memory, each.expected.data(), each.expected.size()), 0);
  const copy_statistics counted = in.engine->statistics();
  total.direct += counted.direct;
  total.streams += counted.streams;
  total.graphs += counted.graphs;
  total.hits += counted.hits;
  total.updates += counted.updates;
  total.evictions += counted.evictions;
  in.engine.reset();
  in.expect_no_errors();
}

TEST(copy_engine, random_programs_on_many_streams_move_every_byte_in_stream_order) {
  copy_statistics total;
  for (std::uint64_t seed = 0; seed < 100 && !::testing::Test::HasFailure(); ++seed)
    run_random_program(seed, total);
  // all of it was reached
  EXPECT_GT(total.direct, 500U);
  EXPECT_GT(total.streams, 500U);
  EXPECT_GT(total.graphs, 200U);
  EXPECT_GT(total.hits, 20U);
  EXPECT_GT(total.updates, 50U);
  EXPECT_GT(total.evictions, 20U);
}

}  // namespace
}  // namespace interlace::copy_engine_tests
