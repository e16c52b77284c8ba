// A simulation gives the same bits for every number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <ios>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel/mechanism_table.hpp"
#include "interlace/sim/node.hpp"
#include "sim/described.hpp"

namespace interlace::threads_tests {
namespace {

using machine::endpoint_kind;

// Gathers elements of the front through an index, and stores to the part of its own device. It
// stores some elements twice. It also adds to counters of the device, so the values of a block
// depend on the blocks that ran earlier.
struct gather {
  replicated<float> values;
  local<std::uint32_t> index;
  local<std::uint32_t> order;
  std::uint64_t first = 0, last = 0;
  std::uint32_t each = 1;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t i = first + lane.global_index();
      if (i >= last) return;
      float sum = 0;
      for (auto k : lane.range(std::uint32_t{0}, each)) {
        const auto from = lane.load_index(index, (i * each + k) % index.size);
        sum += lane.load(values, from);
      }
      lane.compute({.fp32 = 2 * each});
      lane.atomic_add(order, i % order.size, std::uint32_t{1});
      sum += static_cast<float>(lane.load(order, (i * 7) % order.size));
      lane.store(values, i, sum);
      if (i % 5 == 0) lane.store(values, i, sum + 1);
    });
  }
};

machine::machine random_machine(std::mt19937_64& random) {
  const auto up_to = [&](std::uint64_t n) { return random() % n; };
  const auto protocol =
      up_to(2) == 0 ? machine::protocol_kind::nvlink2 : machine::protocol_kind::pcie4;
  const auto gpus = static_cast<std::uint32_t>(2 + up_to(4));
  machine::machine m = test::meshed(gpus, protocol);
  m.gpu.compute_units = static_cast<std::uint32_t>(1 + up_to(5));
  m.gpu.l2.bytes = std::uint64_t{64 << 10} << up_to(3);
  m.gpu.kernel_launch_ps = up_to(3) * 700'000;
  m.gpu.block_launch_ps = up_to(2) * 5'000;
  if (protocol == machine::protocol_kind::nvlink2) {
    for (machine::link& l : m.links) l.protocol.store_packets_per_s = 5e9;
  }
  machine::link like = m.links[0];
  like.latency_ps = 50'000 + up_to(500'000);
  like.bytes_per_s = 8e9 * static_cast<double>(1 + up_to(8));
  like.queue_bytes = std::uint64_t{1024} << up_to(5);
  const std::uint64_t shape = up_to(3);
  if (shape == 0) {
    for (machine::link& l : m.links) {
      l.latency_ps = like.latency_ps + up_to(100'000);
      l.bytes_per_s = like.bytes_per_s;
      l.queue_bytes = like.queue_bytes;
    }
    return m;
  }
  // The machine has one switch, or two switches with a link between them.
  m.links.clear();
  for (std::uint32_t s = 0; s < shape; ++s) m.switches.push_back({"s" + std::to_string(s), 60'000});
  const auto connect = [&](machine::endpoint a, machine::endpoint b) {
    m.links.push_back(like);
    m.links.back().a = a;
    m.links.back().b = b;
  };
  for (std::uint32_t g = 0; g < gpus; ++g) {
    connect({endpoint_kind::gpu, g},
            {endpoint_kind::network_switch, static_cast<std::uint32_t>(g % shape)});
  }
  if (shape == 2) connect({endpoint_kind::network_switch, 0}, {endpoint_kind::network_switch, 1});
  return m;
}

// Returns every number of a result as text. Floating-point numbers are not rounded.
std::string text_of(const kernel::run_result& r) {
  std::ostringstream out;
  out << std::hexfloat << r.time_s << ' ' << r.copy_s << ' ' << r.wire.useful << ' '
      << r.wire.protocol << ' ' << r.wire.wasted << ' ' << r.accesses << ' '
      << r.remote_transactions << '\n';
  const kernel::remote_store_counts& s = r.stores;
  out << s.stores << ' ' << s.bytes << ' ' << s.packets << ' ' << s.wire << ' ' << s.overwritten
      << ' ' << s.flushes << ' ' << s.subpackets << ' ' << s.subheader_bytes;
  for (const auto n : s.sizes) out << ' ' << n;
  for (const auto n : s.reasons) out << ' ' << n;
  out << '\n';
  for (const kernel::timeline_event& e : r.timeline) {
    out << e.device << ' ' << e.track << ' ' << e.name << ' ' << e.start_s << ' ' << e.end_s
        << '\n';
  }
  for (const kernel::pair_traffic& p : r.observed->pairs) {
    out << p.from << ' ' << p.to << ' ' << p.messages << ' ' << p.packets << ' ' << p.payload_bytes
        << ' ' << p.protocol_bytes << ' ' << p.mean_latency_s << ' ' << p.max_latency_s << '\n';
  }
  for (const kernel::link_traffic& l : r.observed->links) {
    out << l.from << ' ' << l.to << ' ' << l.wire_bytes << ' ' << l.busy;
    for (const float part : l.by_bin) out << ' ' << part;
    out << '\n';
  }
  for (const kernel::device_activity& d : r.observed->devices) {
    out << d.kernel << ' ' << d.copy << ' ' << d.idle << ' ' << d.idle_while_others_compute << ' '
        << d.issue << ' ' << d.memory << '\n';
  }
  return out.str();
}

// A call that changes the array from which the next kernel of the device gathers.
kernel::library_call rotate(const local<std::uint32_t>& index, bool sweeps) {
  kernel::library_call call;
  call.name = "rotate";
  call.bytes_read = call.bytes_written = index.size * sizeof(std::uint32_t);
  call.operations.integer = index.size * 1000;
  if (sweeps) call.sweeps = {{index.data, call.bytes_read}, {index.data, call.bytes_written, true}};
  call.on_cpu = [index] { std::rotate(index.data, index.data + 17, index.data + index.size); };
  return call;
}

struct outcome {
  std::string result;
  std::vector<std::vector<float>> fronts;
};

// Runs a random program with `threads` threads. If `threads` is 0, one thread handles the events of
// all devices in one order.
outcome run(std::uint64_t seed, std::uint32_t threads, kernel::mechanism how) {
  std::mt19937_64 random(seed);
  const machine::machine m = random_machine(random);
  const std::uint32_t devices = m.gpu_count;
  const std::uint64_t n = 3000 + random() % 9000;
  sim::node node(m, devices, [] {});
  if (threads == 0) {
    node.check_deliveries();
  } else {
    node.use_threads(threads);
  }
  kernel::region_options options;
  for (std::uint32_t d = 0; d <= devices; ++d) options.boundaries.push_back(n * d / devices);
  options.mechanism = how;
  options.split_ranges = 3;
  options.chunk_bytes = 2048;
  options.agent_threads = 128;
  const auto region = node.create_region<float>(options);
  std::vector<local<std::uint32_t>> index;
  std::vector<local<std::uint32_t>> order;
  for (std::uint32_t d = 0; d < devices; ++d) {
    std::vector<std::uint32_t> values(4096);
    for (std::uint32_t& v : values) v = static_cast<std::uint32_t>(random() % n);
    index.push_back(node.allocate<std::uint32_t>(d, values.size()));
    node.upload(index.back(), values);
    order.push_back(node.allocate<std::uint32_t>(d, 64));
    node.upload(order.back(), std::vector<std::uint32_t>(64));
  }
  node.set_front(region, std::vector<float>(n, 1.0F));
  const auto each = static_cast<std::uint32_t>(1 + random() % 4);
  outcome found;
  for (int part = 0; part < 2; ++part) {
    const auto result = node.run([&] {
      for (int e = 0; e < 2; ++e) {
        for (std::uint32_t d = 0; d < devices; ++d) {
          const auto first = options.boundaries[d];
          const auto last = options.boundaries[d + 1];
          node.call(d, rotate(index[d], part == 0));
          node.launch(d, gather{node.view(region, d), index[d], order[d], first, last, each},
                      {(last - first + 63) / 64, 64, 0}, region,
                      kernel::block_mapping::contiguous(first, 64, last));
        }
        node.exchange(region);
      }
      node.end_iteration();
    });
    found.result += text_of(result);
  }
  for (std::uint32_t d = 0; d < devices; ++d) found.fronts.push_back(node.front(region, d));
  return found;
}

TEST(sim_threads, any_number_gives_the_same_bits) {
  std::uint64_t seed = 1;
  for (const kernel::mechanism_row& row : kernel::mechanism_rows) {
    if (row.not_on_sim != nullptr || row.packs_updates) continue;
    ++seed;
    const outcome one = run(seed, 1, row.value);
    for (const std::uint32_t threads : {0U, 2U, 4U, 16U}) {
      const outcome several = run(seed, threads, row.value);
      ASSERT_EQ(one.result, several.result) << row.name << " with " << threads << " threads";
      ASSERT_EQ(one.fronts, several.fronts) << row.name << " with " << threads << " threads";
    }
  }
}

struct fails {
  local<float> values;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      lane.store(values, lane.global_index() == 4000 ? values.size : lane.global_index(), 1.0F);
    });
  }
};

TEST(sim_threads, errors_of_kernels_arrive) {
  for (const std::uint32_t threads : {1U, 2U, 4U}) {
    sim::node node(test::meshed(1, machine::protocol_kind::nvlink2), 1, [] {});
    node.use_threads(threads);
    const auto values = node.allocate<float>(0, 8192);
    try {
      node.run([&] { node.launch(0, fails{values}, {128, 64, 0}); });
      FAIL() << "no error";
    } catch (const model_error& e) {
      EXPECT_EQ(std::string(e.what()), "a kernel reaches element 8192 of a local array of 8192");
    }
  }
}

TEST(sim_threads, errors_of_calls_arrive) {
  for (const std::uint32_t threads : {1U, 2U, 4U}) {
    sim::node node(test::meshed(2, machine::protocol_kind::nvlink2), 2, [] {});
    node.use_threads(threads);
    kernel::library_call call;
    call.name = "fails";
    call.operations.fp32 = 1 << 20;
    call.on_cpu = [] { throw model_error("the call failed"); };
    EXPECT_THROW(node.run([&] {
      for (std::uint32_t d = 0; d < 2; ++d) node.call(d, call);
    }),
                 model_error);
  }
}

struct interrupted {};

struct long_work {
  local<float> values;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto k : lane.range(std::uint64_t{0}, std::uint64_t{64})) {
        lane.store(values, (lane.global_index() * 64 + k) % values.size, 1.0F);
      }
    });
  }
};

TEST(sim_threads, an_interrupt_ends_the_run) {
  for (const std::uint32_t threads : {1U, 2U, 4U}) {
    sim::node node(test::meshed(2, machine::protocol_kind::nvlink2), 2,
                   [] { throw interrupted(); });
    node.use_threads(threads);
    std::vector<local<float>> values;
    for (std::uint32_t d = 0; d < 2; ++d) values.push_back(node.allocate<float>(d, 1 << 16));
    EXPECT_THROW(node.run([&] {
      for (std::uint32_t d = 0; d < 2; ++d) node.launch(d, long_work{values[d]}, {4096, 64, 0});
    }),
                 interrupted);
  }
}

}  // namespace
}  // namespace interlace::threads_tests
