// Chooses the fastest way to move a batch of blocks. The choice follows from the time that each way
// takes for blocks of that size on a machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace::plan {

enum class block_way : std::uint8_t {
  kernel,        // one kernel that reads or writes the host's memory over the link
  driver_batch,  // cuMemcpyBatchAsync
  copies,        // a plain copy for each block
};
inline constexpr std::size_t block_ways = 3;

enum class block_direction : std::uint8_t { to_gpu, to_host, inside };
inline constexpr std::size_t block_directions = 3;

// The names of ways and directions in profiles and reports.
const char* name_of(block_way way);
const char* name_of(block_direction direction);

// The costs of a way. A batch of blocks of one size takes start_us + blocks * block_us.
struct way_cost {
  double start_us = 0;
  double block_us = 0;

  double time_us(double blocks) const { return start_us + blocks * block_us; }
};

// The measurements with blocks of one size.
struct block_class {
  std::uint64_t bytes = 0;
  std::array<way_cost, block_ways> ways;  // one for each block_way
  // The fewest thread blocks with which the kernel reaches its full speed.
  unsigned thread_blocks = 8;
};

// For each direction, the classes in ascending order of bytes. Each direction has at least one
// class.
struct block_costs {
  std::array<std::vector<block_class>, block_directions> classes;
};

// The costs on an H200. They were measured on one H200 with driver 580.159, by a program that calls
// only the driver. The numbers of thread blocks are the smallest whose time is within 2 % of the
// best time, for 16 MiB and more. Fewer thread blocks slow down other kernels less.
const block_costs& costs_of_h200();

// The costs for blocks of any size, interpolated between two classes. `all` must have at least one
// class.
block_class class_at(const std::vector<block_class>& all, double bytes);

struct block_choice {
  block_way way = block_way::copies;
  unsigned thread_blocks = 0;  // number of thread blocks of the kernel
  // The predicted time of each way, in us.
  std::array<double, block_ways> predicted_us = {};
};

struct block_question {
  block_direction direction = block_direction::to_gpu;
  std::size_t blocks = 0;
  std::uint64_t bytes = 0;  // number of bytes in all blocks together
  bool kernel_possible = true;
  bool driver_batch_possible = true;
  bool copies_possible = true;
  // Whether a program has made the driver batch itself. For such a batch, the kernel is chosen only
  // if it is predicted to be faster.
  bool batch_of_program = false;
  unsigned most_thread_blocks = 0;  // limit for the number of thread blocks; 0 means no limit
};

// Chooses the way that takes the least time. Between two measured sizes, times are interpolated.
block_choice choose_way(const block_costs& costs, const block_question& what);

}  // namespace interlace::plan
