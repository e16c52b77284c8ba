#include "sim/remote/load_treatment.hpp"

#include "base/errors.hpp"
#include "base/units.hpp"

namespace interlace::sim {

load_treatment::load_treatment(const machine::gpu& g, const kernel::remote_load_options& o,
                               std::function<void()> cached)
    : steps_(o.steps), masks_(g.l1.line_bytes, g.dualopt.piece_bytes), cached_(std::move(cached)) {
  const machine::dualopt& d = g.dualopt;
  if (o.any() && d.rdma_cache_bytes == 0) {
    throw usage_error(
        "the machine describes nothing that treats remote loads; give it a table "
        "[gpu.dualopt], as 4x-r9nano has, or take direct");
  }
  // A response ID has 16 bits.
  if (o.any() && std::uint64_t{g.compute_units} * g.l1.mshrs > 65536) {
    throw usage_error(
        "gpu.l1.outstanding_lines of all compute units are more than the 65536 that "
        "a response ID can tell apart");
  }
  if (o.decide) {
    engine_.emplace(decision_engine::settings{
        {d.remote_threshold, d.block_threshold, d.hit_threshold}, d.warm_up, d.monitored});
  }
  if (steps_.cache) cached_();
}

void load_treatment::follow() {
  if (!engine_->decided()) return;
  const optimisation choice = engine_->decided()->choice;
  if (choice == optimisation::coalesce) steps_ = {true, true, true, false};
  if (choice != optimisation::cache) return;
  steps_.cache = true;
  cached_();
}

kernel::remote_load_decision load_treatment::decision(picoseconds now) const {
  kernel::remote_load_decision found;
  if (!engine_) return found;
  const auto d = engine_->decided() ? *engine_->decided() : engine_->now(now);
  found.made = engine_->decided().has_value();
  found.choice = d.choice == optimisation::coalesce ? "coalesced"
                 : d.choice == optimisation::cache  ? "rdma-cache"
                                                    : "none";
  found.when_s = seconds_of(d.when);
  found.accesses = d.accesses;
  found.remote = d.remote;
  found.loads = d.loads;
  found.remote_ratio = d.remote_ratio;
  found.block_utilisation = d.block_utilisation;
  found.hit_rate = d.hit_rate;
  return found;
}

}  // namespace interlace::sim
