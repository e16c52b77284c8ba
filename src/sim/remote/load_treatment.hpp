// The steps of DualOpt that are active on all GPUs of a machine, and the decision engine that
// activates steps.
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
  // Pages of unified memory have `page_bytes` bytes and begin at `first_address`. `cache` is called
  // with true when the RDMA caches come into use, either at the start or after a decision. `cache`
  // is called with false when the caches are given back. Throws usage_error if the machine does not
  // describe the hardware that the options need.
  load_treatment(const machine::gpu& g, const kernel::remote_load_options& o,
                 std::uint64_t first_address, std::uint64_t page_bytes,
                 std::function<void(bool)> cache);

  // The steps that apply to a compute unit's loads of a line.
  const kernel::remote_load_steps& steps(std::uint32_t unit, std::uint64_t line) const {
    if (pages_) return steps_for(pages_->of(line).value_or(optimisation::leave));
    return looks_always(unit) ? looking_ : steps_;
  }
  const bitmask_generator& masks() const { return masks_; }

  // Whether the GPU must call the functions below for each access at the L1. `words` marks the
  // 4-byte words of a line that the lanes of a load read.
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
  // Notes a remote load. If the load looked up the L1, `hit` says whether the L1 has the line.
  void remote_load(picoseconds now, std::uint64_t line, std::uint32_t words,
                   std::optional<bool> hit);

  // The pieces that contain any of the words in `words`.
  piece_mask pieces_of(std::uint32_t words) const {
    const std::uint32_t each = masks_.piece_bytes() / 4;
    if (each == 1) return words;
    piece_mask pieces = 0;
    for (; words != 0; words &= words - 1) {
      pieces |= 1U << (static_cast<std::uint32_t>(__builtin_ctz(words)) / each);
    }
    return pieces;
  }

  // The decisions in order. If the run was too short for a decision, there is one element: the
  // decision that would have followed. The member `made` of this element is false.
  struct decided {
    bool made = false;
    std::vector<decision_engine::decision> what;
  };
  decided decisions(picoseconds now) const;
  // The number of pages for which this optimisation was chosen individually.
  std::uint64_t pages(optimisation how) const { return pages_ ? pages_->count(how) : 0; }

 private:
  void follow();
  static const kernel::remote_load_steps& steps_for(optimisation choice);
  // Whether a compute unit continues to look up its L1. Some units must do so, because an engine
  // that has activated a bypass would otherwise see no hits any more. The units take turns by
  // window, because a small grid runs on few units.
  bool looks_always(std::uint32_t unit) const {
    return every_ != 0 && (unit + engine_->windows()) % every_ == 0;
  }

  kernel::remote_load_steps steps_;
  // The steps for compute units that continue to look up their L1.
  kernel::remote_load_steps looking_;
  // One of this many units continues to look up its L1; with 0, no unit does.
  std::uint32_t every_ = 0;
  std::size_t followed_ = 0;  // number of decisions that the GPUs have followed
  bitmask_generator masks_;
  std::optional<decision_engine> engine_;
  std::optional<page_choices> pages_;
  std::function<void(bool)> cache_;
};

}  // namespace interlace::sim
