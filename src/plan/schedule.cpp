#include "plan/schedule.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/units.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::plan {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

enum class state : std::uint8_t { waiting, setting_up, moving, arriving, complete };

class simulation {
 public:
  simulation(plan& made, const resources& shared, const machine::gpu& unit, bool rates)
      : plan_(made),
        shared_(shared),
        setup_s_(seconds_of(unit.copy_setup_ps)),
        event_s_(seconds_of(unit.copy_event_latency_ps)),
        engine_bytes_per_s_(unit.copy_bytes_per_s),
        rates_(rates),
        states_(made.steps.size(), state::waiting),
        next_s_(made.steps.size(), never),
        enqueued_s_(made.steps.size(), 0),
        left_(made.steps.size(), 0),
        rate_(made.steps.size(), 0),
        waits_for_(made.steps.size(), 0),
        wakes_(made.steps.size()),
        queues_(made.slots.size()),
        heads_(made.slots.size(), 0),
        own_(made.slots.size(), false),
        free_engines_(shared.all().size(), 0),
        left_of_(shared.all().size(), 0),
        users_of_(shared.all().size(), 0) {
    const double launch_s = seconds_of(unit.copy_launch_ps);
    const double event_s = seconds_of(unit.copy_event_ps);
    double now = 0;
    for (std::uint32_t index = 0; index < made.steps.size(); ++index) {
      const step& next = made.steps[index];
      now += launch_s + event_s * static_cast<double>(next.after.size());
      enqueued_s_[index] = now;
      left_[index] = static_cast<double>(next.bytes);
      waits_for_[index] = static_cast<std::uint32_t>(next.after.size());
      for (const std::uint32_t on : next.after) wakes_[on].push_back(index);
      queues_[next.slot].push_back(index);
      if (made.paths[next.path].direct()) own_[next.slot] = true;
    }
    for (std::size_t slot = 0; slot < queues_.size(); ++slot) {
      if (own_[slot] || queues_[slot].empty()) continue;
      enqueued_s_[queues_[slot].front()] += event_s_;
    }
    for (std::size_t at = 0; at < shared.all().size(); ++at) {
      const resource& one = shared.at(at);
      if (one.kind == resource_kind::engines)
        free_engines_[at] = std::max(1, static_cast<int>(one.fair()));
    }
  }

  std::vector<span_of_step> run() {
    std::size_t complete = 0;
    double now = 0;
    start_what_can(now);
    while (complete < states_.size()) {
      const double then = next_event(now);
      if (then == never)
        throw model_error("the copies of the plan wait for each other in a circle");
      move(now, then);
      now = then;
      bool changed = false;
      for (const std::uint32_t index : under_way_) {
        if (states_[index] == state::setting_up && next_s_[index] <= now) {
          states_[index] = state::moving;
          changed = true;
        } else if (states_[index] == state::moving && left_[index] <= 0) {
          arrive(index, now);
          changed = true;
        } else if (states_[index] == state::arriving && next_s_[index] <= now) {
          finish(index, now);
          ++complete;
        }
      }
      std::erase_if(under_way_, [&](auto index) { return states_[index] == state::complete; });
      start_what_can(now);
      if (changed) share_rates();
    }
    plan_.predicted_s = 0;
    for (const step& one : plan_.steps)
      plan_.predicted_s = std::max(plan_.predicted_s, one.end_s + (own_[one.slot] ? 0 : event_s_));
    return std::move(spans_);
  }

 private:
  const leg& leg_of(std::uint32_t index) const {
    const step& one = plan_.steps[index];
    return plan_.paths[one.path].legs[one.leg];
  }

  // Starts copies. The first copy of a slot takes an engine as soon as it may start. Copies take
  // engines in the order in which they were enqueued.
  void start_what_can(double now) {
    waiting_s_ = never;
    ready_.clear();
    for (std::size_t slot = 0; slot < queues_.size(); ++slot) {
      if (heads_[slot] == queues_[slot].size()) continue;
      const std::uint32_t index = queues_[slot][heads_[slot]];
      if (states_[index] != state::waiting || waits_for_[index] != 0) continue;
      if (enqueued_s_[index] > now)
        waiting_s_ = std::min(waiting_s_, enqueued_s_[index]);
      else
        ready_.push_back(index);
    }
    std::sort(ready_.begin(), ready_.end());
    for (const std::uint32_t index : ready_) {
      int& engines = free_engines_[leg_of(index).engines];
      if (engines == 0) continue;  // the copy is tried again when another copy ends
      --engines;
      states_[index] = state::setting_up;
      next_s_[index] = now + setup_s_;
      plan_.steps[index].begin_s = now;
      under_way_.push_back(index);
    }
  }

  double next_event(double now) const {
    double then = waiting_s_;
    for (const std::uint32_t index : under_way_)
      then = std::min(then, states_[index] == state::moving ? now + left_[index] / rate_[index]
                                                            : next_s_[index]);
    return std::max(then, now);
  }

  void move(double now, double then) {
    for (const std::uint32_t index : under_way_) {
      if (states_[index] != state::moving) continue;
      if (rates_ && then > now) record(index, now, then);
      left_[index] -= rate_[index] * (then - now);
      // A remainder that is only a rounding error is dropped. Such a remainder is less than a
      // thousandth of a byte, or less than the resolution of times.
      if (left_[index] < std::max(1e-3, rate_[index] * then * 1e-14)) left_[index] = 0;
    }
  }

  void record(std::uint32_t index, double now, double then) {
    spans_.push_back({.step = index, .begin_s = now, .end_s = then, .bytes_per_s = rate_[index]});
  }

  void arrive(std::uint32_t index, double now) {
    states_[index] = state::arriving;
    ++free_engines_[leg_of(index).engines];
    next_s_[index] = now + seconds_of(leg_of(index).latency_ps);
  }

  void finish(std::uint32_t index, double now) {
    states_[index] = state::complete;
    plan_.steps[index].end_s = now;
    ++heads_[plan_.steps[index].slot];
    for (const std::uint32_t woken : wakes_[index]) {
      --waits_for_[woken];
      enqueued_s_[woken] = std::max(enqueued_s_[woken], now + event_s_);
    }
  }

  // Shares the rates by max-min fairness. All rates grow together until a resource is full or an
  // engine is at its limit. A rate that reaches such a limit stops growing, and the other rates
  // continue to grow.
  void share_rates() {
    growing_.clear();
    std::fill(users_of_.begin(), users_of_.end(), 0);
    for (const std::uint32_t index : under_way_) {
      if (states_[index] != state::moving) continue;
      growing_.push_back(index);
      rate_[index] = 0;
      for (const std::size_t used : leg_of(index).uses) {
        if (users_of_[used]++ == 0) left_of_[used] = shared_.at(used).fair();
      }
    }
    double level = 0;
    while (!growing_.empty()) {
      double step = engine_bytes_per_s_ - level;
      for (const std::uint32_t index : growing_)
        for (const std::size_t used : leg_of(index).uses)
          step = std::min(step, left_of_[used] / users_of_[used]);
      step = std::max(step, 0.0);
      level += step;
      for (const std::uint32_t index : growing_) {
        rate_[index] = level;
        for (const std::size_t used : leg_of(index).uses) left_of_[used] -= step;
      }
      const auto exhausted = [&](std::uint32_t index) {
        if (level >= engine_bytes_per_s_ * (1 - 1e-12)) return true;
        const auto& uses = leg_of(index).uses;
        return std::any_of(uses.begin(), uses.end(), [&](std::size_t used) {
          return left_of_[used] <= 1e-9 * shared_.at(used).capacity;
        });
      };
      stopped_.clear();
      for (const std::uint32_t index : growing_)
        if (exhausted(index)) stopped_.push_back(index);
      for (const std::uint32_t index : stopped_)
        for (const std::size_t used : leg_of(index).uses) --users_of_[used];
      std::erase_if(growing_, [&](std::uint32_t index) {
        return std::find(stopped_.begin(), stopped_.end(), index) != stopped_.end();
      });
    }
  }

  plan& plan_;
  const resources& shared_;
  double setup_s_;
  double event_s_;
  double engine_bytes_per_s_;
  bool rates_;
  std::vector<state> states_;
  // For each copy, the time when its state ends, if that time is known.
  std::vector<double> next_s_;
  std::vector<double> enqueued_s_;
  std::vector<double> left_;  // for each copy, the number of bytes that are left
  std::vector<double> rate_;
  std::vector<std::uint32_t> waits_for_;
  std::vector<std::vector<std::uint32_t>> wakes_;
  std::vector<std::vector<std::uint32_t>> queues_;  // queue of each slot
  std::vector<std::size_t> heads_;
  std::vector<bool> own_;  // for each slot, whether the slot is the message's own stream
  // For each resource of kind `engines`, the number of idle engines.
  std::vector<int> free_engines_;
  // For each resource, the rate that share_rates has not given to copies yet.
  std::vector<double> left_of_;
  std::vector<std::uint32_t> users_of_;
  std::vector<std::uint32_t> under_way_;
  std::vector<std::uint32_t> ready_;
  std::vector<std::uint32_t> growing_;
  std::vector<std::uint32_t> stopped_;
  std::vector<span_of_step> spans_;
  double waiting_s_ = never;
};

}  // namespace

std::vector<span_of_step> predict(plan& made, const resources& shared, const machine::gpu& unit,
                                  bool rates) {
  return simulation(made, shared, unit, rates).run();
}

}  // namespace interlace::plan
