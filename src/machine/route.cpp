#include "machine/route.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace interlace::machine {
namespace {

// The number of an end. GPUs have the first numbers, then switches, then the host.
std::size_t number(const machine& described, endpoint end) {
  switch (end.kind) {
    case endpoint_kind::gpu:
      return end.index;
    case endpoint_kind::network_switch:
      return described.gpu_count + end.index;
    case endpoint_kind::host:
      break;
  }
  return described.gpu_count + described.switches.size();
}

// The best route found so far to one end.
struct candidate {
  bool known = false;
  double slowest = std::numeric_limits<double>::infinity();
  std::vector<hop> way;
};

bool links_come_first(const std::vector<hop>& left, const std::vector<hop>& right) {
  return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end(),
                                      [](hop one, hop other) { return one.link < other.link; });
}

enum class preference { rate, order };

// The best of the shortest routes over links with a rate of at least `least_rate`. The search
// settles all ends at the same distance together. Each end therefore keeps the best of all routes
// of its length before another link is added.
candidate search(const machine& described, std::size_t start, std::size_t target, double least_rate,
                 preference preferred) {
  const std::size_t ends = described.gpu_count + described.switches.size() + 1;
  if (start >= ends || target >= ends) return {};
  std::vector<bool> settled(ends, false);
  settled[start] = true;
  std::vector<candidate> frontier(ends);
  frontier[start].known = true;
  while (!settled[target]) {
    std::vector<candidate> next(ends);
    bool grew = false;
    for (std::size_t index = 0; index < described.links.size(); ++index) {
      const link& edge = described.links[index];
      if (edge.bytes_per_s < least_rate) continue;
      for (const bool forward : {true, false}) {
        const std::size_t at = number(described, forward ? edge.a : edge.b);
        const std::size_t reached = number(described, forward ? edge.b : edge.a);
        if (at >= ends || reached >= ends || !frontier[at].known || settled[reached]) continue;
        if (at != start && at < described.gpu_count) continue;  // GPUs do not forward messages
        candidate longer{.known = true,
                         .slowest = std::min(frontier[at].slowest, edge.bytes_per_s),
                         .way = frontier[at].way};
        longer.way.push_back({index, forward});
        candidate& best = next[reached];
        const bool better = preferred == preference::rate ? longer.slowest > best.slowest
                                                          : links_come_first(longer.way, best.way);
        if (!best.known || better) best = std::move(longer);
        grew = true;
      }
    }
    if (!grew) return {};
    for (std::size_t end = 0; end < ends; ++end)
      if (next[end].known) settled[end] = true;
    frontier = std::move(next);
  }
  return std::move(frontier[target]);
}

}  // namespace

std::optional<std::vector<hop>> route(const machine& described, endpoint from, endpoint to) {
  if (from == to) return std::vector<hop>{};
  const std::size_t start = number(described, from);
  const std::size_t target = number(described, to);
  // The search finds the best rate first, and then the route. If one step found both, the
  // preference for earlier links could drop the beginning of a faster route.
  const candidate fastest = search(described, start, target, 0, preference::rate);
  if (!fastest.known) return std::nullopt;
  return search(described, start, target, fastest.slowest, preference::order).way;
}

std::string name(const machine& described, endpoint end) {
  switch (end.kind) {
    case endpoint_kind::gpu:
      return "gpu" + std::to_string(end.index);
    case endpoint_kind::network_switch:
      if (end.index < described.switches.size()) return described.switches[end.index].name;
      return "switch" + std::to_string(end.index);
    case endpoint_kind::host:
      break;
  }
  return "host";
}

std::string text(const machine& described, endpoint from, const std::vector<hop>& way) {
  std::string line = name(described, from);
  for (const hop& step : way) {
    const link& edge = described.links[step.link];
    line += " -" + edge.protocol_name + "-> " + name(described, step.forward ? edge.b : edge.a);
  }
  return line;
}

}  // namespace interlace::machine
