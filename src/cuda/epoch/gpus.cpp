#include "cuda/epoch/gpus.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "cuda/epoch/event.hpp"
#include "cuda/region/agent.hpp"
#include "cuda/region/failure.hpp"
#include "cuda/region/watchdog.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/visible_gpus.hpp"

namespace interlace::cuda {

node_gpus::node_gpus(const node_options& o) : ordinals_(o.ordinals), deadline_s_(o.deadline_s) {
  const std::uint32_t present = device_count();
  if (o.devices < 1 || o.devices > max_devices) {
    throw usage_error("a node has 1 to " + std::to_string(max_devices) + " GPUs, not " +
                      std::to_string(o.devices));
  }
  if (!(deadline_s_ > 0) || deadline_s_ > 86400) {
    throw usage_error("a deadline must be above 0 and at most 86400 seconds");
  }
  if (ordinals_.empty()) {
    if (o.devices > present) {
      throw usage_error(std::to_string(o.devices) + " GPUs are requested, but " +
                        std::to_string(present) +
                        " are here; devices can share a GPU (--share-gpu, node_options::ordinals)");
    }
    for (std::uint32_t d = 0; d < o.devices; ++d) ordinals_.push_back(static_cast<int>(d));
  }
  if (ordinals_.size() != o.devices) {
    throw usage_error("a node of " + std::to_string(o.devices) + " GPUs names " +
                      std::to_string(ordinals_.size()));
  }
  for (const int gpu : ordinals_) require_gpu(gpu);
  shares_gpu_ = cuda::shares_gpu(ordinals_);
  require_queues(ordinals_, streams_of_device);

  enable_peer_access(ordinals_);
  host_ = std::make_unique<mapped_memory>(max_devices * sizeof(wait_failure));
  failures_ = static_cast<wait_failure*>(host_->data());

  const std::uint32_t n = count();
  early_devices_ = cuda::early_devices(ordinals_);
  tenant_.emplace(ordinals_);
  streams_.assign(n, nullptr);
  copy_streams_.assign(n, std::vector<cudaStream_t>(2 * n, nullptr));
  events_.assign(n, nullptr);
  tables_.resize(n);
  const current_device restore(ordinal(0));
  for (std::uint32_t d = 0; d < n; ++d) {
    INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(d)));
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&streams_[d], cudaStreamNonBlocking));
    int least = 0;
    int greatest = 0;
    INTERLACE_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    if (shares_gpu_) {
      INTERLACE_CUDA_CHECK(
          cudaStreamCreateWithPriority(copy_streams_[d].data(), cudaStreamNonBlocking, greatest));
      copy_streams_[d].assign(2 * std::size_t{n}, copy_streams_[d][0]);
    }
    for (std::uint32_t k = 0; k < 2 * n && !shares_gpu_; ++k) {
      // The streams have high priority. When a block of the kernel ends, an agent therefore gets
      // the free place before another block of the kernel.
      INTERLACE_CUDA_CHECK(cudaStreamCreateWithPriority(&copy_streams_[d][k], cudaStreamNonBlocking,
                                                        k == d ? greatest : least));
    }
    events_[d] = make_event(false);
    if (!load_exchange_kernels()) early_devices_ &= ~(1U << d);
    load_agent_kernels();
    auto* control = static_cast<device_control*>(memory_.take(ordinal(d), sizeof(device_control)));
    INTERLACE_CUDA_CHECK(cudaMemset(control, 0, sizeof(device_control)));
    INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
    controls_.push_back(control);
  }
  // The first copy between two GPUs initialises resources and may wait for both GPUs. The copy must
  // not happen once kernels wait for each other, so it is made here.
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

node_gpus::~node_gpus() {
  for (std::uint32_t d = 0; d < streams_.size(); ++d) {
    INTERLACE_CUDA_LOG(cudaSetDevice(ordinal(d)));
    if (events_[d] != nullptr) INTERLACE_CUDA_LOG(cudaEventDestroy(events_[d]));
    if (shares_gpu_) copy_streams_[d].resize(1);
    copy_streams_[d].push_back(streams_[d]);
    for (cudaStream_t s : copy_streams_[d]) {
      if (s != nullptr) INTERLACE_CUDA_LOG(cudaStreamDestroy(s));
    }
  }
}

void node_gpus::finish() const noexcept {
  for (std::uint32_t d = 0; d < count(); ++d) {
    INTERLACE_CUDA_LOG(cudaSetDevice(ordinal(d)));
    INTERLACE_CUDA_LOG(cudaStreamSynchronize(streams_[d]));
  }
}

std::uint32_t node_gpus::add_exchange(std::string name) {
  exchanges_.push_back(std::move(name));
  return static_cast<std::uint32_t>(exchanges_.size()) - 1;
}

void node_gpus::watch(std::uint32_t device, const kernel::chunk_table& table) {
  tables_[device].push_back(table);
}

void node_gpus::abort() const {
  if (abort_) abort_();
}

void node_gpus::require_usable() const {
  if (!failure_.empty()) throw device_error("this node failed before: " + failure_);
}

void node_gpus::require_idle(const char* what) const {
  require_usable();
  if (recording_) throw model_error(std::string(what) + " inside of run");
  synchronize();
}

void node_gpus::fail(const std::string& sentence) const {
  failure_ = sentence;
  throw device_error(sentence);
}

std::string node_gpus::describe_failure(const wait_failure& f) const {
  return cuda::describe_failure(
      f, {.device = [](unsigned int d) { return "GPU " + std::to_string(d); },
          .region = "region " + std::to_string(f.region),
          .exchange = f.exchange == no_exchange ? "the start of a run" : exchanges_.at(f.exchange),
          .deadline_s = deadline_s_});
}

// Ends the waits of streams for chunks that will never be complete.
void node_gpus::await_waiting_streams() const {
  if (!std::exchange(streams_wait_, false)) return;
  std::vector<watched_device> watched;
  for (std::uint32_t d = 0; d < count(); ++d) {
    watched_device& w = watched.emplace_back();
    w.ordinal = ordinal(d);
    w.streams = copy_streams_[d];
    w.streams.push_back(streams_[d]);
    w.control = controls_[d];
    w.failure = failures_ + d;
    w.launches = tables_[d];
  }
  if (await_streams(watched, deadline_s_)) return;
  std::string what = "a kernel does not end; end this process to stop it";
  for (std::uint32_t d = 0; d < count(); ++d) {
    if (failures_[d].what != failed_wait::none) {
      what.insert(0, describe_failure(failures_[d]) + "; ");
    }
  }
  fail(what);
}

void node_gpus::synchronize() const {
  require_usable();
  const current_device restore(ordinal(0));
  await_waiting_streams();
  if (abort_) await_collectives();
  cudaError_t error = cudaSuccess;
  std::uint32_t culprit = 0;
  for (std::uint32_t d = 0; d < count(); ++d) {
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
  for (std::uint32_t d = 0; d < count(); ++d) {
    const volatile wait_failure& seen = failures_[d];
    if (seen.what != failed_wait::none) fail(describe_failure(failures_[d]));
  }
}

// NCCL's kernels wait for other GPUs without a deadline, so they are aborted once a GPU has failed.
void node_gpus::await_collectives() const {
  bool busy = true;
  bool failed = false;
  while (busy && !failed) {
    busy = false;
    for (std::uint32_t d = 0; d < count(); ++d) {
      INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal(d)));
      const cudaError_t state = cudaStreamQuery(streams_[d]);
      const volatile wait_failure& seen = failures_[d];
      busy = busy || state == cudaErrorNotReady;
      failed = failed || (state != cudaSuccess && state != cudaErrorNotReady) ||
               seen.what != failed_wait::none;
    }
    (void)cudaGetLastError();  // "not ready" is not an error
    if (busy && !failed) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  if (failed) abort_();
}

barrier_arguments node_gpus::barrier(std::uint32_t device, std::uint32_t exchange) const {
  barrier_arguments b;
  b.device = device;
  b.devices = count();
  b.exchange = exchange;
  b.deadline_ns = static_cast<std::uint64_t>(deadline_s_ * 1e9);
  std::copy(controls_.begin(), controls_.end(), b.controls);
  b.failure = failures_ + device;
  return b;
}

}  // namespace interlace::cuda
