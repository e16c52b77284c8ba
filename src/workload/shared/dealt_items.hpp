// Items that are divided among the devices. An item can update elements of any owner.
#pragma once

#include <cstdint>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/kernel/region.hpp"
#include "workload/shared/parts.hpp"

namespace interlace::workload {

// The number of a device's first item, if there are `items` items. A device has consecutive items.
inline std::uint64_t first_item(std::uint64_t items, std::uint32_t device, std::uint32_t devices) {
  return items * device / devices;
}

// Copies each device's part of an array to that device. The array has `width` values for each item.
template <class Node, class T>
std::vector<local<T>> deal(Node& node, const array_view<T>& values, std::uint64_t width = 1) {
  std::vector<local<T>> dealt;
  const std::uint64_t items = values.size() / width;
  for (std::uint32_t d = 0; d < node.devices(); ++d) {
    const T* first = values.begin() + width * first_item(items, d, node.devices());
    const T* end = values.begin() + width * first_item(items, d + 1, node.devices());
    dealt.push_back(put(node, d, std::vector<T>(first, end)));
  }
  return dealt;
}

// Sets the size of the queues of update packets. The expected number of updates is what an owner
// gets from one device in an epoch if all owners get equal shares. A queue has room for one and a
// half times this number.
inline kernel::region_options with_queues(kernel::region_options o, std::uint64_t all_updates) {
  const std::uint64_t devices = o.boundaries.size() - 1;
  o.queued_updates = all_updates / devices / devices * 3 / 2 + 4096;
  return o;
}

// The number of items of a lane. With windows, a warp fills many packets. Such a warp gets more
// items, so that most of its packets are full.
template <class T, combine Op>
std::uint64_t items_a_lane(std::uint64_t usual, const partitioned<T, Op>& view) {
  return view.queues.windows == 1 ? usual : 4 * usual;
}

// Returns an array of all elements. Elements of other devices are 0.
template <class T>
std::vector<float> values_of_part(const std::vector<T>& part, std::uint64_t first,
                                  std::uint64_t elements) {
  std::vector<float> values(elements);
  for (std::uint64_t i = 0; i < part.size(); ++i) values[first + i] = static_cast<float>(part[i]);
  return values;
}

}  // namespace interlace::workload
