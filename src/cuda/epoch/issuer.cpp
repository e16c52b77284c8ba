#include "cuda/epoch/issuer.hpp"

#include <array>
#include <string>

#include "cuda/early_launch.hpp"
#include "cuda/mechanism/tracked.hpp"
#include "cuda/memory/managed.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/kernel/type_name.hpp"

namespace interlace::cuda {

void issuer::load_call(const operation& o) {
  INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(o.device)));
  cudaStream_t stream = gpus_.streams()[o.device];
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

void issuer::issue(const operation& o, stopwatch* watch) {
  switch (o.what) {
    case operation::kind::kernel: {
      INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(o.device)));
      if (o.kernel.tracked != nullptr) {
        o.kernel.tracked->by->enqueue(*this, o.device, o.kernel, watch);
        break;
      }
      const bool draw = watch != nullptr && watch->draws();
      cudaEvent_t begin = draw ? watch->mark(gpus_.streams()[o.device]) : nullptr;
      issue_kernel(o.device, o.kernel);
      if (draw) {
        watch->span(o.device, "kernel", kernel::readable_type_name(o.kernel.type_name), begin,
                    watch->mark(gpus_.streams()[o.device]));
      }
      break;
    }
    case operation::kind::call: {
      INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(o.device)));
      const bool draw = watch != nullptr && watch->draws();
      cudaEvent_t begin = draw ? watch->mark(gpus_.streams()[o.device]) : nullptr;
      issue_call(o.device, o.call);
      if (draw) {
        watch->span(o.device, "kernel", o.call.name, begin, watch->mark(gpus_.streams()[o.device]));
      }
      break;
    }
    case operation::kind::copies:
      INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(o.device)));
      issue_copies(o.device, o.copies, "part", watch);
      break;
    case operation::kind::exchange: {
      std::vector<cudaEvent_t> computed(gpus_.count(), nullptr);
      if (watch != nullptr) computed = watch->mark_all();
      for (const auto& j : o.exchange.joint) issue_joint(*j, watch);
      // If devices share a GPU, the work of all devices before an exchange must be enqueued before
      // any device waits for the other devices.
      for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
        computed[d] = issue_transfers(d, o.exchange, computed[d], watch);
        if (!gpus_.shares_gpu()) issue_meeting(d, o.exchange, computed[d], watch);
      }
      for (std::uint32_t d = 0; d < gpus_.count() && gpus_.shares_gpu(); ++d) {
        issue_meeting(d, o.exchange, computed[d], watch);
      }
      if (watch != nullptr) watch->next_epoch();
      break;
    }
  }
}

void issuer::begin_graphs() {
  behind_kernel_ = 0;
  early_now_ = gpus_.early_devices();
}

void issuer::issue_kernel(std::uint32_t device, const kernel_operation& k) {
  std::uint32_t first = k.first;
  std::uint32_t total = k.total;
  kernel::chunk_table table = k.tracked != nullptr ? k.tracked->table : kernel::chunk_table{};
  kernel::replicas where = k.where;
  // The runtime only reads the arguments, and it reads only the number of arguments that the kernel
  // has.
  void* functor = const_cast<std::byte*>(k.functor.data());  // NOLINT
  std::array<void*, 3> arguments{functor, &first, &total};
  if (k.tracked != nullptr) arguments = {functor, &table, &where};
  kernel::packing_table packing = k.packing;
  if (k.packs) arguments = {functor, &packing, nullptr};
  const bool early = comes_early(device) && kernels_.of(device, k).awaits;
  cudaLaunchAttribute attribute = early_attribute();
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned int>(k.shape.blocks));
  config.blockDim = dim3(k.shape.threads);
  config.dynamicSmemBytes = k.shape.shared_bytes;
  config.stream = gpus_.streams()[device];
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  INTERLACE_CUDA_CHECK(cudaLaunchKernelExC(&config, k.entry, arguments.data()));
  set_behind_kernel(device, k.tracked == nullptr);
  if (early) ++early_launches_;
}

// Whether the next work on the device's stream may start early. If it does, that work must be a
// kernel that itself waits for its prerequisites.
bool issuer::comes_early(std::uint32_t device) const {
  return ((early_now_ & behind_kernel_) >> device & 1U) != 0;
}

void issuer::set_behind_kernel(std::uint32_t device, bool is) {
  const std::uint32_t own = 1U << device;
  behind_kernel_ = is ? behind_kernel_ | own : behind_kernel_ & ~own;
}

void issuer::issue_call(std::uint32_t device, const kernel::library_call& c) {
  set_behind_kernel(device, false);
  c.on_gpu(gpus_.streams()[device]);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw device_error("the call of " + c.name + " failed: " + cudaGetErrorString(error) + " (" +
                       cudaGetErrorName(error) + ")");
  }
  // The library may have changed the current device.
  INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(device)));
}

void issuer::issue_copies(std::uint32_t device, const std::vector<copy_operation>& copies,
                          const char* name, stopwatch* watch) {
  if (copies.empty()) return;
  const bool draw = watch != nullptr && watch->draws();
  INTERLACE_CUDA_CHECK(cudaEventRecord(gpus_.event(device), gpus_.streams()[device]));
  std::uint32_t begun = 0;
  std::vector<cudaEvent_t> begins(gpus_.count(), nullptr);
  for (const copy_operation& c : copies) {
    cudaStream_t on = gpus_.copy_streams(device)[c.peer];
    if ((begun >> c.peer & 1U) == 0) {
      begun |= 1U << c.peer;
      INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(on, gpus_.event(device), 0));
      if (draw) begins[c.peer] = watch->mark(on);
    }
    INTERLACE_CUDA_CHECK(cudaMemcpyAsync(c.to, c.from, c.bytes, cudaMemcpyDefault, on));
  }
  if (!draw) return;
  for (std::uint32_t peer = 0; peer < gpus_.count(); ++peer) {
    if (begins[peer] == nullptr) continue;
    watch->span(device, "copy", std::string(name) + " to GPU " + std::to_string(peer), begins[peer],
                watch->mark(gpus_.copy_streams(device)[peer]));
  }
}

// Enqueues the joint delivery on all devices, before all other work of the exchange.
void issuer::issue_joint(const joint_delivery& j, stopwatch* watch) {
  behind_kernel_ = 0;
  const bool draw = watch != nullptr && watch->draws();
  std::vector<cudaEvent_t> begins;
  if (draw) begins = watch->mark_all();
  j.enqueue();
  if (draw) watch->span_all("copy", j.name(), begins, watch->mark_all());
}

cudaEvent_t issuer::issue_transfers(std::uint32_t device, const exchange_operation& e,
                                    cudaEvent_t computed, stopwatch* watch) {
  INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(device)));
  cudaStream_t stream = gpus_.streams()[device];
  issue_copies(device, e.copies[device], "bulk copy", watch);
  for (std::uint32_t k = 0; k < gpus_.copy_streams(device).size(); ++k) {
    if ((e.join[device] >> k & 1U) == 0) continue;
    set_behind_kernel(device, false);
    INTERLACE_CUDA_CHECK(cudaEventRecord(gpus_.event(device), gpus_.copy_streams(device)[k]));
    INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(stream, gpus_.event(device), 0));
  }
  cudaEvent_t copied = computed;
  if (watch != nullptr) {
    const bool copies = e.join[device] != 0 || !e.joint.empty();
    if (copies) copied = watch->mark(stream);
    watch->exposed(device, computed, copied);
  }
  const std::vector<large_reduction>& large = e.large[device];
  for (const large_reduction& r : large) launch_fold_copies(r, stream);
  if (!large.empty()) set_behind_kernel(device, false);
  return copied;
}

void issuer::issue_meeting(std::uint32_t device, const exchange_operation& e, cudaEvent_t copied,
                           stopwatch* watch) {
  INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(device)));
  cudaStream_t stream = gpus_.streams()[device];
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
    managed_memory::prefetch(gpus_.ordinal(device), p.data, p.bytes, stream);
  }
  if (!large.empty()) {
    for (const large_reduction& r : large) launch_combine_segment(r, stream);
    exchange_arguments second;
    second.barrier = e.first[device].barrier;
    launch_exchange(second, {}, stream);
    for (const large_reduction& r : large) launch_reset_partial(r, stream);
  }
  if (watch != nullptr) {
    watch->span(device, "exchange", gpus_.exchange_name(e.id), copied, watch->mark(stream));
  }
}

}  // namespace interlace::cuda
