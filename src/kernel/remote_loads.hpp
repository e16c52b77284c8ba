// What becomes of remote loads, and stores, of unified arrays on a simulated machine, by name.
#pragma once

#include <cstdint>
#include <string>

namespace interlace::kernel {

// The steps of DualOpt (PACT 2022, section 4), each of which can be on alone.
struct remote_load_steps {
  bool bypass = false;    // they do not look into the L1, nor fill it
  bool fine = false;      // replies have the pieces that lanes want; needs bypass
  bool coalesce = false;  // a packet has pieces of several replies; needs fine
  bool cache = false;     // a cache of remote lines alone, carved out of the L2
  friend bool operator==(const remote_load_steps&, const remote_load_steps&) = default;
};

// Where the pages of unified arrays go.
enum class page_moves : std::uint8_t {
  none,         // they stay where they are placed
  first_touch,  // once, to the first GPU that touches them from afar
  griffin,      // to the GPU that accesses them most (HPCA 2020)
};

struct remote_load_options {
  remote_load_steps steps;  // from the start
  bool decide = false;      // a decision engine turns steps on
  bool watch = false;       // and goes on watching, and may change its mind
  bool each_page = false;   // steps are turned on for each page by itself
  bool pack = false;        // stores go through remote write queues, as under finepack
  page_moves pages = page_moves::none;
  bool treats_loads() const { return decide || each_page || steps != remote_load_steps{}; }
  bool any() const { return treats_loads() || pack || pages != page_moves::none; }
};

// The options that src/kernel/remote_loads.toml gives a name. Throws usage_error, which lists the
// names that there are.
remote_load_options parse_remote_loads(const std::string& name);

// What a decision engine found in a window: 0 to 1 each.
struct remote_load_decision {
  bool made = false;   // false: the run ended before, and it is what would have been decided
  std::string choice;  // "none", "coalesced" or "rdma-cache"
  double when_s = 0;
  std::uint64_t accesses = 0;
  std::uint64_t remote = 0;
  std::uint64_t loads = 0;  // remote ones, whose locality the rest is
  double remote_ratio = 0;
  double block_utilisation = 0;
  double hit_rate = 0;
};

}  // namespace interlace::kernel
