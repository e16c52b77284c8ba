#include "bench/transfers_sim.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>

#include "base/units.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::bench {

namespace {

constexpr int poison = 0x5a;

using block = std::unique_ptr<std::byte[]>;

block make_block(std::uint64_t bytes) {
  return block(new std::byte[bytes]);  // the caller fills it
}

// Makes bytes that depend on their position, so that no two chunks are equal.
block make_source(std::uint64_t bytes, std::uint64_t seed) {
  block made = make_block(bytes);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15U + 1;
  for (std::uint64_t at = 0; at < bytes; at += sizeof(state)) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    std::memcpy(made.get() + at, &state, std::min<std::uint64_t>(sizeof(state), bytes - at));
  }
  return made;
}

std::uint64_t differences(const std::byte* one, const std::byte* other, std::uint64_t bytes) {
  if (std::memcmp(one, other, bytes) == 0) return 0;
  std::uint64_t count = 0;
  for (std::uint64_t at = 0; at < bytes; ++at) count += one[at] == other[at] ? 0 : 1;
  return count;
}

std::uint64_t picoseconds_of(double seconds) {
  return static_cast<std::uint64_t>(std::llround(seconds * 1e12));
}

// The memory of one process: the messages that the process sends, and the destinations of the
// messages of one window.
class endpoints {
 public:
  endpoints(const plan::plan& made, std::uint32_t window, std::uint64_t seed) : made_(made) {
    for (const plan::message& one : made.messages)
      sources_.push_back(make_source(one.bytes, ++seed));
    for (std::uint32_t slot = 0; slot < window; ++slot) {
      auto& row = destinations_.emplace_back();
      for (const plan::message& one : made.messages) {
        row.push_back(make_block(one.bytes));
        std::memset(row.back().get(), poison, one.bytes);
      }
    }
  }

  void fill(sim::execution& wanted, std::uint32_t slot) const {
    for (const block& one : sources_) wanted.sources.push_back(one.get());
    for (const block& one : destinations_[slot]) wanted.destinations.push_back(one.get());
  }

  // Counts the bytes that differ from the sent bytes. Then poisons the memory for the next message.
  std::uint64_t compare(std::uint32_t slot) {
    std::uint64_t wrong = 0;
    for (std::size_t one = 0; one < sources_.size(); ++one) {
      const std::uint64_t bytes = made_.messages[one].bytes;
      std::byte* arrived = destinations_[slot][one].get();
      wrong += differences(arrived, sources_[one].get(), bytes);
      std::memset(arrived, poison, bytes);
    }
    return wrong;
  }

 private:
  const plan::plan& made_;
  std::vector<block> sources_;
  // The index is the place of the message in the window.
  std::vector<std::vector<block>> destinations_;
};

}  // namespace

transfers_result transfers_on_sim(const simulated_transfers& asked,
                                  const machine::machine& described) {
  if (asked.plans.empty() || asked.messages == 0 || asked.window == 0)
    throw usage_error("transfers need a plan, messages and a window");
  const auto plans = static_cast<std::uint32_t>(asked.plans.size());
  const std::uint32_t window = std::min(asked.window, asked.messages);
  sim::plan_executor executor(described, asked.check_interrupt);
  transfers_result result;
  std::vector<std::unique_ptr<endpoints>> memory;
  if (asked.moves)
    for (std::uint32_t process = 0; process < plans; ++process)
      memory.push_back(
          std::make_unique<endpoints>(asked.plans[process], window, std::uint64_t{process} << 32U));
  std::vector<std::vector<std::uint32_t>> numbers(plans);  // indexed by process and message
  for (std::uint32_t message = 0; message < asked.messages; ++message) {
    const bool first_of_window = message % window == 0;
    for (std::uint32_t process = 0; process < plans; ++process) {
      sim::execution wanted;
      wanted.made = &asked.plans[process];
      wanted.thread = process;
      // If graphs run one after another, one executable graph serves all of them, because it can be
      // launched again immediately.
      const std::uint32_t executables = asked.overlap ? window : 1;
      if (asked.graphs)
        wanted.how = asked.warm || message >= executables ? sim::launched_by::cached_graph
                                                          : sim::launched_by::new_graph;
      wanted.overlaps = asked.overlap;
      wanted.other_addresses = asked.other_addresses;
      if (asked.sliding) {
        if (message >= window) wanted.after = {numbers[process][message - window]};
      } else if (first_of_window) {
        if (message != 0)
          for (std::uint32_t other = 0; other < plans; ++other)
            wanted.after.insert(wanted.after.end(), numbers[other].begin() + (message - window),
                                numbers[other].begin() + message);
        wanted.delay =
            picoseconds_of(asked.handshake_s + (message == 0 ? 0 : asked.acknowledgement_s));
      }
      if (asked.moves) {
        const std::uint32_t slot = message % window;
        memory[process]->fill(wanted, slot);
        wanted.arrived = [&result, ends = memory[process].get(), slot] {
          result.wrong_bytes += ends->compare(slot);
        };
      }
      numbers[process].push_back(executor.add(std::move(wanted)));
    }
  }
  executor.run();
  for (const auto& row : numbers) {
    auto& times = result.times.emplace_back();
    for (const std::uint32_t number : row) {
      times.push_back(executor.times(number));
      result.time_s = std::max(result.time_s, seconds_of(times.back().end));
    }
  }
  result.links = executor.links();
  for (std::uint32_t gpu = 0; gpu < described.gpu_count; ++gpu)
    result.most_engines.push_back(executor.most_engines(gpu));
  return result;
}

}  // namespace interlace::bench
