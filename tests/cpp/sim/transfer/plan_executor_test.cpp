// Plans run on simulated machines. On random machines, the bytes and their order must be right, and
// no resource may exceed its rate. On one link, the times must match closed forms.
#include "sim/transfer/plan_executor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/units.hpp"
#include "interlace/base/errors.hpp"
#include "machine/copy_rate.hpp"
#include "machine/route.hpp"
#include "machine/sample.hpp"
#include "plan/random_machine.hpp"

namespace interlace::sim::plan_executor_tests {
namespace {

using machine::gpu_end;
using machine::host_end;

using memory = std::vector<std::byte>;

memory random_bytes(std::mt19937_64& random, std::uint64_t bytes) {
  memory made(bytes);
  for (std::byte& one : made) one = static_cast<std::byte>(random());
  return made;
}

// The memory from which a plan's messages come, and the memory in which they arrive.
struct filled {
  std::vector<memory> sources;
  std::vector<memory> destinations;

  filled(const plan::plan& made, std::mt19937_64& random) {
    for (const plan::message& one : made.messages) {
      sources.push_back(random_bytes(random, one.bytes));
      destinations.emplace_back(one.bytes, std::byte{0});
      std::transform(sources.back().begin(), sources.back().end(), destinations.back().begin(),
                     [](std::byte b) { return ~b; });  // before its arrival, every byte is wrong
    }
  }

  execution of(const plan::plan& made) {
    execution wanted;
    wanted.made = &made;
    for (memory& one : sources) wanted.sources.push_back(one.data());
    for (memory& one : destinations) wanted.destinations.push_back(one.data());
    return wanted;
  }
};

plan::plan planned(const machine::machine& described, machine::endpoint from, machine::endpoint to,
                   std::uint64_t bytes, std::uint32_t chunks = 0) {
  plan::options asked;
  asked.chunks = chunks;
  const plan::message one{from, to, bytes};
  return plan::make_plan(described, {&one, 1}, asked);
}

// An execution that moves no data. Only time passes.
execution timed(const plan::plan& made) {
  execution wanted;
  wanted.made = &made;
  return wanted;
}

// A machine with two GPUs. Costs that a test does not set are 0.
machine::machine pair_of_gpus() {
  machine::machine made = machine::make_machine(2);
  made.links.push_back(machine::make_link(gpu_end(0), gpu_end(1), 50e9));
  made.links.push_back(machine::pcie_link(gpu_end(0), host_end()));
  return made;
}

picoseconds time_of(std::uint64_t bytes, double bytes_per_s) {
  return static_cast<picoseconds>(std::llround(static_cast<double>(bytes) / bytes_per_s * 1e12));
}

// Returns the time on an idle machine from the call to the last byte of a copy. The time has these
// parts: the call, the setup, the read of one segment, the transfer of all bytes over the link, and
// the write of the last segment.
picoseconds alone(const machine::machine& described, const machine::link& edge, std::uint64_t bytes,
                  double start_memory, double end_memory) {
  const std::uint64_t first = std::min<std::uint64_t>(bytes, plan_executor::segment_bytes);
  const std::uint64_t rest = bytes % plan_executor::segment_bytes;
  const std::uint64_t last = rest == 0 ? first : rest;
  return described.gpu.copy_launch_ps + described.gpu.copy_setup_ps + time_of(first, start_memory) +
         time_of(bytes, machine::copy_bytes_per_s(edge)) + edge.latency_ps +
         time_of(last, end_memory);
}

void expect_near(picoseconds found, picoseconds wanted) {
  EXPECT_NEAR(static_cast<double>(found), static_cast<double>(wanted),
              1e-4 * static_cast<double>(wanted) + 2000);
}

TEST(PlanExecutor, OneCopyTakesWhatItsLinkTakes) {
  machine::machine described = pair_of_gpus();
  described.gpu.copy_launch_ps = 1'600'000;
  described.gpu.copy_setup_ps = 2'600'000;
  const double dram = described.gpu.dram.bytes_per_s;
  for (const double measured : {0.0, 47.9e9}) {
    described.links[0].copy_bytes_per_s = measured;
    for (const std::uint64_t bytes : {256UL, 4096UL, 100'000UL, 1UL << 20, (64UL << 20) + 256}) {
      const plan::plan made = planned(described, gpu_end(0), gpu_end(1), bytes);
      ASSERT_EQ(made.steps.size(), 1U);
      plan_executor run(described, {});
      run.add(timed(made));
      run.run();
      expect_near(run.times(0).end, alone(described, described.links[0], bytes, dram, dram));
    }
  }
}

// The two directions of each link on the route share a rate. Two copies use the same two links, but
// in opposite orders.
TEST(PlanExecutor, CopiesThatCrossBehindASwitchShareBothOfTheirLinks) {
  constexpr double both = 60e9;
  machine::machine described = machine::make_machine(2);
  described.switches.push_back({"switch", 0});
  for (std::uint32_t gpu = 0; gpu < 2; ++gpu) {
    described.links.push_back(machine::make_link(gpu_end(gpu), machine::switch_end(0), 50e9));
    described.links.back().copy_both_bytes_per_s = both;
  }
  constexpr std::uint64_t bytes = 16 << 20;
  const std::vector<plan::message> messages{{gpu_end(0), gpu_end(1), bytes},
                                            {gpu_end(1), gpu_end(0), bytes}};
  const plan::plan made = plan::make_plan(described, messages);
  plan_executor run(described, {});
  run.add(timed(made));
  run.run();
  EXPECT_NEAR(2.0 * bytes / seconds_of(run.times(0).end) / both, 1, 0.02);
  EXPECT_NEAR(seconds_of(run.times(0).end) / made.predicted_s, 1, 0.02);
}

TEST(PlanExecutor, TheHostIsAMemoryLikeOthers) {
  machine::machine described = pair_of_gpus();
  const double dram = described.gpu.dram.bytes_per_s;
  const double host = described.host.memory_bytes_per_s;
  for (const bool down : {true, false}) {
    const std::uint64_t bytes = 8 << 20;
    const auto from = down ? host_end() : gpu_end(0);
    const auto to = down ? gpu_end(0) : host_end();
    const plan::plan made = planned(described, from, to, bytes);
    std::mt19937_64 random(1);
    filled data(made, random);
    plan_executor run(described, {});
    run.add(data.of(made));
    run.run();
    EXPECT_EQ(data.destinations, data.sources);
    if (made.steps.size() != 1) continue;
    expect_near(run.times(0).end, alone(described, described.links[1], bytes, down ? host : dram,
                                        down ? dram : host));
  }
}

TEST(PlanExecutor, ASlowMemoryOrEngineLimitsACopy) {
  const std::uint64_t bytes = 32 << 20;
  machine::machine described = pair_of_gpus();
  described.gpu.copy_bytes_per_s = 10e9;
  plan::plan made = planned(described, gpu_end(0), gpu_end(1), bytes);
  plan_executor slow_engine(described, {});
  slow_engine.add(timed(made));
  EXPECT_NEAR(seconds_of(slow_engine.run()), static_cast<double>(bytes) / 10e9, 1e-5);
  described.gpu.copy_bytes_per_s = 150e9;
  described.gpu.dram.bytes_per_s = 10e9;
  made = planned(described, gpu_end(0), gpu_end(1), bytes);
  plan_executor slow_memory(described, {});
  slow_memory.add(timed(made));
  EXPECT_NEAR(seconds_of(slow_memory.run()), static_cast<double>(bytes) / 10e9, 1e-5);
}

TEST(PlanExecutor, DirectionsThatHinderEachOtherShareTheirRate) {
  const std::uint64_t bytes = 32 << 20;
  for (const double both : {0.0, 60e9}) {
    machine::machine described = pair_of_gpus();
    described.links[0].copy_both_bytes_per_s = both;
    const plan::plan there = planned(described, gpu_end(0), gpu_end(1), bytes);
    const plan::plan back = planned(described, gpu_end(1), gpu_end(0), bytes);
    plan_executor run(described, {});
    run.add(timed(there));
    execution other = timed(back);
    other.thread = 1;
    run.add(other);
    const double rate = 2 * static_cast<double>(bytes) / seconds_of(run.run());
    const double one_way = machine::copy_bytes_per_s(described.links[0]);
    EXPECT_NEAR(rate / (both > 0 ? both : 2 * one_way), 1, 0.01);
  }
}

// Two messages use one link. They run one after another on a stream of one thread, or at the same
// time from two threads. In both cases, the link is busy until the end.
TEST(PlanExecutor, StreamsOfAThreadAreInOrder) {
  const machine::machine described = pair_of_gpus();
  const std::uint64_t bytes = 16 << 20;
  const plan::plan made = planned(described, gpu_end(0), gpu_end(1), bytes);
  const picoseconds one = time_of(bytes, machine::copy_bytes_per_s(described.links[0]));
  for (const std::uint32_t threads : {1U, 2U}) {
    plan_executor run(described, {});
    for (std::uint32_t number = 0; number < 2; ++number) {
      execution wanted = timed(made);
      wanted.thread = number % threads;
      run.add(wanted);
    }
    EXPECT_NEAR(static_cast<double>(run.run()) / static_cast<double>(2 * one), 1, 0.01);
    const double first = static_cast<double>(run.times(0).end) / static_cast<double>(one);
    EXPECT_NEAR(first, threads == 1 ? 1 : 2, 0.02);
    EXPECT_EQ(run.most_engines(0), threads);
  }
}

TEST(PlanExecutor, EnginesAreAsManyAsTheGpuHas) {
  machine::machine described = pair_of_gpus();
  described.gpu.copy_engines = 2;
  const plan::plan made = planned(described, gpu_end(0), gpu_end(1), 4 << 20);
  plan_executor run(described, {});
  for (std::uint32_t thread = 0; thread < 5; ++thread) {
    execution wanted = timed(made);
    wanted.thread = thread;
    run.add(wanted);
  }
  run.run();
  EXPECT_EQ(run.most_engines(0), 2U);
  EXPECT_LT(run.times(1).end,
            run.times(2).end);  // message 1 comes before message 2, and also ends before it
  EXPECT_LT(run.times(3).end, run.times(4).end);
}

TEST(PlanExecutor, AThreadWaitsForWhatItIsToldTo) {
  machine::machine described = pair_of_gpus();
  described.gpu.copy_launch_ps = 1'000'000;
  described.gpu.copy_host_ps = 3'500'000;
  const plan::plan made = planned(described, gpu_end(0), gpu_end(1), 4 << 20);
  plan_executor run(described, {});
  run.add(timed(made));
  execution later = timed(made);
  later.thread = 1;
  later.after = {0};
  later.delay = 7'000'000;
  run.add(later);
  run.run();
  EXPECT_EQ(run.times(1).begin, run.times(0).end + 2'500'000 + 7'000'000);
}

TEST(PlanExecutor, GraphsCostWhatTheMachineSays) {
  machine::machine described = machine::make_mesh(4);
  described.gpu.graph = {1'000, 20'000, 300'000, 4'000'000, 50'000, 6'000'000, 1'400'000};
  const plan::plan made = planned(described, gpu_end(0), gpu_end(1), 64 << 20, 4);
  const auto nodes = static_cast<picoseconds>(made.steps.size());
  ASSERT_GT(nodes, 4U);
  plan_executor run(described, {});
  execution first = timed(made);
  first.how = launched_by::new_graph;
  run.add(first);
  execution second = timed(made);
  second.how = launched_by::cached_graph;
  second.after = {0};
  run.add(second);
  execution third = second;
  third.after = {1};
  third.other_addresses = true;
  run.add(third);
  run.run();
  const picoseconds launch = 6'000'000 + 1'400'000 * nodes;
  const execution_times& fresh = run.times(0);
  EXPECT_EQ(fresh.creation, 1'000U);
  EXPECT_EQ(fresh.construction, 20'000 * nodes);
  EXPECT_EQ(fresh.instantiation, 300'000 + 4'000'000 * nodes);
  EXPECT_EQ(fresh.launch, launch);
  EXPECT_EQ(fresh.enqueued, fresh.begin + 1'000 + 300'000 + 4'020'000 * nodes + launch);
  EXPECT_EQ(run.times(1).enqueued, run.times(1).begin + launch);
  EXPECT_EQ(run.times(1).instantiation + run.times(1).update, 0U);
  EXPECT_EQ(run.times(2).update, 50'000 * nodes);
  EXPECT_EQ(run.times(2).enqueued, run.times(2).begin + 50'000 * nodes + launch);
}

TEST(PlanExecutor, GraphsOfAThreadFollowEachOtherUnlessTheyOverlap) {
  const machine::machine described = machine::make_mesh(4);
  const plan::plan made = planned(described, gpu_end(0), gpu_end(1), 16 << 20, 4);
  for (const bool overlaps : {false, true}) {
    plan_executor run(described, {});
    execution wanted = timed(made);
    wanted.how = launched_by::cached_graph;
    wanted.overlaps = overlaps;
    for (std::uint32_t number = 0; number < 3; ++number) run.add(wanted);
    run.run();
    for (std::uint32_t number = 1; number < 3; ++number) {
      for (std::uint32_t index = 0; index < made.steps.size(); ++index) {
        const picoseconds begin = run.step_times(number, index).first;
        if (!overlaps) {
          EXPECT_GE(begin, run.times(number - 1).end);
        } else if (index == 0) {
          EXPECT_LT(begin, run.times(number - 1).end);
        }
      }
    }
  }
}

// Checks each resource separately. No resource may have moved its bytes faster than its rate
// allows.
void check_rates(const machine::machine& described, const plan_executor& run, picoseconds time) {
  std::map<std::string, double> rates;
  std::map<std::string, std::pair<std::string, double>> both;
  for (const machine::link& edge : described.links) {
    const std::string ends[] = {machine::name(described, edge.a), machine::name(described, edge.b)};
    for (const int first : {0, 1}) {
      std::string way = ends[first];
      way.append(" -> ").append(ends[1 - first]);
      rates[way] += machine::copy_bytes_per_s(edge);  // the rates of parallel links add up
      if (edge.copy_both_bytes_per_s > 0)
        both[way] = {ends[0] + ends[1], edge.copy_both_bytes_per_s};
    }
  }
  std::map<std::string, double> together;
  for (const link_count& link : run.links()) {
    EXPECT_LE(link.busy, time);
    EXPECT_GE(link.wire, link.payload);
    const double rate = static_cast<double>(link.payload) / seconds_of(time);
    EXPECT_LE(rate, rates.at(link.name) * (1 + 1e-6)) << link.name;
    if (both.contains(link.name)) {
      const auto& [name, most] = both.at(link.name);
      EXPECT_LE(together[name] += rate, most * (1 + 1e-6)) << link.name;
    }
  }
}

// Checks that each copy begins after its dependencies have ended, and that the copies of a stream
// run one after another.
void check_order(const plan_executor& run, const plan::plan& made, std::uint32_t number) {
  std::map<std::uint32_t, picoseconds> ends;  // for each slot, the time when its last copy ended
  for (std::uint32_t index = 0; index < made.steps.size(); ++index) {
    const auto [begin, end] = run.step_times(number, index);
    EXPECT_LT(begin, end);
    for (const std::uint32_t on : made.steps[index].after)
      EXPECT_GE(begin, run.step_times(number, on).second);
    EXPECT_GE(begin, ends[made.steps[index].slot]);
    ends[made.steps[index].slot] = end;
  }
}

TEST(PlanExecutor, BytesArriveOnRandomMachines) {
  std::mt19937_64 random(4);
  for (int turn = 0; turn < 120; ++turn) {
    const machine::machine described = plan::random_machine(random);
    std::vector<plan::message> messages;
    const auto end = [&] {
      const std::uint32_t place = plan::up_to(random, described.gpu_count);
      return place == described.gpu_count ? host_end() : gpu_end(place);
    };
    const std::uint32_t count = 1 + plan::up_to(random, 2);
    while (messages.size() < count) {
      const plan::message one{end(), end(), 1 + random() % (1U << (8 + plan::up_to(random, 13)))};
      if (!(one.from == one.to) && machine::route(described, one.from, one.to))
        messages.push_back(one);
    }
    plan::options asked;
    asked.chunks = plan::up_to(random, 1) * (1 + plan::up_to(random, 8));
    asked.dealing =
        plan::up_to(random, 1) == 0 ? plan::dealing::by_share : plan::dealing::round_robin;
    asked.staging_bytes = 1U << (12 + plan::up_to(random, 10));
    const plan::plan made = plan::make_plan(described, messages, asked);
    std::vector<filled> data;
    const std::uint32_t runs = 1 + plan::up_to(random, 3);
    for (std::uint32_t number = 0; number < runs; ++number) data.emplace_back(made, random);
    plan_executor run(described, {});
    std::uint32_t arrived = 0;
    for (std::uint32_t number = 0; number < runs; ++number) {
      execution wanted = data[number].of(made);
      wanted.thread = plan::up_to(random, 1);
      wanted.how = static_cast<launched_by>(plan::up_to(random, 2));
      wanted.overlaps = plan::up_to(random, 1) == 0;
      if (number > 0 && plan::up_to(random, 1) == 0)
        wanted.after = {plan::up_to(random, number - 1)};
      wanted.arrived = [&arrived, &one = data[number]] {
        ++arrived;
        EXPECT_EQ(one.destinations, one.sources);
      };
      run.add(std::move(wanted));
    }
    const picoseconds time = run.run();
    EXPECT_EQ(arrived, runs);
    check_rates(described, run, time);
    for (std::uint32_t number = 0; number < runs; ++number) check_order(run, made, number);
    for (std::uint32_t gpu = 0; gpu < described.gpu_count; ++gpu)
      EXPECT_LE(run.most_engines(gpu), described.gpu.copy_engines);
  }
}

// The plan reuses a buffer too early. The executor must find this error.
TEST(PlanExecutor, AMissingDependencyIsFound) {
  machine::machine described = machine::make_mesh(4);
  for (machine::link& edge : described.links)  // makes reading a buffer faster than filling it
    if (edge.a == gpu_end(1)) edge.bytes_per_s *= 2;
  const plan::plan made = planned(described, gpu_end(0), gpu_end(1), 64 << 20, 16);
  int found = 0;
  for (std::size_t index = 0; index < made.steps.size(); ++index) {
    if (made.steps[index].after.empty()) continue;
    plan::plan broken = made;
    broken.steps[index].after.clear();
    plan_executor run(described, {});
    run.add(timed(broken));
    try {
      run.run();
    } catch (const model_error& error) {
      EXPECT_NE(std::string(error.what()).find("staging buffer"), std::string::npos);
      ++found;
    }
  }
  EXPECT_GT(found, 4);
}

TEST(PlanExecutor, WhatMakesNoSenseIsRefused) {
  const machine::machine described = pair_of_gpus();
  const plan::plan made = planned(described, gpu_end(0), gpu_end(1), 4096);
  plan_executor run(described, {});
  execution itself = timed(made);
  itself.after = {0};
  EXPECT_THROW(run.add(itself), usage_error);
  execution half = timed(made);
  memory bytes(4096);
  half.sources = {bytes.data()};
  EXPECT_THROW(run.add(half), usage_error);
  run.add(timed(made));
  run.run();
  EXPECT_THROW(run.run(), usage_error);
}

TEST(PlanExecutor, RunsRepeat) {
  const machine::machine described = machine::make_mesh(4);
  const plan::plan made = planned(described, gpu_end(0), gpu_end(1), 16 << 20);
  std::vector<picoseconds> times;
  for (int turn = 0; turn < 2; ++turn) {
    plan_executor run(described, {});
    for (std::uint32_t thread = 0; thread < 3; ++thread) {
      execution wanted = timed(made);
      wanted.thread = thread;
      run.add(wanted);
    }
    times.push_back(run.run());
  }
  EXPECT_EQ(times[0], times[1]);
}

}  // namespace
}  // namespace interlace::sim::plan_executor_tests
