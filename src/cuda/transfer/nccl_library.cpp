#include "cuda/transfer/nccl_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "cuda/loaded_library.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::cuda {

namespace {

constexpr int type_uint8 = 1;  // NCCL's ncclUint8; data that is not summed is moved as bytes
constexpr int type_float32 = 7;
constexpr int operation_sum = 0;

}  // namespace

nccl_library::nccl_library(const std::vector<std::string>& candidates) {
  // NCCL reads this variable when it makes its first communicator.
  (void)setenv("NCCL_NVLS_ENABLE", "0",
               1);  // NOLINT(concurrency-mt-unsafe): no thread reads it yet
  loaded_library library(
      "NCCL", candidates,
      "install the Python package nvidia-nccl-cu13, or set INTERLACE_NCCL to its "
      "libnccl.so.2");
  library.need("ncclGetVersion", api_.get_version);
  library.need("ncclGetErrorString", api_.get_error_string);
  library.need("ncclCommInitAll", api_.comm_init_all);
  library.need("ncclCommDestroy", api_.comm_destroy);
  library.need("ncclCommAbort", api_.comm_abort);
  library.need("ncclGroupStart", api_.group_start);
  library.need("ncclGroupEnd", api_.group_end);
  library.need("ncclAllGather", api_.all_gather);
  library.need("ncclAllReduce", api_.all_reduce);
  library.need("ncclBroadcast", api_.broadcast);
  library.need("ncclSend", api_.send);
  library.need("ncclRecv", api_.receive);
  library.look_up("ncclGetLastError", api_.get_last_error);
  if (!library.look_up("ncclCommRegister", api_.comm_register) ||
      !library.look_up("ncclCommDeregister", api_.comm_deregister)) {
    api_.comm_register = nullptr;
  }
  library.keep();
}

const nccl_library& nccl_library::of_process(const std::vector<std::string>& more) {
  static std::mutex mutex;
  static std::unique_ptr<const nccl_library> loaded;
  const std::lock_guard lock(mutex);
  if (loaded != nullptr) return *loaded;
  const char* name = "libnccl.so.2";
  std::vector<std::string> candidates;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread sets it
  if (const char* named = std::getenv("INTERLACE_NCCL"); named != nullptr && *named != '\0') {
    candidates.emplace_back(named);
  } else {
    void* present = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (present == nullptr) candidates = more;
    candidates.emplace_back(name);
    candidates.emplace_back(std::string("/usr/local/cuda/lib64/") + name);
    if (present != nullptr) (void)dlclose(present);
  }
  loaded = std::make_unique<const nccl_library>(candidates);
  return *loaded;
}

std::string nccl_library::version() const {
  int code = 0;
  check(api_.get_version(&code), "ncclGetVersion");
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

void nccl_library::check(int result, const char* function, nccl_communicator* of) const {
  if (result == 0) return;
  std::string sentence =
      std::string("NCCL's ") + function + " failed: " + api_.get_error_string(result);
  const char* more = of != nullptr && api_.get_last_error != nullptr ? api_.get_last_error(of) : "";
  if (more != nullptr && *more != '\0') sentence += std::string(" (") + more + ")";
  throw device_error(sentence);
}

nccl_communicators::nccl_communicators(const nccl_library& library, const std::vector<int>& gpus)
    : library_(library), communicators_(gpus.size(), nullptr) {
  for (auto gpu = gpus.begin(); gpu != gpus.end(); ++gpu) {
    if (std::find(gpus.begin(), gpu, *gpu) == gpu) continue;
    throw usage_error("nccl needs a GPU for each device, but GPU " + std::to_string(*gpu) +
                      " stands for several devices; use another mechanism");
  }
  library_.check(library_.api().comm_init_all(communicators_.data(), static_cast<int>(gpus.size()),
                                              gpus.data()),
                 "ncclCommInitAll");
}

nccl_communicators::~nccl_communicators() {
  for (const registration& r : registered_) {
    if (communicators_[r.device] == nullptr) continue;
    (void)library_.api().comm_deregister(communicators_[r.device], r.handle);
  }
  for (nccl_communicator* c : communicators_) {
    if (c != nullptr) (void)library_.api().comm_destroy(c);
  }
}

void nccl_communicators::abort() noexcept {
  for (nccl_communicator*& c : communicators_) {
    if (c != nullptr) (void)library_.api().comm_abort(c);
    c = nullptr;
  }
}

std::string nccl_communicators::register_buffer(std::uint32_t device, void* data,
                                                std::size_t bytes) {
  if (library_.api().comm_register == nullptr) return "this NCCL has no ncclCommRegister";
  if (bytes == 0) return {};
  void* handle = nullptr;
  const int result = library_.api().comm_register(communicators_[device], data, bytes, &handle);
  if (result != 0) {
    return std::string("ncclCommRegister: ") + library_.api().get_error_string(result);
  }
  if (handle != nullptr) registered_.push_back({device, handle});
  return {};
}

void nccl_communicators::enqueue(const std::vector<group_member>& members,
                                 const std::vector<opaque_stream>& streams) const {
  using kind = kernel::collective_call::kind;
  const nccl_library::functions& api = library_.api();
  library_.check(api.group_start(), "ncclGroupStart");
  int failed = 0;
  const char* function = "";
  const auto note = [&](int result, const char* name) {
    if (result == 0 || failed != 0) return;
    failed = result;
    function = name;
  };
  for (const group_member& member : members) {
    for (std::size_t d = 0; d < communicators_.size(); ++d) {
      auto* const base = static_cast<std::byte*>(member.base[d]);
      nccl_communicator* const on = communicators_[d];
      for (const kernel::collective_call& c : member.plan->calls[d]) {
        std::byte* const at = base + c.at;
        const int peer = static_cast<int>(c.peer);
        switch (c.what) {
          case kind::all_gather:
            note(api.all_gather(at + d * c.bytes, at, c.bytes, type_uint8, on, streams[d]),
                 "ncclAllGather");
            break;
          case kind::broadcast:
            note(api.broadcast(at, at, c.bytes, type_uint8, peer, on, streams[d]), "ncclBroadcast");
            break;
          case kind::send:
            note(api.send(at, c.bytes, type_uint8, peer, on, streams[d]), "ncclSend");
            break;
          case kind::receive:
            note(api.receive(at, c.bytes, type_uint8, peer, on, streams[d]), "ncclRecv");
            break;
        }
      }
    }
  }
  // A group that was begun must be ended, even if a call in the group has failed.
  note(api.group_end(), "ncclGroupEnd");
  library_.check(failed, function, communicators_.front());
}

void nccl_communicators::sum_float32(const std::vector<const void*>& send,
                                     const std::vector<void*>& receive, std::size_t count,
                                     const std::vector<opaque_stream>& streams) const {
  const nccl_library::functions& api = library_.api();
  library_.check(api.group_start(), "ncclGroupStart");
  int failed = 0;
  for (std::size_t d = 0; d < communicators_.size() && failed == 0; ++d)
    failed = api.all_reduce(send[d], receive[d], count, type_float32, operation_sum,
                            communicators_[d], streams[d]);
  // A group that was begun must be ended, even if a call in the group has failed.
  const int ended = api.group_end();
  library_.check(failed, "ncclAllReduce", communicators_.front());
  library_.check(ended, "ncclGroupEnd", communicators_.front());
}

}  // namespace interlace::cuda
