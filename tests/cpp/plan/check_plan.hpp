// Checks of plans. The checks do not use the planner's own bookkeeping.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "machine/copy_rate.hpp"
#include "machine/route.hpp"
#include "plan/plan.hpp"
#include "plan/schedule.hpp"

namespace interlace::plan {

// The contents of a memory. They start with values that no message contains.
using bytes = std::vector<std::uint16_t>;
inline constexpr std::uint16_t poison = 0xffff;

// Makes the copies of a plan in real memory and compares the results. The slots and dependencies of
// the steps allow several orders, and the function chooses one at random. If the plan reused a
// buffer too early, some bytes would be wrong.
inline void check_bytes(const plan& made, std::mt19937_64& random) {
  std::vector<bytes> sources;
  std::vector<bytes> destinations;
  for (const message& one : made.messages) {
    bytes& source = sources.emplace_back(one.bytes);
    for (std::uint16_t& value : source) value = static_cast<std::uint16_t>(random() % poison);
    destinations.emplace_back(one.bytes, poison);
  }
  std::vector<bytes> buffers;
  for (const staging_buffer& buffer : made.buffers) buffers.emplace_back(buffer.bytes, poison);
  const auto memory_of = [&](const location& place) -> bytes& {
    return place.memory == memory::source        ? sources.at(place.index)
           : place.memory == memory::destination ? destinations.at(place.index)
                                                 : buffers.at(place.index);
  };
  std::vector<std::vector<std::uint32_t>> queues(made.slots.size());
  for (std::uint32_t index = 0; index < made.steps.size(); ++index) {
    queues.at(made.steps[index].slot).push_back(index);
    for (const std::uint32_t on : made.steps[index].after) ASSERT_LT(on, index);  // no cycle
  }
  std::vector<std::size_t> heads(queues.size(), 0);
  std::vector<bool> done(made.steps.size(), false);
  std::vector<std::vector<int>> written;
  for (const message& one : made.messages) written.emplace_back(one.bytes, 0);
  for (std::size_t ran = 0; ran < made.steps.size(); ++ran) {
    std::vector<std::size_t> ready;
    for (std::size_t queue = 0; queue < queues.size(); ++queue) {
      if (heads[queue] == queues[queue].size()) continue;
      const auto& after = made.steps[queues[queue][heads[queue]]].after;
      if (std::all_of(after.begin(), after.end(), [&](std::uint32_t on) { return done[on]; }))
        ready.push_back(queue);
    }
    ASSERT_FALSE(ready.empty());
    const std::size_t queue = ready[random() % ready.size()];
    const std::uint32_t index = queues[queue][heads[queue]++];
    const step& copy = made.steps[index];
    const bytes& from = memory_of(copy.from);
    bytes& to = memory_of(copy.to);
    ASSERT_GT(copy.bytes, 0U);
    ASSERT_LE(copy.from.offset + copy.bytes, from.size());
    ASSERT_LE(copy.to.offset + copy.bytes, to.size());
    for (std::uint64_t at = 0; at < copy.bytes; ++at) {
      to[copy.to.offset + at] = from[copy.from.offset + at];
      if (copy.to.memory == memory::destination) ++written[copy.to.index][copy.to.offset + at];
    }
    done[index] = true;
  }
  for (std::size_t number = 0; number < made.messages.size(); ++number) {
    EXPECT_EQ(destinations[number], sources[number]);
    EXPECT_TRUE(std::all_of(written[number].begin(), written[number].end(),
                            [](int times) { return times == 1; }));
  }
}

// Checks that the steps run at the right places, that the paths carry whole messages, and that the
// plan stays within the limit of the staging memory.
inline void check_places(const machine::machine& described, const plan& made,
                         std::uint64_t staging_bytes) {
  std::vector<std::uint64_t> carried(made.messages.size(), 0);
  for (const path& way : made.paths) {
    carried.at(way.message) += way.bytes;
    EXPECT_EQ(way.bytes > 0, way.chunks > 0);
    EXPECT_FALSE(way.reason.empty());
    EXPECT_EQ(way.stops.front(), made.messages[way.message].from);
    EXPECT_EQ(way.stops.back(), made.messages[way.message].to);
  }
  for (std::size_t number = 0; number < carried.size(); ++number)
    EXPECT_EQ(carried[number], made.messages[number].bytes);
  std::vector<std::uint64_t> staged(made.messages.size(), 0);
  for (const staging_buffer& buffer : made.buffers)
    staged.at(made.paths.at(buffer.path).message) += buffer.bytes;
  for (const std::uint64_t all : staged)
    EXPECT_LE(all, std::max<std::uint64_t>(staging_bytes, 1024 * made.buffers.size()));
  for (const step& copy : made.steps) {
    const path& way = made.paths.at(copy.path);
    const machine::endpoint from = way.stops.at(copy.leg);
    const machine::endpoint to = way.stops.at(copy.leg + 1);
    const std::uint32_t gpu = from.kind == machine::endpoint_kind::gpu ? from.index : to.index;
    EXPECT_EQ(made.slots.at(copy.slot).gpu, gpu);
    ASSERT_TRUE(machine::route(described, from, to).has_value());
    const auto place = [&](const location& at, machine::endpoint end) {
      if (at.memory == memory::staging) {
        EXPECT_EQ(made.buffers.at(at.index).place, end);
        EXPECT_EQ(made.buffers.at(at.index).path, copy.path);
      } else {
        EXPECT_EQ(at.index, way.message);
        EXPECT_EQ(end, at.memory == memory::source ? made.messages[way.message].from
                                                   : made.messages[way.message].to);
      }
    };
    place(copy.from, from);
    place(copy.to, to);
  }
}

// Checks the predicted schedule. At every moment, the copies in flight together must stay within
// the capacity of each direction of a link, each link, each memory and each set of engines. The
// function computes these capacities from the machine.
inline void check_capacity(const machine::machine& described, plan made,
                           const std::vector<traffic>& running) {
  resources shared(described);
  for (const traffic& one : running) ASSERT_TRUE(shared.add(one));
  const double said = made.predicted_s;
  const auto spans = predict(made, shared, described.gpu, true);
  EXPECT_EQ(made.predicted_s, said);
  std::vector<double> moved(made.steps.size(), 0);
  // Maps the start of an interval to the spans in flight.
  std::map<double, std::vector<const span_of_step*>> intervals;
  for (const span_of_step& one : spans) {
    moved[one.step] += one.bytes_per_s * (one.end_s - one.begin_s);
    intervals[one.begin_s].push_back(&one);
    EXPECT_LE(one.bytes_per_s, described.gpu.copy_bytes_per_s * (1 + 1e-9));
  }
  for (std::size_t index = 0; index < made.steps.size(); ++index) {
    const auto wanted = static_cast<double>(made.steps[index].bytes);
    EXPECT_NEAR(moved[index], wanted, 1e-3 + 1e-6 * wanted);
    EXPECT_LT(made.steps[index].begin_s, made.steps[index].end_s);
    for (const std::uint32_t on : made.steps[index].after)
      EXPECT_LE(made.steps[on].end_s, made.steps[index].begin_s);
  }
  const double slack = 1 + 1e-6;
  for (const auto& [begin, together] : intervals) {
    std::map<std::pair<std::size_t, bool>, double> direction;
    std::map<std::size_t, double> link;
    std::map<std::uint32_t, double> gpu_memory;
    std::map<std::uint32_t, std::uint32_t> engines;
    std::set<std::uint32_t> slots;
    double host = 0;
    double host_writes = 0;
    for (const span_of_step* one : together) {
      const step& copy = made.steps[one->step];
      const path& way = made.paths[copy.path];
      const machine::endpoint from = way.stops[copy.leg];
      const machine::endpoint to = way.stops[copy.leg + 1];
      const auto hops = machine::route(described, from, to);
      ASSERT_TRUE(hops.has_value());
      for (const machine::hop& hop : *hops) {
        direction[{hop.link, hop.forward}] += one->bytes_per_s;
        link[hop.link] += one->bytes_per_s;
      }
      for (const machine::endpoint end : {from, to}) {
        if (end.kind == machine::endpoint_kind::gpu)
          gpu_memory[end.index] += one->bytes_per_s;
        else
          host += one->bytes_per_s;
      }
      if (to.kind == machine::endpoint_kind::host) host_writes += one->bytes_per_s;
      ++engines[from.kind == machine::endpoint_kind::gpu ? from.index : to.index];
      EXPECT_TRUE(slots.insert(copy.slot).second);
    }
    for (const auto& [at, rate] : direction)
      EXPECT_LE(rate, machine::copy_bytes_per_s(described.links[at.first]) * slack);
    for (const auto& [at, rate] : link) {
      if (described.links[at].copy_both_bytes_per_s > 0) {
        EXPECT_LE(rate, described.links[at].copy_both_bytes_per_s * slack);
      }
    }
    for (const auto& [gpu, rate] : gpu_memory)
      EXPECT_LE(rate, described.gpu.dram.bytes_per_s * slack);
    for (const auto& [gpu, count] : engines) EXPECT_LE(count, described.gpu.copy_engines);
    EXPECT_LE(host, described.host.memory_bytes_per_s * slack);
    if (described.host.copy_write_bytes_per_s > 0) {
      EXPECT_LE(host_writes, described.host.copy_write_bytes_per_s * slack);
    }
  }
}

// Checks that two plans have the same copies.
inline void check_same(const plan& one, const plan& other) {
  EXPECT_EQ(one.predicted_s, other.predicted_s);
  ASSERT_EQ(one.steps.size(), other.steps.size());
  for (std::size_t at = 0; at < one.steps.size(); ++at) {
    const step& left = one.steps[at];
    const step& right = other.steps[at];
    EXPECT_TRUE(left.path == right.path && left.leg == right.leg && left.bytes == right.bytes &&
                left.from.offset == right.from.offset && left.to.offset == right.to.offset &&
                left.slot == right.slot && left.after == right.after &&
                left.begin_s == right.begin_s && left.end_s == right.end_s);
  }
  for (std::size_t at = 0; at < one.paths.size(); ++at)
    EXPECT_EQ(one.paths[at].reason, other.paths[at].reason);
}

}  // namespace interlace::plan
