#include "sim/remote/decision_engine.hpp"

#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::sim {

namespace {

void check_threshold(const char* key, double value) {
  if (value >= 0 && value <= 1) return;
  throw usage_error(std::string("gpu.dualopt.") + key + " is " + std::to_string(value) +
                    "; it must be 0 to 1");
}

}  // namespace

void check(const decision_thresholds& thresholds) {
  check_threshold("remote_threshold", thresholds.remote);
  check_threshold("block_threshold", thresholds.block);
  check_threshold("hit_threshold", thresholds.hit);
}

optimisation choose(const decision_thresholds& thresholds, double block_utilisation,
                    double hit_rate) {
  const bool sparse = block_utilisation < thresholds.block;
  return sparse && hit_rate < thresholds.hit ? optimisation::coalesce : optimisation::cache;
}

decision_engine::decision_engine(const settings& s) : settings_(s) {
  check(s.thresholds);
  if (s.monitored == 0) throw usage_error("gpu.dualopt.monitored_accesses is 0; give at least 1");
}

bool decision_engine::counts() {
  if (!watches()) return false;
  if (skipped_ < settings_.warm_up) {
    ++skipped_;
    return false;
  }
  ++accesses_;
  return true;
}

void decision_engine::local(picoseconds now) {
  if (counts()) look(now);
}

void decision_engine::remote_load(picoseconds now, std::uint32_t used, std::uint32_t pieces,
                                  std::optional<bool> hit) {
  if (!counts()) return;
  ++remote_;
  ++loads_;
  if (hit) ++looked_;
  if (hit.value_or(false)) ++hits_;
  used_ += static_cast<double>(used) / pieces;
  look(now);
}

void decision_engine::remote_store(picoseconds now) {
  if (!counts()) return;
  ++remote_;
  look(now);
}

void decision_engine::look(picoseconds when) {
  const auto window = static_cast<double>(settings_.monitored);
  const double least = static_cast<double>(accesses_) * settings_.thresholds.remote;
  const bool enough = loads_ >= settings_.monitored;
  const bool too_few = least > window && static_cast<double>(remote_) < least;
  if (enough || too_few) close(when);
}

void decision_engine::close(picoseconds when) {
  const decision found = now(when);
  ++windows_;
  if (decisions_.empty()) {
    decisions_.push_back(found);
  } else if (found.choice == decisions_.back().choice) {
    agreed_ = 0;
  } else {
    agreed_ = found.choice == other_ ? agreed_ + 1 : 1;
    other_ = found.choice;
    if (agreed_ >= settings_.agreeing) {
      decisions_.push_back(found);
      agreed_ = 0;
    }
  }
  accesses_ = remote_ = loads_ = looked_ = hits_ = 0;
  used_ = 0;
}

decision_engine::decision decision_engine::now(picoseconds when) const {
  decision d;
  d.when = when;
  d.accesses = accesses_;
  d.remote = remote_;
  d.loads = loads_;
  const auto ratio = [](double part, std::uint64_t all) {
    return all == 0 ? 0.0 : part / static_cast<double>(all);
  };
  d.remote_ratio = ratio(static_cast<double>(remote_), accesses_);
  d.block_utilisation = ratio(used_, loads_);
  const double before = decisions_.empty() ? 0 : decisions_.back().hit_rate;
  d.hit_rate = looked_ == 0 ? before : ratio(static_cast<double>(hits_), looked_);
  if (loads_ == 0 || d.remote_ratio < settings_.thresholds.remote) {
    d.choice = optimisation::leave;
  } else {
    d.choice = choose(settings_.thresholds, d.block_utilisation, d.hit_rate);
  }
  return d;
}

}  // namespace interlace::sim
