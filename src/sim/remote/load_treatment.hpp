// Which steps of DualOpt are on, on all GPUs of a machine, and the engine that turns them on.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "kernel/remote_loads.hpp"
#include "machine/machine.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/remote/bitmask_generator.hpp"
#include "sim/remote/decision_engine.hpp"

namespace interlace::sim {

class load_treatment {
 public:
  // `cached` is called when the RDMA caches are taken into use, at the start or by a decision.
  // Throws usage_error for a machine that does not describe what the options need.
  load_treatment(const machine::gpu& g, const kernel::remote_load_options& o,
                 std::function<void()> cached);

  const kernel::remote_load_steps& steps() const { return steps_; }
  const bitmask_generator& masks() const { return masks_; }

  // An access at an L1; `words` of 4 bytes of a line are what lanes of a load want.
  bool watches() const { return engine_ && !engine_->decided(); }
  void local(picoseconds now) {
    engine_->local(now);
    follow();
  }
  void remote_store(picoseconds now) {
    engine_->remote_store(now);
    follow();
  }
  void remote_load(picoseconds now, std::uint32_t words, bool hit) {
    engine_->remote_load(now, static_cast<std::uint32_t>(__builtin_popcount(pieces_of(words))),
                         masks_.pieces(), hit);
    follow();
  }

  // The pieces that have any of these words.
  piece_mask pieces_of(std::uint32_t words) const {
    const std::uint32_t each = masks_.piece_bytes() / 4;
    if (each == 1) return words;
    piece_mask pieces = 0;
    for (; words != 0; words &= words - 1) {
      pieces |= 1U << (static_cast<std::uint32_t>(__builtin_ctz(words)) / each);
    }
    return pieces;
  }

  kernel::remote_load_decision decision(picoseconds now) const;

 private:
  void follow();

  kernel::remote_load_steps steps_;
  bitmask_generator masks_;
  std::optional<decision_engine> engine_;
  std::function<void()> cached_;
};

}  // namespace interlace::sim
