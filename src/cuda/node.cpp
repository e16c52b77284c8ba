#include "cuda/node.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>

#include "base/statistics.hpp"
#include "cuda/check.hpp"
#include "cuda/early_launch.hpp"
#include "cuda/load_kernel.hpp"
#include "cuda/region/agent.hpp"
#include "cuda/region/failure.hpp"
#include "cuda/region/watchdog.hpp"
#include "cuda/visible_gpus.hpp"
#include "kernel/type_name.hpp"

namespace interlace::cuda {

namespace {

constexpr std::uint32_t no_exchange = 0xffffffffU;

// Operations that are enqueued on streams while the gate is shut: a stream takes about a thousand
// before a launch waits, and nothing that waits for the host may do so while the host waits for it.
constexpr std::uint32_t gate_holds = 256;
// What an operation counts, on one device: an exchange is up to eight launches, its copies, and
// waits for the copy streams; a library call may be several launches.
std::uint32_t gate_weight(const operation& o) {
  const auto copies = [](const auto& of) { return static_cast<std::uint32_t>(2 * of.size()); };
  if (o.what == operation::kind::exchange) {
    std::uint32_t most = 0;
    for (const auto& of : o.exchange.copies) most = std::max(most, copies(of));
    for (const auto& of : o.exchange.prefetches) {
      if (!of.empty()) return gate_holds;  // the driver may wait for pages that are in use
    }
    if (!o.exchange.batch.empty()) return gate_holds;  // it may plan, allocate and make a graph
    const auto groups = static_cast<std::uint32_t>(o.exchange.collectives.size());
    return 8 + 2 * max_devices * (1 + groups) + most;
  }
  if (o.what == operation::kind::copies) return copies(o.copies);
  if (o.what == operation::kind::call) return 16;
  if (o.kernel.tracked == nullptr) return 1;
  std::uint32_t weight = 8;
  if (o.kernel.tracked->table.flags != nullptr) {
    for (const kernel::chunk& chunk : o.kernel.tracked->chunks) {
      weight += 2 * static_cast<std::uint32_t>(std::popcount(chunk.peers));
    }
  }
  return weight;
}

// A graph is one device's, and a batch spans all of them.
constexpr const char* on_streams =
    "runs on plain streams, so that the time of short iterations contains some of the host's";

// How long graphs may take to be enqueued while the gate is shut.
constexpr std::chrono::seconds gate_patience{1};

cudaEvent_t make_event(bool timed) {
  cudaEvent_t event = nullptr;
  INTERLACE_CUDA_CHECK(
      cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming));
  return event;
}

// Of a multiprocessor's shared memory, what as many blocks take as find place there.
unsigned int shared_percent(const kernel_operation& k, const cudaFuncAttributes& attributes,
                            int ordinal) {
  int blocks = 0;
  INTERLACE_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, k.entry, static_cast<int>(k.shape.threads), k.shape.shared_bytes));
  const std::uint64_t block = attributes.sharedSizeBytes + k.shape.shared_bytes +
                              gpu_attribute(cudaDevAttrReservedSharedMemoryPerBlock, ordinal);
  const std::uint64_t all = static_cast<std::uint64_t>(blocks) * block;
  const std::uint64_t whole = gpu_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, ordinal);
  return static_cast<unsigned int>(std::min<std::uint64_t>(100, (100 * all + whole - 1) / whole));
}

double elapsed_s(cudaEvent_t begin, cudaEvent_t end) {
  float ms = 0;
  INTERLACE_CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
  return static_cast<double>(ms) * 1e-3;
}

}  // namespace

// --- what a run needs beside the node
// -------------------------------------------------------------

// The contents of all regions and reductions, and the way back to them.
class node::snapshot {
 public:
  explicit snapshot(node& owner) : owner_(owner) {
    for (const kernel::region_state& s : owner.states_) {
      const std::uint64_t bytes = s.elements * s.element_bytes;
      for (std::uint32_t d = 0; d < owner.devices(); ++d) {
        keep(d, s.buffers[d][0], bytes);
        if (s.is_reduction) {
          keep(d, s.partials[d], bytes * s.copies);
        } else {
          keep(d, s.buffers[d][1], bytes);
        }
      }
    }
  }
  void restore() const {
    for (const part& p : parts_) {
      INTERLACE_CUDA_CHECK(cudaMemcpyAsync(p.original, p.copy, p.bytes, cudaMemcpyDeviceToDevice,
                                           owner_.streams_[p.device]));
    }
    owner_.synchronize();
  }

 private:
  struct part {
    std::uint32_t device;
    void* original;
    void* copy;
    std::uint64_t bytes;
  };
  void keep(std::uint32_t device, void* data, std::uint64_t bytes) {
    if (bytes == 0) return;
    void* copy = memory_.take(owner_.ordinal(device), bytes);
    owner_.read_bytes(copy, data, bytes);
    parts_.push_back({device, data, copy, bytes});
  }

  node& owner_;
  device_memory memory_;
  std::vector<part> parts_;
};

// One executable graph for each device.
class node::graphs {
 public:
  explicit graphs(std::uint32_t devices) : graphs_(devices), executables_(devices) {}
  ~graphs() {
    for (cudaGraphExec_t e : executables_) {
      if (e != nullptr) INTERLACE_CUDA_LOG(cudaGraphExecDestroy(e));
    }
    for (cudaGraph_t g : graphs_) {
      if (g != nullptr) INTERLACE_CUDA_LOG(cudaGraphDestroy(g));
    }
  }
  graphs(const graphs&) = delete;
  graphs& operator=(const graphs&) = delete;
  graphs(graphs&&) = delete;
  graphs& operator=(graphs&&) = delete;

  // Throws device_error if anything of it is refused; no stream is left capturing. Where devices
  // share a GPU, exchanges are captured without their meetings.
  void capture(node& owner, std::span<const operation> operations) {
    operations_ = operations;
    std::uint32_t begun = 0;
    try {
      for (; begun < owner.devices(); ++begun) {
        INTERLACE_CUDA_CHECK(cudaSetDevice(owner.ordinal(begun)));
        INTERLACE_CUDA_CHECK(
            cudaStreamBeginCapture(owner.streams_[begun], cudaStreamCaptureModeRelaxed));
      }
      owner.behind_kernel_ = 0;
      owner.early_now_ = owner.tenant_->alone() ? owner.early_devices_ : 0;
      for (const operation& o : operations) {
        if (owner.shares_gpu_ && o.what == operation::kind::exchange) {
          for (std::uint32_t d = 0; d < owner.devices(); ++d) {
            owner.issue_transfers(d, o.exchange, nullptr, nullptr);
          }
        } else {
          owner.issue(o, nullptr);
        }
      }
      owner.early_now_ = 0;
      for (std::uint32_t d = 0; d < owner.devices(); ++d) {
        INTERLACE_CUDA_CHECK(cudaStreamEndCapture(owner.streams_[d], &graphs_[d]));
      }
    } catch (...) {
      owner.early_now_ = 0;
      for (std::uint32_t d = 0; d < begun; ++d) {
        cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        (void)cudaStreamIsCapturing(owner.streams_[d], &status);
        if (status == cudaStreamCaptureStatusNone) continue;
        cudaGraph_t rest = nullptr;
        (void)cudaStreamEndCapture(owner.streams_[d], &rest);
        if (rest != nullptr) (void)cudaGraphDestroy(rest);
      }
      (void)cudaGetLastError();
      throw;
    }
    for (std::uint32_t d = 0; d < owner.devices(); ++d) {
      std::size_t nodes = 0;
      INTERLACE_CUDA_CHECK(cudaGraphGetNodes(graphs_[d], nullptr, &nodes));
      if (nodes == 0) continue;
      INTERLACE_CUDA_CHECK(cudaSetDevice(owner.ordinal(d)));
      INTERLACE_CUDA_CHECK(cudaGraphInstantiate(&executables_[d], graphs_[d], 0));
      INTERLACE_CUDA_CHECK(cudaGraphUpload(executables_[d], owner.streams_[d]));
    }
    owner.synchronize();
  }
  void launch(std::uint32_t device, cudaStream_t stream) const {
    if (executables_[device] == nullptr) return;
    INTERLACE_CUDA_CHECK(cudaGraphLaunch(executables_[device], stream));
  }
  std::span<const operation> operations() const { return operations_; }

 private:
  std::span<const operation> operations_;
  std::vector<cudaGraph_t> graphs_;
  std::vector<cudaGraphExec_t> executables_;
};

// Events between the parts of a run on plain streams.
class node::stopwatch {
 public:
  stopwatch(node& owner, std::uint32_t timeline_epochs)
      : owner_(owner), timeline_epochs_(timeline_epochs), exposed_(owner.devices()) {}
  ~stopwatch() {
    for (cudaEvent_t e : events_) INTERLACE_CUDA_LOG(cudaEventDestroy(e));
  }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;
  stopwatch(stopwatch&&) = delete;
  stopwatch& operator=(stopwatch&&) = delete;

  // Records now; the device is the current one.
  cudaEvent_t mark(cudaStream_t stream) {
    events_.push_back(make_event(true));
    INTERLACE_CUDA_CHECK(cudaEventRecord(events_.back(), stream));
    return events_.back();
  }
  bool draws() const { return epoch_ < timeline_epochs_; }
  void span(std::uint32_t device, const char* track, std::string name, cudaEvent_t begin,
            cudaEvent_t end) {
    if (draws()) spans_.push_back({device, track, std::move(name), begin, end});
  }
  // Time of an epoch that a device spent only on transfers.
  void exposed(std::uint32_t device, cudaEvent_t begin, cudaEvent_t end) {
    exposed_[device].emplace_back(begin, end);
  }
  void next_epoch() { ++epoch_; }
  std::uint32_t epoch() const { return epoch_; }

  // After the run.
  void fill(kernel::run_result& result) const {
    for (const drawn& s : spans_) {
      result.timeline.push_back({s.device, s.track, s.name,
                                 elapsed_s(owner_.starts_[s.device], s.begin),
                                 elapsed_s(owner_.starts_[s.device], s.end)});
    }
    double begun = 0;
    for (std::uint32_t epoch = 0; epoch < epoch_; ++epoch) {
      // From when the last device has computed to when the last one has copied: a device that
      // copies while another still computes exposes nothing.
      double computed = 0;
      double copied = 0;
      for (std::uint32_t d = 0; d < exposed_.size(); ++d) {
        if (epoch >= exposed_[d].size()) continue;
        computed = std::max(computed, elapsed_s(owner_.starts_[d], exposed_[d][epoch].first));
        copied = std::max(copied, elapsed_s(owner_.starts_[d], exposed_[d][epoch].second));
      }
      result.copy_s += std::max(0.0, copied - computed);
      result.epoch_s.push_back(std::max(0.0, copied - begun));
      begun = copied;
    }
  }

 private:
  struct drawn {
    std::uint32_t device;
    const char* track;
    std::string name;
    cudaEvent_t begin;
    cudaEvent_t end;
  };
  node& owner_;
  std::uint32_t timeline_epochs_;
  std::uint32_t epoch_ = 0;
  std::vector<cudaEvent_t> events_;
  std::vector<drawn> spans_;
  std::vector<std::vector<std::pair<cudaEvent_t, cudaEvent_t>>> exposed_;
};

// Opens the gate after a while, should enqueueing the graphs wait for what the gate holds.
class node::gate_keeper {
 public:
  explicit gate_keeper(node& owner)
      : owner_(owner), thread_([this] {
          std::unique_lock lock(mutex_);
          if (!changed_.wait_for(lock, gate_patience, [this] { return over_; })) {
            early_ = true;
            owner_.open_gate();
          }
        }) {}
  ~gate_keeper() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_one();
    thread_.join();
    if (early_) {
      owner_.remarks_.emplace_back(
          "the graphs were too long to be enqueued before they started; the time may contain "
          "some of the host's");
    }
  }
  gate_keeper(const gate_keeper&) = delete;
  gate_keeper& operator=(const gate_keeper&) = delete;
  gate_keeper(gate_keeper&&) = delete;
  gate_keeper& operator=(gate_keeper&&) = delete;

 private:
  node& owner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  bool early_ = false;
  std::thread thread_;  // the last member: it uses the others
};

// --- construction
// ---------------------------------------------------------------------------------

node::node(options o) : options_(std::move(o)) {
  const std::uint32_t present = device_count();
  if (options_.devices < 1 || options_.devices > max_devices) {
    throw usage_error("a node has 1 to " + std::to_string(max_devices) + " GPUs, not " +
                      std::to_string(options_.devices));
  }
  if (!(options_.deadline_s > 0) || options_.deadline_s > 86400) {
    throw usage_error("a deadline is more than 0 and at most 86400 seconds");
  }
  if (options_.ordinals.empty()) {
    if (options_.devices > present) {
      throw usage_error(std::to_string(options_.devices) + " GPUs are asked for and " +
                        std::to_string(present) +
                        " are here; devices can share a GPU (--share-gpu, node_options::ordinals)");
    }
    for (std::uint32_t d = 0; d < options_.devices; ++d) {
      options_.ordinals.push_back(static_cast<int>(d));
    }
  }
  if (options_.ordinals.size() != options_.devices) {
    throw usage_error("a node of " + std::to_string(options_.devices) + " GPUs names " +
                      std::to_string(options_.ordinals.size()));
  }
  for (const int gpu : options_.ordinals) require_gpu(gpu);
  shares_gpu_ = shares_gpu(options_.ordinals);
  require_queues(options_.ordinals, streams_of_device);

  enable_peer_access(options_.ordinals);
  host_ =
      std::make_unique<mapped_memory>(max_devices * sizeof(wait_failure) + sizeof(unsigned int));
  failures_ = static_cast<wait_failure*>(host_->data());
  host_ticket_ = reinterpret_cast<unsigned int*>(failures_ + max_devices);

  const std::uint32_t n = options_.devices;
  early_devices_ = early_devices(options_.ordinals);
  tenant_.emplace(options_.ordinals);
  streams_.assign(n, nullptr);
  copy_streams_.assign(n, std::vector<cudaStream_t>(2 * n, nullptr));
  for (auto* events : {&events_, &starts_, &stops_}) events->assign(n, nullptr);
  copies_pending_.assign(n, 0);
  tracked_.resize(n);
  launched_.resize(n);
  const current_device restore(ordinal(0));
  for (std::uint32_t d = 0; d < n; ++d) {
    INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(d)));
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&streams_[d], cudaStreamNonBlocking));
    int least = 0;
    int greatest = 0;
    INTERLACE_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    if (shares_gpu_) {
      INTERLACE_CUDA_CHECK(
          cudaStreamCreateWithPriority(&copy_streams_[d][0], cudaStreamNonBlocking, greatest));
      copy_streams_[d].assign(2 * std::size_t{n}, copy_streams_[d][0]);
    }
    for (std::uint32_t k = 0; k < 2 * n && !shares_gpu_; ++k) {
      // An agent gets the next place that a block of the kernel leaves.
      INTERLACE_CUDA_CHECK(cudaStreamCreateWithPriority(&copy_streams_[d][k], cudaStreamNonBlocking,
                                                        k == d ? greatest : least));
    }
    events_[d] = make_event(false);
    starts_[d] = make_event(true);
    stops_[d] = make_event(true);
    if (!load_exchange_kernels()) early_devices_ &= ~(1U << d);
    load_agent_kernels();
    auto* control = static_cast<device_control*>(memory_.take(ordinal(d), sizeof(device_control)));
    INTERLACE_CUDA_CHECK(cudaMemset(control, 0, sizeof(device_control)));
    INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
    controls_.push_back(control);
  }
  // The first copy between two GPUs sets things up and may wait for both, which would be too late
  // once kernels wait on them.
  for (std::uint32_t from = 0; from < n; ++from) {
    for (std::uint32_t to = 0; to < n; ++to) {
      if (ordinal(from) == ordinal(to)) continue;
      INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(from)));
      INTERLACE_CUDA_CHECK(cudaMemcpyAsync(&controls_[to]->arrived[from], &controls_[from]->entered,
                                           sizeof(counter), cudaMemcpyDefault, streams_[from]));
      INTERLACE_CUDA_CHECK(cudaStreamSynchronize(streams_[from]));
    }
  }
}

node::~node() {
  int before = 0;
  INTERLACE_CUDA_LOG(cudaGetDevice(&before));
  open_gate();
  for (std::uint32_t d = 0; d < streams_.size(); ++d) {
    if (streams_[d] == nullptr) continue;
    INTERLACE_CUDA_LOG(cudaSetDevice(ordinal(d)));
    INTERLACE_CUDA_LOG(cudaStreamSynchronize(streams_[d]));
  }
  nccl_.reset();
  copier_.reset();
  for (std::uint32_t d = 0; d < streams_.size(); ++d) {
    INTERLACE_CUDA_LOG(cudaSetDevice(ordinal(d)));
    for (auto* events : {&events_, &starts_, &stops_}) {
      if ((*events)[d] != nullptr) INTERLACE_CUDA_LOG(cudaEventDestroy((*events)[d]));
    }
    if (shares_gpu_) copy_streams_[d].resize(1);
    copy_streams_[d].push_back(streams_[d]);
    for (cudaStream_t s : copy_streams_[d]) {
      if (s != nullptr) INTERLACE_CUDA_LOG(cudaStreamDestroy(s));
    }
  }
  INTERLACE_CUDA_LOG(cudaSetDevice(before));
}

// --- memory
// ---------------------------------------------------------------------------------------

std::string node::batches_made() const {
  if (copier_ == nullptr) return {};
  const copy_statistics made = copier_->statistics();
  return "of its batches the copy engine ran " + std::to_string(made.streams) + " by streams and " +
         std::to_string(made.graphs) + " by graphs, with " +
         std::to_string(made.staging_bytes >> 20U) + " MiB of staging memory, and made " +
         std::to_string(made.direct) + " plain copies";
}

void node::require_usable() const {
  if (!failure_.empty()) throw device_error("this node failed before: " + failure_);
}

void node::require_idle(const char* what) const {
  require_usable();
  if (recording_) throw model_error(std::string(what) + " inside of run");
  synchronize();
}

void node::fail(const std::string& sentence) const {
  failure_ = sentence;
  throw device_error(sentence);
}

std::string node::describe_failure(const wait_failure& f) const {
  return cuda::describe_failure(
      f, {.device = [](unsigned int d) { return "GPU " + std::to_string(d); },
          .region = "region " + std::to_string(f.region),
          .exchange = f.exchange == no_exchange ? "the start of a run" : exchanges_.at(f.exchange),
          .deadline_s = options_.deadline_s});
}

// Ends waits of streams for chunks that do not come.
void node::await_waiting_streams() const {
  if (!std::exchange(streams_wait_, false)) return;
  std::vector<watched_device> watched;
  for (std::uint32_t d = 0; d < devices(); ++d) {
    watched_device& w = watched.emplace_back();
    w.ordinal = ordinal(d);
    w.streams = copy_streams_[d];
    w.streams.push_back(streams_[d]);
    w.control = controls_[d];
    w.failure = failures_ + d;
    for (const auto& t : tracked_[d]) w.launches.push_back(t->table);
  }
  if (await_streams(watched, options_.deadline_s)) return;
  std::string what = "a kernel does not end; end this process to stop it";
  for (std::uint32_t d = 0; d < devices(); ++d) {
    if (failures_[d].what != failed_wait::none) {
      what.insert(0, describe_failure(failures_[d]) + "; ");
    }
  }
  fail(what);
}

void node::synchronize() const {
  require_usable();
  const current_device restore(ordinal(0));
  await_waiting_streams();
  if (nccl_ != nullptr) await_collectives();
  cudaError_t error = cudaSuccess;
  std::uint32_t culprit = 0;
  for (std::uint32_t d = 0; d < devices(); ++d) {
    INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(d)));
    std::vector<cudaStream_t> all = copy_streams_[d];
    all.push_back(streams_[d]);
    for (cudaStream_t s : all) {
      const cudaError_t own = cudaStreamSynchronize(s);
      if (own != cudaSuccess && error == cudaSuccess) {
        error = own;
        culprit = d;
      }
    }
  }
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    fail("GPU " + std::to_string(culprit) + " failed: " + cudaGetErrorString(error) + " (" +
         cudaGetErrorName(error) + ")");
  }
  for (std::uint32_t d = 0; d < devices(); ++d) {
    const volatile wait_failure& seen = failures_[d];
    if (seen.what != failed_wait::none) fail(describe_failure(failures_[d]));
  }
}

// Kernels of NCCL wait for the other GPUs without a deadline: they are let go when one has failed.
void node::await_collectives() const {
  bool busy = true;
  bool failed = false;
  while (busy && !failed) {
    busy = false;
    for (std::uint32_t d = 0; d < devices(); ++d) {
      INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(d)));
      const cudaError_t state = cudaStreamQuery(streams_[d]);
      const volatile wait_failure& seen = failures_[d];
      busy = busy || state == cudaErrorNotReady;
      failed = failed || (state != cudaSuccess && state != cudaErrorNotReady) ||
               seen.what != failed_wait::none;
    }
    (void)cudaGetLastError();  // not to be ready is none
    if (busy && !failed) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  if (failed) nccl_->abort();
}

void* node::take(std::uint32_t device, std::uint64_t bytes) {
  require_idle("an allocation");
  void* data = memory_.take(ordinal(device), bytes);
  if (bytes != 0) {
    const auto begin = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(data));
    taken_[device].push_back({begin, begin + bytes});
  }
  return data;
}

void* node::take_unified(std::uint64_t bytes, const kernel::page_placement& pages) {
  require_idle("an allocation");
  return unified_.take(options_.ordinals, bytes, pages);
}

void node::require_ranges(kernel::block_placement how) {
  if (how == kernel::block_placement::contiguous) return;
  throw usage_error("real GPUs take contiguous ranges of blocks; round-robin is simulated");
}

void node::write(void* to, const void* from, std::uint64_t bytes) {
  require_idle("an upload");
  if (bytes == 0) return;
  const current_device on(ordinal(0));  // one that unified memory is mapped for
  INTERLACE_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  // A copy from pageable memory returns when it is staged.
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
}

void node::read_bytes(void* to, const void* from, std::uint64_t bytes) const {
  require_idle("a download");
  if (bytes == 0) return;
  const current_device on(ordinal(0));
  INTERLACE_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
}

void node::write_front(std::uint32_t id, std::uint32_t device, const void* values, std::uint64_t n,
                       std::uint64_t element_bytes) {
  const kernel::region_state& s = states_.at(id);
  kernel::check_front(n, s);
  write(s.buffers[device][0], values, n * element_bytes);
  if (!s.is_reduction) write(s.buffers[device][1], values, n * element_bytes);
}

std::uint32_t node::add_region(kernel::region_options o, std::uint32_t element_bytes) {
  if (o.mechanism == kernel::mechanism::infinite_bandwidth) {
    throw usage_error(
        "infinite-bandwidth is a bound that only simulated machines run; on real GPUs it is "
        "derived");
  }
  if (o.mechanism == kernel::mechanism::proact_hardware || kernel::queues_stores(o.mechanism)) {
    throw usage_error(std::string(kernel::mechanism_name(o.mechanism)) +
                      " is hardware that no GPU has; name a machine to simulate it on");
  }
  if (o.mechanism == kernel::mechanism::serial_copy) {
    throw usage_error("serial-copy is a baseline of simulated machines; take bulk-copy here");
  }
  kernel::region_state state = kernel::make_region_state(std::move(o), element_bytes, devices());
  const std::uint64_t bytes = state.elements * element_bytes;
  const bool shared = state.options.mechanism == kernel::mechanism::unified_memory;
  if (shared) require_idle("an allocation");
  for (std::uint32_t parity = 0; parity < 2; ++parity) {
    void* one = shared ? managed_.take(options_.ordinals, bytes) : nullptr;
    for (std::uint32_t d = 0; d < devices(); ++d) {
      state.buffers[d][parity] = shared ? one : take(d, bytes);
    }
    if (shared) managed_memory::advise(options_.ordinals, state, one);
  }
  if (kernel::stores_to_readers(state.options)) {
    const std::vector<std::uint16_t>& readers = state.options.readers;
    for (std::uint32_t d = 0; d < devices(); ++d) {
      void* placed = take(d, readers.size() * sizeof(std::uint16_t));
      write(placed, readers.data(), readers.size() * sizeof(std::uint16_t));
      state.readers[d] = static_cast<const std::uint16_t*>(placed);
    }
  }
  if (state.options.mechanism == kernel::mechanism::nccl && devices() > 1) {
    if (nccl_ == nullptr) nccl_ = std::make_unique<nccl_regions>(options_.ordinals, streams_);
    nccl_->add(static_cast<std::uint32_t>(states_.size()), state);
    for (const std::string& remark : nccl_->remarks()) {
      if (std::find(remarks_.begin(), remarks_.end(), remark) == remarks_.end()) {
        remarks_.push_back(remark);
      }
    }
  }
  states_.push_back(std::move(state));
  reductions_.emplace_back();
  const auto id = static_cast<std::uint32_t>(states_.size() - 1);
  const kernel::region_options& how = states_[id].options;
  if (how.mechanism == kernel::mechanism::multi_path && how.transfers && devices() > 1) {
    if (copier_ == nullptr) {
      copier_ = std::make_unique<copier>(options_.copies ? *options_.copies
                                                         : copy_options::from_environment());
    }
    // The first batch of its sizes and places is planned, and makes what the engine needs.
    exchange_operation first;
    add_batch(first, id);
    const current_device restore(ordinal(0));
    issue_batch(first, nullptr);
    synchronize();
  }
  return id;
}

std::uint32_t node::add_reduction(std::uint64_t n, std::uint32_t copies,
                                  std::uint32_t element_bytes, element_type type,
                                  combine operation) {
  kernel::region_state state = kernel::make_reduction_state(n, copies, element_bytes);
  reduction_details details{type, operation, {}};
  for (std::uint32_t d = 0; d < devices(); ++d) {
    state.buffers[d][0] = take(d, n * element_bytes);
    state.partials[d] = take(d, n * copies * element_bytes);
    if (n <= small_reduction_elements) {
      details.inboxes[d] = take(d, 2 * devices() * n * element_bytes);
    }
  }
  states_.push_back(std::move(state));
  reductions_.push_back(details);
  return static_cast<std::uint32_t>(states_.size() - 1);
}

// --- what launches and exchanges become
// -----------------------------------------------------------

void node::check_launch(std::uint32_t device, const kernel_operation& k) const {
  if (device >= devices()) {
    throw model_error("a launch on device " + std::to_string(device) + " of " +
                      std::to_string(devices()));
  }
  if (k.shape.blocks == 0) return;
  if (k.shape.blocks > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    throw model_error("a grid of " + std::to_string(k.shape.blocks) +
                      " blocks; 2147483647 are possible");
  }
  if (k.shape.threads == 0 || k.shape.threads % 32 != 0 || k.shape.threads > 1024) {
    throw model_error("a block of " + std::to_string(k.shape.threads) +
                      " threads; a GPU takes multiples of 32 up to 1024");
  }
}

kernel::trace_totals node::count_accesses(std::uint32_t device, const kernel_operation& k) {
  require_idle("a trace");
  check_launch(device, k);
  kernel::trace_totals totals;
  static_assert(sizeof(totals.counts) == kernel::trace_totals::kinds *
                                             kernel::trace_totals::spaces * 2 *
                                             sizeof(std::uint64_t));
  if (k.shape.blocks == 0) return totals;
  const current_device restore(ordinal(device));
  load(k);
  device_memory scratch;
  void* counters = scratch.take(ordinal(device), sizeof(totals.counts));
  write(counters, &totals.counts, sizeof(totals.counts));
  INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(device)));
  void* functor = const_cast<std::byte*>(k.functor.data());  // NOLINT: as in issue_kernel
  std::array<void*, 2> arguments{functor, static_cast<void*>(&counters)};
  INTERLACE_CUDA_CHECK(cudaLaunchKernel(k.entry, dim3(static_cast<unsigned int>(k.shape.blocks)),
                                        dim3(k.shape.threads), arguments.data(),
                                        k.shape.shared_bytes, streams_[device]));
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(streams_[device]));
  read_bytes(&totals.counts, counters, sizeof(totals.counts));
  return totals;
}

void node::record_accesses(std::uint32_t device, const kernel_operation& k,
                           const kernel::access_taker& take) {
  require_idle("a recording");
  check_launch(device, k);
  if (k.shape.blocks == 0) return;
  constexpr std::uint64_t capacity = std::uint64_t{8} << 20U;  // words
  const current_device restore(ordinal(device));
  load(k);
  device_memory scratch;
  kernel::access_buffer buffer;
  buffer.words = static_cast<unsigned long long*>(
      scratch.take(ordinal(device), capacity * sizeof(unsigned long long)));
  buffer.used =
      static_cast<unsigned long long*>(scratch.take(ordinal(device), sizeof(unsigned long long)));
  buffer.capacity = capacity;
  void* functor = const_cast<std::byte*>(k.functor.data());  // NOLINT: as in issue_kernel
  std::vector<unsigned long long> words;
  std::uint64_t most = 0;  // words of a block so far, on average of its range
  for (std::uint64_t first = 0, count = 1; first < k.shape.blocks; first += count) {
    // Ranges grow until they take a quarter of the buffer, as far as the blocks before tell.
    count = std::min(first == 0 ? 1 : 4 * count, k.shape.blocks - first);
    if (most != 0) count = std::min(count, std::max<std::uint64_t>(1, capacity / 4 / most));
    const unsigned long long none = 0;
    write(buffer.used, &none, sizeof(none));
    INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(device)));
    struct range {  // as device::block_range
      std::uint32_t first, total;
    } blocks{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(k.shape.blocks)};
    std::array<void*, 3> arguments{functor, static_cast<void*>(&buffer),
                                   static_cast<void*>(&blocks)};
    INTERLACE_CUDA_CHECK(cudaLaunchKernel(k.entry, dim3(static_cast<unsigned int>(count)),
                                          dim3(k.shape.threads), arguments.data(),
                                          k.shape.shared_bytes, streams_[device]));
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(streams_[device]));
    unsigned long long used = 0;
    read_bytes(&used, buffer.used, sizeof(used));
    if (used > capacity) {
      throw device_error("blocks " + std::to_string(first) + " to " +
                         std::to_string(first + count - 1) + " make more accesses than the " +
                         std::to_string(capacity * sizeof(used) >> 20U) +
                         " MiB for a recording take");
    }
    words.resize(used);
    if (used != 0) read_bytes(words.data(), buffer.words, used * sizeof(words[0]));
    for (std::size_t at = 0; at < words.size();) {
      const auto [access, size] = kernel::access_buffer::unpack(&words[at]);
      take(access);
      at += size;
    }
    most = std::max<std::uint64_t>(most, (used + count - 1) / count);
  }
}

void node::submit_kernel(std::uint32_t device, kernel_operation k) {
  check_launch(device, k);
  if (k.shape.blocks == 0) return;
  operation o;
  o.what = operation::kind::kernel;
  o.device = device;
  o.kernel = std::move(k);
  submit(std::move(o));
}

void node::call(std::uint32_t device, kernel::library_call c) {
  kernel::check_call(c, c.on_gpu, device, devices());
  operation o;
  o.what = operation::kind::call;
  o.device = device;
  o.call = std::move(c);
  submit(std::move(o));
}

const tracked_region& node::track(std::uint32_t device, std::uint32_t id, std::uint64_t blocks,
                                  const kernel::block_mapping& mapping) {
  for (const auto& known : tracked_[device]) {
    if (known->table.region == id && known->blocks == blocks &&
        known->mapping.identity() == mapping.identity()) {
      return *known;
    }
  }
  const kernel::region_state& s = states_.at(id);
  auto made = std::make_unique<tracked_region>();
  made->mapping = mapping;
  made->blocks = blocks;
  made->chunks = kernel::cut_chunks(s, device);
  made->announced =
      kernel::announce(made->chunks, mapping, blocks,
                       {s.options.boundaries[device], s.options.boundaries[device + 1]});
  for (const auto& known : tracked_[device]) {
    if (known->table.region == id && known->announced == made->announced) return *known;
  }
  static_cast<launch_tracking&>(*made) =
      make_tracking(memory_, ordinal(device), made->chunks, made->announced, id, s);
  tracked_[device].push_back(std::move(made));
  return *tracked_[device].back();
}

void node::submit_tracked(std::uint32_t device, kernel_operation k, std::uint32_t id,
                          const kernel::block_mapping& mapping) {
  check_launch(device, k);
  if (k.shape.blocks == 0) return;
  if (k.entry == nullptr) {
    throw usage_error("kernel " + kernel::readable_type_name(k.type_name) +
                      " is not compiled for device-launch: name it in add_launching_kernels, in a "
                      "file that nvcc compiles with -rdc=true");
  }
  const kernel::region_state& s = states_.at(id);
  const current_device restore(ordinal(device));
  if (s.options.mechanism == kernel::mechanism::polling) {
    check_agent(s.options, k.shape, ordinal(device));
  }
  const tracked_region& t = track(device, id, k.shape.blocks, mapping);
  if (launched_[device].contains(id)) {
    throw model_error("two launches of one epoch write region " + std::to_string(id) + ", whose " +
                      kernel::mechanism_name(s.options.mechanism) +
                      " mechanism takes one; exchange between them");
  }
  k.tracked = &t;
  k.where.from = static_cast<const std::byte*>(s.buffers[device][s.parity ^ 1U]);
  for (std::uint32_t d = 0; d < devices(); ++d) {
    k.where.to[d] = static_cast<std::byte*>(s.buffers[d][s.parity ^ 1U]);
  }
  operation o;
  o.what = operation::kind::kernel;
  o.device = device;
  o.kernel = std::move(k);
  submit(std::move(o));
  launched_[device].emplace(id, &t);
  static_assert(2 * max_devices <= 32, "a bit for each copy stream");
  const std::uint32_t peers = receivers(t.chunks);
  if (!s.options.transfers) return;
  if (s.options.mechanism == kernel::mechanism::polling) {
    if (peers != 0) copies_pending_[device] |= 1U << device;
  } else if (s.options.mechanism == kernel::mechanism::copy_engine) {
    copies_pending_[device] |= peers;
    if (copy_lanes(peers) == 2) copies_pending_[device] |= peers << devices();
  }
}

void node::submit_deliveries(std::uint32_t device, std::uint32_t id,
                             const std::vector<kernel::element_range>& complete) {
  const kernel::region_state& s = states_.at(id);
  operation o;
  o.what = operation::kind::copies;
  o.device = device;
  for (const kernel::delivery& d : s.deliveries(device, complete)) {
    const std::uint64_t at = d.begin * s.element_bytes;
    copies_pending_[device] |= 1U << d.to;
    o.copies.push_back({d.to, static_cast<std::byte*>(s.buffers[d.to][s.parity ^ 1U]) + at,
                        static_cast<const std::byte*>(s.buffers[d.from][s.parity ^ 1U]) + at,
                        (d.end - d.begin) * s.element_bytes});
  }
  if (o.copies.empty()) return;
  submit(std::move(o));
}

barrier_arguments node::barrier(std::uint32_t device, std::uint32_t exchange) const {
  barrier_arguments b;
  b.device = device;
  b.devices = devices();
  b.exchange = exchange;
  b.deadline_ns = static_cast<std::uint64_t>(options_.deadline_s * 1e9);
  std::copy(controls_.begin(), controls_.end(), b.controls);
  b.failure = failures_ + device;
  return b;
}

// Throws unless each device has written what it delivers of the regions whose chunks are tracked.
void node::check_exchange(const std::vector<std::uint32_t>& ids) const {
  std::uint32_t tracked = 0;
  for (const std::uint32_t id : ids) {
    const kernel::region_state& s = states_.at(id);
    if (s.is_reduction || !kernel::tracks_chunks(s.options.mechanism) || devices() == 1) continue;
    if (++tracked > max_tracked_launches) {
      throw model_error("one exchange takes at most " + std::to_string(max_tracked_launches) +
                        " regions whose chunks are tracked");
    }
    for (std::uint32_t d = 0; d < devices(); ++d) {
      if (launched_[d].contains(id) || kernel::cut_chunks(s, d).empty()) continue;
      throw model_error("region " + std::to_string(id) + " is exchanged, but no launch of device " +
                        std::to_string(d) + " wrote it in this epoch");
    }
  }
}

// The exchange ends the region's tracked launch of this epoch.
void node::add_tracked(exchange_arguments& a, std::uint32_t device, std::uint32_t id) {
  const auto launched = launched_[device].find(id);
  if (launched == launched_[device].end()) return;
  const tracked_region& t = *launched->second;
  a.launches[a.tracked++] = t.over();
  launched_[device].erase(launched);
}

// What the device subscribes to of a region in unified memory whose readers get copies.
void node::add_prefetches(exchange_operation& e, std::uint32_t id, std::uint32_t device) const {
  const kernel::region_state& s = states_[id];
  if (s.options.hint != kernel::memory_hint::read_mostly) return;
  for (const kernel::delivery& k : s.deliveries()) {
    if (k.to != device) continue;
    e.prefetches[device].push_back(
        {static_cast<const std::byte*>(s.buffers[device][s.parity ^ 1U]) +
             k.begin * s.element_bytes,
         (k.end - k.begin) * s.element_bytes});
  }
}

// What all devices deliver of a region, for the copy engine.
void node::add_batch(exchange_operation& e, std::uint32_t id) const {
  const kernel::region_state& s = states_[id];
  for (const kernel::delivery& k : s.deliveries()) {
    const std::uint64_t at = k.begin * s.element_bytes;
    e.batch.push_back({static_cast<std::byte*>(s.buffers[k.to][s.parity ^ 1U]) + at,
                       static_cast<const std::byte*>(s.buffers[k.from][s.parity ^ 1U]) + at,
                       (k.end - k.begin) * s.element_bytes});
  }
}

void node::submit_exchange(const std::vector<std::uint32_t>& ids) {
  check_exchange(ids);
  operation o;
  o.what = operation::kind::exchange;
  exchange_operation& e = o.exchange;
  e.id = static_cast<std::uint32_t>(exchanges_.size());
  std::string name = "exchange " + std::to_string(e.id) + " (";
  for (const std::uint32_t id : ids) {
    if (name.back() != '(') name += ", ";
    name += (states_.at(id).is_reduction ? "reduction " : "region ") + std::to_string(id);
  }
  exchanges_.push_back(name + ")");

  e.meets = ids.empty();
  for (const std::uint32_t id : ids) {
    const kernel::region_state& s = states_[id];
    const bool moves = !s.is_reduction && devices() > 1;
    if (moves && s.options.mechanism == kernel::mechanism::nccl) {
      e.collectives.push_back({id, s.parity ^ 1U});
      continue;
    }
    if (moves && s.options.mechanism == kernel::mechanism::multi_path && s.options.transfers) {
      add_batch(e, id);
      if (!e.batch.empty()) continue;
    }
    e.meets = true;
  }
  e.prefetches.resize(devices());
  e.copies.resize(devices());
  e.large.resize(devices());
  e.first.resize(devices());
  e.join.resize(devices());
  for (std::uint32_t d = 0; d < devices(); ++d) {
    e.join[d] = copies_pending_[d];
    copies_pending_[d] = 0;
    e.first[d].barrier = barrier(d, e.id);
    for (const std::uint32_t id : ids) {
      const kernel::region_state& s = states_[id];
      const reduction_details& details = reductions_[id];
      if (!s.is_reduction) {
        if (kernel::tracks_chunks(s.options.mechanism) && devices() > 1) {
          add_tracked(e.first[d], d, id);
        }
        if (s.options.mechanism == kernel::mechanism::unified_memory) add_prefetches(e, id, d);
        if (s.options.mechanism != kernel::mechanism::bulk_copy || !s.options.transfers) continue;
        const kernel::element_range own{s.options.boundaries[d], s.options.boundaries[d + 1]};
        for (const kernel::delivery& k : s.deliveries(d, {own})) {
          const std::uint64_t at = k.begin * s.element_bytes;
          e.join[d] |= 1U << k.to;
          e.copies[d].push_back(
              {k.to, static_cast<std::byte*>(s.buffers[k.to][s.parity ^ 1U]) + at,
               static_cast<const std::byte*>(s.buffers[k.from][s.parity ^ 1U]) + at,
               (k.end - k.begin) * s.element_bytes});
        }
      } else if (s.elements <= small_reduction_elements) {
        exchange_arguments& a = e.first[d];
        if (a.reductions == max_small_reductions) {
          throw model_error("one exchange takes at most " + std::to_string(max_small_reductions) +
                            " small reductions; use one with more elements");
        }
        small_reduction& r = a.items[a.reductions++];
        r.type = details.type;
        r.operation = details.operation;
        r.elements = static_cast<std::uint32_t>(s.elements);
        r.copies = s.copies;
        r.partial = s.partials[d];
        r.front = s.buffers[d][0];
        std::copy(details.inboxes.begin(), details.inboxes.end(), r.inboxes);
      } else {
        large_reduction r;
        r.type = details.type;
        r.operation = details.operation;
        r.device = d;
        r.devices = devices();
        r.copies = s.copies;
        r.elements = s.elements;
        for (std::uint32_t p = 0; p < devices(); ++p) {
          r.partials[p] = s.partials[p];
          r.fronts[p] = s.buffers[p][0];
        }
        e.large[d].push_back(r);
      }
    }
  }
  for (const std::uint32_t id : ids) {
    if (!states_[id].is_reduction) states_[id].parity ^= 1U;
  }
  submit(std::move(o));
}

void node::submit(operation o) {
  require_usable();
  if (recording_) {
    recorded_.push_back(std::move(o));
    return;
  }
  const current_device restore(ordinal(0));
  // A call's own kernels may wait here for what runs, all of which is enqueued on every device.
  if (o.what == operation::kind::kernel) load(o.kernel);
  issue(o, nullptr);
}

// --- enqueueing
// -----------------------------------------------------------------------------------

// Loading may wait for what runs on a device, and an exchange that runs there may wait for work
// that the host has yet to enqueue: so everything is loaded on all devices at once, when all are
// idle.
void node::load(const kernel_operation& k) {
  for (std::uint32_t d = 0; d < devices(); ++d) {
    const auto known = loaded_.find({ordinal(d), k.entry});
    if (known != loaded_.end() && known->second.shared_bytes >= k.shape.shared_bytes) continue;
    synchronize();
    INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(d)));
    if (k.launches != nullptr) load_kernel(k.launches);
    const cudaFuncAttributes attributes = load_kernel(k.entry);
    if (k.shape.shared_bytes > 48 * 1024) {
      INTERLACE_CUDA_CHECK(cudaFuncSetAttribute(k.entry,
                                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                static_cast<int>(k.shape.shared_bytes)));
    }
    loaded_[{ordinal(d), k.entry}] = {attributes.maxThreadsPerBlock,
                                      k.shape.shared_bytes,
                                      shared_percent(k, attributes, ordinal(d)),
                                      k.tracked == nullptr && awaits_prerequisites(attributes),
                                      static_cast<std::uint32_t>(attributes.numRegs),
                                      static_cast<std::uint32_t>(attributes.sharedSizeBytes)};
  }
  const int most = loaded_.at({ordinal(0), k.entry}).most_threads;
  if (static_cast<int>(k.shape.threads) > most) {
    throw model_error("kernel " + kernel::readable_type_name(k.type_name) +
                      " takes blocks of at most " + std::to_string(most) + " threads here, not " +
                      std::to_string(k.shape.threads));
  }
  if (shares_gpu_) require_places(k);
}

// Throws usage_error unless a GPU that stands for several devices holds their agents and a block of
// the kernel at once.
void node::require_places(const kernel_operation& k) const {
  if (k.tracked == nullptr || k.tracked->started == nullptr) return;
  const kernel::region_options& how = states_[k.tracked->table.region].options;
  for (std::uint32_t d = 0; d < devices(); ++d) {
    const loaded_kernel& known = loaded_.at({ordinal(d), k.entry});
    const block_needs block{k.shape.threads, known.registers,
                            known.fixed_shared_bytes + k.shape.shared_bytes};
    const std::string reason = why_not_at_once(places_of(ordinal(d)), agent_needs(how), block,
                                               devices_on(options_.ordinals, ordinal(d)));
    if (!reason.empty()) {
      throw usage_error("GPU " + std::to_string(ordinal(d)) + " cannot run " + reason +
                        "; give the agent fewer threads (--threads), or share the GPU among fewer "
                        "devices");
    }
  }
}

// What a library launches is known to it alone: its kernels are loaded by capturing the call into a
// graph that is thrown away.
void node::load_call(const operation& o) {
  INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(o.device)));
  cudaStream_t stream = streams_[o.device];
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  INTERLACE_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  try {
    issue_call(o.device, o.call);
  } catch (...) {
    (void)cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    throw;
  }
  INTERLACE_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  if (executable != nullptr) INTERLACE_CUDA_LOG(cudaGraphExecDestroy(executable));
  INTERLACE_CUDA_LOG(cudaGraphDestroy(graph));
  INTERLACE_CUDA_CHECK(error);
}

void node::issue(const operation& o, stopwatch* watch) {
  switch (o.what) {
    case operation::kind::kernel: {
      INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(o.device)));
      if (o.kernel.tracked != nullptr) {
        issue_tracked(o.device, o.kernel, watch);
        break;
      }
      const bool draw = watch != nullptr && watch->draws();
      cudaEvent_t begin = draw ? watch->mark(streams_[o.device]) : nullptr;
      issue_kernel(o.device, o.kernel);
      if (draw) {
        watch->span(o.device, "kernel", kernel::readable_type_name(o.kernel.type_name), begin,
                    watch->mark(streams_[o.device]));
      }
      break;
    }
    case operation::kind::call: {
      INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(o.device)));
      const bool draw = watch != nullptr && watch->draws();
      cudaEvent_t begin = draw ? watch->mark(streams_[o.device]) : nullptr;
      issue_call(o.device, o.call);
      if (draw) {
        watch->span(o.device, "kernel", o.call.name, begin, watch->mark(streams_[o.device]));
      }
      break;
    }
    case operation::kind::copies:
      INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(o.device)));
      issue_copies(o.device, o.copies, "part", watch);
      break;
    case operation::kind::exchange: {
      std::vector<cudaEvent_t> computed(devices(), nullptr);
      if (watch != nullptr) computed = mark_all(*watch);
      issue_collectives(o.exchange, watch);
      issue_batch(o.exchange, watch);
      // On a shared GPU all devices get what they exchange before one of them waits for the others.
      for (std::uint32_t d = 0; d < devices(); ++d) {
        computed[d] = issue_transfers(d, o.exchange, computed[d], watch);
        if (!shares_gpu_) issue_meeting(d, o.exchange, computed[d], watch);
      }
      for (std::uint32_t d = 0; d < devices() && shares_gpu_; ++d) {
        issue_meeting(d, o.exchange, computed[d], watch);
      }
      if (watch != nullptr) watch->next_epoch();
      break;
    }
  }
}

void node::issue_kernel(std::uint32_t device, const kernel_operation& k) {
  std::uint32_t first = k.first;
  std::uint32_t total = k.total;
  kernel::chunk_table table = k.tracked != nullptr ? k.tracked->table : kernel::chunk_table{};
  kernel::replicas where = k.where;
  // The runtime reads the arguments only, and as many as the entry has.
  void* functor = const_cast<std::byte*>(k.functor.data());  // NOLINT
  std::array<void*, 3> arguments{functor, &first, &total};
  if (k.tracked != nullptr) arguments = {functor, &table, &where};
  const bool early = comes_early(device) && loaded_.at({ordinal(device), k.entry}).awaits;
  cudaLaunchAttribute attribute = early_attribute();
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned int>(k.shape.blocks));
  config.blockDim = dim3(k.shape.threads);
  config.dynamicSmemBytes = k.shape.shared_bytes;
  config.stream = streams_[device];
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  INTERLACE_CUDA_CHECK(cudaLaunchKernelExC(&config, k.entry, arguments.data()));
  set_behind_kernel(device, k.tracked == nullptr);
  if (early) ++early_launches_;
}

// Whether a kernel that waits itself may be launched early as the next on the device's stream.
bool node::comes_early(std::uint32_t device) const {
  return ((early_now_ & behind_kernel_) >> device & 1U) != 0;
}

void node::set_behind_kernel(std::uint32_t device, bool is) {
  const std::uint32_t own = 1U << device;
  behind_kernel_ = is ? behind_kernel_ | own : behind_kernel_ & ~own;
}

void node::issue_call(std::uint32_t device, const kernel::library_call& c) {
  set_behind_kernel(device, false);
  c.on_gpu(streams_[device]);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw device_error("the call of " + c.name + " failed: " + cudaGetErrorString(error) + " (" +
                       cudaGetErrorName(error) + ")");
  }
  // A library may leave another device the current one.
  INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(device)));
}

void node::issue_tracked(std::uint32_t device, const kernel_operation& k, stopwatch* watch) {
  streams_wait_ = true;
  const tracked_region& t = *k.tracked;
  const kernel::region_options& how = states_[t.table.region].options;
  const bool draw = watch != nullptr && watch->draws();
  const bool polls = how.transfers && how.mechanism == kernel::mechanism::polling;
  cudaStream_t stream = streams_[device];
  INTERLACE_CUDA_CHECK(cudaEventRecord(events_[device], stream));
  const auto on_stream = [&](std::uint32_t which, const std::string& name, const auto& enqueue) {
    cudaStream_t on = copy_streams_[device][which];
    INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(on, events_[device], 0));
    cudaEvent_t begin = draw ? watch->mark(on) : nullptr;
    enqueue(on);
    if (draw) watch->span(device, "copy", name, begin, watch->mark(on));
  };
  // The agent before the kernel, which would take all places and leave none until it ends.
  if (polls && !t.chunks.empty()) {
    agent_arguments a;
    a.barrier = barrier(device, no_exchange);
    a.table = t.table;
    a.started = t.started;
    a.where = k.where;
    on_stream(device, "agent", [&](cudaStream_t on) {
      launch_agent(a, how,
                   std::min(100U, loaded_.at({ordinal(device), k.entry}).shared_percent +
                                      devices_on(options_.ordinals, ordinal(device)) *
                                          agent_shared_percent(how, ordinal(device))),
                   on);
    });
    enqueue_wait(stream, t.started);
  }
  cudaEvent_t begin = draw ? watch->mark(stream) : nullptr;
  issue_kernel(device, k);
  if (draw) {
    watch->span(device, "kernel", kernel::readable_type_name(k.type_name), begin,
                watch->mark(stream));
  }
  if (t.chunks.empty()) return;
  // Before the streams' waits, which a check that finds something lets go.
  launch_check(barrier(device, no_exchange), t.table, stream);
  // The waits behind the kernel: on one hardware queue, they would hold it up for ever.
  const bool copies = how.transfers && how.mechanism == kernel::mechanism::copy_engine;
  const std::uint32_t peers = copies ? receivers(t.chunks) : 0;
  const std::uint32_t lanes = copy_lanes(peers);
  for (std::uint32_t step = 1; step < devices(); ++step) {
    const std::uint32_t peer = (device + step) % devices();
    if ((peers >> peer & 1U) == 0) continue;
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      on_stream(peer + lane * devices(), "chunks to GPU " + std::to_string(peer),
                [&](cudaStream_t on) {
                  enqueue_chunk_copies(t.chunks, t.table, peer, lane, lanes, k.where.from,
                                       k.where.to[peer], on);
                });
    }
  }
}

void node::issue_copies(std::uint32_t device, const std::vector<copy_operation>& copies,
                        const char* name, stopwatch* watch) {
  if (copies.empty()) return;
  const bool draw = watch != nullptr && watch->draws();
  INTERLACE_CUDA_CHECK(cudaEventRecord(events_[device], streams_[device]));
  std::uint32_t begun = 0;
  std::vector<cudaEvent_t> begins(devices(), nullptr);
  for (const copy_operation& c : copies) {
    cudaStream_t on = copy_streams_[device][c.peer];
    if ((begun >> c.peer & 1U) == 0) {
      begun |= 1U << c.peer;
      INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(on, events_[device], 0));
      if (draw) begins[c.peer] = watch->mark(on);
    }
    INTERLACE_CUDA_CHECK(cudaMemcpyAsync(c.to, c.from, c.bytes, cudaMemcpyDefault, on));
  }
  if (!draw) return;
  for (std::uint32_t peer = 0; peer < devices(); ++peer) {
    if (begins[peer] == nullptr) continue;
    watch->span(device, "copy", std::string(name) + " to GPU " + std::to_string(peer), begins[peer],
                watch->mark(copy_streams_[device][peer]));
  }
}

std::vector<cudaEvent_t> node::mark_all(stopwatch& watch) const {
  std::vector<cudaEvent_t> marks;
  for (std::uint32_t d = 0; d < devices(); ++d) {
    INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(d)));
    marks.push_back(watch.mark(streams_[d]));
  }
  return marks;
}

void node::draw_all(stopwatch& watch, const std::string& name,
                    const std::vector<cudaEvent_t>& begins,
                    const std::vector<cudaEvent_t>& ends) const {
  for (std::uint32_t d = 0; d < devices(); ++d) watch.span(d, "copy", name, begins[d], ends[d]);
}

// On all devices before anything else of the exchange: NCCL takes them as one group.
void node::issue_collectives(const exchange_operation& e, stopwatch* watch) {
  if (e.collectives.empty()) return;
  behind_kernel_ = 0;
  const bool draw = watch != nullptr && watch->draws();
  std::vector<cudaEvent_t> begins;
  if (draw) begins = mark_all(*watch);
  nccl_->enqueue(e.collectives);
  if (!draw) return;
  draw_all(*watch, std::string("nccl ") + nccl_->collective_of(e.collectives.front().region),
           begins, mark_all(*watch));
}

// The copies of all devices, behind all that each was given and ahead of all that each is given
// later: whoever wrote what is sent, or read what is overwritten, has done so.
void node::issue_batch(const exchange_operation& e, stopwatch* watch) {
  if (e.batch.empty()) return;
  behind_kernel_ = 0;
  const bool draw = watch != nullptr && watch->draws();
  std::vector<cudaEvent_t> begins;
  if (draw) begins = mark_all(*watch);
  for (std::uint32_t d = 1; d < devices(); ++d) {
    INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(d)));
    INTERLACE_CUDA_CHECK(cudaEventRecord(events_[d], streams_[d]));
    INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(streams_[0], events_[d], 0));
  }
  INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(0)));
  copier_->copy_batch_async(e.batch, streams_[0]);
  INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(0)));
  INTERLACE_CUDA_CHECK(cudaEventRecord(events_[0], streams_[0]));
  for (std::uint32_t d = 1; d < devices(); ++d) {
    INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(d)));
    INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(streams_[d], events_[0], 0));
  }
  if (draw) draw_all(*watch, "multi-path", begins, mark_all(*watch));
}

// What the device sends before it meets the others. `computed`: where watched, an event in front
// of the exchange. Returns, where watched, one behind the copies.
cudaEvent_t node::issue_transfers(std::uint32_t device, const exchange_operation& e,
                                  cudaEvent_t computed, stopwatch* watch) {
  INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(device)));
  cudaStream_t stream = streams_[device];
  issue_copies(device, e.copies[device], "bulk copy", watch);
  for (std::uint32_t k = 0; k < copy_streams_[device].size(); ++k) {
    if ((e.join[device] >> k & 1U) == 0) continue;
    set_behind_kernel(device, false);
    INTERLACE_CUDA_CHECK(cudaEventRecord(events_[device], copy_streams_[device][k]));
    INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(stream, events_[device], 0));
  }
  cudaEvent_t copied = computed;
  if (watch != nullptr) {
    const bool copies = e.join[device] != 0 || !e.collectives.empty() || !e.batch.empty();
    if (copies) copied = watch->mark(stream);
    watch->exposed(device, computed, copied);
  }
  const std::vector<large_reduction>& large = e.large[device];
  for (const large_reduction& r : large) launch_fold_copies(r, stream);
  if (!large.empty()) set_behind_kernel(device, false);
  return copied;
}

void node::issue_meeting(std::uint32_t device, const exchange_operation& e, cudaEvent_t copied,
                         stopwatch* watch) {
  INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(device)));
  cudaStream_t stream = streams_[device];
  const std::vector<large_reduction>& large = e.large[device];
  if (e.meets) {
    const bool last = large.empty() && e.prefetches[device].empty();
    const bool next = last && (early_now_ >> device & 1U) != 0;
    const bool early = comes_early(device);
    launch_exchange(e.first[device], {.comes = early, .lets_next = next}, stream);
    set_behind_kernel(device, next);
    if (early) ++early_launches_;
  } else if (!e.prefetches[device].empty()) {
    set_behind_kernel(device, false);
  }
  for (const prefetch_operation& p : e.prefetches[device]) {
    managed_memory::prefetch(ordinal(device), p.data, p.bytes, stream);
  }
  if (!large.empty()) {
    for (const large_reduction& r : large) launch_combine_segment(r, stream);
    exchange_arguments second;
    second.barrier = e.first[device].barrier;
    launch_exchange(second, {}, stream);
    for (const large_reduction& r : large) launch_reset_partial(r, stream);
  }
  if (watch != nullptr) {
    watch->span(device, "exchange", exchanges_[e.id], copied, watch->mark(stream));
  }
}

// --- run
// ------------------------------------------------------------------------------------------

// Whether something was launched whose region no exchange has published yet.
bool node::between_exchanges() const {
  return std::any_of(copies_pending_.begin(), copies_pending_.end(),
                     [](std::uint32_t streams) { return streams != 0; }) ||
         std::any_of(launched_.begin(), launched_.end(),
                     [](const auto& launched) { return !launched.empty(); });
}

void node::begin_recording() {
  require_idle("run");
  if (between_exchanges()) {
    throw model_error("a run begins behind a launch whose region is not exchanged");
  }
  recorded_.clear();
  parities_before_.clear();
  for (const kernel::region_state& s : states_) parities_before_.push_back(s.parity);
  launched_since_ = false;
  recording_ = true;
}

void node::cancel_recording() {
  recording_ = false;
  recorded_.clear();
  if (!launched_since_) {
    for (std::size_t i = 0; i < parities_before_.size(); ++i)
      states_[i].parity = parities_before_[i];
  }
  copies_pending_.assign(devices(), 0);
  for (auto& launched : launched_) launched.clear();
}

kernel::run_result node::execute_recorded(const run_options& o) {
  recording_ = false;
  const std::vector<operation> operations = std::exchange(recorded_, {});
  if (between_exchanges()) {
    throw model_error("a run ends with a launch whose region is not exchanged");
  }
  const current_device restore(ordinal(0));
  for (const operation& op : operations) {
    if (op.what == operation::kind::kernel) load(op.kernel);
  }

  const bool batches = std::any_of(operations.begin(), operations.end(),
                                   [](const operation& op) { return !op.exchange.batch.empty(); });
  if (batches && std::find(remarks_.begin(), remarks_.end(), on_streams) == remarks_.end()) {
    remarks_.emplace_back(on_streams);
  }
  early_launches_ = 0;
  captured_graphs captured;
  if (o.graph && !o.detail && !batches) {
    try {
      captured = capture(operations);
    } catch (const device_error& e) {
      require_usable();
      early_launches_ = 0;
      remarks_.push_back(std::string("the run was not captured in graphs and uses streams: ") +
                         e.what());
    }
  }

  // A capture has loaded what calls launch.
  for (const operation& op : operations) {
    if (captured.empty() && op.what == operation::kind::call) load_call(op);
  }

  const std::uint32_t repetitions = std::max(1U, o.repetitions);
  std::unique_ptr<snapshot> before;
  if (o.warm_ups + repetitions > 1) before = std::make_unique<snapshot>(*this);
  std::vector<double> times;
  kernel::run_result result;
  for (std::uint32_t k = 0; k < o.warm_ups + repetitions; ++k) {
    if (k > 0) {
      before->restore();
      launched_since_ = false;
    }
    const bool last = k + 1 == o.warm_ups + repetitions;
    std::unique_ptr<stopwatch> watch;
    if (o.detail && last) watch = std::make_unique<stopwatch>(*this, o.timeline_epochs);
    const double time_s = launch_timed(operations, captured, watch.get());
    if (k >= o.warm_ups) times.push_back(time_s);
    if (watch != nullptr) watch->fill(result);
  }
  result.time_s = median(std::move(times));
  return result;
}

// One graph for each device; where a GPU is shared, as many as there are parts between meetings.
node::captured_graphs node::capture(const std::vector<operation>& operations) {
  captured_graphs captured;
  std::span<const operation> rest = operations;
  do {
    auto end = rest.end();
    if (shares_gpu_) {
      end = std::find_if(rest.begin(), rest.end(),
                         [](const operation& o) { return o.what == operation::kind::exchange; });
      if (end != rest.end()) ++end;
    }
    const auto count = static_cast<std::size_t>(end - rest.begin());
    captured.push_back(std::make_unique<graphs>(devices()));
    captured.back()->capture(*this, rest.first(count));
    rest = rest.subspan(count);
  } while (!rest.empty());
  return captured;
}

// Every device's clock starts when it leaves the gate's barrier, within a flag's way (about 1 us)
// of the others, and stops behind its last operation: the run took as long as the slowest.
double node::launch_timed(const std::vector<operation>& operations, const captured_graphs& captured,
                          stopwatch* watch) {
  launch_gates();
  launched_since_ = true;
  streams_wait_ = std::any_of(operations.begin(), operations.end(), [](const operation& o) {
    return o.what == operation::kind::kernel && o.kernel.tracked != nullptr;
  });
  try {
    if (!captured.empty() && shares_gpu_) {
      launch_in_turn(captured);
    } else if (!captured.empty()) {
      launch_graphs(*captured.front());
    } else {
      std::uint32_t held = 0;
      for (const operation& o : operations) {
        held += gate_weight(o);
        if (held >= gate_holds) open_gate();
        issue(o, watch);
      }
    }
    for (std::uint32_t d = 0; d < devices(); ++d) {
      INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(d)));
      INTERLACE_CUDA_CHECK(cudaEventRecord(stops_[d], streams_[d]));
    }
  } catch (const std::exception& e) {
    // Some devices have what others wait for; the deadline ends that, and NCCL has none.
    open_gate();
    if (nccl_ != nullptr) nccl_->abort();
    try {
      synchronize();
    } catch (const device_error&) {  // NOLINT: the first error is the one to report
    }
    fail(e.what());
  }
  open_gate();
  synchronize();
  double time_s = 0;
  for (std::uint32_t d = 0; d < devices(); ++d) {
    time_s = std::max(time_s, elapsed_s(starts_[d], stops_[d]));
  }
  return time_s;
}

// A thread for each device: a launch that waits for room in a queue must not keep another device
// from getting what the first one's exchanges wait for.
void node::launch_graphs(const graphs& captured) {
  const gate_keeper keeper(*this);
  std::vector<std::exception_ptr> errors(devices());
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t d = 0; d < devices(); ++d) {
      threads.emplace_back([this, d, &captured, &errors] {
        try {
          INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(d)));
          captured.launch(d, streams_[d]);
        } catch (...) {
          errors[d] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

// By one thread, since a launch that waits for room in a queue of the GPU keeps out all others to
// it: all that such a launch waits for was launched before it (cuda/shared_gpu.hpp).
void node::launch_in_turn(const captured_graphs& captured) {
  const gate_keeper keeper(*this);
  std::uint32_t held = 0;
  for (const auto& part : captured) {
    for (const operation& o : part->operations()) held += gate_weight(o);
    if (held >= gate_holds) open_gate();
    for (std::uint32_t d = 0; d < devices(); ++d) {
      INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(d)));
      part->launch(d, streams_[d]);
    }
    if (part->operations().empty()) continue;
    const operation& last = part->operations().back();
    if (last.what != operation::kind::exchange) continue;
    for (std::uint32_t d = 0; d < devices(); ++d) {
      issue_meeting(d, last.exchange, nullptr, nullptr);
    }
  }
}

void node::launch_gates() {
  ++ticket_;
  try {
    for (std::uint32_t d = 0; d < devices(); ++d) {
      INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(d)));
      launch_gate(barrier(d, no_exchange), host_ticket_, ticket_, streams_[d]);
      INTERLACE_CUDA_CHECK(cudaEventRecord(starts_[d], streams_[d]));
    }
  } catch (...) {
    open_gate();
    throw;
  }
}

void node::open_gate() noexcept {
  if (host_ticket_ == nullptr) return;
  *static_cast<volatile unsigned int*>(host_ticket_) = ticket_;
}

}  // namespace interlace::cuda
