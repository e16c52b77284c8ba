#include "fake_driver.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../cuda/fake_blocks.hpp"
#include "../fake_pages.hpp"

namespace {

using address = unsigned long long;

constexpr int success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3,
              invalid_device = 101, invalid_context = 201, peer_already = 704, peer_not = 705,
              not_found = 500, not_ready = 600, launch_failed = 719, not_supported = 801,
              capture_unsupported = 900;

}  // namespace

// --- enqueued work -------------------------------------------------------------------------------

struct operation;
using shared_operation = std::shared_ptr<operation>;
struct operation {
  std::function<void()> run;
  std::vector<shared_operation> after;
  bool done = false;
};

namespace {

std::recursive_mutex mutex;
using locked = std::lock_guard<std::recursive_mutex>;

std::mt19937_64& random() {
  static std::mt19937_64 made = [] {
    const char* seed = std::getenv("FAKE_SEED");
    return std::mt19937_64(seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10));
  }();
  return made;
}

std::vector<shared_operation>& pending() {
  static std::vector<shared_operation> all;
  return all;
}

bool runnable(const operation& one) {
  return std::all_of(one.after.begin(), one.after.end(), [](const auto& on) { return on->done; });
}

// Runs a random operation among those that may run now. While any operation is pending, at least
// one operation may run.
void step() {
  auto& all = pending();
  const std::size_t begin = random()() % all.size();
  for (std::size_t count = 0; count < all.size(); ++count) {
    const std::size_t at = (begin + count) % all.size();
    if (!runnable(*all[at])) continue;
    const shared_operation one = all[at];
    all[at] = all.back();
    all.pop_back();
    if (one->run) one->run();
    one->run = nullptr;
    one->after.clear();
    one->done = true;
    return;
  }
  std::fprintf(stderr, "fake driver: pending operations wait for each other\n");
  std::abort();
}

void finish(const shared_operation& one) {
  while (one && !one->done) step();
}

shared_operation enqueue(std::vector<shared_operation> after, std::function<void()> run) {
  auto made = std::make_shared<operation>();
  after.erase(std::remove(after.begin(), after.end(), nullptr), after.end());
  made->after = std::move(after);
  made->run = std::move(run);
  pending().push_back(made);
  while (pending().size() > 3000) step();
  return made;
}

}  // namespace

// --- objects -------------------------------------------------------------------------------------

namespace {

// The number of objects that exist: the program has made them and has not ended them yet. Objects
// are streams, events, graphs, executables, user objects, ranges of addresses, and physical memory.
std::atomic<long> objects{0};

struct counted {
  counted() { ++objects; }
  ~counted() { --objects; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
};

// Counts an object if the call succeeded. `change` is 1 if the call makes an object, and -1 if the
// call ends one.
int counting(int result, long change) {
  if (result == success) objects += change;
  return result;
}

}  // namespace

struct CUstream_st {
  CUctx_st* context = nullptr;
  bool blocking = true;
  bool legacy = false;
  unsigned long long id = 0;
  shared_operation last;
  CUgraph_st* captured = nullptr;
};

struct CUctx_st {
  int gpu = 0;
  bool primary = false;
  int retains = 0;
  std::set<CUctx_st*> peers;
  CUstream_st legacy;
  std::set<CUstream_st*> streams;
  std::map<std::thread::id, CUstream_st> per_thread;
};

struct CUevent_st {
  shared_operation recorded;
  counted one;
};

struct node_copy {
  address to = 0;
  address from = 0;
  std::size_t bytes = 0;
};

using interlace::fake::block_kernel;

struct CUgraphNode_st {
  node_copy copy;
  std::shared_ptr<block_kernel> blocks;  // the kernel that the operation runs instead of a copy
  std::vector<CUgraphNode_st*> after;
};

struct CUuserObject_st {
  void* data = nullptr;
  void (*destroy)(void*) = nullptr;
  counted one = {};
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
  std::vector<std::shared_ptr<CUuserObject_st>> owned;
  counted one;
};

struct CUgraphExec_st {
  struct node {
    CUgraphNode_st* of = nullptr;
    node_copy copy;
    std::shared_ptr<block_kernel> blocks;
    std::vector<std::size_t> after;
  };
  std::vector<node> nodes;
  std::vector<std::shared_ptr<CUuserObject_st>> owned;
  shared_operation last;
  counted one;
};

namespace {

// The settings of fake_fail_calls, and the calls and the first failure since then.
struct {
  std::atomic<std::uint64_t> seen{0};
  std::atomic<std::uint64_t> at{0};  // 0 means that no call fails
  std::atomic<int> code{0};
  std::atomic<bool> lasts{false};
  std::atomic<void*> failed{nullptr};  // the function that failed first
} failures;

int failure_of_this_call() {
  const std::uint64_t at = failures.at;
  const std::uint64_t number = ++failures.seen;
  if (at == 0 || number < at || (!failures.lasts && number != at)) return success;
  return failures.code;
}

// Whether a function ends an object. Such a call takes effect even if it reports an error. Calls
// that unmap or unregister memory are not among these functions.
constexpr bool ends(std::string_view name) {
  for (const char* word : {"Destroy", "Free", "Release", "Unload", "Pop"})
    if (name.find(word) != std::string_view::npos) return true;
  return false;
}

// A version of a function that fails if a test has asked for it.
template <auto Function, bool Ends>
struct failable;
template <class... Arguments, int (*Function)(Arguments...), bool Ends>
struct failable<Function, Ends> {
  static int call(Arguments... with) {
    const int code = failure_of_this_call();
    void* none = nullptr;
    if (code != success) failures.failed.compare_exchange_strong(none, (void*)Function);
    if (code != success && !Ends) return code;
    const int result = Function(with...);
    return code != success ? code : result;
  }
};

enum class kind { gpu, pinned, managed, mapped };
struct allocation {
  address begin = 0;
  std::size_t bytes = 0;
  kind of = kind::gpu;
  CUctx_st* context = nullptr;
  unsigned long long id = 0;
  int file = -1;  // a file with the memory; other processes may map this file
};

struct driver {
  int gpus = 4;
  int version = 13000;
  bool started = false;
  std::vector<std::unique_ptr<CUctx_st>> primaries;
  std::map<address, allocation> memory;
  unsigned long long next_id = 100;
  std::map<std::string, std::uint64_t> calls;
  long until_failure = 0;
  long failures = 0;
  std::uint64_t memory_limit = 0;  // the limit for all GPUs together; 0 means no limit
  interlace::fake::pages pages;
  // Maps an address of mapped memory to the GPUs that may use it.
  std::map<address, std::set<int>> access;
};

driver& state() {
  static auto* one = [] {
    auto* made = new driver;
    if (const char* gpus = std::getenv("FAKE_GPUS")) made->gpus = std::atoi(gpus);
    if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
      const std::string_view list = visible;
      made->gpus = 1 + static_cast<int>(std::count(list.begin(), list.end(), ','));
    }
    if (const char* version = std::getenv("FAKE_CUDA")) made->version = std::atoi(version);
    for (int gpu = 0; gpu < made->gpus; ++gpu) {
      made->primaries.push_back(std::make_unique<CUctx_st>());
      made->primaries.back()->gpu = gpu;
      made->primaries.back()->primary = true;
    }
    return made;
  }();
  return *one;
}

thread_local std::vector<CUctx_st*> stack;
thread_local CUctx_st* own = nullptr;  // the current context if the stack is empty

CUctx_st* current() { return stack.empty() ? own : stack.back(); }

CUstream_st* resolve(CUstream_st* given) {
  const auto number = reinterpret_cast<std::uintptr_t>(given);
  if (number > 2) return given;
  CUctx_st* context = current();
  if (context == nullptr) return nullptr;
  CUstream_st* found = &context->legacy;
  if (number == 2) found = &context->per_thread[std::this_thread::get_id()];
  found->context = context;
  found->legacy = number != 2;
  if (found->id == 0) found->id = ++state().next_id;
  return found;
}

// Returns the operations for which the next work on a stream waits. One of them is the last
// operation of the stream. Work on the legacy default stream also waits for the last operation of
// each blocking stream. Work on a blocking stream also waits for the last operation of the legacy
// default stream.
std::vector<shared_operation> before(CUstream_st* stream) {
  std::vector<shared_operation> found{stream->last};
  CUctx_st* context = stream->context;
  if (stream->legacy) {
    for (CUstream_st* one : context->streams)
      if (one->blocking) found.push_back(one->last);
    for (auto& [thread, one] : context->per_thread) found.push_back(one.last);
  } else if (stream->blocking) {
    found.push_back(context->legacy.last);
  }
  return found;
}

allocation* find(address at) {
  auto& memory = state().memory;
  auto next = memory.upper_bound(at);
  if (next == memory.begin()) return nullptr;
  allocation& one = std::prev(next)->second;
  return at < one.begin + one.bytes ? &one : nullptr;
}

void count(const char* symbol) {
  const locked lock(mutex);
  ++state().calls[symbol];
}

// Whether an engine of this context's GPU may access the memory.
bool reaches(CUctx_st* context, const allocation* one) {
  if (one == nullptr || one->of != kind::gpu || one->context->gpu == context->gpu) return true;
  return context->peers.count(one->context) > 0;
}

void end_peers_of(CUctx_st* ended) {
  ended->peers.clear();
  for (const auto& other : state().primaries) other->peers.erase(ended);
}

int add_copy(address to, address from, std::size_t bytes, CUstream_st* given, bool waits) {
  const locked lock(mutex);
  if (!state().started) return not_initialized;
  CUstream_st* stream = resolve(given);
  if (stream == nullptr) return invalid_context;
  if (state().failures > 0 && state().until_failure-- <= 0) {
    --state().failures;
    return launch_failed;
  }
  allocation* target = find(to);
  allocation* source = find(from);
  for (const auto& [one, at] : {std::pair{target, to}, std::pair{source, from}})
    if (one != nullptr && at + bytes > one->begin + one->bytes) return invalid_value;
  if (stream->captured != nullptr) {
    auto& nodes = stream->captured->nodes;
    auto made = std::make_unique<CUgraphNode_st>();
    made->copy = {to, from, bytes};
    if (!nodes.empty()) made->after.push_back(nodes.back().get());
    nodes.push_back(std::move(made));
    return success;
  }
  stream->last = enqueue(before(stream), [=] {
    if (bytes == 0) return;
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  });
  if (waits || target == nullptr || source == nullptr) finish(stream->last);
  return success;
}

}  // namespace

extern "C" {

std::uint64_t fake_calls(const char* symbol) {
  const locked lock(mutex);
  return state().calls[symbol];
}
std::uint64_t fake_bytes(int on_gpus) {
  const locked lock(mutex);
  std::uint64_t bytes = 0;
  for (const auto& [at, one] : state().memory) {
    if (one.of == (on_gpus != 0 ? kind::gpu : kind::pinned)) bytes += one.bytes;
  }
  return bytes;
}
void fake_limit_memory(std::uint64_t bytes) {
  const locked lock(mutex);
  state().memory_limit = bytes;
}
void fake_fail_calls(std::uint64_t at, int code, int lasts) {
  failures.at = 0;
  failures.seen = 0;
  failures.failed = nullptr;
  failures.code = code;
  failures.lasts = lasts != 0;
  failures.at = at;
}
std::uint64_t fake_calls_seen() { return failures.seen; }
const char* fake_failed_call() {
  Dl_info found;
  return dladdr(failures.failed, &found) != 0 && found.dli_sname != nullptr ? found.dli_sname : "";
}
long fake_objects() { return objects; }
void fake_fail_copies(long after, long times) {
  const locked lock(mutex);
  state().until_failure = after;
  state().failures = times;
}

// --- devices -------------------------------------------------------------------------------------

int cuInit(unsigned) {
  const locked lock(mutex);
  state().started = true;
  return success;
}
int cuDriverGetVersion(int* version) {
  *version = state().version;
  return success;
}
int cuDeviceGetCount(int* count) {
  *count = state().gpus;
  return success;
}
int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= state().gpus) return invalid_device;
  *device = ordinal;
  return success;
}
int cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, static_cast<std::size_t>(length), "Fake H200");
  return success;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{1} << 30;
  return success;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  static const std::map<int, int> known{{10, 32},   {13, 1980000},  {16, 132},    {36, 3201000},
                                        {37, 6144}, {38, 62914560}, {39, 2048},   {40, 3},
                                        {75, 9},    {76, 0},        {81, 233472}, {106, 32}};
  const auto found = known.find(attribute);
  *value = found == known.end() ? 0 : found->second;
  if (attribute == 20 && std::getenv("FAKE_EXCLUSIVE") != nullptr) *value = 3;
  return success;
}
int cuDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", device + 1);
  return success;
}
int cuDeviceCanAccessPeer(int* can, int one, int other) {
  *can = one != other && std::getenv("FAKE_NO_PEER_ACCESS") == nullptr;
  return success;
}
int cuGetErrorName(int, const char** name) {
  *name = "FAKE_ERROR";
  return success;
}
int cuGetErrorString(int, const char** text) {
  *text = "an error of the fake driver";
  return success;
}

// --- contexts ------------------------------------------------------------------------------------

int cuDevicePrimaryCtxRetain(CUctx_st** context, int device) {
  const locked lock(mutex);
  if (!state().started) return not_initialized;
  CUctx_st* one = state().primaries.at(static_cast<std::size_t>(device)).get();
  ++one->retains;
  *context = one;
  return success;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  const locked lock(mutex);
  CUctx_st* one = state().primaries.at(static_cast<std::size_t>(device)).get();
  if (one->retains == 0) return invalid_context;
  if (--one->retains == 0) end_peers_of(one);
  return success;
}
int cuDevicePrimaryCtxRelease(int device) { return cuDevicePrimaryCtxRelease_v2(device); }
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  const locked lock(mutex);
  *flags = 0;
  *active = state().primaries.at(static_cast<std::size_t>(device))->retains > 0 ? 1 : 0;
  return success;
}
int cuDevicePrimaryCtxReset_v2(int device) {
  const locked lock(mutex);
  CUctx_st* one = state().primaries.at(static_cast<std::size_t>(device)).get();
  // If a stream still exists, the owner of the stream will use the context again.
  if (one->retains > 1 || !one->streams.empty()) {
    std::fprintf(stderr, "fake driver: a context that is in use was reset\n");
    std::abort();
  }
  end_peers_of(one);
  return success;
}
int cuDevicePrimaryCtxReset(int device) { return cuDevicePrimaryCtxReset_v2(device); }
int cuCtxCreate_v2(CUctx_st** context, unsigned, int device) {
  auto* made = new CUctx_st;
  made->gpu = device;
  *context = made;
  stack.push_back(made);
  return success;
}
int cuCtxSetCurrent(CUctx_st* context) {
  (stack.empty() ? own : stack.back()) = context;
  return success;
}
int cuCtxGetCurrent(CUctx_st** context) {
  *context = current();
  return success;
}
int cuCtxPushCurrent_v2(CUctx_st* context) {
  if (context == nullptr) return invalid_context;
  stack.push_back(context);
  return success;
}
int cuCtxPopCurrent_v2(CUctx_st** context) {
  if (stack.empty()) return invalid_context;
  if (context != nullptr) *context = stack.back();
  stack.pop_back();
  return success;
}
int cuCtxSynchronize() {
  const locked lock(mutex);
  while (!pending().empty()) step();
  return success;
}
int cuCtxEnablePeerAccess(CUctx_st* peer, unsigned) {
  const locked lock(mutex);
  if (current() == nullptr) return invalid_context;
  return current()->peers.insert(peer).second ? success : peer_already;
}
int cuCtxDisablePeerAccess(CUctx_st* peer) {
  const locked lock(mutex);
  if (current() == nullptr) return invalid_context;
  return current()->peers.erase(peer) > 0 ? success : peer_not;
}

// --- memory --------------------------------------------------------------------------------------

static int allocate(address* into, std::size_t bytes, kind of) {
  const locked lock(mutex);
  if (current() == nullptr) return invalid_context;
  const std::size_t pages = (bytes + 4095) / 4096 * 4096;
  const int file = of == kind::gpu ? memfd_create("memory of a fake GPU", MFD_CLOEXEC) : -1;
  void* made = nullptr;
  if (file < 0)
    made = std::aligned_alloc(4096, pages);
  else if (ftruncate(file, static_cast<off_t>(pages)) == 0)
    made = mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const auto at = reinterpret_cast<address>(made);
  state().memory[at] = {at, bytes, of, current(), ++state().next_id, file};
  *into = at;
  return success;
}
static int release(address at) {
  const locked lock(mutex);
  while (!pending().empty()) step();
  const auto found = state().memory.find(at);
  if (found == state().memory.end()) return invalid_value;
  if (found->second.file < 0) {
    std::free(reinterpret_cast<void*>(at));
  } else {
    (void)munmap(reinterpret_cast<void*>(at), (found->second.bytes + 4095) / 4096 * 4096);
    (void)close(found->second.file);
  }
  state().memory.erase(found);
  return success;
}
int cuMemAlloc_v2(address* into, std::size_t bytes) {
  const locked lock(mutex);
  const std::uint64_t limit = state().memory_limit;
  if (limit != 0 && fake_bytes(1) + bytes > limit) return out_of_memory;
  return allocate(into, bytes, kind::gpu);
}
int cuMemFree_v2(address at) { return release(at); }
int cuMemAllocManaged(address* into, std::size_t bytes, unsigned) {
  return allocate(into, bytes, kind::managed);
}
int cuMemHostAlloc(void** into, std::size_t bytes, unsigned) {
  return allocate(reinterpret_cast<address*>(into), bytes, kind::pinned);
}
int cuMemFreeHost(void* at) { return release(reinterpret_cast<address>(at)); }

// --- calls that only UCX's CUDA module needs

int cuCtxGetId(CUctx_st* context, unsigned long long* id) {
  if (context == nullptr) context = current();
  if (context == nullptr) return invalid_context;
  *id = reinterpret_cast<std::uintptr_t>(context);
  return success;
}
int cuCtxGetDevice(int* device) {
  const locked lock(mutex);
  if (current() == nullptr) return invalid_context;
  *device = current()->gpu;
  return success;
}
int cuPointerGetAttributes(unsigned, int*, void**, address);
int cuPointerGetAttribute(void* into, int which, address at) {
  {
    const locked lock(mutex);
    if (find(at) == nullptr) return invalid_value;
  }
  return cuPointerGetAttributes(1, &which, &into, at);
}
int cuPointerSetAttribute(const void*, int, address) { return success; }
int cuMemRetainAllocationHandle(unsigned long long*, void*) { return invalid_value; }

// --- virtual memory and registered memory

// The type of the members `location` of CUmemAllocationProp and CUmemAccessDesc.
struct location {
  int type;
  int gpu;
};
struct properties {
  int type;
  int handles;
  location where;
};
struct access_description {
  location who;
  int flags;
};

int cuMemGetAllocationGranularity(std::size_t* bytes, const properties*, int) {
  *bytes = interlace::fake::pages::granularity;
  return success;
}
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  const locked lock(mutex);
  if (current() == nullptr) return invalid_context;
  *total = state().pages.capacity;
  *free = *total - state().pages.used(current()->gpu);
  return success;
}
int cuMemAddressReserve(address* made, std::size_t bytes, std::size_t, address,
                        unsigned long long) {
  const locked lock(mutex);
  return counting(state().pages.reserve(made, bytes), 1);
}
int cuMemAddressFree(address at, std::size_t bytes) {
  const locked lock(mutex);
  return counting(state().pages.free_reserved(at, bytes), -1);
}
int cuMemCreate(unsigned long long* made, std::size_t bytes, const properties* how,
                unsigned long long) {
  count("cuMemCreate");
  const locked lock(mutex);
  return counting(state().pages.create(made, bytes, how->where.gpu), 1);
}
int cuMemRelease(unsigned long long handle) {
  count("cuMemRelease");
  const locked lock(mutex);
  return counting(state().pages.release(handle), -1);
}
int cuMemMap(address at, std::size_t bytes, std::size_t, unsigned long long handle,
             unsigned long long) {
  const locked lock(mutex);
  const int result = state().pages.map(at, bytes, handle);
  if (result != success) return result;
  CUctx_st* of = state().primaries.at(static_cast<std::size_t>(state().pages.find(at)->gpu)).get();
  state().memory[at] = {at, bytes, kind::mapped, of, ++state().next_id};
  return success;
}
int cuMemSetAccess(address at, std::size_t bytes, const access_description* who, std::size_t many) {
  const locked lock(mutex);
  for (std::size_t k = 0; k < many; ++k) state().access[at].insert(who[k].who.gpu);
  return state().pages.set_access(at, bytes);
}
int cuMemUnmap(address at, std::size_t bytes) {
  const locked lock(mutex);
  state().memory.erase(at);
  state().access.erase(at);
  return state().pages.unmap(at, bytes);
}
int cuMemGetAccess(unsigned long long* flags, const location* who, address at) {
  const locked lock(mutex);
  const allocation* one = find(at);
  if (one == nullptr || one->of != kind::mapped) return invalid_value;
  *flags = state().access[one->begin].count(who->gpu) > 0 ? 3 : 0;
  return success;
}
int cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  count("cuMemHostRegister_v2");
  const locked lock(mutex);
  if (current() == nullptr) return invalid_context;
  const auto at = reinterpret_cast<address>(memory);
  state().memory[at] = {at, bytes, kind::pinned, current(), ++state().next_id};
  return success;
}
int cuMemHostUnregister(void* memory) {
  const locked lock(mutex);
  return state().memory.erase(reinterpret_cast<address>(memory)) == 0 ? invalid_value : success;
}

// --- memory of other processes

namespace {

struct shared_memory {
  int process = 0;
  int file = -1;
  std::size_t bytes = 0;
};

}  // namespace

struct ipc_handle {
  unsigned char text[64];
};

int cuDeviceGetUuid(unsigned char* into, int device) {
  std::memset(into, device + 1, 16);
  return success;
}
int cuMemGetAddressRange_v2(address* base, std::size_t* bytes, address at) {
  const locked lock(mutex);
  const allocation* one = find(at);
  if (one == nullptr) return invalid_value;
  *base = one->begin;
  *bytes = one->bytes;
  return success;
}
int cuIpcGetMemHandle(ipc_handle* into, address at) {
  const locked lock(mutex);
  const allocation* one = find(at);
  if (current() == nullptr) return invalid_context;
  if (one == nullptr || one->file < 0) return invalid_value;
  const shared_memory shared{getpid(), one->file, one->bytes};
  std::memset(into, 0, sizeof *into);
  std::memcpy(into, &shared, sizeof shared);
  return success;
}
// Like a real GPU, this driver does not let a process map its own memory.
int cuIpcOpenMemHandle_v2(address* into, ipc_handle handle, unsigned) {
  count("cuIpcOpenMemHandle_v2");
  const locked lock(mutex);
  if (current() == nullptr) return invalid_context;
  shared_memory shared;
  std::memcpy(&shared, &handle, sizeof shared);
  if (shared.process == getpid()) return invalid_context;
  const std::string name =
      "/proc/" + std::to_string(shared.process) + "/fd/" + std::to_string(shared.file);
  const int file = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return invalid_value;
  void* made = mmap(nullptr, (shared.bytes + 4095) / 4096 * 4096, PROT_READ | PROT_WRITE,
                    MAP_SHARED, file, 0);
  const auto at = reinterpret_cast<address>(made);
  state().memory[at] = {at, shared.bytes, kind::gpu, current(), ++state().next_id, file};
  *into = at;
  return success;
}
int cuIpcCloseMemHandle(address at) {
  count("cuIpcCloseMemHandle");
  return release(at);
}

int cuPointerGetAttributes(unsigned count, int* which, void** into, address at) {
  const locked lock(mutex);
  if (current() == nullptr) return invalid_context;
  const allocation* one = find(at);
  const auto put = [](void* target, auto value) { std::memcpy(target, &value, sizeof value); };
  for (unsigned index = 0; index < count; ++index) {
    void* target = into[index];
    switch (which[index]) {
      case 1:
        put(target, one == nullptr ? nullptr : one->context);
        break;
      case 2:
        put(target, one == nullptr ? 0U : one->of == kind::pinned ? 1U : 2U);
        break;
      case 3:
        put(target, one == nullptr ? address{0} : at);
        break;
      case 7:
        put(target, one == nullptr ? 0ULL : one->id);
        break;
      case 8:
        put(target, one != nullptr && one->of == kind::managed ? 1U : 0U);
        break;
      case 9:
        put(target, one == nullptr ? -2 : one->context->gpu);
        break;
      case 10:
        put(target, one != nullptr && one->of == kind::gpu ? 1U : 0U);
        break;
      case 16:
        put(target, one != nullptr && reaches(current(), one) ? 3U : 0U);
        break;
      case 17:
        put(target, static_cast<void*>(nullptr));
        break;
      case 12:
      case 18:
        put(target, one == nullptr ? std::size_t{0} : one->bytes);
        break;
      case 11:
      case 19:
        put(target, one == nullptr ? address{0} : one->begin);
        break;
      default:
        return invalid_value;
    }
  }
  return success;
}

// --- copies --------------------------------------------------------------------------------------

#define FAKE_COPY(name, To, From)                                             \
  int name(To to, From from, std::size_t bytes, CUstream_st* stream) {        \
    count(#name);                                                             \
    return add_copy((address)to, (address)from, bytes, stream, false);        \
  }                                                                           \
  int name##_ptsz(To to, From from, std::size_t bytes, CUstream_st* stream) { \
    count(#name "_ptsz");                                                     \
    return add_copy((address)to, (address)from, bytes,                        \
                    stream == nullptr ? (CUstream_st*)2 : stream, false);     \
  }
FAKE_COPY(cuMemcpyAsync, address, address)
FAKE_COPY(cuMemcpyHtoDAsync_v2, address, const void*)
FAKE_COPY(cuMemcpyDtoHAsync_v2, void*, address)
FAKE_COPY(cuMemcpyDtoDAsync_v2, address, address)

int cuMemcpyPeerAsync(address to, CUctx_st*, address from, CUctx_st*, std::size_t bytes,
                      CUstream_st* stream) {
  count("cuMemcpyPeerAsync");
  return add_copy(to, from, bytes, stream, false);
}
int cuMemcpyPeerAsync_ptsz(address to, CUctx_st*, address from, CUctx_st*, std::size_t bytes,
                           CUstream_st* stream) {
  count("cuMemcpyPeerAsync_ptsz");
  return add_copy(to, from, bytes, stream == nullptr ? (CUstream_st*)2 : stream, false);
}

#define FAKE_COPY_NOW(name, To, From)                                          \
  int name(To to, From from, std::size_t bytes) {                              \
    count(#name);                                                              \
    return add_copy((address)to, (address)from, bytes, nullptr, true);         \
  }                                                                            \
  int name##_ptds(To to, From from, std::size_t bytes) {                       \
    count(#name "_ptds");                                                      \
    return add_copy((address)to, (address)from, bytes, (CUstream_st*)2, true); \
  }
FAKE_COPY_NOW(cuMemcpy, address, address)
FAKE_COPY_NOW(cuMemcpyHtoD_v2, address, const void*)
FAKE_COPY_NOW(cuMemcpyDtoH_v2, void*, address)
FAKE_COPY_NOW(cuMemcpyDtoD_v2, address, address)

// The first form of the function, with 32-bit sizes.
int cuMemcpyHtoDAsync(unsigned to, const void* from, unsigned bytes, CUstream_st* stream) {
  count("cuMemcpyHtoDAsync");
  return add_copy(to, (address)from, bytes, stream, false);
}

// --- batches -------------------------------------------------------------------------------------

namespace {

// Adds a batch. The copies of the batch run in any order, but after the earlier work of the stream.
int add_batch(address* to, address* from, std::size_t* bytes, std::size_t count,
              fake_attributes* attributes, std::size_t* firsts, std::size_t kinds,
              std::size_t* failed, CUstream_st* given) {
  const locked lock(mutex);
  const auto fail = [&](int code, std::size_t at) {
    if (failed != nullptr) *failed = at;
    return code;
  };
  constexpr auto whole = static_cast<std::size_t>(-1);
  const auto number = reinterpret_cast<std::uintptr_t>(given);
  if (!state().started) return fail(not_initialized, whole);
  if (number < 2 || to == nullptr || from == nullptr || bytes == nullptr || attributes == nullptr ||
      firsts == nullptr || count == 0 || kinds == 0 || kinds > count)
    return fail(invalid_value, whole);
  for (std::size_t at = 0; at < kinds; ++at) {
    if (at == 0 ? firsts[0] != 0 : firsts[at] <= firsts[at - 1] || firsts[at] >= count)
      return fail(invalid_value, whole);
    const fake_attributes& one = attributes[at];
    if (one.order < 1 || one.order > 3 || one.flags > 1 || one.hints[0] > 4 || one.hints[2] > 4)
      return fail(invalid_value, whole);
  }
  CUstream_st* stream = resolve(given);
  if (stream == nullptr) return fail(invalid_context, whole);
  if (stream->captured != nullptr) return fail(capture_unsupported, whole);
  std::vector<shared_operation> all;
  for (std::size_t at = 0; at < count; ++at) {
    // The driver still makes the copies before the first copy that fails.
    for (const address end : {to[at], from[at]}) {
      const allocation* one = find(end);
      if (bytes[at] != 0 && end != 0 &&
          (one == nullptr || end + bytes[at] <= one->begin + one->bytes))
        continue;
      stream->last = enqueue(std::move(all), nullptr);
      return fail(invalid_value, at);
    }
    const auto copy = [to = to[at], from = from[at], size = bytes[at]] {
      std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size);
    };
    // If two copies of a batch write to the same place, the later copy in the list wins in
    // practice.
    std::vector<shared_operation> after = before(stream);
    if (!all.empty()) after.push_back(all.back());
    all.push_back(enqueue(std::move(after), copy));
    std::size_t kind = 0;
    while (kind + 1 < kinds && firsts[kind + 1] <= at) ++kind;
    if (attributes[kind].order == 2 || find(to[at]) == nullptr || find(from[at]) == nullptr)
      finish(all.back());
  }
  stream->last = enqueue(std::move(all), nullptr);
  return fail(success, whole);
}

CUstream_st* of_thread(CUstream_st* given) {
  return given == nullptr ? reinterpret_cast<CUstream_st*>(2) : given;
}

}  // namespace

int cuMemcpyBatchAsync(address* to, address* from, std::size_t* bytes, std::size_t number,
                       fake_attributes* attributes, std::size_t* firsts, std::size_t kinds,
                       std::size_t* failed, CUstream_st* stream) {
  count("cuMemcpyBatchAsync");
  return add_batch(to, from, bytes, number, attributes, firsts, kinds, failed, stream);
}
int cuMemcpyBatchAsync_ptsz(address* to, address* from, std::size_t* bytes, std::size_t number,
                            fake_attributes* attributes, std::size_t* firsts, std::size_t kinds,
                            std::size_t* failed, CUstream_st* stream) {
  count("cuMemcpyBatchAsync_ptsz");
  return add_batch(to, from, bytes, number, attributes, firsts, kinds, failed, of_thread(stream));
}
int cuMemcpyBatchAsync_v2(address* to, address* from, std::size_t* bytes, std::size_t number,
                          fake_attributes* attributes, std::size_t* firsts, std::size_t kinds,
                          CUstream_st* stream) {
  count("cuMemcpyBatchAsync_v2");
  return add_batch(to, from, bytes, number, attributes, firsts, kinds, nullptr, stream);
}
int cuMemcpyBatchAsync_v2_ptsz(address* to, address* from, std::size_t* bytes, std::size_t number,
                               fake_attributes* attributes, std::size_t* firsts, std::size_t kinds,
                               CUstream_st* stream) {
  count("cuMemcpyBatchAsync_v2_ptsz");  // like a real driver, it refuses the null stream
  return add_batch(to, from, bytes, number, attributes, firsts, kinds, nullptr, stream);
}
// These two functions only count their calls.
int cuMemcpy3DBatchAsync(std::size_t, void*, std::size_t*, unsigned long long, CUstream_st*) {
  count("cuMemcpy3DBatchAsync");
  return success;
}
int cuMemcpy3DBatchAsync_v2(std::size_t, void*, unsigned long long, CUstream_st*) {
  count("cuMemcpy3DBatchAsync_v2");
  return success;
}

// --- streams and events --------------------------------------------------------------------------

int cuStreamCreate(CUstream_st** made, unsigned flags) {
  const locked lock(mutex);
  if (current() == nullptr) return invalid_context;
  *made = new CUstream_st;
  (*made)->context = current();
  (*made)->blocking = (flags & 1U) == 0;
  (*made)->id = ++state().next_id;
  current()->streams.insert(*made);
  return counting(success, 1);
}
int cuStreamDestroy_v2(CUstream_st* stream) {
  const locked lock(mutex);
  finish(stream->last);
  stream->context->streams.erase(stream);
  delete stream;
  return counting(success, -1);
}
int cuStreamSynchronize(CUstream_st* given) {
  const locked lock(mutex);
  CUstream_st* stream = resolve(given);
  if (stream == nullptr) return invalid_context;
  for (const shared_operation& one : before(stream)) finish(one);
  return success;
}
int cuStreamWaitEvent(CUstream_st* given, CUevent_st* event, unsigned) {
  const locked lock(mutex);
  CUstream_st* stream = resolve(given);
  if (stream == nullptr) return invalid_context;
  auto after = before(stream);
  after.push_back(event->recorded);
  stream->last = enqueue(std::move(after), nullptr);
  return success;
}
int cuStreamGetCtx(CUstream_st* given, CUctx_st** context) {
  const locked lock(mutex);
  CUstream_st* stream = resolve(given);
  if (stream == nullptr) return invalid_context;
  *context = stream->context;
  return success;
}
int cuStreamGetId(CUstream_st* given, unsigned long long* id) {
  const locked lock(mutex);
  CUstream_st* stream = resolve(given);
  if (stream == nullptr) return invalid_context;
  *id = stream->id;
  return success;
}
int cuStreamGetFlags(CUstream_st* given, unsigned* flags) {
  const locked lock(mutex);
  CUstream_st* stream = resolve(given);
  if (stream == nullptr) return invalid_context;
  *flags = stream->blocking ? 0 : 1;
  return success;
}
int cuMemsetD8Async(address at, unsigned char value, std::size_t bytes, CUstream_st* given) {
  const locked lock(mutex);
  CUstream_st* stream = resolve(given);
  if (stream == nullptr) return invalid_context;
  stream->last = enqueue(before(stream), [at, value, bytes] {
    std::memset(reinterpret_cast<void*>(at), value, bytes);
  });
  return success;
}
// This driver has no memory pools.
int cuMemPoolGetAccess(int*, void*, void*) { return not_supported; }
int cuStreamGetCaptureInfo_v2(CUstream_st* given, int* status, unsigned long long* id,
                              CUgraph_st** graph, CUgraphNode_st* const** after,
                              std::size_t* count) {
  const locked lock(mutex);
  CUstream_st* stream = resolve(given);
  if (stream == nullptr) return invalid_context;
  *status = stream->captured == nullptr ? 0 : 1;
  if (id != nullptr) *id = 1;
  if (graph != nullptr) *graph = stream->captured;
  if (after != nullptr) *after = nullptr;
  if (count != nullptr) *count = 0;
  return success;
}
int cuStreamUpdateCaptureDependencies(CUstream_st*, CUgraphNode_st**, std::size_t, unsigned) {
  return not_supported;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  static thread_local int own_mode = 0;
  std::swap(*mode, own_mode);
  return success;
}
int cuStreamBeginCapture_v2(CUstream_st* stream, int) {
  const locked lock(mutex);
  stream->captured = new CUgraph_st;
  return success;
}
int cuStreamEndCapture(CUstream_st* stream, CUgraph_st** graph) {
  const locked lock(mutex);
  *graph = stream->captured;
  stream->captured = nullptr;
  return success;
}

int cuEventCreate(CUevent_st** made, unsigned) {
  *made = new CUevent_st;
  return success;
}
int cuEventDestroy_v2(CUevent_st* event) {
  const locked lock(mutex);
  delete event;
  return success;
}
int cuEventRecord(CUevent_st* event, CUstream_st* given) {
  // A real driver may call a function that the preloaded library replaces. If FAKE_NESTED is set,
  // this driver does so. The programs of the tests record no events, so the library is the caller.
  static void* const program =
      std::getenv("FAKE_NESTED") == nullptr ? nullptr : dlopen(nullptr, RTLD_NOW);
  if (program != nullptr) {
    using copy = int (*)(address, const void*, std::size_t);
    auto* found = reinterpret_cast<copy>(dlsym(program, "cuMemcpyHtoD_v2"));
    if (found == nullptr || found == &cuMemcpyHtoD_v2) std::abort();
    (void)found(0, nullptr, 0);
  }
  const locked lock(mutex);
  CUstream_st* stream = resolve(given);
  if (stream == nullptr) return invalid_context;
  stream->last = enqueue(before(stream), nullptr);
  event->recorded = stream->last;
  return success;
}
int cuEventQuery(CUevent_st* event) {
  const locked lock(mutex);
  if (!event->recorded || event->recorded->done) return success;
  step();
  return event->recorded->done ? success : not_ready;
}
int cuEventSynchronize(CUevent_st* event) {
  const locked lock(mutex);
  finish(event->recorded);
  return success;
}

// --- graphs --------------------------------------------------------------------------------------

// The members of CUDA_MEMCPY3D that a copy of one contiguous range uses.
struct memcpy_3d {
  std::size_t from_place[4];
  unsigned from_type;
  const void* from_host;
  address from;
  void* from_more[2];
  std::size_t from_size[2];
  std::size_t to_place[4];
  unsigned to_type;
  void* to_host;
  address to;
  void* to_more[2];
  std::size_t to_size[2];
  std::size_t bytes, height, depth;
};

int cuGraphCreate(CUgraph_st** made, unsigned) {
  *made = new CUgraph_st;
  return success;
}
int cuGraphDestroy(CUgraph_st* graph) {
  delete graph;
  return success;
}
// A kernel, with the context of its module. This driver runs only the kernels that copy blocks.
struct fake_function {
  CUctx_st* context = nullptr;
  std::string name;
};
int cuModuleLoadData(CUctx_st** module, const void* image) {
  count("cuModuleLoadData");
  if (current() == nullptr) return invalid_context;
  const auto* text = static_cast<const char*>(image);
  if (std::getenv("FAKE_NO_KERNELS") != nullptr || std::strncmp(text, "//", 2) != 0)
    return not_supported;
  *module = current();
  return success;
}
int cuModuleUnload(CUctx_st*) { return success; }
int cuModuleGetFunction(fake_function** function, CUctx_st* module, const char* name) {
  if (!block_kernel::is(name)) return not_found;
  *function = new fake_function{module, name};
  return success;
}
static void run_blocks(const block_kernel& kernel) {
  for (const block_kernel::copy& one : kernel.copies())
    std::memmove(reinterpret_cast<void*>(one.to), reinterpret_cast<void*>(one.from), one.bytes);
}
int cuLaunchKernel(fake_function* function, unsigned grid, unsigned, unsigned, unsigned threads,
                   unsigned, unsigned, unsigned shared_bytes, CUstream_st* given, void** parameters,
                   void**) {
  count("cuLaunchKernel");
  const locked lock(mutex);
  CUstream_st* stream = resolve(given);
  if (stream == nullptr || stream->context != function->context) return invalid_context;
  auto kernel = std::make_shared<block_kernel>(
      stream->context->gpu, function->name,
      *static_cast<const interlace::cuda::block_arguments*>(parameters[0]));
  if (const std::string text = kernel->mistake(grid, threads, shared_bytes); !text.empty()) {
    std::fprintf(stderr, "fake driver: %s\n", text.c_str());
    std::abort();
  }
  if (stream->captured != nullptr) {
    auto& nodes = stream->captured->nodes;
    auto made = std::make_unique<CUgraphNode_st>();
    made->blocks = std::move(kernel);
    if (!nodes.empty()) made->after.push_back(nodes.back().get());
    nodes.push_back(std::move(made));
    return success;
  }
  stream->last = enqueue(before(stream), [kernel] { run_blocks(*kernel); });
  return success;
}
int cuGraphAddKernelNode(CUgraphNode_st**, CUgraph_st*, CUgraphNode_st* const*, std::size_t,
                         const void*) {
  return not_supported;
}
int cuGraphAddMemcpyNode(CUgraphNode_st** made, CUgraph_st* graph, CUgraphNode_st* const* after,
                         std::size_t count, const memcpy_3d* copy, CUctx_st*) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->copy = {copy->to, copy->from, copy->bytes};
  node->after.assign(after, after + count);
  *made = node.get();
  graph->nodes.push_back(std::move(node));
  return success;
}
int cuGraphInstantiateWithFlags(CUgraphExec_st** made, CUgraph_st* graph, unsigned long long) {
  auto exec = std::make_unique<CUgraphExec_st>();
  std::map<CUgraphNode_st*, std::size_t> index;
  for (const auto& node : graph->nodes) {
    CUgraphExec_st::node one{node.get(), node->copy, node->blocks, {}};
    for (CUgraphNode_st* on : node->after) one.after.push_back(index.at(on));
    index[node.get()] = exec->nodes.size();
    exec->nodes.push_back(std::move(one));
  }
  exec->owned = graph->owned;
  *made = exec.release();
  return success;
}
int cuGraphExecDestroy(CUgraphExec_st* exec) {
  delete exec;
  return success;
}
int cuGraphExecMemcpyNodeSetParams(CUgraphExec_st* exec, CUgraphNode_st* node,
                                   const memcpy_3d* copy, CUctx_st*) {
  for (auto& one : exec->nodes)
    if (one.of == node) one.copy = {copy->to, copy->from, copy->bytes};
  return success;
}
int cuGraphLaunch(CUgraphExec_st* exec, CUstream_st* given) {
  const locked lock(mutex);
  CUstream_st* stream = resolve(given);
  if (stream == nullptr) return invalid_context;
  auto after = before(stream);
  after.push_back(exec->last);
  const shared_operation begin = enqueue(std::move(after), nullptr);
  std::vector<shared_operation> nodes;
  for (const auto& one : exec->nodes) {
    std::vector<shared_operation> on{begin};
    for (const std::size_t earlier : one.after) on.push_back(nodes[earlier]);
    nodes.push_back(enqueue(std::move(on), [copy = one.copy, blocks = one.blocks] {
      if (blocks) return run_blocks(*blocks);
      std::memmove(reinterpret_cast<void*>(copy.to), reinterpret_cast<void*>(copy.from),
                   copy.bytes);
    }));
  }
  nodes.push_back(begin);
  stream->last = enqueue(std::move(nodes), nullptr);
  exec->last = stream->last;
  return success;
}
// A graph and the executables made from it own a user object together.
int cuUserObjectCreate(CUuserObject_st** made, void* data, void (*destroy)(void*), unsigned,
                       unsigned) {
  *made = new CUuserObject_st{data, destroy};
  return success;
}
int cuUserObjectRelease(CUuserObject_st* object, unsigned) {
  object->destroy(object->data);
  delete object;
  return success;
}
int cuGraphRetainUserObject(CUgraph_st* graph, CUuserObject_st* object, unsigned, unsigned) {
  graph->owned.emplace_back(object, [](CUuserObject_st* ended) {
    ended->destroy(ended->data);
    delete ended;
  });
  return success;
}

// --- functions that came after CUDA 12.2 ---------------------------------------------------------

// These two functions exist but do nothing. Their arguments differ from those of the earlier
// versions.
int cuStreamGetCaptureInfo_v3(CUstream_st*, int*, unsigned long long*, CUgraph_st**,
                              CUgraphNode_st* const**, const void**, std::size_t*) {
  return not_supported;
}
int cuStreamUpdateCaptureDependencies_v2(CUstream_st*, CUgraphNode_st**, const void*, std::size_t,
                                         unsigned) {
  return not_supported;
}

// --- lookups -------------------------------------------------------------------------------------

struct listed {
  const char* name;
  int version;
  bool per_thread;
  void* function;
};
#define FAKE(name, version, symbol) \
  { name, version, false, (void*)&failable<&symbol, ends(name)>::call }
#define FAKE_PER_THREAD_SINCE(name, version, symbol) \
  { name, version, true, (void*)&failable<&symbol, ends(name)>::call }
#define FAKE_PER_THREAD(name, symbol) FAKE_PER_THREAD_SINCE(name, 7000, symbol)

// On a real driver, a function's address from cuGetProcAddress may differ from the address of the
// exported function. This function imitates that.
static int found_host_to_gpu(address to, const void* from, std::size_t bytes, CUstream_st* on) {
  return cuMemcpyHtoDAsync_v2(to, from, bytes, on);
}

static const listed all[] = {
    FAKE("cuInit", 2000, cuInit),
    FAKE("cuGetErrorName", 6000, cuGetErrorName),
    FAKE("cuDeviceGetCount", 2000, cuDeviceGetCount),
    FAKE("cuDeviceGetName", 2000, cuDeviceGetName),
    FAKE("cuDeviceGetPCIBusId", 4010, cuDeviceGetPCIBusId),
    FAKE("cuDeviceCanAccessPeer", 4000, cuDeviceCanAccessPeer),
    FAKE("cuDevicePrimaryCtxRetain", 7000, cuDevicePrimaryCtxRetain),
    FAKE("cuDevicePrimaryCtxRelease", 7000, cuDevicePrimaryCtxRelease),
    FAKE("cuDevicePrimaryCtxRelease", 11000, cuDevicePrimaryCtxRelease_v2),
    FAKE("cuDevicePrimaryCtxGetState", 7000, cuDevicePrimaryCtxGetState),
    FAKE("cuDevicePrimaryCtxReset", 7000, cuDevicePrimaryCtxReset),
    FAKE("cuDevicePrimaryCtxReset", 11000, cuDevicePrimaryCtxReset_v2),
    FAKE("cuCtxPushCurrent", 4000, cuCtxPushCurrent_v2),
    FAKE("cuCtxPopCurrent", 4000, cuCtxPopCurrent_v2),
    FAKE("cuCtxGetCurrent", 4000, cuCtxGetCurrent),
    FAKE("cuCtxGetDevice", 2000, cuCtxGetDevice),
    FAKE("cuCtxSetCurrent", 4000, cuCtxSetCurrent),
    FAKE("cuCtxSynchronize", 2000, cuCtxSynchronize),
    FAKE("cuCtxEnablePeerAccess", 4000, cuCtxEnablePeerAccess),
    FAKE("cuCtxDisablePeerAccess", 4000, cuCtxDisablePeerAccess),
    FAKE("cuPointerGetAttributes", 7000, cuPointerGetAttributes),
    FAKE("cuDeviceGetUuid", 9020, cuDeviceGetUuid),
    FAKE("cuMemGetAddressRange", 3020, cuMemGetAddressRange_v2),
    FAKE("cuIpcGetMemHandle", 4010, cuIpcGetMemHandle),
    FAKE("cuIpcOpenMemHandle", 11000, cuIpcOpenMemHandle_v2),
    FAKE("cuIpcCloseMemHandle", 4010, cuIpcCloseMemHandle),
    FAKE("cuMemAlloc", 3020, cuMemAlloc_v2),
    FAKE("cuMemFree", 3020, cuMemFree_v2),
    FAKE("cuMemHostAlloc", 2020, cuMemHostAlloc),
    FAKE("cuMemFreeHost", 2000, cuMemFreeHost),
    FAKE("cuMemcpyAsync", 4000, cuMemcpyAsync),
    FAKE_PER_THREAD("cuMemcpyAsync", cuMemcpyAsync_ptsz),
    FAKE("cuMemcpyHtoDAsync", 2000, cuMemcpyHtoDAsync),
    FAKE("cuMemcpyHtoDAsync", 3020, found_host_to_gpu),
    FAKE_PER_THREAD("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync_v2_ptsz),
    FAKE("cuMemcpyDtoHAsync", 3020, cuMemcpyDtoHAsync_v2),
    FAKE_PER_THREAD("cuMemcpyDtoHAsync", cuMemcpyDtoHAsync_v2_ptsz),
    FAKE("cuMemcpyDtoDAsync", 3020, cuMemcpyDtoDAsync_v2),
    FAKE_PER_THREAD("cuMemcpyDtoDAsync", cuMemcpyDtoDAsync_v2_ptsz),
    FAKE("cuMemcpyPeerAsync", 4000, cuMemcpyPeerAsync),
    FAKE_PER_THREAD("cuMemcpyPeerAsync", cuMemcpyPeerAsync_ptsz),
    FAKE("cuMemcpyHtoD", 3020, cuMemcpyHtoD_v2),
    FAKE("cuMemcpyDtoH", 3020, cuMemcpyDtoH_v2),
    FAKE("cuStreamCreate", 2000, cuStreamCreate),
    FAKE("cuStreamDestroy", 4000, cuStreamDestroy_v2),
    FAKE("cuStreamSynchronize", 2000, cuStreamSynchronize),
    FAKE("cuStreamWaitEvent", 3020, cuStreamWaitEvent),
    FAKE("cuStreamGetCtx", 9020, cuStreamGetCtx),
    FAKE("cuStreamGetId", 12000, cuStreamGetId),
    FAKE("cuStreamGetFlags", 5050, cuStreamGetFlags),
    FAKE("cuMemsetD8Async", 3020, cuMemsetD8Async),
    FAKE("cuDeviceGetAttribute", 2000, cuDeviceGetAttribute),
    FAKE("cuMemGetInfo", 3020, cuMemGetInfo_v2),
    FAKE("cuMemHostRegister", 6050, cuMemHostRegister_v2),
    FAKE("cuMemHostUnregister", 4000, cuMemHostUnregister),
    FAKE("cuMemGetAllocationGranularity", 10020, cuMemGetAllocationGranularity),
    FAKE("cuMemAddressReserve", 10020, cuMemAddressReserve),
    FAKE("cuMemAddressFree", 10020, cuMemAddressFree),
    FAKE("cuMemCreate", 10020, cuMemCreate),
    FAKE("cuMemRelease", 10020, cuMemRelease),
    FAKE("cuMemMap", 10020, cuMemMap),
    FAKE("cuMemUnmap", 10020, cuMemUnmap),
    FAKE("cuMemSetAccess", 10020, cuMemSetAccess),
    FAKE("cuMemPoolGetAccess", 11020, cuMemPoolGetAccess),
    FAKE("cuMemGetAccess", 10020, cuMemGetAccess),
    FAKE("cuStreamGetCaptureInfo", 11030, cuStreamGetCaptureInfo_v2),
    FAKE("cuStreamGetCaptureInfo", 12030, cuStreamGetCaptureInfo_v3),
    FAKE("cuStreamUpdateCaptureDependencies", 11030, cuStreamUpdateCaptureDependencies),
    FAKE("cuStreamUpdateCaptureDependencies", 12030, cuStreamUpdateCaptureDependencies_v2),
    FAKE("cuMemcpyBatchAsync", 12080, cuMemcpyBatchAsync),
    FAKE_PER_THREAD_SINCE("cuMemcpyBatchAsync", 12080, cuMemcpyBatchAsync_ptsz),
    FAKE("cuMemcpyBatchAsync", 13000, cuMemcpyBatchAsync_v2),
    FAKE_PER_THREAD_SINCE("cuMemcpyBatchAsync", 13000, cuMemcpyBatchAsync_v2_ptsz),
    FAKE("cuMemcpy3DBatchAsync", 12080, cuMemcpy3DBatchAsync),
    FAKE("cuMemcpy3DBatchAsync", 13000, cuMemcpy3DBatchAsync_v2),
    FAKE("cuDriverGetVersion", 2020, cuDriverGetVersion),
    FAKE("cuThreadExchangeStreamCaptureMode", 10010, cuThreadExchangeStreamCaptureMode),
    FAKE("cuEventCreate", 2000, cuEventCreate),
    FAKE("cuEventDestroy", 4000, cuEventDestroy_v2),
    FAKE("cuEventRecord", 2000, cuEventRecord),
    FAKE("cuEventQuery", 2000, cuEventQuery),
    FAKE("cuEventSynchronize", 2000, cuEventSynchronize),
    FAKE("cuGraphCreate", 10000, cuGraphCreate),
    FAKE("cuGraphDestroy", 10000, cuGraphDestroy),
    FAKE("cuGraphAddMemcpyNode", 10000, cuGraphAddMemcpyNode),
    FAKE("cuModuleLoadData", 2000, cuModuleLoadData),
    FAKE("cuModuleUnload", 2000, cuModuleUnload),
    FAKE("cuModuleGetFunction", 2000, cuModuleGetFunction),
    FAKE("cuLaunchKernel", 4000, cuLaunchKernel),
    FAKE("cuGraphAddKernelNode", 12000, cuGraphAddKernelNode),
    FAKE("cuGraphInstantiateWithFlags", 11040, cuGraphInstantiateWithFlags),
    FAKE("cuGraphExecDestroy", 10000, cuGraphExecDestroy),
    FAKE("cuGraphExecMemcpyNodeSetParams", 10020, cuGraphExecMemcpyNodeSetParams),
    FAKE("cuGraphLaunch", 10000, cuGraphLaunch),
    FAKE("cuUserObjectCreate", 11030, cuUserObjectCreate),
    FAKE("cuUserObjectRelease", 11030, cuUserObjectRelease),
    FAKE("cuGraphRetainUserObject", 11030, cuGraphRetainUserObject),
    FAKE("cuGetProcAddress", 11030, cuGetProcAddress),
    FAKE("cuGetProcAddress", 12000, cuGetProcAddress_v2),
};

int cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                        int* status) {
  const listed* best = nullptr;
  *function = nullptr;
  if (version > state().version) return invalid_value;
  for (const listed& one : all) {
    if (std::strcmp(one.name, name) != 0 || one.version > version) continue;
    if (one.per_thread && (flags & 2U) == 0) continue;
    if (best == nullptr || one.per_thread || (!best->per_thread && one.version > best->version))
      best = &one;
  }
  if (status != nullptr) *status = best == nullptr ? 1 : 0;
  *function = best == nullptr ? nullptr : best->function;
  return best == nullptr ? not_found : success;
}
int cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

}  // extern "C"
