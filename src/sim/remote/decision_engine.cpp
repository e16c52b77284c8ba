#include "sim/remote/decision_engine.hpp"

#include <string>

#include "base/errors.hpp"

namespace interlace::sim {

namespace {

void check_threshold(const char* key, double value) {
  if (value >= 0 && value <= 1) return;
  throw usage_error(std::string("gpu.dualopt.") + key + " is " + std::to_string(value) +
                    "; it must be 0 to 1");
}

}  // namespace

decision_engine::decision_engine(const settings& s) : settings_(s) {
  check_threshold("remote_threshold", s.thresholds.remote);
  check_threshold("block_threshold", s.thresholds.block);
  check_threshold("hit_threshold", s.thresholds.hit);
  if (s.monitored == 0) throw usage_error("gpu.dualopt.monitored_accesses is 0; give at least 1");
}

bool decision_engine::counts() {
  if (decided_) return false;
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
                                  bool hit) {
  if (!counts()) return;
  ++remote_;
  ++loads_;
  if (hit) ++hits_;
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
  if (enough || too_few) decided_ = now(when);
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
  d.hit_rate = ratio(static_cast<double>(hits_), loads_);
  if (loads_ == 0 || d.remote_ratio < settings_.thresholds.remote) {
    d.choice = optimisation::leave;
  } else if (d.block_utilisation < settings_.thresholds.block &&
             d.hit_rate < settings_.thresholds.hit) {
    d.choice = optimisation::coalesce;
  } else {
    d.choice = optimisation::cache;
  }
  return d;
}

}  // namespace interlace::sim
