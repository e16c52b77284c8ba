#include "cuda/transfer/driver_table.hpp"

#include <dlfcn.h>

#include <cstdio>

#include "base/driver_needs.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::cuda {
namespace {

constexpr int forms_of = 12000;  // the version whose function signatures are used: CUDA 12.0
constexpr int batches_of = 12080;

class loader {
 public:
  loader() {
    // The library is never closed, because the functions must stay valid until the process ends.
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw usage_error(no_driver());
    const auto ask = reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDriverGetVersion"));
    if (ask != nullptr && ask(&version_) == driver_result::success)
      if (const std::string reason = why_driver_too_old_for_copies(version_); !reason.empty())
        throw usage_error(reason);
    find_ = reinterpret_cast<find>(dlsym(library, "cuGetProcAddress_v2"));
    if (find_ == nullptr) throw usage_error(missing("cuGetProcAddress_v2"));
  }

  int version() const { return version_; }

  template <class Function>
  void operator()(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(found(name, forms_of));
    if (function == nullptr) throw usage_error(missing(name));
  }
  // Looks up a function. If the driver does not have this form of the function, `function` becomes
  // null.
  template <class Function>
  void if_there(Function& function, const char* name, int form) const {
    if (version_ >= form) function = reinterpret_cast<Function>(found(name, form));
  }

 private:
  void* found(const char* name, int form) const {
    void* function = nullptr;
    int status = 0;
    return find_(name, &function, form, 0, &status) == driver_result::success ? function : nullptr;
  }
  static std::string missing(const char* name) {
    return std::string("this NVIDIA driver has no ") + name + "; use a newer one";
  }

  using find = int (*)(const char*, void**, int, std::uint64_t, int*);
  find find_ = nullptr;
  int version_ = 0;
};

std::string name_of(const driver_table& driver, int result) {
  const char* name = nullptr;
  if (driver.error_name == nullptr || driver.error_name(result, &name) != driver_result::success ||
      name == nullptr)
    return "error " + std::to_string(result);
  return name;
}

driver_table load() {
  const loader take;
  driver_table made;
  made.version = take.version();
  int (*init)(unsigned) = nullptr;
  take(init, "cuInit");
  take(made.error_name, "cuGetErrorName");
  if (const int result = init(0); result != driver_result::success)
    throw usage_error(no_start(result, name_of(made, result)));
  take(made.device_count, "cuDeviceGetCount");
  take(made.device_name, "cuDeviceGetName");
  take(made.device_bus_id, "cuDeviceGetPCIBusId");
  take(made.device_attribute, "cuDeviceGetAttribute");
  take(made.can_access_peer, "cuDeviceCanAccessPeer");
  take(made.primary_retain, "cuDevicePrimaryCtxRetain");
  take(made.primary_release, "cuDevicePrimaryCtxRelease");
  take(made.primary_state, "cuDevicePrimaryCtxGetState");
  take(made.push, "cuCtxPushCurrent");
  take(made.pop, "cuCtxPopCurrent");
  take(made.current, "cuCtxGetCurrent");
  take(made.current_gpu, "cuCtxGetDevice");
  take(made.enable_peer, "cuCtxEnablePeerAccess");
  take(made.context_synchronize, "cuCtxSynchronize");
  take(made.pointer_attributes, "cuPointerGetAttributes");
  take(made.allocate, "cuMemAlloc");
  take(made.free, "cuMemFree");
  take(made.allocate_host, "cuMemHostAlloc");
  take(made.free_host, "cuMemFreeHost");
  take(made.host_register, "cuMemHostRegister");
  take(made.host_unregister, "cuMemHostUnregister");
  take(made.memory_info, "cuMemGetInfo");
  take(made.granularity, "cuMemGetAllocationGranularity");
  take(made.reserve, "cuMemAddressReserve");
  take(made.free_reserved, "cuMemAddressFree");
  take(made.physical_create, "cuMemCreate");
  take(made.physical_release, "cuMemRelease");
  take(made.map, "cuMemMap");
  take(made.unmap, "cuMemUnmap");
  take(made.set_access, "cuMemSetAccess");
  take(made.pool_access, "cuMemPoolGetAccess");
  take(made.memory_access, "cuMemGetAccess");
  take(made.copy, "cuMemcpyAsync");
  take.if_there(made.copy_batch, "cuMemcpyBatchAsync", batches_of);
  take(made.set_bytes, "cuMemsetD8Async");
  take(made.module_load, "cuModuleLoadData");
  take(made.module_unload, "cuModuleUnload");
  take(made.module_function, "cuModuleGetFunction");
  take(made.launch, "cuLaunchKernel");
  take(made.stream_create, "cuStreamCreate");
  take(made.stream_destroy, "cuStreamDestroy");
  take(made.stream_synchronize, "cuStreamSynchronize");
  take(made.stream_wait, "cuStreamWaitEvent");
  take(made.stream_context, "cuStreamGetCtx");
  take(made.stream_id, "cuStreamGetId");
  take(made.stream_flags, "cuStreamGetFlags");
  take(made.capture_info, "cuStreamGetCaptureInfo");
  take(made.capture_depend, "cuStreamUpdateCaptureDependencies");
  take(made.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  take(made.event_create, "cuEventCreate");
  take(made.event_destroy, "cuEventDestroy");
  take(made.event_record, "cuEventRecord");
  take(made.event_query, "cuEventQuery");
  take(made.event_synchronize, "cuEventSynchronize");
  take(made.graph_create, "cuGraphCreate");
  take(made.graph_destroy, "cuGraphDestroy");
  take(made.graph_add_copy, "cuGraphAddMemcpyNode");
  take(made.graph_add_kernel, "cuGraphAddKernelNode");
  take(made.graph_instantiate, "cuGraphInstantiateWithFlags");
  take(made.graph_exec_destroy, "cuGraphExecDestroy");
  take(made.graph_exec_set_copy, "cuGraphExecMemcpyNodeSetParams");
  take(made.graph_launch, "cuGraphLaunch");
  take(made.user_object_create, "cuUserObjectCreate");
  take(made.user_object_release, "cuUserObjectRelease");
  take(made.graph_retain_user_object, "cuGraphRetainUserObject");
  return made;
}

}  // namespace

memcpy_3d contiguous_copy(device_address to, device_address from, std::size_t bytes) {
  memcpy_3d run;
  run.from_device = from;
  run.from_pitch = bytes;
  run.to_device = to;
  run.to_pitch = bytes;
  run.width_bytes = bytes;
  return run;
}

const driver_table& real_driver() {
  static const driver_table table = load();
  return table;
}

void check(const driver_table& driver, int result, const char* call) {
  if (result == driver_result::success) return;
  throw device_error(std::string(call) + " failed: " + name_of(driver, result));
}

void log_failure(const driver_table& driver, int result, const char* call) noexcept {
  if (result == driver_result::success || result == driver_result::deinitialized) return;
  try {
    std::fprintf(stderr, "interlace: %s failed: %s\n", call, name_of(driver, result).c_str());
  } catch (...) {
    std::fprintf(stderr, "interlace: %s failed\n", call);
  }
}

in_context::in_context(const driver_table& driver, CUctx_st* context) : driver_(driver) {
  check(driver_, driver_.push(context), "cuCtxPushCurrent");
}

in_context::in_context(const driver_table& driver, CUctx_st* context, std::nothrow_t) noexcept
    : driver_(driver) {
  const int result = driver_.push(context);
  pushed_ = result == driver_result::success;
  log_failure(driver_, result, "cuCtxPushCurrent");
}

in_context::~in_context() {
  if (!pushed_) return;
  CUctx_st* popped = nullptr;
  log_failure(driver_, driver_.pop(&popped), "cuCtxPopCurrent");
}

relaxed_capture_mode::relaxed_capture_mode(const driver_table& driver) : driver_(driver) {
  check(driver_, driver_.exchange_capture_mode(&mode_), "cuThreadExchangeStreamCaptureMode");
}

relaxed_capture_mode::relaxed_capture_mode(const driver_table& driver, std::nothrow_t) noexcept
    : driver_(driver) {
  const int result = driver_.exchange_capture_mode(&mode_);
  exchanged_ = result == driver_result::success;
  log_failure(driver_, result, "cuThreadExchangeStreamCaptureMode");
}

relaxed_capture_mode::~relaxed_capture_mode() {
  if (!exchanged_) return;
  log_failure(driver_, driver_.exchange_capture_mode(&mode_), "cuThreadExchangeStreamCaptureMode");
}

}  // namespace interlace::cuda
