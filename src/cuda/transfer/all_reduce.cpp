#include "cuda/transfer/all_reduce.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cuda/transfer/memory_view.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::cuda {
namespace {

constexpr std::uint64_t unit = reduction_vector_bytes;
constexpr std::uint64_t slot_alignment = 256;
static_assert(slot_alignment % unit == 0);

std::uint64_t quotient_up(std::uint64_t bytes, std::uint64_t by) { return (bytes + by - 1) / by; }

// The pieces of an all-reduce: the copies and reductions of each piece, with their addresses.
class pieces {
 public:
  // `staging` has the addresses of the sets: the sets of the first participant, followed by the
  // sets of the next participant.
  pieces(const all_reduce_call& what, const all_reduce_cut& cut,
         const std::vector<device_address>& staging)
      : what_(what), cut_(cut), staging_(staging) {}

  std::size_t count() const { return cut_.pieces.size(); }
  // The roles of the batches. All batches of an all-reduce have the same shape. The batch to and
  // from each set has its own role, so a repeated all-reduce of one piece changes no graph, and no
  // graph changes right after its launch.
  static std::uint32_t scatter_role(std::size_t piece) { return piece % 2 == 0 ? 1 : 2; }
  static std::uint32_t gather_role(std::size_t piece) { return piece % 2 == 0 ? 3 : 4; }

  // The copies that bring each participant's elements to the participants that reduce them.
  std::vector<batch_part> scatter(std::size_t piece) const {
    std::vector<batch_part> copies;
    each_pair([&](std::size_t from, std::size_t to) {
      const byte_range& part = cut_.pieces[piece][to];
      if (part.bytes != 0)
        copies.push_back({.to = slot(piece, to, from),
                          .from = what_.send[from] + part.begin,
                          .bytes = part.bytes});
    });
    return copies;
  }
  // The copies that bring the results to all participants.
  std::vector<batch_part> gather(std::size_t piece) const {
    std::vector<batch_part> copies;
    each_pair([&](std::size_t from, std::size_t to) {
      const byte_range& part = cut_.pieces[piece][from];
      if (part.bytes != 0)
        copies.push_back({.to = what_.receive[to] + part.begin,
                          .from = what_.receive[from] + part.begin,
                          .bytes = part.bytes});
    });
    return copies;
  }
  // The reduction that a participant makes. There is no value if the participant's part is empty.
  std::optional<reduction_call> reduce(std::size_t piece, std::size_t participant) const {
    const byte_range& part = cut_.pieces[piece][participant];
    if (part.bytes == 0) return std::nullopt;
    reduction_call made{.out = what_.receive[participant] + part.begin,
                        .in = {},
                        .bytes = part.bytes,
                        .type = what_.type,
                        .by = what_.by};
    for (std::size_t from = 0; from < what_.send.size(); ++from)
      made.in.push_back(from == participant ? what_.send[from] + part.begin
                                            : slot(piece, participant, from));
    return made;
  }

 private:
  // In each round, every participant sends to a different participant.
  template <class Visit>
  void each_pair(const Visit& visit) const {
    const std::size_t all = what_.send.size();
    for (std::size_t distance = 1; distance < all; ++distance)
      for (std::size_t from = 0; from < all; ++from) visit(from, (from + distance) % all);
  }
  device_address slot(std::size_t piece, std::size_t of, std::size_t from) const {
    const std::size_t number = from < of ? from : from - 1;
    return staging_[of * cut_.sets + piece % cut_.sets] + number * cut_.slot_bytes;
  }

  const all_reduce_call& what_;
  const all_reduce_cut& cut_;
  const std::vector<device_address>& staging_;
};

// The staging memory of all participants. The destructor returns this memory, unless the caller has
// given it back or released it.
class staging {
 public:
  staging(const all_reduce_resources& by, std::vector<int> gpus)
      : by_(by), gpus_(std::move(gpus)), short_of_(gpus_.front()) {}
  ~staging() { give(nullptr); }
  staging(const staging&) = delete;
  staging& operator=(const staging&) = delete;

  // Takes as much memory as the pools have, but at most half of each pool. If other all-reduces
  // hold all of this memory, `waits` says whether the host waits until their work has ended.
  all_reduce_cut take(std::uint64_t bytes, const stream_identity& stream, bool waits) {
    // Without the lock, two calls could each get a part of the memory they need, and both would
    // fail.
    const std::lock_guard lock(by_.staging);
    if (auto cut = try_to_take(bytes, stream, waits)) return *cut;
    if (waits) {
      for (const int gpu : gpus_) by_.pool(gpu).wait();
      if (auto cut = try_to_take(bytes, stream, waits)) return *cut;
    }
    throw device_error(
        "an all-reduce has no staging memory on " + gpu_text(short_of_) +
        ": graphs own it, the GPU has no more, or INTERLACE_COPY_STAGING allows too little");
  }
  std::vector<device_address> addresses() const {
    std::vector<device_address> made;
    for (const placed_block& one : taken_) made.push_back(one.memory.address);
    return made;
  }
  void give(const shared_completion& end) {
    for (const placed_block& one : taken_) by_.pool(one.place).give(one.memory, end);
    taken_.clear();
  }
  std::vector<placed_block> release() { return std::exchange(taken_, {}); }

 private:
  std::optional<all_reduce_cut> try_to_take(std::uint64_t bytes, const stream_identity& stream,
                                            bool overlap) {
    // With less memory than `least`, the pieces would be so small that waiting for more memory
    // takes less time than sending them.
    const std::uint64_t least = by_.staging_bytes / 64;
    for (std::uint64_t most = by_.staging_bytes / 2; most >= least; most /= 2) {
      all_reduce_cut cut = cut_all_reduce(bytes, gpus_.size(), most, overlap);
      if (cut.pieces.empty()) break;
      if (take_all(cut, stream)) return cut;
    }
    return std::nullopt;
  }

  // Takes a separate block for each set. A pool consists of slabs whose sizes depend on earlier
  // messages, and often no slab has room for both sets.
  bool take_all(const all_reduce_cut& cut, const stream_identity& stream) {
    for (const int gpu : gpus_)
      for (std::uint32_t set = 0; set < cut.sets; ++set) {
        const auto block = by_.pool(gpu).take(cut.set_bytes, stream);
        if (!block) {
          short_of_ = gpu;
          give(nullptr);
          return false;
        }
        taken_.push_back({gpu, *block});
      }
    return true;
  }

  const all_reduce_resources& by_;
  std::vector<int> gpus_;
  std::vector<placed_block> taken_;
  int short_of_;
};

bool meet(device_address one, device_address other, std::uint64_t bytes) {
  return one < other + bytes && other < one + bytes;
}

}  // namespace

all_reduce_cut cut_all_reduce(std::uint64_t bytes, std::size_t participants,
                              std::uint64_t staging_bytes, bool overlap) {
  all_reduce_cut cut;
  const std::uint64_t units = quotient_up(bytes, unit);
  const std::uint64_t others = participants - 1;
  const std::uint64_t whole = quotient_up(quotient_up(units, participants) * unit, slot_alignment);
  // The staging memory for each other participant, in units of slot_alignment bytes.
  std::uint64_t slots = staging_bytes / slot_alignment / others;
  if (whole > slots && overlap) {
    cut.sets = 2;
    slots /= 2;
  }
  if (slots == 0) return cut;
  const std::uint64_t most = std::min(slots, whole) * (slot_alignment / unit) * participants;
  // All pieces except the last piece have the same size, so that one plan serves their copies.
  const std::uint64_t count = quotient_up(units, most);
  const std::uint64_t piece = quotient_up(units, count);
  for (std::uint64_t begin = 0; begin < units; begin += piece) {
    const std::uint64_t end = std::min(units, begin + piece);
    const std::uint64_t part = quotient_up(end - begin, participants);
    auto& parts = cut.pieces.emplace_back();
    for (std::uint64_t at = begin; parts.size() < participants; at = std::min(end, at + part)) {
      const std::uint64_t from = std::min(at * unit, bytes);
      parts.push_back({from, std::min(std::min(end, at + part) * unit, bytes) - from});
    }
  }
  cut.slot_bytes =
      quotient_up(quotient_up(piece, participants) * unit, slot_alignment) * slot_alignment;
  cut.set_bytes = cut.slot_bytes * others;
  return cut;
}

void check_all_reduce(const all_reduce_call& what) {
  const std::size_t all = what.send.size();
  if (all != what.receive.size())
    throw usage_error("an all-reduce has " + std::to_string(all) + " buffers to send and " +
                      std::to_string(what.receive.size()) +
                      " to receive; give one of each kind for every participant");
  if (all > most_reduced)
    throw usage_error("an all-reduce has at most " + std::to_string(most_reduced) +
                      " participants, not " + std::to_string(all));
  const std::uint32_t width = bytes_of(what.type);
  if (what.count > std::numeric_limits<std::uint64_t>::max() / 4 / width)
    throw usage_error("an all-reduce of " + std::to_string(what.count) +
                      " elements is larger than any memory");
  const std::uint64_t bytes = what.count * width;
  if (bytes == 0) return;
  for (std::size_t at = 0; at < all; ++at)
    for (const bool sent : {true, false}) {
      const device_address one = sent ? what.send[at] : what.receive[at];
      const std::string name =
          std::string(sent ? "send" : "receive") + " buffer " + std::to_string(at);
      if (one == 0) throw usage_error(name + " of an all-reduce is a null pointer");
      if (one % width != 0)
        throw usage_error(name + " of an all-reduce is not aligned to its elements of " +
                          std::to_string(width) + " bytes");
    }
  for (std::size_t at = 0; at < all; ++at)
    for (std::size_t other = 0; other < all; ++other) {
      const bool own = at == other && what.send[at] == what.receive[at];
      if ((!own && meet(what.receive[at], what.send[other], bytes)) ||
          (at < other && meet(what.receive[at], what.receive[other], bytes)))
        throw usage_error(
            "receive buffer " + std::to_string(at) +
            " of an all-reduce overlaps a buffer of participant " + std::to_string(other) +
            "; a receive buffer must not overlap any other buffer, but it may be exactly "
            "the send buffer of its own participant");
    }
}

std::vector<int> gpus_of_participants(const contexts& of, const all_reduce_call& what) {
  std::vector<int> gpus;
  for (std::size_t at = 0; at < what.send.size(); ++at)
    for (const bool sent : {true, false}) {
      const memory_view seen = view_memory(of.driver(), sent ? what.send[at] : what.receive[at],
                                           what.count * bytes_of(what.type));
      const std::string name =
          std::string(sent ? "send" : "receive") + " buffer " + std::to_string(at);
      const bool primary =
          seen.origin != memory_origin::plain || of.gpu_of(seen.context) == seen.gpu;
      if (seen.kind != memory_kind::gpu || of.context_of(seen.gpu) == nullptr || !primary)
        throw usage_error(name +
                          " of an all-reduce is not in the memory of a GPU; give memory of " +
                          "cudaMalloc");
      if (sent)
        gpus.push_back(seen.gpu);
      else if (seen.gpu != gpus.back())
        throw usage_error(name + " of an all-reduce is on " + gpu_text(seen.gpu) +
                          ", but the same participant's send buffer is on " +
                          gpu_text(gpus.back()) + "; give both on one GPU");
    }
  return gpus;
}

void enqueue_all_reduce(const all_reduce_call& what, const std::vector<int>& gpus,
                        const caller_stream& caller, const all_reduce_resources& by) {
  const driver_table& driver = by.gpus.driver();
  staging memory(by, gpus);
  const all_reduce_cut cut = memory.take(what.count * bytes_of(what.type), caller.identity, true);
  const std::vector<device_address> addresses = memory.addresses();
  const pieces each(what, cut, addresses);
  std::unique_ptr<stream_set> used = by.streams.take(caller.identity);
  if (!used) throw device_error("an all-reduce has no streams: too many copies are under way");
  try {
    // The objects that a participant needs to work in parallel with other participants: a stream,
    // an event that completes when the participant's piece is reduced, and an event that completes
    // when a piece has arrived.
    struct worker {
      CUstream_st* stream = nullptr;
      CUevent_st* end = nullptr;
    };
    std::map<int, std::size_t> streams;
    std::map<int, std::size_t> events;
    CUevent_st* arrived = used->event(caller.identity.gpu, events[caller.identity.gpu]++);
    std::vector<worker> workers;
    workers.reserve(gpus.size());
    for (const int gpu : gpus)
      workers.push_back({used->stream(gpu, streams[gpu]++), used->event(gpu, events[gpu]++)});
    const auto finish = [&](std::size_t piece) {
      by.copy(each.gather(piece), pieces::gather_role(piece));
    };
    const auto wait = [&](CUstream_st* on, CUevent_st* event) {
      check(driver, driver.stream_wait(on, event, 0), "cuStreamWaitEvent");
    };
    // The reduction of a piece overlaps with the copies of the next piece. Every use of a set of
    // staging memory comes after the set's earlier uses. The reason is that pieces arrive in the
    // order of the caller's stream. Before a piece arrives, that stream has waited for the
    // reduction of the piece two places before.
    for (std::size_t piece = 0; piece < each.count(); ++piece) {
      by.copy(each.scatter(piece), pieces::scatter_role(piece));
      check(driver, driver.event_record(arrived, caller.stream), "cuEventRecord");
      for (std::size_t at = 0; at < workers.size(); ++at) {
        const auto reduction = each.reduce(piece, at);
        if (piece > 0) wait(caller.stream, workers[at].end);
        wait(workers[at].stream, arrived);
        if (reduction) by.kernels.launch(gpus[at], *reduction, workers[at].stream);
        const in_context on(driver, by.gpus.context_of(gpus[at]));
        check(driver, driver.event_record(workers[at].end, workers[at].stream), "cuEventRecord");
      }
      if (piece > 0) finish(piece - 1);
    }
    for (const worker& one : workers) wait(caller.stream, one.end);
    finish(each.count() - 1);
    const auto end = std::make_shared<completion>(by.gpus, caller.stream, caller.identity);
    memory.give(end);
    by.streams.keep(std::move(used), end);
  } catch (...) {
    if (used) {
      used->wait(caller.stream);
      by.streams.keep(std::move(used), nullptr);
    }
    throw;
  }
}

void capture_all_reduce(const all_reduce_call& what, const std::vector<int>& gpus,
                        const caller_stream& caller, const all_reduce_resources& by) {
  const driver_table& driver = by.gpus.driver();
  staging memory(by, gpus);
  const all_reduce_cut cut = memory.take(what.count * bytes_of(what.type), caller.identity, false);
  const std::vector<device_address> addresses = memory.addresses();
  const pieces each(what, cut, addresses);
  const auto front = [&] {
    int status = capture_none;
    unsigned long long sequence = 0;
    CUgraph_st* graph = nullptr;
    CUgraphNode_st* const* nodes = nullptr;
    std::size_t count = 0;
    check(driver, driver.capture_info(caller.stream, &status, &sequence, &graph, &nodes, &count),
          "cuStreamGetCaptureInfo");
    return std::pair(graph, std::vector<CUgraphNode_st*>(nodes, nodes + count));
  };
  CUgraph_st* const owner = front().first;
  by.give_to_graph(owner, memory.release());
  for (std::size_t piece = 0; piece < each.count(); ++piece) {
    by.copy(each.scatter(piece), pieces::scatter_role(piece));
    const auto [graph, behind] = front();
    std::vector<CUgraphNode_st*> ends;
    for (std::size_t at = 0; at < gpus.size(); ++at)
      if (const auto reduction = each.reduce(piece, at))
        ends.push_back(by.kernels.add(gpus[at], *reduction, graph, behind));
    check(driver,
          driver.capture_depend(caller.stream, ends.data(), ends.size(), capture_set_dependencies),
          "cuStreamUpdateCaptureDependencies");
    by.copy(each.gather(piece), pieces::gather_role(piece));
  }
}

}  // namespace interlace::cuda
