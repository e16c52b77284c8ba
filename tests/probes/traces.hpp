// Kernels for every node that can trace: small kernels whose totals have a closed form, the other
// probes, and the workloads.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "bitonic.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/kernel/trace.hpp"
#include "interlace/kernel/type_name.hpp"
#include "spmv.hpp"
#include "stencil.hpp"
#include "workload/als.hpp"
#include "workload/ct.hpp"
#include "workload/diffusion.hpp"
#include "workload/eqwp.hpp"
#include "workload/hit.hpp"
#include "workload/jacobi.hpp"
#include "workload/pagerank.hpp"
#include "workload/sssp.hpp"

namespace interlace::probe {

using kernel::memory_space;
using kernel::trace_totals;
using kernel::traced_access;

// --- closed forms --------------------------------------------------------------------------------

struct trace_axpy {
  local<const float> x;
  local<float> y;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      if (i < x.size) lane.store(y, i, 2 * lane.load(x, i) + lane.load(y, i));
    });
  }
};

// Lane k makes k iterations. In each iteration, the lanes that still run read the same word of a
// new line.
struct trace_lengths {
  local<const float> x;
  local<float> y;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      float sum = 0;
      for (auto i : lane.range(0U, lane.in_warp())) sum += lane.load(x, i * 32);
      lane.store(y, lane.global_index(), sum);
    });
  }
};

// Uses every kind of view. Some accesses are shifted by half a line, and some have one line for
// each lane.
struct trace_views {
  replicated<float> region;
  unified<float> everywhere;
  local<std::uint32_t> counters;
  reduced<float> sums;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto staged = shared<float>(block, block.threads());
    const float base = block.load(region, 5) + block.load(sums, 0);
    block.each_warp([&](auto warp) {
      const std::uint32_t first = warp.load(counters, 1000 + warp.index());
      warp.each([&](auto lane) {
        const auto i = lane.global_index();
        lane.store(staged, lane.index(), base);
        lane.store(region, i, lane.load(region, i + 16));
        if (lane.in_warp() % 2 == 0) {
          lane.store(everywhere, i * 32, lane.load(staged, lane.index()));
        } else {
          lane.load(everywhere, i * 32);
        }
        lane.atomic_add(counters, lane.in_warp(), first);
        lane.atomic_min(counters, lane.in_warp() * 32, first);
        if (lane.in_warp() < 3) lane.reduce(sums, lane.in_warp(), 1.0F);
      });
    });
  }
};

struct traced_form {
  std::string name;
  trace_totals seen;
  trace_totals expected;
};

template <class Node>
std::vector<traced_form> trace_forms(Node& node) {
  std::vector<traced_form> forms;
  {
    const std::uint64_t n = 1000;  // these are 31 warps and a quarter of a warp
    const auto x = node.template allocate<float>(0, n);
    const auto y = node.template allocate<float>(0, n);
    traced_form f{"axpy", node.trace(0, trace_axpy{x, y}, {8, 128, 0}), {}};
    f.expected.of(traced_access::load, memory_space::local) = {64, 2 * n};
    f.expected.of(traced_access::store, memory_space::local) = {32, n};
    forms.push_back(f);
  }
  {
    const auto x = node.template allocate<float>(0, 31 * 32);
    const auto y = node.template allocate<float>(0, 256);
    traced_form f{"lengths", node.trace(0, trace_lengths{x, y}, {4, 64, 0}), {}};
    f.expected.of(traced_access::load, memory_space::local) = {8 * 31, 8 * (31 * 32 / 2)};
    f.expected.of(traced_access::store, memory_space::local) = {8, 256};
    forms.push_back(f);
  }
  {
    const std::uint64_t warps = 6;
    const std::uint64_t lanes = 32 * warps;
    kernel::region_options o;
    for (std::uint32_t d = 0; d <= node.devices(); ++d) {
      o.boundaries.push_back((lanes + 16) * d / node.devices());
    }
    const auto region = node.template create_region<float>(o);
    const auto sums = node.template create_reduction<float, combine::add>(32, 2);
    const auto everywhere = node.template allocate_unified<float>(lanes * 32);
    const auto counters = node.template allocate<std::uint32_t>(0, 1010);
    const trace_views kernel{node.view(region, 0), everywhere, counters, node.view(sums, 0)};
    traced_form f{"views", node.trace(0, kernel, {2, 96, 96 * sizeof(float)}), {}};
    f.expected.of(traced_access::load, memory_space::replicated) = {warps + 2 * warps, 2 * lanes};
    f.expected.of(traced_access::load, memory_space::reduced) = {warps, lanes};
    f.expected.of(traced_access::load, memory_space::local) = {warps, lanes};
    f.expected.of(traced_access::load, memory_space::unified) = {lanes / 2, lanes / 2};
    f.expected.of(traced_access::store, memory_space::replicated) = {warps, lanes};
    f.expected.of(traced_access::store, memory_space::unified) = {lanes / 2, lanes / 2};
    f.expected.of(traced_access::atomic, memory_space::local) = {warps + 32 * warps, 2 * lanes};
    f.expected.of(traced_access::atomic, memory_space::reduced) = {warps, 3 * warps};
    forms.push_back(f);
  }
  return forms;
}

// --- workloads -----------------------------------------------------------------------------------

// A node that traces its launches, one after another.
template <class Node>
class tracer {
 public:
  explicit tracer(Node& node) : node_(node) {}

  const trace_totals& totals() const { return totals_; }
  // The totals of each kernel, by the kernel's short name.
  const std::map<std::string, trace_totals>& kernels() const { return kernels_; }

  std::uint32_t devices() const { return node_.devices(); }
  template <class T>
  local<T> allocate(std::uint32_t device, std::uint64_t n) {
    return node_.template allocate<T>(device, n);
  }
  template <class T>
  void upload(const local<T>& to, const std::vector<T>& values) {
    node_.upload(to, values);
  }
  template <class T>
  kernel::region<T> create_region(kernel::region_options o) {
    return node_.template create_region<T>(std::move(o));
  }
  template <class T, combine Op>
  kernel::reduction<T, Op> create_reduction(std::uint64_t n, std::uint32_t copies) {
    return node_.template create_reduction<T, Op>(n, copies);
  }
  template <class Item, class T>
  void set_front(const Item& item, const std::vector<T>& values) {
    node_.set_front(item, values);
  }
  template <class Item>
  auto front(const Item& item, std::uint32_t device) const {
    return node_.front(item, device);
  }
  template <class Item>
  auto view(const Item& item, std::uint32_t device) const {
    return node_.view(item, device);
  }
  template <class Kernel>
  void launch(std::uint32_t device, const Kernel& functor, grid shape) {
    const trace_totals found = node_.trace(device, functor, shape);
    totals_ += found;
    kernels_[kernel::short_type_name(typeid(Kernel).name())] += found;
  }
  template <class Kernel, class T>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape, const kernel::region<T>&,
              const kernel::block_mapping&) {
    launch(device, kernel, shape);
  }
  void call(std::uint32_t device, const kernel::library_call& c) {
    node_.run([&] { node_.call(device, c); });
  }
  template <class... Item>
  void exchange(const Item&... items) {
    node_.run([&] { node_.exchange(items...); });
  }
  template <class F>
  void run(F&& enqueue) {
    enqueue();
  }
  friend auto plan_fft(const tracer& t, std::uint32_t device,
                       const kernel::fft& f) requires requires {
    plan_fft(t.node_, device, f);
  }
  { return plan_fft(t.node_, device, f); }

 private:
  Node& node_;
  trace_totals totals_;
  std::map<std::string, trace_totals> kernels_;
};

struct traced_workload {
  std::string name;
  trace_totals totals;
  std::map<std::string, trace_totals> kernels;
};

// A graph with the in-edges of each vertex in a row. The lengths of its rows differ greatly, and
// some rows are longer than a unit of rank_update. Some vertices have no out-edges.
struct skewed_graph {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint32_t> columns;
  std::vector<std::uint32_t> out_degree;

  skewed_graph(std::uint32_t vertices, std::uint32_t edges)
      : offsets(vertices + 1, 0), columns(edges), out_degree(vertices, 0) {
    std::uint64_t state = 12345;
    const auto next = [&] {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return static_cast<std::uint32_t>(state >> 33U);
    };
    std::vector<std::pair<std::uint32_t, std::uint32_t>> list;  // pairs of target and source
    for (std::uint32_t e = 0; e < edges; ++e) {
      const std::uint32_t target = e % 40 == 0 ? 7 : next() % (1 + next() % vertices);
      list.emplace_back(target, next() % (vertices - vertices / 10));
    }
    for (const auto& [target, source] : list) {
      ++offsets[target + 1];
      ++out_degree[source];
    }
    for (std::uint32_t v = 0; v < vertices; ++v) offsets[v + 1] += offsets[v];
    std::vector<std::uint64_t> at(offsets.begin(), offsets.end() - 1);
    for (const auto& [target, source] : list) columns[at[target]++] = source;
  }
};

// Many users rate few items, and most users rate the first item. The ratings are stored twice: once
// in the order of users, and once in the order of items.
struct skewed_ratings {
  struct side {
    std::vector<std::uint64_t> offsets;
    std::vector<std::uint32_t> others;
    std::vector<float> values;
  };
  side users, items;

  skewed_ratings(std::uint32_t user_count, std::uint32_t item_count, std::uint32_t each) {
    std::vector<std::vector<std::uint32_t>> of_item(item_count);
    users.offsets.push_back(0);
    std::uint64_t state = 777;
    for (std::uint32_t u = 0; u < user_count; ++u) {
      for (std::uint32_t k = 0; k < 1 + u % (2 * each); ++k) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        const auto drawn = static_cast<std::uint32_t>(state >> 33U);
        const std::uint32_t item = drawn % (1 + (drawn >> 16U) % item_count);
        users.others.push_back(item);
        of_item[item].push_back(u);
      }
      users.offsets.push_back(users.others.size());
    }
    items.offsets.push_back(0);
    for (const auto& of : of_item) {
      items.others.insert(items.others.end(), of.begin(), of.end());
      items.offsets.push_back(items.others.size());
    }
    users.values.assign(users.others.size(), 3.0F);
    items.values.assign(items.others.size(), 3.0F);
  }

  workload::rating_matrix view() const {
    return {users.offsets.size() - 1, items.offsets.size() - 1, users.offsets.data(),
            users.others.data(),      users.values.data(),      items.offsets.data(),
            items.others.data(),      items.values.data()};
  }
};

// Calls visit(name, work) for each workload. work(node) runs this workload on the only device of a
// node.
template <class Visit>
void each_workload(Visit visit) {
  visit("pagerank", [](auto& node) {
    const skewed_graph g(20'000, 400'000);
    kernel::region_options o;
    o.boundaries = {0, g.out_degree.size()};
    workload::pagerank work(
        node, {g.out_degree.size(), g.offsets.data(), g.columns.data(), g.out_degree.data()}, o,
        0.85F);
    node.run([&] {
      work.enqueue_iteration(false);
      work.enqueue_iteration(true);
    });
  });
  visit("jacobi", [](auto& node) {
    const std::uint32_t rows = 5003;
    const std::uint32_t half = 6;
    const std::vector<float> diagonals(std::size_t{2 * half + 1} * rows, 1.0F);
    const std::vector<float> right(rows, 1.0F);
    kernel::region_options o;
    o.boundaries = {0, rows};
    workload::jacobi work(node, {rows, half, diagonals.data(), right.data()}, o, false);
    node.run([&] {
      work.enqueue_iteration(false);
      work.enqueue_iteration(true);
    });
  });
  visit("sssp", [](auto& node) {
    const skewed_graph g(20'000, 400'000);
    std::vector<float> weights(g.columns.size());
    for (std::size_t e = 0; e < weights.size(); ++e) weights[e] = static_cast<float>(1 + e % 7);
    kernel::region_options o;
    o.boundaries = {0, g.out_degree.size()};
    workload::sssp work(
        node, {g.out_degree.size(), g.offsets.data(), g.columns.data(), weights.data()}, o, 3);
    node.run([&] {
      work.enqueue_iteration(false);
      work.enqueue_iteration(true);
    });
  });
  visit("als", [](auto& node) {
    using node_type = std::remove_reference_t<decltype(node)>;
    const skewed_ratings r(600, 150, 20);
    const std::uint64_t rank = 16;
    kernel::region_options users;
    users.boundaries = {0, rank * (r.users.offsets.size() - 1)};
    kernel::region_options items;
    items.boundaries = {0, rank * (r.items.offsets.size() - 1)};
    workload::als<node_type, 16> work(node, r.view(), users, items, 0.05F);
    work.reset({std::vector<float>(users.boundaries[1], 0.5F),
                std::vector<float>(items.boundaries[1], 0.5F)});
    node.run([&] { work.enqueue_iteration(true); });
  });
  visit("ct", [](auto& node) {
    const auto iterate = [&](std::uint32_t size, std::uint32_t angles, std::uint32_t subsets) {
      const std::uint32_t detectors = workload::least_detectors(size);
      const std::vector<float> of_rays(std::size_t{angles} * detectors, 1.0F);
      const std::vector<float> of_pixels(std::size_t{size} * size, 1000.0F);
      kernel::region_options o;
      o.boundaries = {0, of_pixels.size()};
      workload::ct work(node,
                        {size, angles, detectors, subsets, 1.0F, of_rays.data(), of_rays.data(),
                         of_pixels.data()},
                        o);
      node.run([&] { work.enqueue_iteration(true); });
    };
    iterate(250, 6, 2);
    iterate(90, 34, 1);  // with so many angles, teams of warps share them
  });
  for (const bool heat : {true, false}) {
    visit(heat ? "diffusion" : "burgers", [heat](auto& node) {
      const workload::grid_shape shape{12, 13, 35};
      std::vector<float> values(shape.points());
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i % 17) / 17 - 0.5F;
      }
      kernel::region_options o;
      o.boundaries = {0, values.size()};
      using workload::diffusion_equation;
      workload::diffusion work(
          node,
          {shape, values.data(), heat ? diffusion_equation::heat : diffusion_equation::burgers,
           0.1F, 1},
          o);
      node.run([&] { work.enqueue_iteration(false); });
    });
  }
  visit("eqwp", [](auto& node) {
    const workload::grid_shape shape{10, 17, 33};
    const std::vector<float> velocity(3 * shape.points(), 1.0F);
    const std::vector<workload::elastic_plane> medium(shape.planes, {0.1F, 0.1F, 1.0F});
    kernel::region_options o;
    o.boundaries = {0, velocity.size()};
    workload::eqwp work(node, {shape, velocity.data(), medium.data()}, o);
    node.run([&] { work.enqueue_iteration(false); });
  });
  visit("hit", [](auto& node) {
    const std::uint32_t n = 20;
    const workload::hit_problem problem{{n, nullptr, 0.05F, 0.01F}};
    const std::vector<float> velocity(problem.elements(), 1e-3F);
    kernel::region_options o;
    o.boundaries = {0, problem.elements()};
    auto work = workload::hit_problem{{n, velocity.data(), 0.05F, 0.01F}}.on(node, o);
    node.run([&] { work.enqueue_iteration(false); });
  });
  visit("stencil", [](auto& node) {
    stencil s(node, 4096, 130, kernel::mechanism::bulk_copy);
    s.set(std::vector<float>(std::size_t{4096} * 130, 1.0F));
    node.run([&] { s.enqueue_step(); });
  });
  visit("bitonic", [](auto& node) {
    std::vector<std::uint32_t> keys(std::size_t{1} << 14U);
    for (std::uint32_t i = 0; i < keys.size(); ++i) keys[i] = i * 2654435761U;
    const auto array = node.template allocate<std::uint32_t>(0, keys.size());
    node.upload(array, keys);
    node.run([&] { enqueue_bitonic_sort(node, 0, array); });
  });
  visit("spmv", [](auto& node) {
    const auto a = random_matrix(5003, 40, 3);
    spmv s(node, a, kernel::mechanism::bulk_copy);
    s.set(std::vector<float>(a.rows(), 1.0F));
    node.run([&] { s.enqueue_step(); });
  });
}

template <class Node>
std::vector<traced_workload> trace_workloads(Node& node) {
  std::vector<traced_workload> all;
  each_workload([&](const char* name, const auto& work) {
    tracer<Node> traced(node);
    work(traced);
    all.push_back({name, traced.totals(), traced.kernels()});
  });
  return all;
}

}  // namespace interlace::probe
