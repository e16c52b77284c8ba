#include "cuda/transfer/copy_engine.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <thread>
#include <tuple>
#include <utility>

#include "base/errors.hpp"
#include "base/read_file.hpp"
#include "cuda/transfer/all_reduce.hpp"
#include "cuda/transfer/reductions.hpp"
#include "cuda/transfer/size_classes.hpp"
#include "machine/copy_assumptions.hpp"
#include "machine/discover.hpp"
#include "plan/copy_profile.hpp"
#include "plan/copy_settings.hpp"

namespace interlace::cuda {
namespace {

using machine::endpoint;
using machine::endpoint_kind;

// A graph of fewer copies costs more to launch than the copies do.
constexpr std::size_t least_graph_copies = 8;
// Of a batch: the time to plan grows with the cube of the messages. All pairs of 16 GPUs are 240.
constexpr std::size_t most_planned = 256;

std::string gpu_text(int gpu) { return "gpu" + std::to_string(gpu); }

std::uint64_t monotonic_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

std::uint64_t nanoseconds(double seconds) { return static_cast<std::uint64_t>(seconds * 1e9); }

// Without asking the driver. A handle may be another stream's later; by then that has no
// consequence for long.
traffic_user user_of(CUstream_st* stream, CUctx_st* context) {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  constexpr std::uint64_t spread = 0x9E3779B97F4A7C15U;
  if (handle > per_thread_stream) return handle * spread;
  // A default stream is one of its context's; 0 and 1 are the same.
  const auto of = reinterpret_cast<std::uintptr_t>(context) * spread;
  if (handle != per_thread_stream) return of + 1;
  return of + std::hash<std::thread::id>()(std::this_thread::get_id()) * 2;
}

// What one copy of a batch writes, no other may read or write.
void refuse_overlaps(std::span<const batch_part> copies) {
  struct range {
    device_address begin = 0;
    device_address end = 0;
    std::size_t copy = 0;
    bool written = false;
  };
  std::vector<range> ranges;
  for (std::size_t at = 0; at < copies.size(); ++at) {
    const batch_part& one = copies[at];
    if (one.bytes == 0) continue;
    if (std::max(one.from, one.to) + one.bytes < one.bytes)
      throw usage_error("copy " + std::to_string(at) + " of a batch has " +
                        std::to_string(one.bytes) + " bytes, which reach past the last address");
    ranges.push_back({one.from, one.from + one.bytes, at, false});
    ranges.push_back({one.to, one.to + one.bytes, at, true});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const range& one, const range& other) { return one.begin < other.begin; });
  // That which ends last, of all and of those that are written.
  range any;
  range written;
  for (const range& one : ranges) {
    const range& met = one.written ? any : written;
    if (one.begin < met.end)
      throw usage_error(
          met.copy == one.copy
              ? "source and destination of copy " + std::to_string(one.copy) +
                    " of a batch overlap; copy through a third buffer"
              : "copies " + std::to_string(std::min(one.copy, met.copy)) + " and " +
                    std::to_string(std::max(one.copy, met.copy)) +
                    " of a batch overlap: what one of them writes the other reads or writes");
    if (one.end > any.end) any = one;
    if (one.written && one.end > written.end) written = one;
  }
}

// That streams of other processes and engines do not have.
traffic_user random_number() {
  std::random_device source;
  return traffic_user{source()} << 32U | source();
}

}  // namespace

struct copy_engine::parts {
  contexts all;
  copy_machine described;
  // By kinds of places (1: GPUs, 2: the host) and ends, the host last.
  std::array<std::vector<std::vector<std::vector<endpoint>>>, 4> relays;
  std::optional<plan::copy_profile> profile;
  bool measured_here = false;  // the profile, on this machine, with all relays
  std::vector<std::optional<std::uint32_t>> index_of;  // of a GPU in the machine
  std::vector<std::unique_ptr<staging_pool>> pools;    // by GPU, the host's last
  std::mutex staging;                                  // of who takes of several of them
  std::atomic<std::uint64_t> captured{0};              // graphs that own staging memory
  std::vector<std::atomic<bool>> direct;  // by ends and class: the plan with all relays was
  std::vector<std::vector<double>> direct_bytes_per_s;  // by ends; 0: there is no way
  plan_cache plans;
  graph_cache graphs;
  reductions kernels;
  stream_executor streams;
  traffic_table traffic;
  traffic_user own_streams = random_number();

  parts(const driver_table& driver, copy_machine found, const copy_options& options,
        std::span<const std::byte> image)
      : all(driver),
        described(std::move(found)),
        direct((described.gpus.size() + 1) * (described.gpus.size() + 1) * size_classes),
        plans(described.described, described.gpus, options.staging_bytes),
        graphs(options.graphs),
        kernels(all, image),
        streams(all),
        traffic(described.names, options.traffic_file.value_or(standard_traffic_file())) {
    index_of.resize(static_cast<std::size_t>(all.count()));
    for (std::uint32_t index = 0; index < described.gpus.size(); ++index)
      index_of.at(static_cast<std::size_t>(described.gpus[index])) = index;
    for (int gpu = 0; gpu < all.count(); ++gpu)
      pools.push_back(std::make_unique<staging_pool>(all, gpu, options.staging_bytes));
    pools.push_back(std::make_unique<staging_pool>(all, host_place, options.staging_bytes));
    const auto ends = static_cast<std::uint32_t>(described.gpus.size()) + 1;
    direct_bytes_per_s.resize(ends);
    const plan::resources resources(described.described);
    for (std::uint32_t from = 0; from < ends; ++from)
      for (std::uint32_t to = 0; to < ends; ++to) {
        const auto leg = resources.copy(end_at(from), end_at(to));
        direct_bytes_per_s[from].push_back(leg ? leg->bytes_per_s : 0);
      }
    for (std::size_t kinds = 0; kinds < relays.size(); ++kinds) {
      relays[kinds].resize(ends);
      for (std::uint32_t from = 0; from < ends; ++from)
        for (std::uint32_t to = 0; to < ends; ++to)
          relays[kinds][from].push_back(relays_between(from, to, options, kinds));
    }
  }

  // Of a message that has the direct path for itself.
  std::uint64_t direct_ns(endpoint from, endpoint to, std::uint64_t bytes) const {
    const double rate = direct_bytes_per_s[number_of(from)][number_of(to)];
    return rate > 0 ? nanoseconds(static_cast<double>(bytes) / rate) : 0;
  }

  staging_pool& pool(int place) {
    return *(place == host_place ? pools.back() : pools[static_cast<std::size_t>(place)]);
  }

  const std::vector<endpoint>& relays_of(endpoint from, endpoint to,
                                         const plan::copy_choice& by) const {
    return relays[(by.gpus ? 1U : 0U) + (by.host ? 2U : 0U)][number_of(from)][number_of(to)];
  }

  // The planner's: over whatever helps.
  static plan::copy_choice every_path(std::uint64_t bytes) {
    return {bytes, true, true, 0, copy_executor::automatic};
  }

  plan::copy_choice choice_of(endpoint from, endpoint to, std::uint64_t bytes) const {
    if (profile) return profile->of(plan::direction_of(from, to), bytes);
    return every_path(bytes);
  }

  // Whether a copy engine copies from the one to the other by itself.
  bool joined(endpoint from, endpoint to) const {
    const std::size_t one = number_of(from);
    const std::size_t other = number_of(to);
    return reach(one, other) && (one == other || direct_bytes_per_s[one][other] > 0);
  }

  std::size_t direct_at(endpoint from, endpoint to, std::uint64_t bytes) const {
    return (number_of(from) * (described.gpus.size() + 1) + number_of(to)) * size_classes +
           size_class(bytes);
  }

  // All sizes of the class are, unless a profile tells them apart.
  void known_direct(endpoint from, endpoint to, std::uint64_t size) {
    if (profile) {
      const plan::copy_direction direction = plan::direction_of(from, to);
      const std::uint64_t least = class_least(size);
      const std::uint64_t most = class_most(size);
      if (profile->of(direction, least).bytes != profile->of(direction, most).bytes) return;
    }
    direct[direct_at(from, to, size)].store(true, std::memory_order_relaxed);
  }

  // Of memory at an address; nothing for memory that has no place or that may have several.
  std::optional<endpoint> place_of(const memory_facts& seen) const {
    if (seen.managed != 0) return std::nullopt;
    if (seen.type == memory_host) return endpoint{endpoint_kind::host, 0};
    if (seen.type != memory_device) return std::nullopt;
    const auto index = index_of.at(static_cast<std::size_t>(seen.gpu));
    if (!index) return std::nullopt;
    return endpoint{endpoint_kind::gpu, *index};
  }

 private:
  std::size_t number_of(endpoint end) const {
    return end.kind == endpoint_kind::host ? described.gpus.size() : end.index;
  }

  endpoint end_at(std::uint32_t number) const {
    if (number == described.gpus.size()) return {endpoint_kind::host, 0};
    return {endpoint_kind::gpu, number};
  }

  bool reach(std::size_t one, std::size_t other) const {
    const std::size_t host = described.gpus.size();
    if (one == host || other == host) return one != other;
    const int first = described.gpus[one];
    const int second = described.gpus[other];
    return all.of(first) != nullptr && all.of(second) != nullptr && all.peers(first, second);
  }

  // Places that both ends reach by a copy engine alone.
  std::vector<endpoint> relays_between(std::uint32_t from, std::uint32_t to,
                                       const copy_options& options, std::size_t kinds) const {
    const auto host = static_cast<std::uint32_t>(described.gpus.size());
    const auto allowed = [&](int place) {
      return !options.relays || std::find(options.relays->begin(), options.relays->end(), place) !=
                                    options.relays->end();
    };
    std::vector<endpoint> places;
    if (from == to || !reach(from, to)) return places;
    for (std::uint32_t place = 0; place < host; ++place)
      if ((kinds & 1U) != 0 && place != from && place != to && allowed(described.gpus[place]) &&
          reach(place, place) && reach(from, place) && reach(place, to))
        places.push_back({endpoint_kind::gpu, place});
    if ((kinds & 2U) != 0 && from != host && to != host && allowed(copy_through_host))
      places.push_back({endpoint_kind::host, 0});
    return places;
  }
};

// One copy.
struct copy_engine::message {
  device_address to_address = 0;
  device_address from_address = 0;
  std::uint64_t bytes = 0;
  endpoint from;
  endpoint to;
  memory_view source;
  memory_view destination;
};

// What a call enqueues: a message, or several that are planned together.
struct copy_engine::transfer {
  transfer(std::vector<message> of, CUstream_st* stream) : messages(std::move(of)) {
    caller.stream = stream;
  }

  caller_stream caller;
  std::vector<message> messages;  // planned ones, and then those of `local`
  std::vector<local_copy> local;
  traffic_user user = 0;
  plan::copy_choice by;          // of the profile
  std::vector<endpoint> relays;  // that may be taken now
  addresses where;
  std::shared_ptr<planned_copy> plan;
  std::vector<staging_pool::block> blocks;  // by buffer of the program
  bool capturing = false;
  CUgraph_st* graph = nullptr;  // that the stream is captured into
  std::vector<CUgraphNode_st*> roots;

  std::span<const message> planned() const {
    return std::span(messages).first(messages.size() - local.size());
  }
  // Of memories that were looked at.
  void set_addresses() {
    for (const message& one : messages) {
      where.sources.push_back({one.from_address, one.source.id});
      where.destinations.push_back({one.to_address, one.destination.id});
    }
  }
};

copy_engine::copy_engine(const driver_table& driver, const copy_options& options,
                         std::function<copy_machine()> find_machine,
                         std::function<void(const std::string&)> report,
                         std::function<std::uint64_t()> clock, std::span<const std::byte> image)
    : driver_(driver),
      options_(options),
      find_machine_(std::move(find_machine)),
      report_(std::move(report)),
      threshold_bytes_(options.threshold_bytes.value_or(copy_threshold_bytes)),
      clock_(std::move(clock)),
      image_(image) {
  if (options.graphs == 0) throw usage_error("a copier keeps at least 1 graph");
  if (options.relays)
    for (const int place : *options.relays)
      if (place < copy_through_host)
        throw usage_error("a copier relays through GPUs from 0 on and the host (-1), not through " +
                          std::to_string(place));
  if (!find_machine_) find_machine_ = [this] { return this_machine(driver_); };
  if (!report_)
    report_ = [](const std::string& sentence) {  // once a process, whatever engine says it
      static std::mutex mutex;
      static auto* const said = new std::set<std::string>();
      const std::lock_guard lock(mutex);
      if (said->insert(sentence).second) std::fprintf(stderr, "interlace: %s\n", sentence.c_str());
    };
  if (!clock_) clock_ = monotonic_ns;
}

// Never destroyed: the driver may be gone before the process's last objects.
std::vector<std::unique_ptr<copy_engine::parts>>& copy_engine::outlived() {
  static auto* const kept = new std::vector<std::unique_ptr<parts>>();
  return *kept;
}

copy_engine::~copy_engine() {
  // The driver gives the memory of captured graphs back when they end, which may be later, and must
  // not be called then: what they use is kept until another engine ends.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::erase_if(outlived(), [](const auto& one) { return one->captured.load() == 0; });
  if (parts_ && parts_->captured.load() > 0) outlived().push_back(std::move(parts_));
}

void copy_engine::report(const std::string& sentence) {
  {
    const std::lock_guard lock(reports_mutex_);
    if (!reported_.insert(sentence).second) return;
  }
  report_(sentence);
}

void copy_engine::make_parts() {
  try {
    const beside_captures relaxed(driver_);
    copy_machine found = find_machine_();
    for (const std::string& remark : found.remarks) report(remark);
    const bool one_path = found.gpus.size() < 2;
    if (found.gpus.empty() || (one_path && !found.hides_gpus)) return;
    parts_ = std::make_unique<parts>(driver_, std::move(found), options_, image_);
    if (!one_path) take_profile(*parts_);
    if (!parts_->traffic.remark().empty()) report(parts_->traffic.remark());
    if (one_path && !parts_->traffic.shared()) {  // nobody would see its messages
      parts_.reset();
      return;
    }
    for (const std::string& remark : parts_->all.remarks()) report(remark);
    if (options_.relays)
      for (const int place : *options_.relays)
        if (place >= parts_->all.count())
          report("there is no " + gpu_text(place) + " that copies could be relayed through");
    ready_.store(parts_.get(), std::memory_order_release);
  } catch (const std::exception& error) {
    parts_.reset();
    report(std::string("all copies are direct: ") + error.what());
  }
}

// A profile that cannot be used changes nothing.
void copy_engine::take_profile(parts& have) {
  if (options_.profile == "none") return;
  const copy_machine& here = have.described;
  std::optional<std::string> path = options_.profile;
  if (options_.profile == "auto") {
    path = plan::copy_profile_path(here.model, plan::value_of_environment);
    if (!path) return;
  }
  const std::optional<std::string> text = read_file(*path);
  if (!text && options_.profile == "auto") return;
  try {
    if (!text) throw usage_error("the copy profile " + *path + " cannot be read");
    plan::copy_profile found = plan::read_copy_profile(*text, *path);
    std::string differences;
    for (const std::string& one :
         found.differences(here.model, static_cast<std::uint32_t>(here.gpus.size()), here.driver))
      differences += (differences.empty() ? "" : "; ") + one;
    if (!differences.empty())
      report("the copy profile " + *path + " was made on another machine: " + differences +
             ". It is used nevertheless; make it anew with interlace tune copy, or leave it out "
             "with INTERLACE_COPY_PROFILE=none");
    // Others have to know of messages that are plain copies, too.
    if (!options_.threshold_bytes)
      threshold_bytes_.store(std::min(found.least_bytes(), copy_threshold_bytes));
    have.measured_here = differences.empty() && !options_.relays;
    have.profile = std::move(found);
  } catch (const usage_error& error) {
    report(error.what());
  } catch (const std::exception& error) {
    report("the copy profile " + *path + " cannot be read: " + error.what());
  }
}

copy_engine::parts* copy_engine::ready() {
  parts* have = ready_.load(std::memory_order_acquire);
  if (have != nullptr) return have;
  std::call_once(made_, [&] { make_parts(); });
  return ready_.load(std::memory_order_acquire);
}

void copy_engine::prepare() {
  if (options_.executor != copy_executor::direct) (void)ready();
}

void copy_engine::plainly(device_address to, device_address from, std::uint64_t bytes,
                          CUstream_st* stream) {
  int result = driver_.copy(to, from, bytes, stream);
  if (result == driver_result::invalid_context) {
    // A thread that has not called CUDA yet: the runtime would take the first GPU.
    CUctx_st* context = nullptr;
    if (stream == nullptr || driver_.stream_context(stream, &context) != driver_result::success)
      check(driver_, driver_.primary_retain(&context, 0), "cuDevicePrimaryCtxRetain");
    const in_context on(driver_, context);
    result = driver_.copy(to, from, bytes, stream);
  }
  check(driver_, result, "cuMemcpyAsync");
  direct_.fetch_add(1, std::memory_order_relaxed);
}

void copy_engine::copy(device_address to, device_address from, std::uint64_t bytes,
                       CUstream_st* stream) {
  if (bytes == 0) return;
  if (to < from + bytes && from < to + bytes)
    throw usage_error("source and destination of a copy of " + std::to_string(bytes) +
                      " bytes overlap; copy through a third buffer");
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (options_.executor != copy_executor::direct &&
      bytes >= threshold_bytes_.load(std::memory_order_relaxed))
    if (parts* have = ready()) {
      const beside_captures relaxed(driver_);
      copy_report told;
      transfer call({{to, from, bytes, {}, {}, {}, {}}}, stream);
      if (examine(*have, call, true, told)) {
        const in_context on(driver_, have->all.of(call.caller.identity.gpu));
        if (over_paths(*have, call, told)) return;
      }
    }
  plainly(to, from, bytes, stream);
}

void copy_engine::copy_batch(std::span<const batch_part> copies, CUstream_st* stream) {
  refuse_overlaps(copies);
  std::vector<message> messages;
  std::uint64_t bytes = 0;
  for (const batch_part& one : copies) {
    if (one.bytes == 0) continue;
    messages.push_back({one.to, one.from, one.bytes, {}, {}, {}, {}});
    bytes += one.bytes;
  }
  if (messages.size() == 1) {
    const message& one = messages.front();
    copy(one.to_address, one.from_address, one.bytes, stream);
    return;
  }
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (!messages.empty() && options_.executor != copy_executor::direct &&
      bytes >= threshold_bytes_.load(std::memory_order_relaxed))
    if (parts* have = ready()) {
      const beside_captures relaxed(driver_);
      transfer call(std::move(messages), stream);
      if (examine_batch(*have, call)) {
        const in_context on(driver_, have->all.of(call.caller.identity.gpu));
        if (together(*have, call)) return;
      }
    }
  for (const batch_part& one : copies)
    if (one.bytes != 0) plainly(one.to, one.from, one.bytes, stream);
}

// Of the participants. Throws usage_error unless each has both buffers in one GPU's memory.
std::vector<int> copy_engine::gpus_of(const parts& have, const all_reduce_call& what) const {
  std::vector<int> gpus;
  for (std::size_t at = 0; at < what.send.size(); ++at)
    for (const bool sent : {true, false}) {
      const memory_view seen = look_at(driver_, sent ? what.send[at] : what.receive[at],
                                       what.count * bytes_of(what.type));
      const std::string name =
          std::string(sent ? "send" : "receive") + " buffer " + std::to_string(at);
      const bool primary =
          seen.origin != memory_origin::plain || have.all.gpu_of(seen.context) == seen.gpu;
      if (seen.kind != memory_kind::gpu || have.all.of(seen.gpu) == nullptr || !primary)
        throw usage_error(name +
                          " of an all-reduce is not in the memory of a GPU; give memory of " +
                          "cudaMalloc");
      if (sent)
        gpus.push_back(seen.gpu);
      else if (seen.gpu != gpus.back())
        throw usage_error(name + " of an all-reduce is on " + gpu_text(seen.gpu) +
                          " and its send buffer on " + gpu_text(gpus.back()) +
                          "; give both on one GPU");
    }
  return gpus;
}

void copy_engine::all_reduce(const all_reduce_call& what, CUstream_st* stream) {
  check_all_reduce(what);
  const std::uint64_t bytes = what.count * bytes_of(what.type);
  if (bytes == 0 || what.send.empty()) return;
  if (what.send.size() == 1) {
    if (what.send[0] != what.receive[0]) copy(what.receive[0], what.send[0], bytes, stream);
    return;
  }
  if (image_.empty())
    throw usage_error(
        "this library was built without nvcc, and has no kernels for an all-reduce; install the "
        "CUDA toolkit and build it again");
  parts* have = ready();
  if (have == nullptr)
    throw device_error(
        "an all-reduce needs GPUs that copies over several paths can use; there are none here");
  const beside_captures relaxed(driver_);
  std::optional<in_context> any;  // for a thread that has not called CUDA yet
  CUctx_st* current = nullptr;
  if (driver_.current(&current) != driver_result::success || current == nullptr)
    any.emplace(driver_, have->all.any());
  transfer call({}, stream);
  if (!ask_capture(call))
    throw device_error("the driver does not tell whether the stream of an all-reduce is captured");
  if (!ask_stream(*have, call))
    throw usage_error("the stream of an all-reduce is of a context that is no GPU's primary one");
  const std::vector<int> gpus = gpus_of(*have, what);
  for (const int gpu : gpus) have->kernels.prepare(gpu);
  const all_reduce_means by{have->all,
                            have->kernels,
                            have->streams,
                            [&](int gpu) -> staging_pool& { return have->pool(gpu); },
                            have->staging,
                            options_.staging_bytes,
                            [&](std::span<const batch_part> copies) { copy_batch(copies, stream); },
                            [&](CUgraph_st* graph, std::vector<placed_block> blocks) {
                              give_to(*have, graph, std::move(blocks));
                            }};
  if (call.capturing)
    capture_all_reduce(what, gpus, call.caller, by);
  else
    enqueue_all_reduce(what, gpus, call.caller, by);
}

copy_report copy_engine::carry(device_address to, device_address from, std::uint64_t bytes,
                               CUstream_st* stream) {
  copy_report told;
  told.result = copy_result::small;
  if (bytes == 0 || bytes < threshold_bytes_.load(std::memory_order_relaxed)) return told;
  told.result = copy_result::one_place;
  if (to < from + bytes && from < to + bytes) return told;
  told.result = copy_result::useless;
  if (!useful()) return told;
  parts& have = *ready();
  const beside_captures relaxed(driver_);
  transfer call({{to, from, bytes, {}, {}, {}, {}}}, stream);
  if (examine(have, call, false, told)) {
    const in_context on(driver_, have.all.of(call.caller.identity.gpu));
    told.enqueued = over_paths(have, call, told);
  }
  if (told.enqueued) bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return told;
}

bool copy_engine::useful() {
  return options_.executor != copy_executor::direct && ready() != nullptr;
}

// What is known without looking at the memory's end.
memory_view copy_engine::coarsely(const memory_facts& seen) {
  memory_view view;
  view.kind = seen.type == memory_host ? memory_kind::pinned : memory_kind::gpu;
  view.gpu = view.kind == memory_kind::gpu ? seen.gpu : 0;
  return view;
}

// False where the driver does not tell. Nothing but this may be asked of a stream that is being
// captured: it would end the capture.
bool copy_engine::ask_capture(transfer& call) const {
  int status = capture_none;
  unsigned long long sequence = 0;
  CUgraphNode_st* const* roots = nullptr;
  std::size_t count = 0;
  if (driver_.capture_info(call.caller.stream, &status, &sequence, &call.graph, &roots, &count) !=
          driver_result::success ||
      (status != capture_none && status != capture_active))
    return false;
  call.capturing = status == capture_active;
  if (call.capturing) call.roots.assign(roots, roots + count);
  return true;
}

// False for a stream of a context that is no GPU's primary one.
bool copy_engine::ask_stream(const parts& have, transfer& call) const {
  caller_stream& caller = call.caller;
  CUctx_st* context = nullptr;
  if (driver_.stream_context(caller.stream, &context) != driver_result::success) return false;
  const std::optional<int> gpu = have.all.gpu_of(context);
  if (!gpu) return false;
  caller.identity.gpu = *gpu;
  if (call.capturing) return true;
  caller.identity = identity_of(driver_, caller.stream, *gpu);
  unsigned flags = 0;
  caller.blocking = driver_.stream_flags(caller.stream, &flags) != driver_result::success ||
                    (flags & stream_non_blocking) == 0;
  return true;
}

// Why the memories at its ends make it a plain copy; nothing if they do not.
std::optional<copy_result> copy_engine::look(const parts& have, message& one,
                                             const memory_facts& source,
                                             const memory_facts& destination) const {
  one.source = look_at(driver_, source, one.from_address, one.bytes);
  one.destination = look_at(driver_, destination, one.to_address, one.bytes);
  for (const memory_view* seen : {&one.source, &one.destination}) {
    if (seen->kind == memory_kind::pinned) continue;
    if (seen->kind == memory_kind::managed) return copy_result::managed;
    if (seen->kind == memory_kind::mixed) return copy_result::mixed;
    if (seen->kind == memory_kind::host) return copy_result::pageable;
    // Access between GPUs is one of their primary contexts; others have no part in it.
    if (seen->origin == memory_origin::plain && have.all.gpu_of(seen->context) != seen->gpu)
      return copy_result::other_context;
  }
  return std::nullopt;
}

// Whether it may go over several paths; not where that is impossible or not known to be the same.
// What most direct messages need is asked first.
bool copy_engine::examine(parts& have, transfer& call, bool captures, copy_report& told) {
  message& one = call.messages.front();
  told.result = copy_result::other_context;
  CUctx_st* context = nullptr;
  if (driver_.current(&context) != driver_result::success || context == nullptr) return false;
  const memory_facts source = ask(driver_, one.from_address);
  const memory_facts destination = ask(driver_, one.to_address);
  const auto begin = have.place_of(source);
  const auto end = have.place_of(destination);
  if (begin && end) {
    told.result = copy_result::one_place;
    if (*begin == *end) return false;
    told.result = copy_result::one_path;
    told.source = coarsely(source);
    told.destination = coarsely(destination);
    one.from = *begin;
    one.to = *end;
    call.user = user_of(call.caller.stream, context) ^ have.own_streams;
    // Whether the stream is being captured is not asked: to take a captured message for one that is
    // made only keeps others off its links.
    if (have.direct[have.direct_at(one.from, one.to, one.bytes)].load(std::memory_order_relaxed)) {
      have.traffic.use({one.from, one.to}, call.user, clock_(),
                       have.direct_ns(one.from, one.to, one.bytes));
      return false;
    }
  }

  // What this cannot tell (another stream's capture, edges with data) a plain copy can.
  told.result = copy_result::capturing;
  if (!ask_capture(call) || (call.capturing && !captures)) return false;
  if (begin && end) {
    const std::uint64_t now_ns = clock_();
    // What is captured runs later. It keeps off links of pairs that met its own before.
    if (!call.capturing)
      have.traffic.use({one.from, one.to}, call.user, now_ns,
                       have.direct_ns(one.from, one.to, one.bytes));
    call.by = have.choice_of(one.from, one.to, one.bytes);
    const std::vector<endpoint>& allowed = have.relays_of(one.from, one.to, call.by);
    call.relays = have.traffic.idle({one.from, one.to}, allowed, now_ns);
    if (call.relays.empty()) {
      if (allowed.empty()) have.known_direct(one.from, one.to, one.bytes);
      told.result = copy_result::one_path;
      return false;
    }
  }
  told.result = copy_result::other_context;
  if (!ask_stream(have, call)) return false;
  const auto plain = look(have, one, source, destination);
  told.source = one.source;
  told.destination = one.destination;
  if (plain) told.result = *plain;
  if (plain || !begin || !end) return false;
  call.set_addresses();
  return true;
}

// Whether the copies can be planned together: each between places that reach each other, or inside
// a GPU, in memory whose place is known.
bool copy_engine::examine_batch(parts& have, transfer& call) {
  CUctx_st* context = nullptr;
  if (driver_.current(&context) != driver_result::success || context == nullptr) return false;
  if (!ask_capture(call)) return false;
  call.user = user_of(call.caller.stream, context) ^ have.own_streams;
  const std::uint64_t now_ns = clock_();
  std::vector<const message*> between;  // places
  bool movable = true;
  for (message& one : call.messages) {
    const memory_facts source = ask(driver_, one.from_address);
    const memory_facts destination = ask(driver_, one.to_address);
    const auto begin = have.place_of(source);
    const auto end = have.place_of(destination);
    if (!begin || !end || !have.joined(*begin, *end)) {
      movable = false;
      continue;
    }
    one.from = *begin;
    one.to = *end;
    if (!(one.from == one.to)) between.push_back(&one);
    if (look(have, one, source, destination)) movable = false;
  }
  if (!movable || between.size() > most_planned || !ask_stream(have, call)) {
    // They are on links all the same, one after another.
    if (!call.capturing)
      for (const message* one : between)
        have.traffic.use({one->from, one->to}, call.user, now_ns,
                         have.direct_ns(one->from, one->to, one->bytes));
    return false;
  }
  const auto inside =
      std::stable_partition(call.messages.begin(), call.messages.end(),
                            [](const message& one) { return !(one.from == one.to); });
  if (inside == call.messages.begin()) return false;
  for (auto one = inside; one != call.messages.end(); ++one)
    call.local.push_back({one->from.index, one->bytes});
  call.set_addresses();
  call.by = parts::every_path(0);

  // A place relays if no message has to keep off it; what begins or ends there has no need of it.
  for (std::uint32_t gpu = 0; gpu < have.described.gpus.size(); ++gpu)
    call.relays.push_back({endpoint_kind::gpu, gpu});
  call.relays.push_back({endpoint_kind::host, 0});
  for (const message& one : call.planned()) {
    if (!call.capturing)
      have.traffic.use({one.from, one.to}, call.user, now_ns,
                       have.direct_ns(one.from, one.to, one.bytes));
    const auto idle =
        have.traffic.idle({one.from, one.to}, have.relays_of(one.from, one.to, call.by), now_ns);
    std::erase_if(call.relays, [&](endpoint place) {
      return !(place == one.from) && !(place == one.to) &&
             std::find(idle.begin(), idle.end(), place) == idle.end();
    });
  }
  return true;
}

// False if it has to be one plain copy, which is still to be made.
bool copy_engine::over_paths(parts& have, transfer& call, copy_report& told) {
  const message& one = call.messages.front();
  const bool alone = call.relays.size() == have.relays_of(one.from, one.to, call.by).size();
  const plan_limits limits{options_.chunks != 0 ? options_.chunks : call.by.chunks,
                           // What was measured was alone on the machine.
                           (have.measured_here || options_.chunks != 0) && alone};
  const plan::message wanted{one.from, one.to, one.bytes};
  call.plan = have.plans.find({&wanted, 1}, call.relays, limits);
  const copy_program& program = call.plan->program;
  told.predicted_s = program.predicted_s;
  told.direct_s = program.direct_s;
  told.result = program.direct() ? copy_result::one_path
                : reach(call)    ? copy_result::captured
                                 : copy_result::unreachable;
  if (told.result != copy_result::captured) {
    if (program.direct() && alone) have.known_direct(one.from, one.to, one.bytes);
    return false;
  }
  if (call.capturing ? capture(have, call) : run_seen(have, call, told.result)) return true;
  told.result = copy_result::no_staging;
  return false;
}

// False if the copies have to be plain ones, which are still to be made.
bool copy_engine::together(parts& have, transfer& call) {
  std::vector<plan::message> wanted;
  for (const message& one : call.planned()) wanted.push_back({one.from, one.to, one.bytes});
  const plan_limits limits{options_.chunks, options_.chunks != 0};
  for (;;) {
    call.plan = have.plans.find(wanted, call.relays, limits, call.local);
    copy_result by = copy_result::captured;
    if (reach(call) && (call.capturing ? capture(have, call) : run_seen(have, call, by)))
      return true;
    // What has no staging memory, or is out of a relay's reach, may still go directly.
    if (call.plan->program.buffers.empty()) return false;
    call.relays.clear();
    call.where.buffers.clear();
  }
}

// Whether every GPU that copies a part can reach the memory at its ends: virtual memory and memory
// of pools are shared with the GPUs that their owner names.
bool copy_engine::reach(const transfer& call) {
  const copy_program& program = call.plan->program;
  const auto known = [](const memory_view& seen) {
    return seen.origin == memory_origin::host || seen.origin == memory_origin::plain;
  };
  if (std::all_of(call.messages.begin(), call.messages.end(),
                  [&](const message& one) { return known(one.source) && known(one.destination); }))
    return true;
  std::set<std::tuple<int, std::uint32_t, bool>> asked;  // GPU, message, whether its destination
  for (const copy_program::copy& part : program.copies) {
    const int gpu = program.slots[part.slot].gpu;
    for (const bool destination : {false, true}) {
      const plan::location& place = destination ? part.to : part.from;
      if (place.memory == plan::memory::staging) continue;
      const message& one = call.messages[place.index];
      const memory_view& seen = destination ? one.destination : one.source;
      if (known(seen) || seen.gpu == gpu || !asked.emplace(gpu, place.index, destination).second)
        continue;
      if (reachable(driver_, seen, gpu, destination ? one.to_address : one.from_address, one.bytes))
        continue;
      report("copies of memory on " + gpu_text(seen.gpu) + " that " + gpu_text(gpu) +
             " has no access to are direct (cuMemSetAccess and cudaMemPoolSetAccess give it)");
      return false;
    }
  }
  return true;
}

bool copy_engine::stage(parts& have, transfer& call) {
  for (const copy_program::buffer& buffer : call.plan->program.buffers) {
    const auto taken = have.pool(buffer.place).take(buffer.bytes, call.caller.identity);
    if (!taken) {
      report(std::string("copies are direct while the staging memory of ") +
             (buffer.place == host_place ? "the host" : gpu_text(buffer.place)) +
             " is in use; INTERLACE_COPY_STAGING allows more");
      unstage(have, call, nullptr);
      return false;
    }
    call.blocks.push_back(*taken);
    call.where.buffers.push_back(taken->address);
  }
  return true;
}

void copy_engine::unstage(parts& have, transfer& call, const shared_completion& end) {
  for (std::size_t index = 0; index < call.blocks.size(); ++index)
    have.pool(call.plan->program.buffers[index].place).give(call.blocks[index], end);
  call.blocks.clear();
}

// Runs it, and lets others see how long it takes.
bool copy_engine::run_seen(parts& have, transfer& call, copy_result& by) {
  const std::uint64_t begin_ns = clock_();
  const std::uint64_t busy_ns = nanoseconds(call.plan->program.predicted_s);
  if (!run(have, call, by)) return false;
  for (const message& one : call.planned()) {
    const std::uint64_t direct_ns = have.direct_ns(one.from, one.to, one.bytes);
    if (busy_ns < direct_ns)
      have.traffic.shorten({one.from, one.to}, direct_ns - busy_ns);
    else if (call.planned().size() > 1)  // which wait for each other
      have.traffic.use({one.from, one.to}, call.user, begin_ns, busy_ns - direct_ns);
  }
  // The first time streams, graphs and staging memory take longer to make than the message takes.
  if (const std::uint64_t end_ns = clock_(); end_ns > begin_ns + busy_ns)
    for (const message& one : call.planned())
      have.traffic.use({one.from, one.to}, call.user, end_ns, busy_ns);
  return true;
}

bool copy_engine::run(parts& have, transfer& call, copy_result& by) {
  const copy_program& program = call.plan->program;
  const bool again = call.plan->uses.fetch_add(1, std::memory_order_relaxed) > 0;
  const copy_executor by_what =
      options_.executor == copy_executor::automatic ? call.by.executor : options_.executor;
  const bool graph =
      by_what == copy_executor::graphs ||
      (by_what == copy_executor::automatic && again && program.copies.size() >= least_graph_copies);
  if (!stage(have, call)) return false;
  graph_key key{program.shape, program.shape_hash, {}};
  for (const message& one : call.messages)
    for (const memory_view* seen : {&one.source, &one.destination})
      key.ends.push_back({seen->context, seen->origin});
  std::unique_ptr<graph_executable> executable;
  std::unique_ptr<lane> used;
  shared_completion end;
  try {
    if (call.caller.blocking &&
        !have.all.enqueue_work(call.caller.identity.gpu, call.caller.stream)) {
      unstage(have, call, nullptr);
      return false;
    }
    if (graph) {
      graph_times spent;
      executable = have.graphs.take(key, call.caller.identity);
      if (!executable)
        executable = std::make_unique<graph_executable>(have.all, program, call.where, spent);
      executable->launch(program, call.where, call.caller.stream, spent);
      have.graphs.add(spent);
    } else {
      used = have.streams.run(program, call.where, call.caller);
      if (!used) {
        unstage(have, call, nullptr);
        report("copies are direct while too many are under way");
        return false;
      }
    }
    if (call.caller.blocking)
      (void)have.all.enqueue_work(call.caller.identity.gpu, call.caller.stream);
    end = std::make_shared<completion>(have.all, call.caller.stream, call.caller.identity);
  } catch (...) {
    // Whatever was enqueued has ended when its memory is used again.
    log_failure(driver_, driver_.stream_synchronize(call.caller.stream), "cuStreamSynchronize");
    unstage(have, call, nullptr);
    if (used) have.streams.keep(std::move(used), nullptr);
    throw;
  }
  unstage(have, call, end);
  if (executable) have.graphs.keep(key, std::move(executable), end);
  if (used) have.streams.keep(std::move(used), end);
  (graph ? graphs_ : streams_).fetch_add(1, std::memory_order_relaxed);
  by = graph ? copy_result::graph : copy_result::streams;
  return true;
}

// The graph, and what is instantiated of it, owns the staging memory.
void copy_engine::give_to(parts& have, CUgraph_st* graph, std::vector<placed_block> blocks) {
  struct owner {
    parts& of;
    std::vector<placed_block> blocks;
  };
  auto owning = std::make_unique<owner>(owner{have, std::move(blocks)});
  const auto release = [](void* data) {  // by the driver, which must not be called here
    const std::unique_ptr<owner> ended(static_cast<owner*>(data));
    for (const placed_block& one : ended->blocks)
      ended->of.pool(one.place).give(one.memory, nullptr);
    ended->of.captured.fetch_sub(1);
  };
  CUuserObject_st* object = nullptr;
  const int created =
      driver_.user_object_create(&object, owning.get(), release, 1, user_object_unsynchronized);
  if (created != driver_result::success) {
    for (const placed_block& one : owning->blocks) have.pool(one.place).give(one.memory, nullptr);
    check(driver_, created, "cuUserObjectCreate");
  }
  have.captured.fetch_add(1);
  (void)owning.release();  // the object's
  const int retained = driver_.graph_retain_user_object(graph, object, 1, graph_takes_user_object);
  if (retained != driver_result::success) {
    log_failure(driver_, driver_.user_object_release(object, 1), "cuUserObjectRelease");
    check(driver_, retained, "cuGraphRetainUserObject");
  }
}

// The copies become nodes of the caller's graph.
bool copy_engine::capture(parts& have, transfer& call) {
  if (!stage(have, call)) return false;
  std::vector<placed_block> blocks;
  for (std::size_t index = 0; index < call.blocks.size(); ++index)
    blocks.push_back({call.plan->program.buffers[index].place, call.blocks[index]});
  call.blocks.clear();
  give_to(have, call.graph, std::move(blocks));
  const copy_program& program = call.plan->program;
  const auto nodes = add_copies(have.all, call.graph, program, call.where, call.roots);
  auto ends = ends_of(program, nodes);
  check(driver_,
        driver_.capture_depend(call.caller.stream, ends.data(), ends.size(),
                               capture_set_dependencies),
        "cuStreamUpdateCaptureDependencies");
  captured_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

copy_statistics copy_engine::statistics() const {
  copy_statistics now;
  now.direct = direct_.load();
  now.streams = streams_.load();
  now.graphs = graphs_.load();
  now.captured = captured_.load();
  now.bytes = bytes_.load();
  const parts* have = ready_.load(std::memory_order_acquire);
  if (have == nullptr) return now;
  const graph_counts counted = have->graphs.counts();
  now.hits = counted.hits;
  now.misses = counted.misses;
  now.evictions = counted.evictions;
  now.executables = counted.executables;
  now.creation_s = counted.times.creation_s;
  now.construction_s = counted.times.construction_s;
  now.instantiation_s = counted.times.instantiation_s;
  now.update_s = counted.times.update_s;
  now.launch_s = counted.times.launch_s;
  now.nodes = counted.times.nodes;
  now.updates = counted.times.updates;
  now.launches = counted.times.launches;
  for (const auto& pool : have->pools) now.staging_bytes += pool->reserved();
  return now;
}

copy_machine this_machine(const driver_table& driver) {
  const auto asked = machine::open_driver();
  const machine::discovery seen = machine::discover(*asked, {});
  copy_machine made;
  made.described = seen.found;
  made.driver = seen.driver_version;
  for (const std::string& remark : seen.remarks)
    if (remark.rfind("CUDA_VISIBLE_DEVICES=", 0) == 0)
      made.remarks.push_back("copies are not relayed by GPUs that are hidden: " + remark);
  if (!seen.devices.empty()) made.model = seen.devices.front().name;
  machine::assume_copies(made.described);
  int count = 0;
  check(driver, driver.device_count(&count), "cuDeviceGetCount");
  std::vector<bool> taken(static_cast<std::size_t>(count), false);
  for (const machine::found_device& device : seen.devices) {
    for (int gpu = 0; gpu < count; ++gpu) {
      std::array<char, 32> text{};
      check(driver, driver.device_bus_id(text.data(), static_cast<int>(text.size()), gpu),
            "cuDeviceGetPCIBusId");
      std::string id(text.data());
      std::transform(id.begin(), id.end(), id.begin(),
                     [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
      if (taken[static_cast<std::size_t>(gpu)] || id != device.bus_id) continue;
      taken[static_cast<std::size_t>(gpu)] = true;
      made.gpus.push_back(gpu);
      made.names.push_back(id);
      break;
    }
  }
  made.hides_gpus = seen.installed > seen.devices.size();
  if (made.gpus.size() != seen.devices.size())
    throw device_error("NVML and CUDA name different GPUs");
  return made;
}

}  // namespace interlace::cuda
