#include "plan/steps.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace interlace::plan {
namespace {

// alignment of parts, in bytes; copies with a smaller alignment are slower
constexpr std::uint64_t grain = 256;

std::uint64_t round_up(std::uint64_t bytes) { return (bytes + grain - 1) / grain * grain; }

struct piece {
  std::uint32_t path = 0;
  std::uint32_t chunk = 0;
  std::uint64_t offset = 0;  // offset in the message
  std::uint64_t bytes = 0;
};

std::uint32_t buffers_of(std::uint32_t chunks) { return std::min(chunks, most_buffers); }

class cutter {
 public:
  cutter(plan& made, const shares& wanted, dealing order, std::uint64_t staging_bytes,
         std::size_t step_limit)
      : plan_(made),
        wanted_(wanted),
        order_(order),
        staging_bytes_(staging_bytes),
        steps_left_(step_limit) {}

  bool run() {
    plan_.buffers.clear();
    plan_.slots.clear();
    plan_.steps.clear();
    for (path& way : plan_.paths) way.bytes = way.chunks = 0;
    for (std::uint32_t number = 0; number < plan_.messages.size(); ++number)
      if (!cut_message(number)) return false;
    lay_buffers();
    make_steps();
    return true;
  }

 private:
  // Cuts the used paths of a message. The bytes that each path carries are known.
  bool cut_message(std::uint32_t number) {
    const std::uint64_t bytes = plan_.messages[number].bytes;
    std::vector<std::uint32_t> used;
    double total = 0;
    for (std::uint32_t index = 0; index < plan_.paths.size(); ++index) {
      if (plan_.paths[index].message != number || wanted_.bytes[index] <= 0) continue;
      used.push_back(index);
      total += wanted_.bytes[index];
    }
    const auto staged = static_cast<std::uint32_t>(std::count_if(
        used.begin(), used.end(), [&](auto at) { return !plan_.paths[at].direct(); }));
    const std::uint64_t budget = staged == 0 ? 0 : staging_bytes_ / staged;
    return order_ == dealing::by_share ? cut_by_share(used, bytes, total, budget)
                                       : deal_in_turn(used, bytes, total, budget);
  }

  // The largest size of chunks for which all buffers of a path fit in `budget` bytes, but at least
  // `grain`.
  static std::uint64_t largest_chunk(const path& way, std::uint64_t budget) {
    return std::max(budget / (way.stops.size() - 2) / most_buffers / grain * grain, grain);
  }

  // The number of chunks of a part. It is the requested number, or more if such chunks would not
  // fit in the staging buffers.
  std::uint64_t chunks_of(std::uint32_t index, std::uint64_t part, std::uint64_t budget) const {
    const path& way = plan_.paths[index];
    std::uint64_t count = std::max(1U, wanted_.chunks[index]);
    if (!way.direct()) {
      const std::uint64_t places = way.stops.size() - 2;
      const std::uint64_t least = largest_chunk(way, budget);
      if (round_up((part + count - 1) / count) * std::min<std::uint64_t>(count, most_buffers) >
          budget / places)
        count = std::max(count, (part + least - 1) / least);
    }
    return std::min(count, std::max<std::uint64_t>(1, (part + grain - 1) / grain));
  }

  bool cut_by_share(const std::vector<std::uint32_t>& used, std::uint64_t bytes, double total,
                    std::uint64_t budget) {
    std::uint64_t begin = 0;
    double share = 0;
    for (const std::uint32_t index : used) {
      share += wanted_.bytes[index] / total;
      const auto exact = static_cast<std::uint64_t>(share * static_cast<double>(bytes));
      std::uint64_t end = index == used.back() ? bytes : std::min(bytes, exact / grain * grain);
      end = std::max(end, begin);
      if (end == begin) continue;
      const std::uint64_t part = end - begin;
      const std::uint64_t chunks = chunks_of(index, part, budget);
      const std::uint64_t chunk_bytes = round_up((part + chunks - 1) / chunks);
      for (std::uint64_t at = begin; at < end; at += chunk_bytes)
        if (!give(index, at, std::min(chunk_bytes, end - at))) return false;
      begin = end;
    }
    return true;
  }

  bool deal_in_turn(const std::vector<std::uint32_t>& used, std::uint64_t bytes, double total,
                    std::uint64_t budget) {
    std::uint64_t chunk_bytes = bytes;
    for (const std::uint32_t index : used) {
      const auto part =
          static_cast<std::uint64_t>(wanted_.bytes[index] / total * static_cast<double>(bytes));
      // The chunks of all paths have the same size. It is the smallest size that the chunks of any
      // path would have.
      const std::uint64_t chunks = chunks_of(index, part, budget);
      chunk_bytes = std::min(chunk_bytes, std::max(grain, round_up(part / chunks)));
      if (!plan_.paths[index].direct())
        chunk_bytes = std::min(chunk_bytes, largest_chunk(plan_.paths[index], budget));
    }
    std::vector<double> dealt(used.size(), 0);
    for (std::uint64_t at = 0; at < bytes; at += chunk_bytes) {
      const std::uint64_t size = std::min(chunk_bytes, bytes - at);
      std::size_t next = 0;
      double latest = 0;
      for (std::size_t turn = 0; turn < used.size(); ++turn) {
        // If the path got this chunk, it would have this fraction of its share. The path with the
        // smallest fraction gets the chunk.
        const double with = (dealt[turn] + static_cast<double>(size)) / wanted_.bytes[used[turn]];
        if (turn != 0 && with >= latest) continue;
        next = turn;
        latest = with;
      }
      dealt[next] += static_cast<double>(size);
      if (!give(used[next], at, size)) return false;
    }
    return true;
  }

  // Gives a path a chunk. Returns false if the plan must not have more copies.
  bool give(std::uint32_t index, std::uint64_t offset, std::uint64_t bytes) {
    path& way = plan_.paths[index];
    if (way.legs.size() > steps_left_) return false;
    steps_left_ -= way.legs.size();
    pieces_.push_back({.path = index, .chunk = way.chunks++, .offset = offset, .bytes = bytes});
    way.bytes += bytes;
    largest_.resize(plan_.paths.size());
    largest_[index] = std::max(largest_[index], round_up(bytes));
    return true;
  }

  void lay_buffers() {
    first_buffer_.assign(plan_.paths.size(), 0);
    for (std::uint32_t index = 0; index < plan_.paths.size(); ++index) {
      const path& way = plan_.paths[index];
      first_buffer_[index] = static_cast<std::uint32_t>(plan_.buffers.size());
      if (way.bytes == 0) continue;
      for (std::size_t stop = 1; stop + 1 < way.stops.size(); ++stop)
        plan_.buffers.push_back({.place = way.stops[stop],
                                 .bytes = largest_[index] * buffers_of(way.chunks),
                                 .path = index});
    }
  }

  location place(const piece& cut, std::size_t stop) const {
    const path& way = plan_.paths[cut.path];
    if (stop == 0) return {.memory = memory::source, .index = way.message, .offset = cut.offset};
    if (stop + 1 == way.stops.size())
      return {.memory = memory::destination, .index = way.message, .offset = cut.offset};
    const auto buffer = static_cast<std::uint32_t>(first_buffer_[cut.path] + stop - 1);
    return {.memory = memory::staging,
            .index = buffer,
            .offset = cut.chunk % buffers_of(way.chunks) * largest_[cut.path]};
  }

  // The slot of a leg. Messages to the same place run one after another, even if the plan's
  // messages run apart, because they share the links of that place.
  std::uint32_t slot_of(const leg& part, std::uint32_t message) {
    const machine::endpoint to = plan_.messages[message].to;
    const std::uint32_t apart =
        plan_.apart ? 1 + (to.kind == machine::endpoint_kind::host ? 0 : 1 + to.index) : 0;
    const auto [found, added] = slot_at_.try_emplace(
        {part.gpu, part.port, apart}, static_cast<std::uint32_t>(plan_.slots.size()));
    if (added) plan_.slots.push_back({part.gpu, part.port});
    return found->second;
  }

  // Orders the steps as an undisturbed pipeline would run them. This order respects all
  // dependencies. The time of a step is the fraction of its path that is complete when the step
  // ends.
  void make_steps() {
    struct planned {
      std::size_t piece = 0;
      std::uint32_t leg = 0;
      std::uint32_t round = 0;
      double time = 0;
    };
    std::vector<planned> order;
    for (std::size_t at = 0; at < pieces_.size(); ++at) {
      const path& way = plan_.paths[pieces_[at].path];
      for (std::uint32_t leg = 0; leg < way.legs.size(); ++leg)
        order.push_back({.piece = at,
                         .leg = leg,
                         .round = plan_.rounds[way.message],
                         .time = static_cast<double>(pieces_[at].chunk + leg) / way.chunks});
    }
    std::stable_sort(order.begin(), order.end(), [](const planned& one, const planned& other) {
      // At the same time, later legs come first, because a chunk must leave a buffer before another
      // chunk enters the buffer.
      return std::tuple(one.round, one.time, -static_cast<int>(one.leg)) <
             std::tuple(other.round, other.time, -static_cast<int>(other.leg));
    });
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> step_at;
    for (const planned& next : order) {
      const piece& cut = pieces_[next.piece];
      const path& way = plan_.paths[cut.path];
      step made;
      made.path = cut.path;
      made.leg = next.leg;
      made.chunk = cut.chunk;
      made.from = place(cut, next.leg);
      made.to = place(cut, next.leg + 1);
      made.bytes = cut.bytes;
      made.slot = slot_of(way.legs[next.leg], way.message);
      const auto depend = [&](std::uint32_t chunk, std::uint32_t leg) {
        const std::uint32_t on = step_at.at({cut.path, chunk, leg});
        if (plan_.steps[on].slot != made.slot) made.after.push_back(on);
      };
      if (next.leg > 0) depend(cut.chunk, next.leg - 1);
      const std::uint32_t buffers = buffers_of(way.chunks);
      if (next.leg + 1 < way.legs.size() && cut.chunk >= buffers)
        depend(cut.chunk - buffers, next.leg + 1);
      step_at[{cut.path, cut.chunk, next.leg}] = static_cast<std::uint32_t>(plan_.steps.size());
      plan_.steps.push_back(std::move(made));
    }
  }

  plan& plan_;
  const shares& wanted_;
  dealing order_;
  std::uint64_t staging_bytes_;
  std::size_t steps_left_;
  std::vector<piece> pieces_;
  std::vector<std::uint64_t> largest_;       // largest chunk of each path, rounded up
  std::vector<std::uint32_t> first_buffer_;  // first buffer of each path
  // The key has the GPU, the port and, if messages run apart, the destination.
  std::map<std::tuple<std::uint32_t, std::size_t, std::uint32_t>, std::uint32_t> slot_at_;
};

}  // namespace

bool cut(plan& made, const shares& wanted, dealing order, std::uint64_t staging_bytes,
         std::size_t step_limit) {
  return cutter(made, wanted, order, staging_bytes, step_limit).run();
}

}  // namespace interlace::plan
