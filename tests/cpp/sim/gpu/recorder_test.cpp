#include "interlace/sim/gpu/recorder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <type_traits>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel/serial_block.hpp"
#include "sim/trace/instruction.hpp"

namespace interlace::sim::recorder_tests {
namespace {

// Records one block of a kernel. The arrays of the kernel start at device address 0.
template <class Kernel>
std::vector<warp_program> record(const Kernel& kernel, const void* base, std::uint32_t threads,
                                 std::uint32_t width = 32) {
  recorder r;
  recorder::settings s;
  s.warp_width = width;
  s.address_base = static_cast<const std::byte*>(base);
  std::vector<warp_program> programs((threads + width - 1) / width);
  kernel::block_memory memory;
  r.begin_block(s, programs);
  kernel::serial_block<recorder> block(r, memory, 0, {1, threads, 4096}, width);
  kernel(block);
  r.end_block();
  return programs;
}

std::vector<instruction_kind> kinds(const warp_program& p) {
  std::vector<instruction_kind> all;
  for (const auto& i : p.instructions) all.push_back(i.kind);
  return all;
}

alignas(128) std::uint32_t words[4096];

struct lengths {  // lane k makes k iterations, followed by a store
  local<std::uint32_t> data{words, 4096};
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      std::uint32_t sum = 0;
      for (auto i : lane.range(0U, lane.index())) sum += lane.load(data, i * 32);
      lane.store(data, 2048 + lane.index(), sum);
    });
  }
};

TEST(recorder, lanes_of_different_length_stay_in_program_order) {
  const auto programs = record(lengths{}, words, 32);
  const auto k = kinds(programs[0]);
  ASSERT_EQ(k.size(), 31U + 1 + 1);  // loads of iterations 0 to 30, the store, the barrier
  for (std::size_t i = 0; i < 31; ++i) {
    EXPECT_EQ(k[i], instruction_kind::load);
    EXPECT_EQ(programs[0].instructions[i].line_count, 1);  // all lanes read the same word
    EXPECT_EQ(programs[0].lines[programs[0].instructions[i].first_line].line(), i * 128);
  }
  EXPECT_EQ(k[31], instruction_kind::store);
  EXPECT_EQ(programs[0].instructions[31].line_count, 1);
  EXPECT_EQ(programs[0].written[0].lanes, 32U);
  // The store depends on the last load before it.
  EXPECT_EQ(programs[0].instructions[31].depends, 30U);
  EXPECT_EQ(k[32], instruction_kind::barrier);
}

struct arrive {
  local<std::uint32_t> data{words, 4096};
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) { lane.store(data, lane.index(), 1); });
    if (!block.last_to_arrive(data, 1024U, 2)) return;
    block.each([&](auto lane) { lane.load(data, lane.index()); });
  }
};

TEST(recorder, an_arrival_is_an_atomic_that_all_wait_for) {
  using enum instruction_kind;
  const std::vector<instruction_kind> first = {store, barrier, atomic, wait, barrier};
  const std::vector<instruction_kind> other = {store, barrier, barrier};
  words[1024] = 0;
  auto programs = record(arrive{}, words, 64);
  EXPECT_EQ(kinds(programs[0]), first);
  EXPECT_EQ(kinds(programs[1]), other);
  EXPECT_EQ(programs[0].lines[programs[0].instructions[2].first_line].line(), 4096U);
  EXPECT_EQ(words[1024], 1U);
  programs = record(arrive{}, words, 64);  // records the last block that arrives
  EXPECT_EQ(kinds(programs[0]).size(), first.size() + 2);
  EXPECT_EQ(kinds(programs[1]).size(), other.size() + 2);
  EXPECT_EQ(words[1024], 0U);
}

// In a trace, a wait directly after an atomic stands for the arrival of a block. A fence directly
// after an atomic does not.
TEST(recorder, a_fence_after_an_atomic_does_not_wait_for_it) {
  recorder r;
  recorder::settings s;
  s.warp_width = 32;
  std::vector<warp_program> programs(1);
  r.begin_block(s, programs);
  const std::uint64_t address = 256;
  trace::instruction add;
  add.kind = trace::action::atomic;
  add.bytes = 4;
  add.lanes = 1;
  add.addresses = &address;
  trace::instruction behind;
  for (const auto kind : {trace::action::release, trace::action::wait}) {
    r.add(0, add);
    behind.kind = kind;
    r.add(0, behind);
  }
  r.end_block();
  ASSERT_EQ(programs[0].instructions.size(), 4U);
  EXPECT_EQ(programs[0].instructions[1].count, 0U);
  EXPECT_EQ(programs[0].instructions[3].count, 2U);
}

struct gather {
  local<std::uint32_t> data{words, 4096};
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.load_index(data, lane.index());
      const auto independent = lane.load(data, 128 + lane.index());
      const auto value = lane.load(data, i + 1);
      lane.store(data, 64 + lane.index(), value + independent);
    });
  }
};

TEST(recorder, an_index_is_depended_on_and_a_load_is_not) {
  // The indices are 64 words apart, so the words that they name are in separate lines.
  for (std::uint32_t k = 0; k < 32; ++k) words[k] = 1024 + k * 64;
  const auto programs = record(gather{}, words, 32);
  const auto& p = programs[0].instructions;
  ASSERT_EQ(p.size(), 5U);
  EXPECT_EQ(p[0].depends, none);
  EXPECT_EQ(p[1].depends, none);
  EXPECT_EQ(p[2].depends, 0U);
  EXPECT_EQ(p[2].line_count, 32);
  EXPECT_EQ(p[3].depends, 2U);
}

struct branches {
  local<std::uint32_t> data{words, 4096};
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      if (lane.index() % 2 == 0) {
        lane.load(data, lane.index());
      } else {
        lane.store(data, 1024 + lane.index(), 1);
      }
      lane.load(data, 2048 + lane.index());
    });
  }
};

TEST(recorder, both_sides_of_a_branch_come_before_what_follows) {
  const auto programs = record(branches{}, words, 64);
  for (const auto& p : programs) {
    const auto& i = p.instructions;
    ASSERT_EQ(i.size(), 4U);
    EXPECT_EQ(i[2].kind, instruction_kind::load);
    EXPECT_EQ(i[2].line_count, 1);
    EXPECT_EQ(p.lines[i[2].first_line].sectors(), 0xf);
    EXPECT_EQ(i[3].kind, instruction_kind::barrier);
  }
}

struct conflicts {
  std::uint32_t stride = 1;
  template <class Block>
  void operator()(Block& block) const {
    auto tile = shared<std::uint32_t>(block, 1024);
    block.each([&](auto lane) { lane.store(tile, lane.index() * stride, 1); });
  }
};

TEST(recorder, bank_conflicts) {
  EXPECT_EQ(record(conflicts{1}, words, 32)[0].instructions[0].count, 1U);
  EXPECT_EQ(record(conflicts{2}, words, 32)[0].instructions[0].count, 2U);
  EXPECT_EQ(record(conflicts{32}, words, 32)[0].instructions[0].count, 32U);
  // All lanes read the same word.
  EXPECT_EQ(record(conflicts{0}, words, 32)[0].instructions[0].count, 1U);
}

struct scattered_reads {  // lane k reads word at[k]
  const std::vector<std::uint32_t>* at;
  template <class Block>
  void operator()(Block& block) const {
    auto tile = shared<std::uint32_t>(block, 1024);
    block.each([&](auto lane) { lane.load(tile, (*at)[lane.index()]); });
  }
};

// A bank takes a cycle for each different word that lanes read from it. The words lie in one to
// eight rows of the banks.
TEST(recorder, bank_conflicts_of_scattered_words) {
  std::mt19937 random(1);
  for (std::uint32_t run = 0; run < 400; ++run) {
    const std::uint32_t span = 32 * (1 + run % 8);
    std::vector<std::uint32_t> at(32);
    for (std::uint32_t& word : at) word = 300 + static_cast<std::uint32_t>(random() % span);
    std::map<std::uint32_t, std::set<std::uint32_t>> banks;
    for (const std::uint32_t word : at) banks[word % 32].insert(word);
    std::size_t cycles = 0;
    for (const auto& [bank, read] : banks) cycles = std::max(cycles, read.size());
    EXPECT_EQ(record(scattered_reads{&at}, words, 32)[0].instructions[0].count, cycles);
  }
}

struct repeated {  // a loop that is not a lane.range
  local<std::uint32_t> data{words, 4096};
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (std::uint32_t k = 0; k < 3; ++k) lane.load(data, k * 32 + lane.index());
    });
  }
};

TEST(recorder, plain_loops_repeat_the_instruction) {
  const auto programs = record(repeated{}, words, 32);
  ASSERT_EQ(programs[0].instructions.size(), 4U);
  for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(programs[0].instructions[k].line_count, 1);
}

// Each warp stores a row of a tile and adds up the row. If rows are longer, lanes have bank
// conflicts.
struct tile_sums {
  bool apart = false;  // if true, no two warps have the same key
  std::uint32_t* recorded = nullptr;
  template <class Block>
  void operator()(Block& block) const {
    auto tile = shared<std::uint32_t>(block, 4 * 256);
    auto sum = lane_state<std::uint32_t>(block, 0);
    block.each_warp([&](auto warp) {
      const std::uint32_t stride = warp.index() % 2 + 1;
      const std::uint32_t first = warp.index() * 256;
      warp.repeated(apart ? 10 + warp.index() : stride, [&](const auto& same) {
        using lane_type = kernel::serial_warp<recorder>;
        *recorded += std::is_same_v<std::decay_t<decltype(same)>, lane_type>;
        same.each([&](auto lane) {
          lane.store(tile, first + lane.in_warp() * stride, lane.index());
          lane.compute({.fp32 = 2, .integer = stride});
        });
        same.each([&](auto lane) {
          for (auto k : lane.range(0U, stride + 1))
            sum[lane] += lane.load(tile, first + k * stride);
        });
        same.sum(sum);
      });
      warp.each([&](auto lane) { lane.store(tile, first + lane.in_warp(), sum[lane]); });
    });
  }
};

TEST(recorder, a_repeated_stretch_is_recorded_once_for_a_key) {
  for (const std::uint32_t width : {32U, 64U}) {
    for (const std::uint32_t threads : {4 * width, 3 * width + 5}) {
      std::uint32_t once = 0;
      std::uint32_t each = 0;
      const auto found = record(tile_sums{false, &once}, words, threads, width);
      const auto all = record(tile_sums{true, &each}, words, threads, width);
      EXPECT_EQ(each, 4U);
      EXPECT_EQ(once, threads % width == 0 ? 2U : 3U);  // a partial warp is recorded separately
      ASSERT_EQ(found.size(), all.size());
      for (std::size_t w = 0; w < all.size(); ++w) {
        ASSERT_EQ(kinds(found[w]), kinds(all[w])) << w;
        for (std::size_t i = 0; i < all[w].instructions.size(); ++i) {
          EXPECT_EQ(found[w].instructions[i].op, all[w].instructions[i].op);
          EXPECT_EQ(found[w].instructions[i].count, all[w].instructions[i].count);
          EXPECT_EQ(found[w].instructions[i].depends, all[w].instructions[i].depends);
        }
      }
    }
  }
}

// Each lane goes through a list. The lists have different lengths, places and orders.
struct repeated_gather {
  bool apart = false;
  local<std::uint32_t> data{words, 4096};
  template <class Block>
  void operator()(Block& block) const {
    block.each_warp([&](auto warp) {
      const std::uint32_t from = 100 + 37 * warp.index();
      warp.repeated(apart ? warp.index() : 0, [&](const auto& same) {
        same.each([&](auto lane) {
          const std::uint32_t k = lane.in_warp();
          if (k % 3 == 1) lane.load(data, 7U);
          for (auto e : lane.range(0U, 1 + (k * 7) % 5)) {
            const auto at = lane.load_index(data, from + k + 64 * e);
            lane.load(data, at % 4096);
          }
          if (k % 3 == 2) lane.load(data, from);
          lane.store(data, 2048 + 2 * (from + k), words[from + k]);
        });
        same.load(data, from);
        same.each([&](auto lane) { lane.load(data, from + lane.in_warp() * 2); });
      });
    });
  }
};

TEST(recorder, a_repeated_stretch_reaches_other_places_in_memory) {
  for (std::uint32_t k = 0; k < 4096; ++k) words[k] = k * 2654435761U;
  for (const std::uint32_t width : {32U, 64U}) {
    const auto found = record(repeated_gather{}, words, 5 * width, width);
    const auto all = record(repeated_gather{true}, words, 5 * width, width);
    for (std::size_t w = 0; w < all.size(); ++w) {
      ASSERT_EQ(kinds(found[w]), kinds(all[w])) << w;
      for (std::size_t i = 0; i < all[w].instructions.size(); ++i) {
        const instruction& a = found[w].instructions[i];
        const instruction& b = all[w].instructions[i];
        EXPECT_EQ(a.depends, b.depends);
        EXPECT_EQ(a.uniform, b.uniform);
        EXPECT_EQ(a.first_line, b.first_line);
        EXPECT_EQ(a.line_count, b.line_count);
        EXPECT_EQ(a.first_written, b.first_written);
      }
      ASSERT_EQ(found[w].lines.size(), all[w].lines.size());
      for (std::size_t k = 0; k < all[w].lines.size(); ++k) {
        EXPECT_EQ(found[w].lines[k].packed(), all[w].lines[k].packed());
      }
      ASSERT_EQ(found[w].written.size(), all[w].written.size());
      for (std::size_t k = 0; k < all[w].written.size(); ++k) {
        EXPECT_EQ(found[w].written[k].bytes.bits, all[w].written[k].bytes.bits);
        EXPECT_EQ(found[w].written[k].lanes, all[w].written[k].lanes);
      }
    }
  }
}

// Stretches that do not repeat, because later warps load more or less than the first warp.
struct no_repetition {
  std::int32_t more = 0;
  local<std::uint32_t> data{words, 4096};
  template <class Block>
  void operator()(Block& block) const {
    block.each_warp([&](auto warp) {
      warp.repeated(0, [&](const auto& same) {
        same.each([&](auto lane) {
          const std::int32_t times = 2 + static_cast<std::int32_t>(warp.index()) * more;
          for (auto k : lane.range(0, times)) lane.load(data, lane.index() + k);
          if (more == 0) lane.atomic_add(data, lane.index(), 1);
        });
      });
    });
  }
};

TEST(recorder, refuses_stretches_that_do_not_repeat) {
  EXPECT_THROW(record(no_repetition{1}, words, 64), model_error);
  EXPECT_THROW(record(no_repetition{-1}, words, 64), model_error);
  EXPECT_THROW(record(no_repetition{0}, words, 64), model_error);
}

}  // namespace
}  // namespace interlace::sim::recorder_tests
