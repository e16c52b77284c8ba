// The steps of DualOpt that are active on all GPUs of a machine, and the engine that activates
// these steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "interlace/kernel/remote_loads.hpp"
#include "interlace/machine/machine.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/remote/bitmask_generator.hpp"
#include "sim/remote/decision_engine.hpp"
#include "sim/remote/page_choices.hpp"

namespace interlace::sim {

class load_treatment {
 public:
  // Pages of unified memory have `page_bytes` and begin at `first_address`. `cache` is called with
  // true when the RDMA caches come into use, at the start or after a decision. It is called with
  // false when the caches are given back. Throws usage_error if the machine does not describe the
  // hardware that the options need.
  load_treatment(const machine::gpu& g, const kernel::remote_load_options& o,
                 std::uint64_t first_address, std::uint64_t page_bytes,
                 std::function<void(bool)> cache);

  // The steps that apply to a compute unit's loads of a line.
  const kernel::remote_load_steps& steps(std::uint32_t unit, std::uint64_t line) const {
    if (pages_) return steps_for(pages_->of(line).value_or(optimisation::leave));
    return looks_always(unit) ? looking_ : steps_;
  }
  const bitmask_generator& masks() const { return masks_; }

  // Notes an access at an L1. `words` marks the 4-byte words of a line that lanes of a load want.
  bool watches() const { return pages_ || (engine_ && engine_->watches()); }
  void local(picoseconds now) {
    if (!engine_) return;
    engine_->local(now);
    follow();
  }
  void remote_store(picoseconds now) {
    if (!engine_) return;
    engine_->remote_store(now);
    follow();
  }
  // Notes a remote load. `hit` says whether the L1 has the line, if the load looked into the L1.
  void remote_load(picoseconds now, std::uint64_t line, std::uint32_t words,
                   std::optional<bool> hit);

  // The pieces that contain any of these words.
  piece_mask pieces_of(std::uint32_t words) const {
    const std::uint32_t each = masks_.piece_bytes() / 4;
    if (each == 1) return words;
    piece_mask pieces = 0;
    for (; words != 0; words &= words - 1) {
      pieces |= 1U << (static_cast<std::uint32_t>(__builtin_ctz(words)) / each);
    }
    return pieces;
  }

  // The decisions in order. If the run was too short for a decision, the only element is the
  // decision that would have followed, and `made` is false.
  struct decided {
    bool made = false;
    std::vector<decision_engine::decision> what;
  };
  decided decisions(picoseconds now) const;
  // The number of pages that have this optimisation of their own.
  std::uint64_t pages(optimisation how) const { return pages_ ? pages_->count(how) : 0; }

 private:
  void follow();
  static const kernel::remote_load_steps& steps_for(optimisation choice);
  // Some compute units keep looking into their L1. Otherwise an engine that has activated a bypass
  // would see no hits any more. These units take turns by window, because a small grid runs on few
  // units.
  bool looks_always(std::uint32_t unit) const {
    return every_ != 0 && (unit + engine_->windows()) % every_ == 0;
  }

  kernel::remote_load_steps steps_;
  kernel::remote_load_steps looking_;  // for compute units that keep looking into their L1
  std::uint32_t every_ = 0;            // one of this many units keeps looking; 0: none does
  std::size_t followed_ = 0;           // decisions that have been followed
  bitmask_generator masks_;
  std::optional<decision_engine> engine_;
  std::optional<page_choices> pages_;
  std::function<void(bool)> cache_;
};

}  // namespace interlace::sim
