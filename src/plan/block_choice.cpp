#include "plan/block_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace interlace::plan {
namespace {

// A class of measurements: the costs of a kernel, a driver batch and copies for blocks of one size,
// and the number of thread blocks of the kernel.
block_class measured(std::uint64_t bytes, way_cost kernel, way_cost driver_batch, way_cost copies,
                     unsigned thread_blocks) {
  return {bytes, {{kernel, driver_batch, copies}}, thread_blocks};
}

// A driver batch must take at most this share of the kernel's time. A smaller predicted gain is
// within the error of predictions.
constexpr double worth_a_batch = 0.99;

}  // namespace

const block_costs& costs_of_h200() {
  static const block_costs all = [] {
    block_costs made;
    made.classes[0] = {measured(512, {14, 0.0113}, {9, 1.5}, {4, 2.7}, 16),
                       measured(2048, {14, 0.0414}, {9, 1.6}, {4, 2.9}, 8),
                       measured(4096, {14, 0.0815}, {9, 1.8}, {4, 2.9}, 8),
                       measured(16384, {14, 0.321}, {9, 3}, {4, 3.3}, 4),
                       measured(65536, {14, 1.28}, {9, 2.14}, {4, 4.1}, 4),
                       measured(262144, {14, 5.25}, {9, 5.6}, {4, 8.2}, 4),
                       measured(1048576, {14, 20.5}, {9, 20.2}, {4, 23.8}, 4),
                       measured(4194304, {14, 81.9}, {9, 77.5}, {4, 79.5}, 4)};
    made.classes[1] = {measured(512, {12, 0.0119}, {8, 0.83}, {4, 2.25}, 16),
                       measured(2048, {12, 0.0402}, {8, 0.87}, {4, 2.3}, 8),
                       measured(4096, {12, 0.0797}, {8, 0.95}, {4, 2.3}, 4),
                       measured(16384, {12, 0.3145}, {8, 1.35}, {4, 2.3}, 4),
                       measured(65536, {12, 1.25}, {8, 2.2}, {4, 3.5}, 4),
                       measured(262144, {12, 4.99}, {8, 5.6}, {4, 7.2}, 4),
                       measured(1048576, {12, 20}, {8, 19.7}, {4, 21.4}, 4),
                       measured(4194304, {12, 79.9}, {8, 77}, {4, 78.5}, 4)};
    made.classes[2] = {measured(512, {12, 0.0018}, {8, 0.83}, {4, 2.25}, 64),
                       measured(4096, {12, 0.0037}, {8, 0.95}, {4, 2.3}, 64),
                       measured(65536, {12, 0.037}, {8, 2.2}, {4, 2.3}, 64),
                       measured(1048576, {12, 0.6}, {8, 2.3}, {4, 2.3}, 64)};
    return made;
  }();
  return all;
}

block_class class_at(const std::vector<block_class>& all, double bytes) {
  const auto above = std::upper_bound(
      all.begin(), all.end(), bytes,
      [](double size, const block_class& one) { return size < static_cast<double>(one.bytes); });
  if (above == all.begin()) return all.front();
  if (above == all.end()) {
    block_class made = all.back();
    for (way_cost& one : made.ways) one.block_us *= bytes / static_cast<double>(made.bytes);
    return made;
  }
  const block_class& lower = *(above - 1);
  const double share =
      (bytes - static_cast<double>(lower.bytes)) / static_cast<double>(above->bytes - lower.bytes);
  block_class made = lower;
  for (std::size_t way = 0; way < block_ways; ++way) {
    made.ways[way].start_us += share * (above->ways[way].start_us - lower.ways[way].start_us);
    made.ways[way].block_us += share * (above->ways[way].block_us - lower.ways[way].block_us);
  }
  return made;
}

const char* name_of(block_way way) {
  constexpr std::array<const char*, block_ways> names{"kernel", "driver-batch", "copies"};
  return names.at(static_cast<std::size_t>(way));
}

const char* name_of(block_direction direction) {
  constexpr std::array<const char*, block_directions> names{"host-to-gpu", "gpu-to-host", "inside"};
  return names.at(static_cast<std::size_t>(direction));
}

block_choice choose_way(const block_costs& costs, const block_question& what) {
  block_choice made;
  const auto blocks = static_cast<double>(what.blocks);
  const block_class one = class_at(costs.classes[static_cast<std::size_t>(what.direction)],
                                   blocks == 0 ? 0 : static_cast<double>(what.bytes) / blocks);
  made.thread_blocks = one.thread_blocks;
  double slowdown = 1;
  if (what.most_thread_blocks != 0 && what.most_thread_blocks < made.thread_blocks) {
    // The number of bytes in flight is proportional to the number of thread blocks. The rate is
    // therefore proportional to this number, too.
    slowdown = static_cast<double>(made.thread_blocks) / what.most_thread_blocks;
    made.thread_blocks = what.most_thread_blocks;
  }
  double least = std::numeric_limits<double>::max();
  for (std::size_t way = 0; way < block_ways; ++way) {
    way_cost cost = one.ways[way];
    const bool kernel = static_cast<block_way>(way) == block_way::kernel;
    if (kernel) cost.block_us *= slowdown;
    made.predicted_us[way] = cost.time_us(blocks);
    const std::array<bool, block_ways> possible{what.kernel_possible, what.driver_batch_possible,
                                                what.copies_possible};
    if (!possible[way] || made.predicted_us[way] >= least) continue;
    least = made.predicted_us[way];
    made.way = static_cast<block_way>(way);
  }
  // The host is busy for a part of a driver batch, but not while the kernel runs. The time of a
  // driver batch therefore varies with the host's load, and a small predicted advantage does not
  // count.
  if (made.way == block_way::driver_batch && what.kernel_possible && !what.batch_of_program &&
      least > worth_a_batch * made.predicted_us[0])
    made.way = block_way::kernel;
  return made;
}

}  // namespace interlace::plan
