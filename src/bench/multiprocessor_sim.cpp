#include "bench/multiprocessor_sim.hpp"

#include <map>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel/fft.hpp"
#include "interlace/sim/node.hpp"
#include "workload/benchmark/microbenchmark.hpp"

namespace interlace::bench {

namespace multiprocessor {

// A kernel with a given number of instructions. Each instruction needs the result of the previous
// instruction.
template <std::uint32_t Instructions>
struct straight_kernel {
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) { lane.compute(operation::fp32, Instructions); });
  }
};

template <std::uint32_t Registers>
struct gather_kernel {
  local<const float> data;
  local<const std::uint32_t> index;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto i : lane.range(lane.global_index(), index.size, lane.global_count())) {
        lane.load(data, lane.load_index(index, i));
        lane.compute(operation::fp32, 1);
      }
    });
  }
};

}  // namespace multiprocessor
}  // namespace interlace::bench

namespace interlace {
template <std::uint32_t Instructions>
inline constexpr compiled_kernel compiled_as<bench::multiprocessor::straight_kernel<Instructions>>{
    0, Instructions};
template <std::uint32_t Registers>
inline constexpr compiled_kernel compiled_as<bench::multiprocessor::gather_kernel<Registers>>{
    Registers, 0};
}  // namespace interlace

namespace interlace::bench {

namespace {

using multiprocessor::lanes;
using multiprocessor::shape;

constexpr std::uint32_t stream_threads = 256;
constexpr std::uint32_t stream_blocks = 8;  // number of blocks of a multiprocessor
// With this number of registers, all warps fit on a multiprocessor.
constexpr std::uint32_t few_registers = 32;
constexpr std::uint32_t line_words = 32;
constexpr std::uint32_t sector_words = 8;
constexpr std::uint32_t in_flight = 8;  // number of loads that a lane has in flight

std::uint64_t scrambled(std::uint64_t i) {
  i = (i ^ (i >> 30U)) * 0xbf58476d1ce4e5b9U;
  i = (i ^ (i >> 27U)) * 0x94d049bb133111ebU;
  return i ^ (i >> 31U);
}

// --- kernels -------------------------------------------------------------------------------------

struct operation_chain {
  operations step;
  std::uint32_t count = 0;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      lane.compute({.fp32 = count * step.fp32,
                    .fp64 = count * step.fp64,
                    .integer = count * step.integer,
                    .special = count * step.special,
                    .minimum = count * step.minimum});
    });
  }
};

struct shuffle_chain {
  std::uint32_t count = 0;
  template <class Block>
  void operator()(Block& block) const {
    auto state = block.template make_lane_state<std::uint32_t>(0);
    block.each_warp([&](auto warp) {
      for (std::uint32_t k = 0; k < count; ++k) warp.shuffle_xor(state, 1);
    });
  }
};

struct reduction_chain {
  std::uint32_t count = 0;
  template <class Block>
  void operator()(Block& block) const {
    auto state = block.template make_lane_state<std::uint32_t>(0);
    block.each_warp([&](auto warp) {
      for (std::uint32_t k = 0; k < count; ++k) warp.min(state);
    });
  }
};

struct ballot_chain {
  std::uint32_t count = 0;
  template <class Block>
  void operator()(Block& block) const {
    auto state = block.template make_lane_state<bool>(false);
    block.each_warp([&](auto warp) {
      for (std::uint32_t k = 0; k < count; ++k) warp.ballot(state);
    });
  }
};

struct barrier_chain {
  std::uint32_t count = 0;
  template <class Block>
  void operator()(Block& block) const {
    for (std::uint32_t k = 0; k < count; ++k) block.each([](auto) {});
  }
};

// A loop over rows of 32 words. If `apart` is true, each warp has its own rows.
struct row_loop {
  local<const float> data;
  std::uint32_t rows = 0;
  std::uint32_t passes = 0;
  std::uint32_t unroll = 1;
  bool apart = false;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t owner = apart ? lane.global_index() / lanes : block.index();
      const std::uint64_t first = owner * rows * lanes + lane.in_warp();
      for (auto pass : lane.range(0U, passes)) {
        (void)pass;
        for (auto i : lane.carrying(unroll, {.fp32 = 1}, 0U, rows)) {
          lane.load(data, first + i * lanes);
        }
      }
    });
  }
};
struct shared_loop {
  std::uint32_t rows = 0;
  std::uint32_t passes = 0;
  std::uint32_t unroll = 1;
  template <class Block>
  void operator()(Block& block) const {
    const auto own = block.template shared_array<float>(rows * lanes);
    block.each([&](auto lane) {
      for (auto pass : lane.range(0U, passes)) {
        (void)pass;
        for (auto i : lane.carrying(unroll, {.fp32 = 1}, 0U, rows)) {
          lane.load(own, i * lanes + lane.in_warp());
        }
      }
    });
  }
};

// Loads of groups of lanes from scattered lines, like load_lines in multiprocessor_kernels.cuh.
struct line_kernel {
  local<const float> data;
  std::uint32_t lines = 1;
  std::uint32_t offset = 0;
  std::uint32_t rounds = 0;
  static constexpr std::uint32_t block_lines = 256;
  template <class Block>
  void operator()(Block& block) const {
    const std::uint64_t own = block.index() * block_lines * line_words;
    block.each([&](auto lane) {
      for (auto r : lane.range(0U, rounds)) {
        for (auto k : lane.range(0U, in_flight)) {
          const std::uint64_t group = lane.in_warp() / (lanes / lines);
          const std::uint64_t place =
              (std::uint64_t{lane.index()} / lanes * in_flight + k) * lanes + group;
          const std::uint64_t line = scrambled(place + 1) % block_lines + r + 1;
          const std::uint64_t word = line * line_words + lane.in_warp() + offset;
          lane.load(data, own + word % (block_lines * line_words));
        }
        lane.compute(operation::fp32, in_flight);
        lane.compute(operation::integer, 2 * in_flight);
      }
    });
  }
};

// The circle of lines through which a chain of loads goes.
std::vector<std::uint32_t> circle(std::uint64_t lines) {
  std::vector<std::uint32_t> data(lines * line_words);
  for (std::uint64_t i = 0; i < lines; ++i) {
    const std::uint64_t next = (i * 0x5851F42D4C957F2DU + 0x14057B7EF767814FU) & (lines - 1);
    data[i * line_words] = static_cast<std::uint32_t>(next * line_words);
  }
  return data;
}

template <class View>
struct load_chain {
  View data;
  std::uint32_t count = 0;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      auto at = lane.load_index(data, 0U);
      for (auto k : lane.range(1U, count)) {
        (void)k;
        at = lane.load_index(data, at);
      }
    });
  }
};
struct shared_chain {
  std::uint32_t words = 0;
  std::uint32_t count = 0;
  template <class Block>
  void operator()(Block& block) const {
    const auto own = block.template shared_array<std::uint32_t>(words);
    block.each([&](auto lane) {
      if (lane.index() == 0) lane.store(own, 0U, 0);
      auto at = lane.load_index(own, 0U);
      for (auto k : lane.range(1U, count)) {
        (void)k;
        at = lane.load_index(own, at);
      }
    });
  }
};

struct sector_kernel {
  local<const std::uint32_t> data;
  std::uint32_t rounds = 0;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      std::uint64_t at = scrambled(lane.global_index() + 1);
      for (auto r : lane.range(0U, rounds)) {
        (void)r;
        for (auto k : lane.range(0U, in_flight)) {
          (void)k;
          at = scrambled(at + 1);
          lane.load(data, at % (data.size / sector_words) * sector_words);
        }
        lane.compute(operation::integer, in_flight * 20);
      }
    });
  }
};

struct alignas(16) four_words {
  std::uint32_t word[4] = {};
};

// Blocks read steps of `in_flight` rows in turn, as read_again in multiprocessor_kernels.cuh does.
// An element is therefore read by a different block than the block of write_kernel that wrote the
// element.
struct read_kernel {
  local<const four_words> data;
  std::uint32_t passes = 0;
  template <class Block>
  void operator()(Block& block) const {
    constexpr std::uint64_t step = std::uint64_t{in_flight} * stream_threads;
    block.each([&](auto lane) {
      const std::uint64_t blocks = lane.global_count() / stream_threads;
      for (auto pass : lane.range(0U, passes)) {
        (void)pass;
        for (auto s : lane.range(block.index(), data.size / step, blocks)) {
          for (auto k : lane.range(0U, in_flight)) {
            lane.load(data, s * step + k * stream_threads + lane.index());
          }
        }
      }
    });
  }
};

struct copy_kernel {
  local<const four_words> from;
  local<four_words> to;
  template <class Block>
  void operator()(Block& block) const {
    constexpr std::uint64_t step = std::uint64_t{in_flight} * stream_threads;
    block.each([&](auto lane) {
      const std::uint64_t blocks = lane.global_count() / stream_threads;
      for (auto s : lane.range(block.index(), from.size / step, blocks)) {
        const std::uint64_t at = s * step + lane.index();
        for (auto k : lane.range(0U, in_flight)) lane.load(from, at + k * stream_threads);
        for (auto k : lane.range(0U, in_flight)) {
          lane.store(to, at + k * stream_threads, four_words{});
        }
      }
    });
  }
};

struct write_kernel {
  local<four_words> data;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto i : lane.range(lane.global_index(), data.size, lane.global_count())) {
        lane.store(data, i, four_words{});
      }
    });
  }
};

// Stores the first word of each line of a circle.
struct link_kernel {
  local<std::uint32_t> data;
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t lines = data.size / line_words;
      const std::uint64_t i = lane.global_index();
      if (i >= lines) return;
      const std::uint64_t next = (i * 0x5851F42D4C957F2DU + 0x14057B7EF767814FU) & (lines - 1);
      lane.store(data, i * line_words, static_cast<std::uint32_t>(next * line_words));
    });
  }
};

// The operations of a step of a chain. The operations of a division were counted in the machine
// code for compute capability 9.0, in which conversions and reciprocals use the unit for special
// functions.
operations step_of(const std::string& kind) {
  static const std::map<std::string, operations> known{
      {"IADD3", {.integer = 1}},
      {"IMAD", {.integer = 1}},
      {"LOP3", {.integer = 1}},
      {"VIMNMX", {.integer = 1}},
      {"VIMNMX3", {.minimum = 2}},
      {"IMAD.HI", {.integer = 1}},
      {"IMAD.WIDE", {.integer = 1}},
      {"F2I", {.special = 1}},
      {"FFMA", {.fp32 = 1}},
      {"DFMA", {.fp64 = 1}},
      {"MUFU", {.special = 1}},
      {"32-bit integer division", {.integer = 14, .special = 3}},
      {"fp32 division", {.fp32 = 7, .special = 2}},
  };
  const auto found = known.find(kind);
  if (found == known.end()) throw usage_error("there is no chain of " + kind);
  return found->second;
}

std::uint64_t lines_of(const machine::machine& m, std::uint64_t bytes) {
  return bytes / m.gpu.l2.line_bytes;
}

}  // namespace

multiprocessor_on_sim::multiprocessor_on_sim(machine::machine described,
                                             std::function<void()> check_interrupt)
    : described_(std::move(described)), check_interrupt_(std::move(check_interrupt)) {}

template <class Prepare>
double multiprocessor_on_sim::difference_s(const Prepare& prepare, std::uint32_t few,
                                           std::uint32_t many, std::uint32_t gpus) const {
  const auto time_s = [&](std::uint32_t amount) {
    sim::node node(described_, gpus, check_interrupt_);
    const auto enqueue = prepare(node);
    return node.run([&] { enqueue(amount); }).time_s;
  };
  return time_s(many) - time_s(few);
}

double multiprocessor_on_sim::chain_clocks(const std::string& kind, std::uint32_t warps) const {
  constexpr std::uint32_t few = 64;
  constexpr std::uint32_t many = 192;
  const shape s = shape::of(warps);
  const grid whole{std::uint64_t{described_.gpu.compute_units} * s.blocks, s.threads, 0};
  const double time_s = difference_s(
      [&](sim::node& node) {
        return [&](std::uint32_t count) {
          if (kind == "SHFL") {
            node.launch(0, shuffle_chain{count}, whole);
          } else if (kind == "REDUX") {
            node.launch(0, reduction_chain{count}, whole);
          } else if (kind == "VOTE") {
            node.launch(0, ballot_chain{count}, whole);
          } else if (kind == "barrier") {
            node.launch(0, barrier_chain{count}, whole);
          } else {
            node.launch(0, operation_chain{step_of(kind), count}, whole);
          }
        };
      },
      few, many);
  return clocks(time_s) / (many - few);
}

double multiprocessor_on_sim::loop_clocks(loaded_from from, std::uint32_t unroll,
                                          std::uint32_t warps) const {
  constexpr std::uint32_t rows = 32;
  const shape s = shape::of(warps);
  const std::uint64_t blocks = std::uint64_t{described_.gpu.compute_units} * s.blocks;
  if (from == loaded_from::shared) {
    const double time_s = difference_s(
        [&](sim::node& node) {
          return [&](std::uint32_t passes) {
            constexpr std::uint32_t bytes = rows * lanes * sizeof(float);
            node.launch(0, shared_loop{rows, passes, unroll}, {blocks, s.threads, bytes});
          };
        },
        1, 3);
    return clocks(time_s) / (2 * rows);
  }
  // To measure the L1, a kernel loads the rows several times. To measure the L2, several kernels
  // load the rows once each, because every kernel begins with empty L1s.
  const bool apart = from == loaded_from::l2;
  const auto of_rows = [&](std::uint32_t used) {
    return [&, used](sim::node& node) {
      const std::uint64_t owners = apart ? blocks * s.threads / lanes : blocks;
      const auto data = node.allocate<float>(0, owners * used * lanes);
      node.upload(data, std::vector<float>(data.size));
      return [&, used, data](std::uint32_t count) {
        const local<const float> from_here{data.data, data.size};
        const std::uint32_t launches = apart ? count : 1;
        for (std::uint32_t k = 0; k < launches; ++k) {
          node.launch(0, row_loop{from_here, used, apart ? 1 : count, unroll, apart},
                      {blocks, s.threads, 0});
        }
      };
    };
  };
  if (!apart) return clocks(difference_s(of_rows(rows), 2, 4)) / (2 * rows);
  // The difference of these two differences no longer contains the time that a kernel takes to
  // start.
  const double long_s = difference_s(of_rows(rows), 1, 2);
  const double short_s = difference_s(of_rows(rows / 2), 1, 2);
  constexpr std::uint32_t half = rows / 2;
  return clocks(long_s - short_s) / half;
}

double multiprocessor_on_sim::chase_clocks(loaded_from from, std::uint64_t bytes,
                                           bool just_written) const {
  constexpr std::uint32_t few = 256;
  constexpr std::uint32_t many = 768;
  const std::uint64_t lines = lines_of(described_, bytes);
  if (lines < 2 || (lines & (lines - 1)) != 0)
    throw usage_error("a circle needs a power of two of lines");
  if (from == loaded_from::shared) {
    const auto words = static_cast<std::uint32_t>(bytes / sizeof(std::uint32_t));
    const double time_s = difference_s(
        [&](sim::node& node) {
          return [&](std::uint32_t count) {
            node.launch(0, shared_chain{words, count},
                        {1, lanes, static_cast<std::uint32_t>(bytes)});
          };
        },
        few, many);
    return clocks(time_s) / (many - few);
  }
  // A kernel before the measured kernel brings the lines into the L2, if the lines fit there.
  const bool second = from == loaded_from::l2 && bytes <= described_.gpu.l2.bytes;
  const auto values = circle(lines);
  const auto prepare = [&](sim::node& node) {
    const auto data = node.allocate<std::uint32_t>(0, lines * line_words);
    node.upload(data, values);
    return [&, data](std::uint32_t count) {
      using chain = load_chain<local<const std::uint32_t>>;
      const local<const std::uint32_t> from_here{data.data, data.size};
      if (just_written) {
        node.launch(0, link_kernel{data},
                    {(lines + stream_threads - 1) / stream_threads, stream_threads, 0});
      } else if (second) {
        node.launch(0, chain{from_here, many}, {1, lanes, 0});
      }
      node.launch(0, chain{from_here, count}, {1, lanes, 0});
    };
  };
  return clocks(difference_s(prepare, few, many)) / (many - few);
}

// Does the same as chase_clocks, with lines in the second GPU's memory. A kernel before the
// measured kernel brings the lines into the second GPU's L2.
double multiprocessor_on_sim::peer_chase_clocks(std::uint64_t bytes) const {
  constexpr std::uint32_t few = 256;
  constexpr std::uint32_t many = 768;
  const auto values = circle(lines_of(described_, bytes));
  const auto prepare = [&](sim::node& node) {
    const auto data =
        node.allocate_unified<std::uint32_t>(values.size(), kernel::page_placement::on(1));
    node.upload(data, values);
    return [&, data](std::uint32_t count) {
      using chain = load_chain<unified<std::uint32_t>>;
      node.launch(0, chain{data, many}, {1, lanes, 0});
      node.launch(0, chain{data, count}, {1, lanes, 0});
    };
  };
  return clocks(difference_s(prepare, few, many, 2)) / (many - few);
}

double multiprocessor_on_sim::small_kernel_s(std::uint32_t instructions,
                                             std::uint32_t kernels) const {
  constexpr std::uint32_t few = 8;
  constexpr std::uint32_t many = 24;
  (void)kernels;
  const auto prepare = [&](sim::node& node) {
    return [&](std::uint32_t count) {
      for (std::uint32_t k = 0; k < count; ++k) {
        const grid shape{described_.gpu.compute_units, stream_threads, 0};
        switch (instructions) {
          case 0:
            node.launch(0, multiprocessor::straight_kernel<0>{}, shape);
            break;
          case 50:
            node.launch(0, multiprocessor::straight_kernel<50>{}, shape);
            break;
          case 200:
            node.launch(0, multiprocessor::straight_kernel<200>{}, shape);
            break;
          case 500:
            node.launch(0, multiprocessor::straight_kernel<500>{}, shape);
            break;
          case 1000:
            node.launch(0, multiprocessor::straight_kernel<1000>{}, shape);
            break;
          default:
            throw usage_error("no small kernel has " + std::to_string(instructions) +
                              " instructions; give 0, 50, 200, 500 or 1000");
        }
      }
    };
  };
  return difference_s(prepare, few, many) / (many - few);
}

double multiprocessor_on_sim::block_s() const {
  constexpr std::uint64_t few = 64;  // number of blocks of a multiprocessor
  constexpr std::uint64_t many = 192;
  const std::uint64_t units = described_.gpu.compute_units;
  const auto prepare = [&](sim::node& node) {
    return [&](std::uint32_t blocks) {
      node.launch(0, multiprocessor::straight_kernel<0>{}, {units * blocks, stream_threads, 0});
    };
  };
  return difference_s(prepare, few, many) / static_cast<double>((many - few) * units);
}

double multiprocessor_on_sim::exchange_s(std::uint32_t sums) const {
  constexpr std::uint32_t few = 4;
  constexpr std::uint32_t many = 12;
  const auto time_s = [&](std::uint32_t epochs) {
    sim::node node(described_, 1, check_interrupt_);
    return workload::run_exchanges(node, sums, {epochs, 1}).back().time_s;
  };
  return (time_s(many) - time_s(few)) / (many - few);
}

double multiprocessor_on_sim::gathers_per_s(std::uint32_t registers, std::uint64_t bytes) const {
  constexpr std::uint64_t indexes = std::uint64_t{1} << 20U;
  const std::uint64_t elements = bytes / sizeof(float);
  std::vector<std::uint32_t> at(indexes);
  for (std::uint64_t i = 0; i < indexes; ++i) {
    at[i] = static_cast<std::uint32_t>(scrambled(i + 1) % elements);
  }
  const auto prepare = [&](sim::node& node) {
    const auto data = node.allocate<float>(0, elements);
    const auto index = node.allocate<std::uint32_t>(0, indexes);
    node.upload(index, at);
    return [&, data, index](std::uint32_t launches) {
      for (std::uint32_t k = 0; k < launches; ++k) {
        const local<const float> from{data.data, data.size};
        const local<const std::uint32_t> by{index.data, index.size};
        const std::uint32_t blocks = stream_blocks * few_registers / registers;
        const grid shape{std::uint64_t{described_.gpu.compute_units} * blocks, stream_threads, 0};
        if (registers == few_registers) {
          node.launch(0, multiprocessor::gather_kernel<few_registers>{from, by}, shape);
        } else if (registers == 2 * few_registers) {
          node.launch(0, multiprocessor::gather_kernel<2 * few_registers>{from, by}, shape);
        } else {
          node.launch(0, multiprocessor::gather_kernel<4 * few_registers>{from, by}, shape);
        }
      }
    };
  };
  return static_cast<double>(indexes) / difference_s(prepare, 1, 2);
}

double multiprocessor_on_sim::sectors_per_s(std::uint64_t bytes) const {
  const std::uint64_t blocks = std::uint64_t{described_.gpu.compute_units} * stream_blocks;
  const auto prepare = [&](sim::node& node) {
    const auto data = node.allocate<std::uint32_t>(0, bytes / sizeof(std::uint32_t));
    return [&, data](std::uint32_t rounds) {
      const grid all{blocks, stream_threads, 0};
      // This launch fills the L2.
      node.launch(
          0, read_kernel{{reinterpret_cast<const four_words*>(data.data), data.size / 4}, 1}, all);
      node.launch(0, sector_kernel{{data.data, data.size}, rounds}, all);
    };
  };
  return static_cast<double>(blocks * stream_threads * in_flight) / difference_s(prepare, 1, 2);
}

double multiprocessor_on_sim::reads_per_s(std::uint64_t bytes) const {
  const auto prepare = [&](sim::node& node) {
    const auto data = node.allocate<four_words>(0, bytes / sizeof(four_words));
    return [&, data](std::uint32_t launches) {
      for (std::uint32_t k = 0; k < launches; ++k) {
        node.launch(0, read_kernel{{data.data, data.size}, 1},
                    {described_.gpu.compute_units * stream_blocks, stream_threads, 0});
      }
    };
  };
  return static_cast<double>(bytes) / difference_s(prepare, 2, 3);
}

double multiprocessor_on_sim::line_load_clocks(std::uint32_t lines, std::uint32_t offset) const {
  constexpr std::uint32_t few = 4;
  constexpr std::uint32_t many = 12;
  constexpr std::uint32_t warps = 16;  // number of warps of a sub-core
  const shape s = shape::of(warps);
  const std::uint64_t blocks = std::uint64_t{described_.gpu.compute_units} * s.blocks;
  const double time_s = difference_s(
      [&](sim::node& node) {
        const auto data = node.allocate<float>(0, blocks * line_kernel::block_lines * line_words);
        return [&, data](std::uint32_t rounds) {
          node.launch(0, line_kernel{{data.data, data.size}, lines, offset, rounds},
                      {blocks, s.threads, 0});
        };
      },
      few, many);
  return clocks(time_s) / ((many - few) * in_flight * warps * multiprocessor::sub_cores);
}

double multiprocessor_on_sim::copies_per_s(std::uint64_t bytes) const {
  const auto prepare = [&](sim::node& node) {
    const auto from = node.allocate<four_words>(0, bytes / sizeof(four_words));
    const auto to = node.allocate<four_words>(0, bytes / sizeof(four_words));
    return [&, from, to](std::uint32_t launches) {
      for (std::uint32_t k = 0; k < launches; ++k) {
        node.launch(0, copy_kernel{{from.data, from.size}, to},
                    {described_.gpu.compute_units * stream_blocks, stream_threads, 0});
      }
    };
  };
  return static_cast<double>(bytes) / difference_s(prepare, 2, 3);
}

double multiprocessor_on_sim::writes_per_s(std::uint64_t bytes) const {
  const auto prepare = [&](sim::node& node) {
    const auto data = node.allocate<four_words>(0, bytes / sizeof(four_words));
    return [&, data](std::uint32_t launches) {
      for (std::uint32_t k = 0; k < launches; ++k) {
        node.launch(0, write_kernel{data},
                    {described_.gpu.compute_units * stream_blocks, stream_threads, 0});
      }
    };
  };
  return static_cast<double>(bytes) / difference_s(prepare, 2, 3);
}

double multiprocessor_on_sim::fresh_reads_per_s(std::uint64_t bytes) const {
  const auto prepare = [&](sim::node& node) {
    const auto data = node.allocate<four_words>(0, bytes / sizeof(four_words));
    return [&, data](std::uint32_t launches) {
      const grid all{described_.gpu.compute_units * stream_blocks, stream_threads, 0};
      for (std::uint32_t k = 0; k < launches; ++k) {
        node.launch(0, write_kernel{data}, all);
        node.launch(0, read_kernel{{data.data, data.size}, 1}, all);
      }
    };
  };
  const double both_s = difference_s(prepare, 2, 3);
  return static_cast<double>(bytes) / (both_s - static_cast<double>(bytes) / writes_per_s(bytes));
}

double multiprocessor_on_sim::fft_s(bool planes, std::uint32_t length) const {
  kernel::fft f;
  f.kind = planes ? kernel::fft_kind::planes_forward : kernel::fft_kind::columns_forward;
  f.length = length;
  f.count = planes ? length : length * f.half();
  const auto prepare = [&](sim::node& node) {
    kernel::fft placed = f;
    const std::uint64_t numbers = std::uint64_t{length} * length * f.half();
    placed.spectrum = node.allocate<kernel::complex_number>(0, numbers);
    placed.points = node.allocate<float>(0, std::uint64_t{length} * length * length);
    kernel::library_call call = kernel::fft_call(placed);
    call.on_cpu = [] {};  // the call computes nothing, because only its time counts
    return [&node, call](std::uint32_t count) {
      for (std::uint32_t k = 0; k < count; ++k) node.call(0, call);
    };
  };
  return difference_s(prepare, 2, 6) / 4;
}

}  // namespace interlace::bench
