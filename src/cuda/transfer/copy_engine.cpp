#include "cuda/transfer/copy_engine.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "cuda/transfer/copy_classifier.hpp"
#include "cuda/transfer/copy_planner.hpp"
#include "cuda/transfer/copy_routes.hpp"
#include "cuda/transfer/copy_runner.hpp"
#include "cuda/transfer/lent_gpus.hpp"
#include "cuda/transfer/link_usage.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::cuda {
namespace {

std::uint64_t monotonic_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

bool overlap(device_address to, device_address from, std::uint64_t bytes) {
  return to < from + bytes && from < to + bytes;
}

copy_message message_of(const batch_part& one) {
  return {.to_address = one.to, .from_address = one.from, .bytes = one.bytes};
}

}  // namespace

struct copy_engine::multi_path {
  contexts gpus;
  copy_machine machine;
  copy_routes routes;
  copy_planner planner;
  copy_runner runner;
  link_usage usage;
  copy_classifier classifier;

  multi_path(const driver_table& driver, copy_machine found, const copy_options& options,
             std::function<std::uint64_t()> clock, kernel_image image, copy_accounts& accounts)
      : gpus(driver),
        machine(std::move(found)),
        routes(gpus, machine, options),
        planner(routes, machine, options),
        runner(gpus, options, image, accounts),
        usage(routes, machine.names, options.traffic_file.value_or(standard_traffic_file()),
              std::move(clock)),
        classifier(gpus, routes, planner, usage) {}
};

copy_engine::copy_engine(const driver_table& driver, const copy_options& options,
                         std::function<copy_machine()> find_machine,
                         std::function<void(const std::string&)> report,
                         std::function<std::uint64_t()> clock, kernel_image image)
    : driver_(driver),
      options_(options),
      accounts_(std::move(report)),
      blocks_(driver,
              {.use_profile = options.profile != "none",
               .report = [this](const std::string& sentence) { accounts_.report(sentence); }}),
      find_machine_(std::move(find_machine)),
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
  if (!clock_) clock_ = monotonic_ns;
}

// This list is never destroyed, because the driver may shut down before the process's last objects
// are destroyed.
std::vector<std::unique_ptr<copy_engine::multi_path>>& copy_engine::owned_by_graphs() {
  static auto* const kept = new std::vector<std::unique_ptr<multi_path>>();
  return *kept;
}

copy_engine::~copy_engine() {
  // A captured graph may end after the engine. At its end, the graph gives its staging memory back.
  // The graph gives the memory back in a callback of the driver, and a callback must not call the
  // driver. The memory depends on other objects. All of these objects are therefore kept until the
  // destructor of a later engine finds that the graphs have ended.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::erase_if(owned_by_graphs(),
                [](const auto& one) { return !one->runner.graphs_own_staging(); });
  if (multi_path_ && multi_path_->runner.graphs_own_staging())
    owned_by_graphs().push_back(std::move(multi_path_));
}

void copy_engine::start() {
  try {
    const relaxed_capture_mode relaxed(driver_);
    copy_machine found = find_machine_();
    for (const std::string& remark : found.remarks) accounts_.report(remark);
    const bool one_gpu = found.gpus.size() < 2;
    if (found.gpus.empty() || (one_gpu && !found.hides_gpus)) return;
    multi_path_ = std::make_unique<multi_path>(driver_, std::move(found), options_, clock_, image_,
                                               accounts_);
    if (!one_gpu) {
      if (auto profile = find_profile(multi_path_->machine, options_, accounts_)) {
        // The threshold is never larger than the standard threshold, because other processes must
        // see plain copies, too.
        if (!options_.threshold_bytes)
          threshold_bytes_.store(std::min(profile->choices.least_bytes(), copy_threshold_bytes));
        multi_path_->planner.use(std::move(*profile));
      }
    }
    const traffic_table& traffic = multi_path_->usage.table();
    if (!traffic.remark().empty()) accounts_.report(traffic.remark());
    // There is only one GPU, and no other process would see the messages.
    if (one_gpu && !traffic.shared()) {
      multi_path_.reset();
      return;
    }
    for (const std::string& remark : multi_path_->gpus.remarks()) accounts_.report(remark);
    if (options_.relays)
      for (const int place : *options_.relays)
        if (place >= multi_path_->gpus.count())
          accounts_.report("there is no " + gpu_text(place) +
                           " that copies could be relayed through");
    started_.store(multi_path_.get(), std::memory_order_release);
  } catch (const std::exception& error) {
    multi_path_.reset();
    accounts_.report(std::string("all copies are direct: ") + error.what());
  }
}

// The objects for copies over several paths, or null if such copies are impossible.
copy_engine::multi_path* copy_engine::started() {
  multi_path* on = started_.load(std::memory_order_acquire);
  if (on != nullptr) return on;
  std::call_once(start_once_, [&] { start(); });
  return started_.load(std::memory_order_acquire);
}

void copy_engine::prepare() {
  if (options_.executor != copy_executor::direct) (void)started();
}

bool copy_engine::usable() {
  return options_.executor != copy_executor::direct && started() != nullptr;
}

bool copy_engine::reaches_threshold(std::uint64_t bytes) const {
  return bytes >= threshold_bytes_.load(std::memory_order_relaxed);
}

void copy_engine::plain_copy(device_address to, device_address from, std::uint64_t bytes,
                             CUstream_st* stream) {
  enqueue_plain_copy(driver_, to, from, bytes, stream);
  accounts_.add_direct();
}

void copy_engine::copy(device_address to, device_address from, std::uint64_t bytes,
                       CUstream_st* stream) {
  if (bytes == 0) return;
  if (overlap(to, from, bytes))
    throw usage_error("source and destination of a copy of " + std::to_string(bytes) +
                      " bytes overlap; copy through a third buffer");
  accounts_.add_bytes(bytes);
  if (options_.executor != copy_executor::direct && reaches_threshold(bytes))
    if (multi_path* on = started()) {
      const relaxed_capture_mode relaxed(driver_);
      copy_report report;
      copy_call call({message_of({.to = to, .from = from, .bytes = bytes})}, stream);
      if (on->classifier.classify_message(call, true, report)) {
        const in_context here(driver_, on->gpus.context_of(call.caller.identity.gpu));
        if (copy_over_paths(*on, call, report)) return;
      }
    }
  plain_copy(to, from, bytes, stream);
}

copy_report copy_engine::try_copy(device_address to, device_address from, std::uint64_t bytes,
                                  CUstream_st* stream) {
  copy_report report;
  report.result = copy_result::below_threshold;
  if (bytes == 0 || !reaches_threshold(bytes)) return report;
  report.result = copy_result::same_place;
  if (overlap(to, from, bytes)) return report;
  report.result = copy_result::no_engine;
  if (!usable()) return report;
  multi_path& on = *started();
  const relaxed_capture_mode relaxed(driver_);
  copy_call call({message_of({.to = to, .from = from, .bytes = bytes})}, stream);
  if (on.classifier.classify_message(call, false, report)) {
    const in_context here(driver_, on.gpus.context_of(call.caller.identity.gpu));
    report.enqueued = copy_over_paths(on, call, report);
  }
  if (report.enqueued) accounts_.add_bytes(bytes);
  return report;
}

void copy_engine::copy_batch(std::span<const batch_part> copies, CUstream_st* stream,
                             std::uint32_t role) {
  refuse_overlaps(copies);
  std::vector<copy_message> messages;
  std::uint64_t bytes = 0;
  for (const batch_part& one : copies) {
    if (one.bytes == 0) continue;
    messages.push_back(message_of(one));
    bytes += one.bytes;
  }
  if (messages.size() == 1) {
    const copy_message& one = messages.front();
    copy(one.to_address, one.from_address, one.bytes, stream);
    return;
  }
  accounts_.add_bytes(bytes);
  if (!messages.empty() && options_.executor != copy_executor::direct && reaches_threshold(bytes))
    if (multi_path* on = started()) {
      const relaxed_capture_mode relaxed(driver_);
      copy_call call(std::move(messages), stream);
      call.role = role;
      if (on->classifier.classify_batch(call)) {
        const in_context here(driver_, on->gpus.context_of(call.caller.identity.gpu));
        if (copy_batch_over_paths(*on, call)) return;
      }
    }
  for (const batch_part& one : copies)
    if (one.bytes != 0) plain_copy(one.to, one.from, one.bytes, stream);
}

blocks_way copy_engine::copy_blocks(const block_batch& batch, CUstream_st* stream) {
  block_helpers helpers;
  if (options_.executor != copy_executor::direct) {
    helpers.lend = [&](const block_need& need) -> std::unique_ptr<block_help> {
      multi_path* const on = reaches_threshold(need.bytes) ? started() : nullptr;
      if (on == nullptr) return nullptr;
      return lend_gpus({on->gpus, on->routes, on->planner, on->runner.streams(), on->usage}, need);
    };
    helpers.peers_of = [&](const CUctx_st* context) -> peer_contexts {
      multi_path* const on = started();
      const std::optional<int> own = on == nullptr ? std::nullopt : on->gpus.gpu_of(context);
      if (!own) return {};
      return [on, own = *own](int gpu) {
        return on->gpus.peers(own, gpu) ? on->gpus.context_of(gpu) : nullptr;
      };
    };
  }
  const copied_blocks copied = blocks_.copy(batch, stream, helpers);
  accounts_.add_bytes(copied.bytes);
  return copied.way;
}

// Enqueues the planned call. Returns false if nothing was enqueued.
bool copy_engine::run(multi_path& on, copy_call& call, copy_result& result) {
  if (call.capturing) {
    result = copy_result::captured;
    return on.runner.capture(call);
  }
  const std::uint64_t begin_ns = on.usage.now_ns();
  const std::optional<copy_result> by = on.runner.run(call);
  if (!by) return false;
  result = *by;
  on.usage.replace_by_plan(call, begin_ns);
  return true;
}

// Copies a message over its paths. Returns false if the message must be one plain copy, which the
// caller must make.
bool copy_engine::copy_over_paths(multi_path& on, copy_call& call, copy_report& report) {
  on.planner.plan_message(call);
  const copy_program& program = call.plan->program;
  report.predicted_s = program.predicted_s;
  report.direct_s = program.direct_s;
  if (program.direct()) {
    report.result = copy_result::one_path;
    if (on.planner.has_all_relays(call)) on.planner.remember_direct(call.messages.front());
    return false;
  }
  report.result = copy_result::unreachable;
  if (!plan_has_access(driver_, call, accounts_)) return false;
  if (run(on, call, report.result)) return true;
  report.result = copy_result::no_staging;
  return false;
}

// Copies a batch over its paths. Returns false if the copies must be plain copies, which the caller
// must make.
bool copy_engine::copy_batch_over_paths(multi_path& on, copy_call& call) {
  for (;;) {
    on.planner.plan_batch(call);
    copy_result result = copy_result::captured;
    if (plan_has_access(driver_, call, accounts_) && run(on, call, result)) return true;
    // Try again without relays. The batch then needs no staging memory, and no relay needs access
    // to the batch's memory. The copies take the direct paths at the same time, which is still
    // faster than plain copies in a row.
    if (call.plan->program.buffers.empty()) return false;
    call.relays.clear();
    call.where.buffers.clear();
  }
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
  multi_path* on = started();
  if (on == nullptr)
    throw device_error(
        "an all-reduce needs GPUs that copies over several paths can use; there are none here");
  const relaxed_capture_mode relaxed(driver_);
  std::optional<in_context> any;  // for a thread that has not called CUDA yet
  CUctx_st* current = nullptr;
  if (driver_.current(&current) != driver_result::success || current == nullptr)
    any.emplace(driver_, on->gpus.any_context());
  copy_call call({}, stream);
  if (!read_capture(driver_, call))
    throw device_error("the driver does not tell whether the stream of an all-reduce is captured");
  if (!read_stream(on->gpus, call))
    throw usage_error(
        "the stream of an all-reduce belongs to a context that is not the primary context of a "
        "GPU");
  const std::vector<int> gpus = gpus_of_participants(on->gpus, what);
  copy_runner& runner = on->runner;
  for (const int gpu : gpus) runner.kernels().prepare(gpu);
  const all_reduce_resources by{
      .gpus = on->gpus,
      .kernels = runner.kernels(),
      .streams = runner.streams(),
      .pool = [&](int gpu) -> staging_pool& { return runner.pool(gpu); },
      .staging = runner.staging_mutex(),
      .staging_bytes = options_.staging_bytes,
      .copy = [&](std::span<const batch_part> copies,
                  std::uint32_t role) { copy_batch(copies, stream, role); },
      .give_to_graph =
          [&](CUgraph_st* graph, std::vector<placed_block> blocks) {
            runner.give_to_graph(graph, std::move(blocks));
          }};
  if (call.capturing)
    capture_all_reduce(what, gpus, call.caller, by);
  else
    enqueue_all_reduce(what, gpus, call.caller, by);
}

copy_statistics copy_engine::statistics() const {
  copy_statistics now = accounts_.counted();
  if (const multi_path* on = started_.load(std::memory_order_acquire)) on->runner.add_to(now);
  return now;
}

}  // namespace interlace::cuda
