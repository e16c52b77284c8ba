#include "plan/shares.hpp"

#include <algorithm>
#include <numeric>

#include "base/units.hpp"
#include "plan/simplex.hpp"

namespace interlace::plan {
namespace {

// A path is kept only if the other paths would be slower without it by at least this factor.
constexpr double least_gain = 1.005;
// The objective adds 1 for moving a whole message. It subtracts staged_price if the whole message
// goes over staged paths.
constexpr double staged_price = 1e-5;

std::uint32_t chunks_on(const path& way, std::uint32_t chunks) { return way.direct() ? 1 : chunks; }

// The time that a path takes for each byte. The slowest leg moves all bytes. It also waits while
// each other leg moves one chunk.
double seconds_a_byte(const path& way, std::uint32_t chunks) {
  double all = 0;
  double slowest = 0;
  for (const leg& part : way.legs) {
    all += 1 / part.bytes_per_s;
    slowest = std::max(slowest, 1 / part.bytes_per_s);
  }
  return slowest + (all - slowest) / chunks_on(way, chunks);
}

class balancer {
 public:
  balancer(const plan& made, const resources& shared, const overheads& costs, std::uint32_t chunks,
           std::vector<bool> usable)
      : plan_(made),
        shared_(shared),
        usable_(std::move(usable)),
        fills_(made.paths.size()),
        slopes_(made.paths.size()) {
    for (std::size_t at = 0; at < made.paths.size(); ++at) {
      fills_[at] = fill_s(made.paths[at], costs, chunks);
      slopes_[at] = seconds_a_byte(made.paths[at], chunks);
    }
  }

  std::optional<balance> best() {
    auto found = solve();
    if (!found) return std::nullopt;
    std::vector<std::size_t> staged;
    for (std::size_t at = 0; at < usable_.size(); ++at) {
      usable_[at] = found->bytes[at] > 0 || (usable_[at] && plan_.paths[at].direct());
      if (usable_[at] && !plan_.paths[at].direct()) staged.push_back(at);
    }
    std::stable_sort(staged.begin(), staged.end(), [&](std::size_t one, std::size_t other) {
      return found->bytes[one] < found->bytes[other];
    });
    const double limit = found->time_s * least_gain;
    for (const std::size_t at : staged) {
      if (found->bytes[at] <= 0) continue;  // the removal of an earlier path has emptied this path
      usable_[at] = false;
      const auto without = solve();
      if (without && without->time_s <= limit)
        found = without;
      else
        usable_[at] = true;
    }
    return found;
  }

 private:
  // A time that always suffices, because every message could run alone on its fastest path, one
  // message after another.
  std::optional<double> longest() const {
    double sum = 0;
    for (std::size_t number = 0; number < plan_.messages.size(); ++number) {
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t at = 0; at < usable_.size(); ++at) {
        const path& way = plan_.paths[at];
        if (!usable_[at] || way.message != number) continue;
        double slope = slopes_[at];
        for (const leg& part : way.legs)
          for (const std::size_t used : part.uses) {
            const double rate = available(way, used);
            slope = rate <= 0 ? std::numeric_limits<double>::infinity() : std::max(slope, 1 / rate);
          }
        least = std::min(least, fills_[at] + slope * bytes_of(at));
      }
      sum += least;
    }
    if (sum == std::numeric_limits<double>::infinity()) return std::nullopt;
    return sum;
  }

  double bytes_of(std::size_t at) const {
    return static_cast<double>(plan_.messages[plan_.paths[at].message].bytes);
  }

  double available(const path& way, std::size_t used) const {
    return way.direct() ? shared_.at(used).fair() : shared_.at(used).rest();
  }

  std::optional<balance> solve() {
    const auto start = longest();
    if (!start) return std::nullopt;
    double time = *start;
    // Let S(T) be the part of all messages that can be moved in time T. S is a concave function of
    // T, except where another path becomes usable. A few steps of Newton's method therefore find a
    // T with S(T) close to 1.
    for (int turn = 0; turn < 12; ++turn) {
      solve_for(time);
      const double error = solution_.x.back() - 1;
      if (error > -1e-6 && error < 1e-3) break;
      const double slope = std::inner_product(solution_.prices.begin(), solution_.prices.end(),
                                              growth_.begin(), 0.0);
      if (slope <= 0) break;
      const double next = time - error / slope;
      if (next <= 0) break;
      time = next;
    }
    if (solution_.x.back() <= 0) {
      time = *start;
      solve_for(time);
    }
    balance found;
    found.bytes.assign(plan_.paths.size(), 0);
    found.load.assign(shared_.all().size(), 0);
    std::vector<double> carried(plan_.messages.size(), 0);
    for (std::size_t column = 0; column < columns_.size(); ++column)
      carried[plan_.paths[columns_[column]].message] += solution_.x[column];
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const std::size_t at = columns_[column];
      const double part = solution_.x[column] / carried[plan_.paths[at].message];
      if (part > 1e-6) found.bytes[at] = part * bytes_of(at);
    }
    found.time_s = time / std::min(1.0, solution_.x.back());
    for (std::size_t at = 0; at < plan_.paths.size(); ++at)
      for (const leg& part : plan_.paths[at].legs) {
        if (found.bytes[at] <= 0) continue;
        for (const std::size_t used : part.uses)
          found.load[used] += found.bytes[at] / found.time_s / shared_.at(used).capacity;
        found.load[part.engines] +=
            found.bytes[at] / part.bytes_per_s / found.time_s / shared_.at(part.engines).capacity;
      }
    return found;
  }

  // Solves the linear program for a given time. Each path that can begin in time has a variable:
  // the part of its message that the path carries. The last variable is the part of all messages
  // that is moved. The program maximises the last variable.
  void solve_for(double time) {
    columns_.clear();
    for (std::size_t at = 0; at < usable_.size(); ++at)
      if (usable_[at] && fills_[at] < time) columns_.push_back(at);
    const std::size_t width = columns_.size() + 1;
    linear_program program;
    program.objective.assign(width, 0);
    program.objective.back() = 1;
    growth_.clear();
    const auto row = [&](double limit, double growth) -> std::vector<double>& {
      program.limits.push_back(limit);
      growth_.push_back(growth);
      return program.rows.emplace_back(width, 0.0);
    };
    for (std::size_t number = 0; number < plan_.messages.size(); ++number) {
      auto& moved = row(0, 0);
      moved.back() = 1;
      for (std::size_t column = 0; column < columns_.size(); ++column)
        if (plan_.paths[columns_[column]].message == number) moved[column] = -1;
    }
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const std::size_t at = columns_[column];
      const double whole = slopes_[at] * bytes_of(at);
      row((time - fills_[at]) / whole, 1 / whole)[column] = 1;
      if (!plan_.paths[at].direct()) program.objective[column] = -staged_price;
    }
    add_resource_rows(time, row);
    solution_ = maximise(program);
  }

  template <class Row>
  void add_resource_rows(double time, const Row& row) {
    // The rows limit the bytes on each resource. A resource has one or two rows. The second row is
    // for staged paths alone.
    for (std::size_t used = 0; used < shared_.all().size(); ++used) {
      const resource& one = shared_.at(used);
      const bool engines = one.kind == resource_kind::engines;
      std::vector<std::pair<std::size_t, double>> amounts;
      bool staged = false;
      for (std::size_t column = 0; column < columns_.size(); ++column) {
        const path& way = plan_.paths[columns_[column]];
        double amount = 0;
        for (const leg& part : way.legs)
          amount += engines
                        ? (part.engines == used ? 1 / part.bytes_per_s : 0.0)
                        : static_cast<double>(std::count(part.uses.begin(), part.uses.end(), used));
        if (amount == 0) continue;
        amounts.emplace_back(column, amount * bytes_of(columns_[column]));
        staged = staged || !way.direct();
      }
      if (amounts.empty()) continue;
      const auto add = [&](double capacity, bool staged_only) {
        double scale = 0;
        for (const auto& [column, amount] : amounts) scale = std::max(scale, amount);
        auto& cells = row(capacity * time / scale, capacity / scale);
        for (const auto& [column, amount] : amounts)
          if (!staged_only || !plan_.paths[columns_[column]].direct())
            cells[column] = amount / scale;
      };
      add(one.fair(), false);
      if (staged && one.busy > 0) add(one.rest(), true);
    }
  }

  const plan& plan_;
  const resources& shared_;
  std::vector<bool> usable_;
  std::vector<double> fills_;
  std::vector<double> slopes_;
  std::vector<std::size_t> columns_;  // path of each variable except the last
  std::vector<double> growth_;        // for each row, the growth of its limit with T
  linear_solution solution_;
};

}  // namespace

double fill_s(const path& way, const overheads& costs, std::uint32_t chunks) {
  double sum = costs.launch_s * static_cast<double>(way.legs.size());
  for (const leg& part : way.legs) sum += seconds_of(part.latency_ps);
  // The slowest leg copies every chunk while the path moves its bytes. Each other leg adds the copy
  // of one chunk.
  const auto copies = static_cast<double>(chunks_on(way, chunks) + way.legs.size() - 1);
  // A staged path starts after the message's stream, and that stream continues after the path.
  if (!way.direct()) sum += costs.event_s * static_cast<double>(way.legs.size() + 1);
  return sum + costs.setup_s * copies;
}

std::optional<balance> balance_shares(const plan& made, const resources& shared,
                                      const overheads& costs, std::uint32_t chunks,
                                      const std::vector<bool>& usable) {
  return balancer(made, shared, costs, chunks, usable).best();
}

}  // namespace interlace::plan
