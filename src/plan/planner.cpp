#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <utility>

#include "base/units.hpp"
#include "interlace/base/errors.hpp"
#include "machine/route.hpp"
#include "plan/plan.hpp"
#include "plan/schedule.hpp"
#include "plan/shares.hpp"
#include "plan/steps.hpp"

namespace interlace::plan {
namespace {

using machine::endpoint;
using machine::endpoint_kind;

// A resource that is used to at least this fraction takes no more traffic.
constexpr double full = 0.98;
// A simpler plan is preferred if its time is at most this multiple of the shortest time. Several
// messages never start at exactly the same time. A plan that relies on a common start must
// therefore gain more than 1 %.
constexpr double as_fast = 1.01;
constexpr double as_fast_together = 1.05;
constexpr std::size_t most_steps = 4096;
// The most paths, over all messages, whose shares are balanced together.
constexpr std::size_t most_staged = 64;
constexpr std::array<std::uint32_t, 7> chunk_counts{1, 2, 4, 8, 16, 32, 64};

std::string microseconds(double seconds) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.1f us", seconds * 1e6);
  return text.data();
}

std::string rate(double bytes_per_s) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.1f GB/s", bytes_per_s / 1e9);
  return text.data();
}

std::string percent(double part) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.1f %%", part * 100);
  return text.data();
}

class planner {
 public:
  planner(const machine::machine& described, std::span<const message> messages,
          const options& asked)
      : machine_(described), asked_(asked), shared_(described) {
    if (messages.empty()) throw usage_error("there is no message to plan");
    for (const message& one : messages) check(one);
    for (const traffic& running : asked.traffic) {
      for (const endpoint end : running.stops) check_place(end);
      if (!(running.bytes_per_s >= 0) || !shared_.add(running))
        throw usage_error("there is no path for the traffic in flight");
    }
    if (asked.staging)
      for (const endpoint end : *asked.staging) check_place(end);
    blank_.messages.assign(messages.begin(), messages.end());
    costs_.setup_s = seconds_of(described.gpu.copy_setup_ps);
    costs_.launch_s = seconds_of(described.gpu.copy_launch_ps);
    costs_.event_s = seconds_of(described.gpu.copy_event_latency_ps);
    find_paths();
    order_messages();
  }

  plan run() {
    std::optional<plan> direct = directly();
    if (direct && asked_.direct) candidates_.push_back(*direct);
    bool any = false;
    for (std::size_t at = 0; at < usable_.size(); ++at) any = any || staged(at);
    if (any)
      for (const std::vector<bool>& set : sets_of_paths())
        for (const std::uint32_t chunks : counts()) try_paths(set, chunks);
    if (candidates_.empty())
      throw usage_error(too_many_ ? "the paths that are allowed would take more than " +
                                        std::to_string(most_steps) +
                                        " copies; give more staging memory, or fewer chunks"
                                  : "the paths that are allowed cannot carry the message; allow "
                                    "others");
    plan& best = choose();
    best.direct_s = direct ? direct->predicted_s : best.predicted_s;
    explain(best);
    return std::move(best);
  }

 private:
  std::string named(endpoint end) const { return machine::name(machine_, end); }

  void check_place(endpoint end) const {
    const bool exists = end.kind == endpoint_kind::gpu    ? end.index < machine_.gpu_count
                        : end.kind == endpoint_kind::host ? end.index == 0
                                                          : false;
    if (!exists)
      throw usage_error(named(end) + " is not a memory of " + machine_.name +
                        "; it has gpu0 to gpu" + std::to_string(machine_.gpu_count - 1) +
                        " and host");
  }

  void check(const message& one) const {
    check_place(one.from);
    check_place(one.to);
    if (one.from == one.to)
      throw usage_error("source and destination are both " + named(one.from) +
                        "; a plan is for two memories");
    if (one.bytes == 0)
      throw usage_error("a message of 0 bytes from " + named(one.from) + " to " + named(one.to) +
                        " needs no plan");
    if (one.bytes > (std::uint64_t{1} << 50U))
      throw usage_error("a message is longer than 1 PiB; plan its parts");
  }

  // Finds every path with at most one staging place. A path that cannot help gets a reason and is
  // not used.
  void find_paths() {
    for (std::uint32_t number = 0; number < blank_.messages.size(); ++number) {
      const message& one = blank_.messages[number];
      add_path(number, {one.from, one.to});
      for (std::uint32_t gpu = 0; gpu < machine_.gpu_count; ++gpu) {
        const endpoint place{endpoint_kind::gpu, gpu};
        if (place != one.from && place != one.to) add_path(number, {one.from, place, one.to});
      }
      const endpoint host{endpoint_kind::host, 0};
      if (host != one.from && host != one.to) add_path(number, {one.from, host, one.to});
    }
    usable_.assign(blank_.paths.size(), false);
    for (std::size_t at = 0; at < blank_.paths.size(); ++at) {
      path& way = blank_.paths[at];
      way.reason = why_not(way);
      usable_[at] = way.reason.empty();
    }
    std::size_t count = 0;
    for (std::size_t at = 0; at < usable_.size(); ++at) count += staged(at) ? 1 : 0;
    if (count <= most_staged) return;
    for (std::size_t at = 0; at < usable_.size(); ++at) {
      if (!staged(at)) continue;
      usable_[at] = false;
      blank_.paths[at].reason = "it was not tried: the messages have " + std::to_string(count) +
                                " staged paths, of which " + std::to_string(most_staged) +
                                " can be balanced";
    }
  }

  void add_path(std::uint32_t number, std::vector<endpoint> stops) {
    path way;
    way.message = number;
    way.stops = std::move(stops);
    for (std::size_t stop = 0; stop + 1 < way.stops.size(); ++stop) {
      auto part = shared_.copy(way.stops[stop], way.stops[stop + 1]);
      if (!part) {
        way.legs.clear();
        way.reason = "there is no route from " + named(way.stops[stop]) + " to " +
                     named(way.stops[stop + 1]);
        break;
      }
      way.legs.push_back(std::move(*part));
    }
    if (way.direct()) direct_.push_back(blank_.paths.size());
    blank_.paths.push_back(std::move(way));
  }

  // The reason why a path is excluded before any share is computed. The text is empty if the path
  // is not excluded.
  std::string why_not(const path& way) const {
    if (way.legs.empty()) return way.reason;
    if (way.direct()) return asked_.direct ? "" : "it is not among the allowed paths";
    const endpoint place = way.stops[1];
    if (asked_.staging &&
        std::find(asked_.staging->begin(), asked_.staging->end(), place) == asked_.staging->end())
      return "it is not among the allowed paths";
    if (asked_.staging_bytes == 0) return "there is no staging memory";
    for (const leg& part : way.legs)
      for (const std::size_t used : part.uses) {
        const resource& one = shared_.at(used);
        if (one.rest() < (1 - full) * one.capacity)
          return "traffic in flight already uses " + one.name;
      }
    const path& direct = blank_.paths[direct_[way.message]];
    if (!asked_.direct || direct.legs.empty()) return "";
    return why_dominated(way, direct.legs.front());
  }

  // The reason why a path is worse than the direct path. A path does not help if it uses all
  // resources of the direct path and further resources. The text is empty if the path is not worse.
  std::string why_dominated(const path& way, const leg& direct) const {
    std::size_t slowest = direct.uses.front();
    for (const std::size_t used : direct.uses) {
      const bool shared = std::any_of(way.legs.begin(), way.legs.end(), [&](const leg& part) {
        return std::find(part.uses.begin(), part.uses.end(), used) != part.uses.end();
      });
      if (!shared) return "";
      if (shared_.at(used).capacity < shared_.at(slowest).capacity) slowest = used;
    }
    return "it uses " + shared_.at(slowest).name + " (" + rate(shared_.at(slowest).capacity) +
           ") of the direct path, and other resources in addition";
  }

  // Assigns messages to rounds. Messages whose direct paths share a port run one after another, in
  // the order of the distance from source to destination. In this order, each round of an
  // all-to-all is a rotation, in which no two senders have the same receiver.
  void order_messages() {
    const std::size_t count = blank_.messages.size();
    const auto place = [&](endpoint end) {
      return end.kind == endpoint_kind::gpu ? end.index : machine_.gpu_count;
    };
    const std::uint32_t places = machine_.gpu_count + 1;
    std::vector<std::size_t> order(count);
    for (std::size_t at = 0; at < count; ++at) order[at] = at;
    const auto distance = [&](std::size_t at) {
      const message& one = blank_.messages[at];
      const bool gpus = one.from.kind == endpoint_kind::gpu && one.to.kind == endpoint_kind::gpu;
      const std::uint32_t around = gpus ? machine_.gpu_count : places;
      return (place(one.to) + around - place(one.from)) % around;
    };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t one, std::size_t other) {
      return distance(one) < distance(other);
    });
    blank_.rounds.assign(count, 0);
    std::vector<std::set<std::size_t>> ports;  // ports that are taken in each round
    for (const std::size_t at : order) {
      const path& way = blank_.paths[direct_[at]];
      const std::set<std::size_t> wanted = links_of(way);
      std::size_t round = 0;
      const auto meets = [&](const std::set<std::size_t>& taken) {
        return std::any_of(wanted.begin(), wanted.end(),
                           [&](std::size_t used) { return taken.contains(used); });
      };
      while (round < ports.size() && meets(ports[round])) ++round;
      if (round == ports.size()) ports.emplace_back();
      ports[round].insert(wanted.begin(), wanted.end());
      blank_.rounds[at] = static_cast<std::uint32_t>(round);
    }
  }

  std::vector<std::uint32_t> counts() const {
    if (asked_.chunks != 0) return {asked_.chunks};
    return {chunk_counts.begin(), chunk_counts.end()};
  }

  // Makes a plan from the bytes of each path. There is no value if the plan would have too many
  // copies.
  std::optional<plan> make(const std::vector<double>& bytes, std::uint32_t chunks) const {
    plan made = blank_;
    shares wanted;
    wanted.bytes = bytes;
    for (const path& way : made.paths) wanted.chunks.push_back(way.direct() ? 1 : chunks);
    if (!cut(made, wanted, asked_.dealing, asked_.staging_bytes, most_steps)) return std::nullopt;
    return made;
  }

  plan make_direct(const std::vector<double>& bytes, bool apart) const {
    plan made = blank_;
    made.apart = apart;
    const shares wanted{bytes, std::vector<std::uint32_t>(bytes.size(), 1)};
    cut(made, wanted, asked_.dealing, asked_.staging_bytes);
    predict(made, shared_, machine_.gpu);
    return made;
  }

  // The plan with all messages on their direct paths, even if the options do not allow these paths.
  // There is no value if a message has no direct path. Messages that share a port run one after
  // another, or at the same time if this is faster. Running at the same time can be faster if one
  // of the messages waits for a slower link, or for a port to which other messages go.
  std::optional<plan> directly() const {
    std::vector<double> bytes(blank_.paths.size(), 0);
    for (const std::size_t at : direct_) {
      if (blank_.paths[at].legs.empty()) return std::nullopt;
      bytes[at] = 1;
    }
    plan made = make_direct(bytes, false);
    if (made.slots.size() == made.messages.size()) return made;
    plan apart = make_direct(bytes, true);
    return apart.predicted_s * as_fast_together < made.predicted_s ? apart : made;
  }

  bool staged(std::size_t at) const { return usable_[at] && !blank_.paths[at].direct(); }

  // The sets of paths that are tried if there are several messages:
  // - all paths that can help,
  // - all paths that do not lead through the host, and
  // - for each message one staged path that shares no link with the other messages' paths.
  std::vector<std::vector<bool>> sets_of_paths() const {
    std::vector<std::vector<bool>> sets{usable_};
    if (blank_.messages.size() == 1) return sets;
    std::vector<bool> gpus = usable_;
    for (std::size_t at = 0; at < gpus.size(); ++at)
      if (staged(at) && blank_.paths[at].stops[1].kind == endpoint_kind::host) gpus[at] = false;
    sets.push_back(gpus);
    std::vector<bool> alone = usable_;
    std::set<std::size_t> taken;
    for (const std::size_t at : direct_) {
      const auto links = links_of(blank_.paths[at]);
      if (usable_[at]) taken.insert(links.begin(), links.end());
    }
    std::set<std::uint32_t> helped;
    for (std::size_t at = 0; at < alone.size(); ++at) {
      if (!staged(at)) continue;
      const auto links = links_of(blank_.paths[at]);
      alone[at] = gpus[at] && !helped.contains(blank_.paths[at].message) &&
                  std::none_of(links.begin(), links.end(),
                               [&](std::size_t used) { return taken.contains(used); });
      if (!alone[at]) continue;
      helped.insert(blank_.paths[at].message);
      taken.insert(links.begin(), links.end());
    }
    sets.push_back(std::move(alone));
    return sets;
  }

  std::set<std::size_t> links_of(const path& way) const {
    std::set<std::size_t> found;
    for (const leg& part : way.legs)
      for (const std::size_t used : part.uses)
        if (shared_.at(used).kind == resource_kind::link) found.insert(used);
    return found;
  }

  // Tries candidates with these paths and numbers of chunks. For a single message it also tries
  // fewer paths. With fewer paths, each remaining path has more staging memory. The path with the
  // smallest share is dropped first.
  void try_paths(std::vector<bool> usable, std::uint32_t chunks) {
    for (;;) {
      const auto found = balance_shares(blank_, shared_, costs_, chunks, usable);
      if (!found) return;
      std::size_t count = 0;
      std::size_t least = 0;
      for (std::size_t at = 0; at < usable.size(); ++at) {
        usable[at] = found->bytes[at] > 0;
        if (!usable[at] || blank_.paths[at].direct()) continue;
        if (count++ == 0 || found->bytes[at] < found->bytes[least]) least = at;
      }
      if (auto made = make(found->bytes, chunks)) {
        candidates_.push_back(std::move(*made));
        predict(candidates_.back(), shared_, machine_.gpu);
      } else {
        too_many_ = true;
      }
      if (count < 2 || blank_.messages.size() > 1) return;
      usable[least] = false;
    }
  }

  // Chooses among the candidates that are nearly as fast as the fastest candidate. The choice
  // prefers fewer staging buffers, then a shorter time, then fewer copies.
  plan& choose() {
    const auto least_of = [&](std::size_t buffers) {
      double least = std::numeric_limits<double>::infinity();
      for (const plan& one : candidates_)
        if (one.buffers.size() <= buffers) least = std::min(least, one.predicted_s);
      return least;
    };
    std::size_t buffers = std::numeric_limits<std::size_t>::max();
    const double near =
        least_of(buffers) * (blank_.messages.size() == 1 ? as_fast : as_fast_together);
    for (const plan& one : candidates_)
      if (one.predicted_s <= near) buffers = std::min(buffers, one.buffers.size());
    const double limit = least_of(buffers) * as_fast;
    plan* best = nullptr;
    for (plan& one : candidates_)
      if (one.buffers.size() <= buffers && one.predicted_s <= limit &&
          (best == nullptr || one.steps.size() < best->steps.size()))
        best = &one;
    return *best;
  }

  void explain(plan& made) const {
    std::vector<bool> used(made.paths.size());
    std::uint32_t chunks = 1;
    for (std::size_t at = 0; at < used.size(); ++at) {
      used[at] = made.paths[at].bytes > 0;
      chunks = std::max(chunks, made.paths[at].chunks);
    }
    const auto taken = balance_shares(blank_, shared_, costs_, chunks, used);
    for (std::size_t at = 0; at < made.paths.size(); ++at) {
      path& way = made.paths[at];
      if (way.bytes > 0)
        way.reason = why(made, way);
      else if (usable_[at])
        way.reason = why_unused(made, at, taken ? taken->load : std::vector<double>{});
    }
  }

  std::string why(const plan& made, const path& way) const {
    const leg& slowest = *std::min_element(
        way.legs.begin(), way.legs.end(),
        [](const leg& one, const leg& other) { return one.bytes_per_s < other.bytes_per_s; });
    const double part =
        static_cast<double>(way.bytes) / static_cast<double>(made.messages[way.message].bytes);
    std::string text = percent(part) + " of the bytes";
    if (way.chunks > 1) text += " in " + std::to_string(way.chunks) + " chunks";
    return text + "; alone " + rate(slowest.bytes_per_s) + " from " + named(slowest.from) + " to " +
           named(slowest.to);
  }

  std::string why_unused(const plan& made, std::size_t at, const std::vector<double>& load) const {
    const path& way = blank_.paths[at];
    // If `load` is not empty, the chosen shares fill a resource that the path needs.
    if (!load.empty()) {
      std::vector<std::size_t> uses;
      for (const leg& part : way.legs) {
        uses.insert(uses.end(), part.uses.begin(), part.uses.end());
        uses.push_back(part.engines);
      }
      for (const std::size_t used : uses)
        if (load[used] >= full) return "the paths in use fill " + shared_.at(used).name;
    }
    const double fill = fill_s(way, costs_, 1);
    if (fill >= made.predicted_s)
      return "its first bytes would arrive after " + microseconds(fill) +
             "; without it, the transfer ends after " + microseconds(made.predicted_s);
    if (blank_.messages.size() == 1) {
      bool too_many = false;
      if (const auto with = time_with(made, at, too_many))
        return "predicted " + microseconds(*with) + " with it, " + microseconds(made.predicted_s) +
               " without";
      if (too_many)
        return "with it there would be more than " + std::to_string(most_steps) + " copies";
    }
    return "the messages would not end earlier with it";
  }

  // The predicted time of the plan if this path, too, carried a part. Sets `too_many` if the plan
  // would have too many copies with this path.
  std::optional<double> time_with(const plan& made, std::size_t at, bool& too_many) const {
    std::optional<double> least;
    for (const std::uint32_t chunks : counts())
      if (const auto time = time_with(made, at, chunks, too_many);
          time && (!least || *time < *least))
        least = time;
    return least;
  }

  std::optional<double> time_with(const plan& made, std::size_t at, std::uint32_t chunks,
                                  bool& too_many) const {
    std::vector<bool> usable(blank_.paths.size(), false);
    for (std::size_t other = 0; other < usable.size(); ++other)
      usable[other] = made.paths[other].bytes > 0;
    usable[at] = true;
    auto found = balance_shares(blank_, shared_, costs_, chunks, usable);
    if (!found) return std::nullopt;
    // The path gets a part in proportion to its rate, only to predict the effect. The part is
    // dropped afterwards.
    if (found->bytes[at] <= 0) {
      const auto alone = [&](std::size_t index) {
        double least = 0;
        for (const leg& part : blank_.paths[index].legs)
          least = least == 0 ? part.bytes_per_s : std::min(least, part.bytes_per_s);
        return least;
      };
      double others = 0;
      for (std::size_t other = 0; other < usable.size(); ++other)
        if (usable[other]) others += alone(other);
      const auto whole = static_cast<double>(blank_.messages.front().bytes);
      const double taken = whole * alone(at) / others;
      for (std::size_t other = 0; other < usable.size(); ++other)
        found->bytes[other] *= (whole - taken) / whole;
      found->bytes[at] = taken;
    }
    std::optional<plan> tried = make(found->bytes, chunks);
    if (!tried) too_many = true;
    if (!tried || tried->paths[at].bytes == 0) return std::nullopt;
    predict(*tried, shared_, machine_.gpu);
    return tried->predicted_s;
  }

  const machine::machine& machine_;
  const options& asked_;
  resources shared_;
  overheads costs_;
  plan blank_;                       // the messages, rounds and paths, without copies
  std::vector<std::size_t> direct_;  // direct path of each message
  std::vector<bool> usable_;         // for each path, whether plans may use it
  std::vector<plan> candidates_;     // candidates with their predicted times
  bool too_many_ = false;            // whether a candidate would have had too many copies
};

}  // namespace

plan make_plan(const machine::machine& described, std::span<const message> messages,
               const options& asked) {
  return planner(described, messages, asked).run();
}

std::string name(const machine::machine& described, const path& way) {
  if (way.direct()) return "direct";
  std::string text;
  for (std::size_t stop = 1; stop + 1 < way.stops.size(); ++stop)
    text += (stop == 1 ? "" : "+") + machine::name(described, way.stops[stop]);
  return text;
}

}  // namespace interlace::plan
