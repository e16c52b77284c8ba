#include "sim/remote/load_treatment.hpp"

#include "interlace/base/errors.hpp"

namespace interlace::sim {

load_treatment::load_treatment(const machine::gpu& g, const kernel::remote_load_options& o,
                               std::uint64_t first_address, std::uint64_t page_bytes,
                               std::function<void(bool)> cache)
    : steps_(o.steps), masks_(g.l1.line_bytes, g.dualopt.piece_bytes), cache_(std::move(cache)) {
  const machine::dualopt& d = g.dualopt;
  // A response ID has 16 bits.
  if (std::uint64_t{g.compute_units} * g.l1.mshrs > 65536) {
    throw usage_error(
        "gpu.l1.outstanding_lines of all compute units are more than the 65536 that "
        "a response ID can tell apart");
  }
  const decision_thresholds thresholds{
      .remote = d.remote_threshold, .block = d.block_threshold, .hit = d.hit_threshold};
  if (o.each_page) pages_.emplace(thresholds, d.page_loads, first_address, page_bytes);
  if (o.decide) {
    const std::uint32_t agreeing = o.watch ? d.agreeing_windows : 0;
    engine_.emplace(decision_engine::settings{.thresholds = thresholds,
                                              .warm_up = d.warm_up,
                                              .monitored = d.monitored,
                                              .agreeing = agreeing});
  }
  if (o.watch) every_ = d.looking_units;
  if (steps_.cache) cache_(true);
}

void load_treatment::remote_load(picoseconds now, std::uint64_t line, std::uint32_t words,
                                 std::optional<bool> hit) {
  const auto used = static_cast<std::uint32_t>(__builtin_popcount(pieces_of(words)));
  if (pages_) {
    pages_->remote_load(line, used, masks_.pieces(), hit.value_or(false));
    if (steps_.cache || pages_->of(line) != optimisation::cache) return;
    steps_.cache = true;  // This is the first page that needs the caches.
    cache_(true);
    return;
  }
  engine_->remote_load(now, used, masks_.pieces(), hit);
  follow();
}

void load_treatment::follow() {
  if (engine_->decisions().size() == followed_) return;
  followed_ = engine_->decisions().size();
  const bool cached = steps_.cache;
  steps_ = steps_for(engine_->decisions().back().choice);
  looking_.cache = steps_.cache;
  if (steps_.cache != cached) cache_(steps_.cache);
}

const kernel::remote_load_steps& load_treatment::steps_for(optimisation choice) {
  static constexpr kernel::remote_load_steps left;
  static constexpr kernel::remote_load_steps coalesced{
      .bypass = true, .fine = true, .coalesce = true, .cache = false};
  static constexpr kernel::remote_load_steps cached{
      .bypass = false, .fine = false, .coalesce = false, .cache = true};
  if (choice == optimisation::coalesce) return coalesced;
  return choice == optimisation::cache ? cached : left;
}

load_treatment::decided load_treatment::decisions(picoseconds now) const {
  decided found;
  if (!engine_) return found;
  found.what = engine_->decisions();
  found.made = !found.what.empty();
  if (!found.made) found.what.push_back(engine_->now(now));
  return found;
}

}  // namespace interlace::sim
