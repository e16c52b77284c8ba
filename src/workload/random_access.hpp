// Random updates of a table, as in RandomAccess of the HPC Challenge (Luszczek et al., SC 2006).
// Update number k has the value
//
//   a(k) = x^k modulo x^64 + x^2 + x + 1, as a 64-bit word.
//
// The update combines a(k) by exclusive or with the entry whose number is a(k) modulo the table's
// size. At the start, entry i is i. The run ends after four updates for each entry of the table. A
// second operation stores a value instead of combining it. The stored value is a hash of the
// entry's number, so the order of stores does not matter.
//
// The table is a partitioned array. The sequence of updates is cut into one contiguous stretch for
// each lane of all devices. A lane makes a part of its stretch in each epoch. An update costs a few
// integer operations. If the table is larger than the L2, an update also reads and writes 32 B of
// memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/workload/problem.hpp"
#include "kernel/hpcc_stream.hpp"
#include "workload/shared/chosen.hpp"
#include "workload/shared/dealt_items.hpp"

namespace interlace::workload {

// The value that a store writes to entry `entry`.
INTERLACE_HOST_DEVICE std::uint64_t stored_random_access(std::uint64_t entry) {
  return (entry + 1) * 0x9E3779B97F4A7C15U;
}

template <combine Op>
struct random_access_updates {
  static constexpr std::uint32_t threads = 256;

  partitioned<std::uint64_t, Op> table;
  local<std::uint64_t> words;  // for each lane, the word before the lane's next update
  std::uint32_t updates = 0;   // updates of a lane in an epoch

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t l = lane.global_index();
      if (l >= words.size) return;
      std::uint64_t word = lane.load(words, l);
      for ([[maybe_unused]] auto k : lane.range(0U, updates)) {
        word = kernel::hpcc::next(word);
        const std::uint64_t entry = word & (table.size - 1);
        lane.compute(operation::integer, 12 + 3 * table.devices);
        lane.update(table, entry, Op == combine::store ? stored_random_access(entry) : word);
      }
      lane.store(words, l, word);
    });
  }
};

template <class Node, combine Op>
class random_access {
 public:
  random_access(Node& node, std::uint64_t entries, const array_view<std::uint64_t>& starts,
                std::uint32_t updates, kernel::region_options options)
      : node_(node),
        entries_(entries),
        starts_(starts),
        updates_(updates),
        boundaries_(options.boundaries),
        table_(node.template create_partition<std::uint64_t, Op>(
            with_queues(std::move(options), starts.size() * updates))),
        words_(deal(node, starts)) {
    reset();
  }

  void reset() {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      std::vector<std::uint64_t> part(boundaries_[d + 1] - boundaries_[d]);
      for (std::uint64_t i = 0; i < part.size(); ++i) part[i] = boundaries_[d] + i;
      node_.set_part(table_, d, part);
      const std::uint64_t* first = starts_.begin() + first_item(starts_.size(), d, node_.devices());
      node_.upload(words_[d], std::vector<std::uint64_t>(first, first + words_[d].size));
    }
  }

  void enqueue_iteration(bool track_residual) {
    if (track_residual) {
      throw usage_error(
          "random-access makes a fixed number of updates; give iterations, not a tolerance");
    }
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      using kernel_type = random_access_updates<Op>;
      const kernel_type k{node_.view(table_, d), words_[d], updates_};
      node_.launch(d, k,
                   {(words_[d].size + kernel_type::threads - 1) / kernel_type::threads,
                    kernel_type::threads},
                   table_);
    }
    node_.exchange(table_);
  }

  // Each entry as three numbers: the entry's lowest 22 bits, the next 21 bits, and the highest 21
  // bits. A float holds each of these numbers exactly. Entries of other devices are 0.
  std::vector<float> result(std::uint32_t device) const {
    std::vector<float> values(3 * entries_);
    const std::vector<std::uint64_t> part = node_.part(table_, device);
    for (std::uint64_t i = 0; i < part.size(); ++i) {
      float* of = values.data() + 3 * (boundaries_[device] + i);
      of[0] = static_cast<float>(part[i] & 0x3fffffU);
      of[1] = static_cast<float>(part[i] >> 22U & 0x1fffffU);
      of[2] = static_cast<float>(part[i] >> 43U);
    }
    return values;
  }

  double residual() const { return 0; }

 private:
  Node& node_;
  std::uint64_t entries_;
  array_view<std::uint64_t> starts_;
  std::uint32_t updates_;
  std::vector<std::uint64_t> boundaries_;
  kernel::partition<std::uint64_t, Op> table_;
  std::vector<local<std::uint64_t>> words_;
};

// NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): views are always given
struct random_access_problem {
  static constexpr const char* summary = "random updates of a table";
  static constexpr std::array arguments{"entries", "starts", "updates", "operation"};
  using launching_kernels = kernel_list<>;

  std::uint64_t entries = 0;
  array_view<std::uint64_t> starts;
  std::uint32_t updates = 0;
  bool stores = false;

  static random_access_problem make(std::uint64_t entries, const array_view<std::uint64_t>& starts,
                                    std::uint64_t updates, const std::string& operation) {
    if (entries == 0 || (entries & (entries - 1)) != 0) {
      throw usage_error("a table cannot have " + std::to_string(entries) +
                        " entries; give a power of two");
    }
    if (starts.size() == 0) throw usage_error("there must be a lane that makes updates");
    if (updates == 0 || updates > 0xffffffffU) {
      throw usage_error("a lane cannot make " + std::to_string(updates) + " updates in an epoch");
    }
    if (operation != "xor" && operation != "store") {
      throw usage_error("unknown operation '" + operation + "'; give 'xor' or 'store'");
    }
    return {entries, starts, static_cast<std::uint32_t>(updates), operation == "store"};
  }

  std::uint64_t elements() const { return entries; }

  template <class Node>
  auto on(Node& node, kernel::region_options options) const {
    using combined = random_access<Node, combine::bit_xor>;
    using stored = random_access<Node, combine::store>;
    using work = chosen<combined, stored>;
    return stores ? work(std::in_place_type<stored>, node, entries, starts, updates,
                         std::move(options))
                  : work(std::in_place_type<combined>, node, entries, starts, updates,
                         std::move(options));
  }
};

}  // namespace interlace::workload
