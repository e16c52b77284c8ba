#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "interlace/base/errors.hpp"
#include "plan/check_plan.hpp"
#include "plan/plan.hpp"
#include "plan/random_machine.hpp"

namespace interlace::plan::planner_tests {
namespace {

using machine::gpu_end;
using machine::host_end;

// Gives a machine the costs of copies that are typical of real machines.
machine::machine with_costs(machine::machine made) {
  made.gpu.copy_setup_ps = 2'600'000;
  made.gpu.copy_launch_ps = 1'600'000;
  made.gpu.copy_event_ps = 2'000'000;
  made.gpu.copy_bytes_per_s = 450e9;
  return made;
}

machine::machine mesh(std::uint32_t gpus) {
  machine::machine made = with_costs(machine::make_mesh(gpus));
  made.gpu.copy_engines = 7;
  return made;
}

machine::machine switched(std::uint32_t gpus) {
  machine::machine made = with_costs(machine::make_machine(gpus));
  made.host.memory_bytes_per_s = 212e9;
  made.host.copy_write_bytes_per_s = 156e9;
  made.switches = {{"nvswitch", 100'000}};
  made.gpu.dram.bytes_per_s = 3923e9;
  for (std::uint32_t gpu = 0; gpu < gpus; ++gpu) {
    made.links.push_back(machine::make_link(gpu_end(gpu), machine::switch_end(0), 419e9));
    made.links.push_back(machine::pcie_link(gpu_end(gpu), host_end(), 60e9));
  }
  return made;
}

plan one(const machine::machine& described, machine::endpoint from, machine::endpoint to,
         std::uint64_t bytes, const options& asked = {}) {
  const std::vector<message> messages{{from, to, bytes}};
  return make_plan(described, messages, asked);
}

const path& named(const machine::machine& described, const plan& made, const std::string& wanted) {
  return *std::find_if(made.paths.begin(), made.paths.end(),
                       [&](const path& way) { return name(described, way) == wanted; });
}

double gain(const plan& made) { return made.direct_s / made.predicted_s; }

TEST(planner, staging_helps_on_a_mesh) {
  const machine::machine four = mesh(4);
  const plan made = one(four, gpu_end(0), gpu_end(1), 256 * mib);
  EXPECT_GT(named(four, made, "gpu2").bytes, 0U);
  EXPECT_GT(named(four, made, "gpu3").bytes, 0U);
  EXPECT_GT(named(four, made, "host").bytes, 0U);
  // Three equal paths carry 47 GB/s each, and the path through the host carries 14.4 GB/s.
  // Together, they carry 3 + 14.4/47 = 3.31 times as much as one link. The gain is lower, because
  // the pipelines must fill.
  EXPECT_GT(gain(made), 2.9);
  EXPECT_LT(gain(made), 3.31);
}

TEST(planner, staging_does_not_help_behind_a_switch) {
  const machine::machine four = switched(4);
  const plan made = one(four, gpu_end(0), gpu_end(1), 256 * mib);
  for (const std::string relay : {"gpu2", "gpu3"}) {
    EXPECT_EQ(named(four, made, relay).bytes, 0U);
    EXPECT_NE(named(four, made, relay).reason.find("uses gpu0 -> nvswitch"), std::string::npos);
  }
  EXPECT_GT(named(four, made, "host").bytes, 0U);
  EXPECT_GT(gain(made), 1.09);
  EXPECT_LT(gain(made), 1.15);
}

TEST(planner, host_copies_go_through_the_other_gpus_too) {
  const machine::machine four = switched(4);
  EXPECT_GT(gain(one(four, host_end(), gpu_end(0), 256 * mib)), 3.2);
  const plan up = one(four, gpu_end(0), host_end(), 256 * mib);
  EXPECT_GT(gain(up), 2.4);
  EXPECT_LT(gain(up), 156.0 / 54);  // the host's memory sets this limit
}

TEST(planner, small_messages_go_directly) {
  const machine::machine four = mesh(4);
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{65536}}) {
    const plan made = one(four, gpu_end(0), gpu_end(1), bytes);
    EXPECT_EQ(made.steps.size(), 1U);
    EXPECT_EQ(made.predicted_s, made.direct_s);
  }
  // If several paths pay off for a size, they also pay off for all larger sizes.
  bool staged = false;
  for (std::uint64_t bytes = 1024; bytes <= 1024 * mib; bytes *= 2) {
    const bool now = one(four, gpu_end(0), gpu_end(1), bytes).steps.size() > 1;
    EXPECT_TRUE(now || !staged) << bytes;
    staged = now;
  }
  EXPECT_TRUE(staged);
}

TEST(planner, traffic_under_way_keeps_paths_away) {
  machine::machine four = mesh(4);
  options asked;
  asked.traffic = {{{gpu_end(0), gpu_end(2)}, 0}};
  plan made = one(four, gpu_end(0), gpu_end(1), 256 * mib, asked);
  EXPECT_EQ(named(four, made, "gpu2").bytes, 0U);
  EXPECT_EQ(named(four, made, "gpu2").reason, "traffic in flight already uses gpu0 -> gpu2");
  EXPECT_GT(named(four, made, "gpu3").bytes, 0U);
  check_capacity(four, made, asked.traffic);

  // If the two directions of a link share its bandwidth, the path through the host is free only
  // while no traffic uses the opposite direction.
  for (machine::link& edge : four.links)
    if (edge.b == host_end()) edge.copy_both_bytes_per_s = 14.5e9;
  EXPECT_GT(named(four, one(four, gpu_end(0), gpu_end(1), 256 * mib), "host").bytes, 0U);
  asked.traffic = {{{gpu_end(1), host_end(), gpu_end(0)}, 0}};
  made = one(four, gpu_end(0), gpu_end(1), 256 * mib, asked);
  EXPECT_EQ(named(four, made, "host").bytes, 0U);
  EXPECT_EQ(named(four, made, "host").reason,
            "traffic in flight already uses both directions of gpu0 - host");
}

TEST(planner, paths_can_be_chosen) {
  const machine::machine four = mesh(4);
  options asked;
  asked.staging = {gpu_end(3)};
  asked.chunks = 4;
  plan made = one(four, gpu_end(0), gpu_end(1), 64 * mib, asked);
  EXPECT_EQ(made.steps.size(), 1U + 8);
  EXPECT_EQ(named(four, made, "gpu2").reason, "it is not among the allowed paths");
  asked.direct = false;
  made = one(four, gpu_end(0), gpu_end(1), 64 * mib, asked);
  EXPECT_EQ(named(four, made, "gpu3").bytes, 64 * mib);
  EXPECT_GT(made.predicted_s, made.direct_s);
  asked.staging = std::vector<machine::endpoint>{};
  EXPECT_THROW(one(four, gpu_end(0), gpu_end(1), 64 * mib, asked), usage_error);
}

TEST(planner, little_staging_memory_does_not_make_plans_of_a_million_copies) {
  const machine::machine four = mesh(4);
  options asked;
  asked.staging_bytes = 4096;
  const plan made = one(four, gpu_end(0), gpu_end(1), 256 * mib, asked);
  EXPECT_EQ(made.steps.size(), 1U);
  EXPECT_EQ(named(four, made, "gpu2").reason, "with it there would be more than 4096 copies");
  // The fewer paths there are, the more staging memory each path has.
  asked.staging_bytes = 384 << 10;
  const plan fewer = one(four, gpu_end(0), gpu_end(1), 256 * mib, asked);
  EXPECT_LE(fewer.steps.size(), 4096U);
  asked.staging_bytes = 4096;
  asked.direct = false;
  try {
    (void)one(four, gpu_end(0), gpu_end(1), 256 * mib, asked);
    ADD_FAILURE() << "there is a plan";
  } catch (const usage_error& error) {
    EXPECT_EQ(std::string(error.what()),
              "the paths that are allowed would take more than 4096 copies; give more staging "
              "memory, or fewer chunks");
  }
}

// As in Fig. 11b of the paper on multi-path copies, every GPU of a mesh sends to the next GPU. No
// two copies may use the same link.
TEST(planner, a_ring_shares_no_link) {
  const machine::machine four = mesh(4);
  std::vector<message> ring;
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu)
    ring.push_back({gpu_end(gpu), gpu_end((gpu + 1) % 4), 256 * mib});
  options asked;
  asked.staging = {gpu_end(0), gpu_end(1), gpu_end(2), gpu_end(3)};
  plan made = make_plan(four, ring, asked);
  EXPECT_GT(gain(made), 1.9);
  std::set<std::size_t> links;
  std::size_t used = 0;
  for (const path& way : made.paths) {
    if (way.bytes == 0) continue;
    ++used;
    for (const leg& part : way.legs) EXPECT_TRUE(links.insert(part.port).second);
  }
  EXPECT_EQ(used, 8U);  // two paths for each message
  const resources shared(four);
  const auto spans = predict(made, shared, four.gpu, true);
  for (const span_of_step& span : spans)  // at most one copy at a time runs on a link
    EXPECT_NEAR(span.bytes_per_s, machine::copy_bytes_per_s(four.links[0]), 1);
  check_capacity(four, made, {});
}

TEST(planner, no_two_senders_of_an_all_to_all_meet) {
  for (const std::uint32_t gpus : {2U, 4U, 5U}) {
    const machine::machine described = switched(gpus);
    std::vector<message> all;
    for (std::uint32_t from = 0; from < gpus; ++from)
      for (std::uint32_t to = 0; to < gpus; ++to)
        if (from != to) all.push_back({gpu_end(from), gpu_end(to), 16 * mib});
    options asked;
    asked.staging = std::vector<machine::endpoint>{};
    const plan made = make_plan(described, all, asked);
    std::set<std::pair<std::uint32_t, std::uint32_t>> sends;
    std::set<std::pair<std::uint32_t, std::uint32_t>> receives;
    for (std::size_t at = 0; at < all.size(); ++at) {
      EXPECT_LT(made.rounds[at], gpus - 1);
      EXPECT_TRUE(sends.insert({made.rounds[at], all[at].from.index}).second);
      EXPECT_TRUE(receives.insert({made.rounds[at], all[at].to.index}).second);
    }
    // The limit is reached if all ports are busy all the time.
    const double port = machine::copy_bytes_per_s(described.links[0]);
    EXPECT_LT(made.predicted_s, (gpus - 1) * 16 * mib / port * 1.25);
  }
}

// Returns the time of all messages if the driver gets all of them at once, each on its own stream.
double independently_s(const machine::machine& described, const std::vector<message>& messages) {
  plan made;
  made.messages = messages;
  const resources shared(described);
  for (std::uint32_t number = 0; number < messages.size(); ++number) {
    const message& one = messages[number];
    const auto way = shared.copy(one.from, one.to);
    if (!way) return std::numeric_limits<double>::infinity();
    made.rounds.push_back(0);
    made.paths.push_back({number, {one.from, one.to}, {*way}, one.bytes, 1, ""});
    made.slots.push_back({way->gpu, way->port});
    made.steps.push_back({number,
                          0,
                          0,
                          {memory::source, number, 0},
                          {memory::destination, number, 0},
                          one.bytes,
                          number,
                          {},
                          0,
                          0});
  }
  (void)predict(made, shared, described.gpu);
  return made.predicted_s;
}

// Tests collectives of all GPUs, and collectives of some of them, on machines of many shapes.
TEST(planner, a_collective_is_not_predicted_slower_than_its_messages_sent_independently) {
  std::mt19937_64 random(77);
  std::size_t faster = 0;
  std::size_t apart = 0;
  for (int turn = 0; turn < 24; ++turn) {
    SCOPED_TRACE(turn);
    const machine::machine described = random_machine(random);
    const std::uint32_t gpus = 2 + up_to(random, std::min(described.gpu_count, 4U) - 2);
    const std::uint64_t bytes = 1 + random() % (turn % 4 == 0 ? 2'000 : 60'000);
    std::vector<message> all;
    for (std::uint32_t from = 0; from < gpus; ++from)
      for (std::uint32_t to = 0; to < gpus; ++to)
        if (from != to) all.push_back({gpu_end(from), gpu_end(to), bytes});
    const plan made = make_plan(described, all);
    EXPECT_LE(made.predicted_s, made.direct_s);
    // The two methods launch the messages in different orders. `launches_s` allows for this
    // difference.
    const double launches_s =
        seconds_of(described.gpu.copy_launch_ps) * static_cast<double>(all.size());
    // The planner prefers a simpler plan that is at most 5 % slower than the fastest plan, because
    // messages do not start at exactly the same time.
    EXPECT_LE(made.predicted_s, independently_s(described, all) * 1.05 + launches_s);
    apart += made.apart ? 1 : 0;
    faster += made.predicted_s < independently_s(described, all) * 0.99 ? 1 : 0;
    check_bytes(made, random);
    check_places(described, made, options{}.staging_bytes);
    check_capacity(described, made, {});
    if (HasFailure()) return;
  }
  EXPECT_GT(faster, 5U);
  EXPECT_GT(apart, 2U);
}

TEST(planner, links_that_their_own_gpus_need_are_left_to_them) {
  const machine::machine four = switched(4);
  std::vector<message> all;
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) all.push_back({host_end(), gpu_end(gpu), 256 * mib});
  const plan made = make_plan(four, all);
  EXPECT_EQ(made.steps.size(), 4U);
  EXPECT_EQ(made.predicted_s, made.direct_s);
}

TEST(planner, nonsense_is_refused) {
  const machine::machine four = mesh(4);
  const auto complaint = [&](machine::endpoint from, machine::endpoint to, std::uint64_t bytes,
                             const options& asked = {}) -> std::string {
    try {
      (void)one(four, from, to, bytes, asked);
    } catch (const usage_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint(gpu_end(0), gpu_end(4), 1),
            "gpu4 is not a memory of sample; it has gpu0 to gpu3 and host");
  EXPECT_EQ(complaint(gpu_end(2), gpu_end(2), 1),
            "source and destination are both gpu2; a plan is for two memories");
  EXPECT_EQ(complaint(gpu_end(0), host_end(), 0),
            "a message of 0 bytes from gpu0 to host needs no plan");
  EXPECT_EQ(complaint(gpu_end(0), gpu_end(1), std::uint64_t{1} << 60U),
            "a message is longer than 1 PiB; plan its parts");
  options asked;
  asked.traffic = {{{host_end(), host_end()}, 0}};
  EXPECT_EQ(complaint(gpu_end(0), gpu_end(1), 1, asked),
            "there is no path for the traffic in flight");
  EXPECT_THROW(make_plan(four, {}), usage_error);
}

TEST(planner, properties_of_plans_for_random_messages) {
  std::mt19937_64 random(2026);
  std::size_t staged = 0;
  std::size_t several = 0;
  for (int turn = 0; turn < 80; ++turn) {
    SCOPED_TRACE(turn);
    const machine::machine described = random_machine(random);
    const auto place = [&] {
      const std::uint32_t at = up_to(random, described.gpu_count);
      return at == described.gpu_count ? host_end() : gpu_end(at);
    };
    std::vector<message> messages;
    const std::uint32_t count = up_to(random, 2) == 0 ? 1 + up_to(random, 3) : 1;
    while (messages.size() < count) {
      const message next{place(), place(), 1 + random() % (turn % 4 == 0 ? 2000 : 60'000)};
      if (!(next.from == next.to)) messages.push_back(next);
    }
    options asked;
    if (up_to(random, 3) == 0) asked.chunks = 1 + up_to(random, 9);
    if (up_to(random, 3) == 0) asked.dealing = dealing::round_robin;
    if (up_to(random, 3) == 0) asked.staging_bytes = 4096 * (1 + up_to(random, 9));
    if (up_to(random, 3) == 0) {
      traffic running{{place(), place()}, up_to(random, 1) == 0 ? 0 : 5e9};
      if (!(running.stops[0] == running.stops[1])) asked.traffic.push_back(running);
    }
    const plan made = make_plan(described, messages, asked);
    EXPECT_LE(made.predicted_s, made.direct_s);
    check_bytes(made, random);
    check_places(described, made, asked.staging_bytes);
    check_capacity(described, made, asked.traffic);
    if (turn % 8 == 0) check_same(made, make_plan(described, messages, asked));
    staged += made.buffers.empty() ? 0 : 1;
    several += count > 1 && !made.buffers.empty() ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(staged, 30U);  // otherwise the checks above have tested too few staged paths
  EXPECT_GT(several, 5U);
}

}  // namespace
}  // namespace interlace::plan::planner_tests
