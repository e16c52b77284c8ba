// Updates of a partitioned array at random places: a kernel, and a plain loop that makes the same
// updates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "interlace/kernel.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::probes {

inline std::uint64_t mixed_bits(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

// Lane k, counted over all devices, makes `each` updates. Update j goes to elements[k * each + j].
template <class T, combine Op>
struct scattered_updates_kernel {
  static constexpr std::uint32_t threads = 128;

  partitioned<T, Op> table;
  local<const std::uint64_t> elements;
  local<const T> values;
  std::uint32_t each = 0;
  bool by_warps = false;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const auto work = [&](auto lane) {
      const std::uint64_t first = lane.global_index() * each;
      for (auto k :
           lane.range(first, first + each < elements.size ? first + each : elements.size)) {
        lane.update(table, lane.load_index(elements, k), lane.load(values, k));
      }
    };
    if (by_warps) {
      block.each_warp([&](auto warp) { warp.each(work); });
    } else {
      block.each(work);
    }
  }
};

template <class T, combine Op>
struct scattered_updates {
  static constexpr std::uint32_t each = 5;

  std::vector<std::uint64_t> boundaries;
  std::vector<std::vector<std::uint64_t>> elements;  // one list for each device
  std::vector<std::vector<T>> values;

  // Makes random updates. The first `hot` elements get half of all updates.
  scattered_updates(std::uint32_t devices, std::uint64_t size, std::uint64_t count,
                    std::uint64_t hot) {
    for (std::uint32_t d = 0; d <= devices; ++d) boundaries.push_back(size * d / devices);
    for (std::uint32_t d = 0; d < devices; ++d) {
      elements.emplace_back();
      values.emplace_back();
      for (std::uint64_t k = 0; k < count; ++k) {
        const std::uint64_t random = mixed_bits(d * count + k + 1);
        const std::uint64_t element = k % 2 == 0 ? random % size : random % std::min(size, hot);
        elements.back().push_back(element);
        // All stores to one element store the same value, so the order of the stores does not
        // matter.
        values.back().push_back(
            static_cast<T>(mixed_bits(Op == combine::store ? element : random + 7) % 1000));
      }
    }
  }

  std::vector<T> expected(std::uint32_t epochs) const {
    std::vector<T> table(boundaries.back(), T{5});
    for (std::uint32_t e = 0; e < epochs; ++e) {
      for (std::size_t d = 0; d < elements.size(); ++d) {
        for (std::size_t k = 0; k < elements[d].size(); ++k) {
          T& at = table[elements[d][k]];
          at = combine_values<T, Op>(at, values[d][k]);
        }
      }
    }
    return table;
  }

  template <class Node>
  std::vector<T> run(Node& node, kernel::region_options options, std::uint32_t epochs,
                     bool by_warps) const {
    const auto devices = static_cast<std::uint32_t>(elements.size());
    options.boundaries = boundaries;
    const auto table = node.template create_partition<T, Op>(options);
    std::vector<local<std::uint64_t>> places;
    std::vector<local<T>> numbers;
    for (std::uint32_t d = 0; d < devices; ++d) {
      node.set_part(table, d, std::vector<T>(boundaries[d + 1] - boundaries[d], T{5}));
      places.push_back(node.template allocate<std::uint64_t>(d, elements[d].size()));
      numbers.push_back(node.template allocate<T>(d, values[d].size()));
      node.upload(places.back(), elements[d]);
      node.upload(numbers.back(), values[d]);
    }
    node.run([&] {
      for (std::uint32_t e = 0; e < epochs; ++e) {
        for (std::uint32_t d = 0; d < devices; ++d) {
          const scattered_updates_kernel<T, Op> k{node.view(table, d), places[d], numbers[d], each,
                                                  by_warps};
          const std::uint64_t lanes = (elements[d].size() + each - 1) / each;
          node.launch(d, k, {(lanes + k.threads - 1) / k.threads, k.threads}, table);
        }
        node.exchange(table);
      }
    });
    std::vector<T> found;
    for (std::uint32_t d = 0; d < devices; ++d) {
      const auto part = node.part(table, d);
      found.insert(found.end(), part.begin(), part.end());
    }
    return found;
  }
};

// A kernel whose last lane updates an element beyond the end of the array.
struct update_beyond {
  static constexpr std::uint32_t threads = 64;
  partitioned<std::uint64_t, combine::add> table;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const bool last = lane.global_index() + 1 == lane.global_count();
      lane.update(table, last ? table.size + 6 : lane.global_index(), 1U);
    });
  }
};

}  // namespace interlace::probes
