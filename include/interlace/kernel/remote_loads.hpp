// The ways in which a simulated machine can handle remote loads and stores of unified arrays. Each
// way has a name.
#pragma once

#include <cstdint>
#include <string>

namespace interlace::kernel {

// The steps of DualOpt (PACT 2022, section 4). A step can be active without other steps, unless its
// comment names a step that it needs.
struct remote_load_steps {
  bool bypass = false;    // remote loads neither look up the L1 nor fill it
  bool fine = false;      // replies have only the pieces that lanes read; needs `bypass`
  bool coalesce = false;  // packets carry pieces of several replies; needs `fine`
  bool cache = false;     // a cache that holds only remote lines and takes a part of the L2
  friend bool operator==(const remote_load_steps&, const remote_load_steps&) = default;
};

// Whether and where pages of unified arrays move.
enum class page_moves : std::uint8_t {
  none,         // pages stay where they were placed
  first_touch,  // a page moves once, to the first remote GPU that touches it
  griffin,      // a page moves to the GPU that accesses it most (HPCA 2020)
};

struct remote_load_options {
  remote_load_steps steps;  // steps that are active from the start
  bool decide = false;      // a decision engine activates steps
  bool watch = false;       // the engine continues to measure and may change its decision
  bool each_page = false;   // the engine activates steps for each page separately
  bool pack = false;        // stores go through remote write queues, as with finepack
  page_moves pages = page_moves::none;
  bool treats_loads() const { return decide || each_page || steps != remote_load_steps{}; }
  bool any() const { return treats_loads() || pack || pages != page_moves::none; }
};

// The options of the mechanism with this name in src/kernel/remote_loads.toml. Throws usage_error
// for an unknown name. The error lists the valid names.
remote_load_options parse_remote_loads(const std::string& name);

// The measurements of a decision engine in a window, and its decision. Each rate is between 0 and
// 1.
struct remote_load_decision {
  // false if the run ended before the decision; in this case, `choice` is the choice that the
  // engine would have made

  bool made = false;
  std::string choice;  // "none", "coalesced" or "rdma-cache"
  double when_s = 0;
  std::uint64_t accesses = 0;
  std::uint64_t remote = 0;
  // number of remote loads in the window; the rates below are rates of these loads
  std::uint64_t loads = 0;
  double remote_ratio = 0;
  double block_utilisation = 0;
  double hit_rate = 0;
};

}  // namespace interlace::kernel
