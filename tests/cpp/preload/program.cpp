// A program that copies on GPUs, for the tests of the preloaded library. Its command line is
// `program MODE SEED` or `program module FILE`. The program has two builds. One build is linked to
// the driver. The other build looks up the driver's functions, as the CUDA runtime does. Each
// process prints a line with the number of its copies and the number of copied bytes. The exit code
// is 0 if every byte is right.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "fake_driver.hpp"

namespace {

using address = unsigned long long;

#define FUNCTIONS(APPLY)                                                     \
  APPLY(cuInit, "cuInit", 2000, 0)                                           \
  APPLY(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0)       \
  APPLY(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0) \
  APPLY(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0)     \
  APPLY(cuCtxSetCurrent, "cuCtxSetCurrent", 4000, 0)                         \
  APPLY(cuCtxSynchronize, "cuCtxSynchronize", 2000, 0)                       \
  APPLY(cuCtxEnablePeerAccess, "cuCtxEnablePeerAccess", 4000, 0)             \
  APPLY(cuCtxDisablePeerAccess, "cuCtxDisablePeerAccess", 4000, 0)           \
  APPLY(cuMemAlloc_v2, "cuMemAlloc", 3020, 0)                                \
  APPLY(cuMemFree_v2, "cuMemFree", 3020, 0)                                  \
  APPLY(cuMemHostAlloc, "cuMemHostAlloc", 2020, 0)                           \
  APPLY(cuMemcpyAsync, "cuMemcpyAsync", 4000, 0)                             \
  APPLY(cuMemcpyAsync_ptsz, "cuMemcpyAsync", 13000, 2)                       \
  APPLY(cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync", 12000, 0)                 \
  APPLY(cuMemcpyHtoDAsync_v2_ptsz, "cuMemcpyHtoDAsync", 7000, 2)             \
  APPLY(cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync", 3020, 0)                  \
  APPLY(cuMemcpyDtoHAsync_v2_ptsz, "cuMemcpyDtoHAsync", 7000, 2)             \
  APPLY(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 13000, 0)                 \
  APPLY(cuMemcpyDtoDAsync_v2_ptsz, "cuMemcpyDtoDAsync", 7000, 2)             \
  APPLY(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", 4000, 0)                     \
  APPLY(cuMemcpyPeerAsync_ptsz, "cuMemcpyPeerAsync", 7000, 2)                \
  APPLY(cuMemcpyHtoD_v2, "cuMemcpyHtoD", 3020, 0)                            \
  APPLY(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020, 0)                            \
  APPLY(cuStreamCreate, "cuStreamCreate", 2000, 0)                           \
  APPLY(cuStreamSynchronize, "cuStreamSynchronize", 2000, 0)

struct functions {
#define DECLARE(symbol, name, version, flags) decltype(&::symbol) symbol = nullptr;
  FUNCTIONS(DECLARE)
  decltype(&::cuMemAllocManaged) cuMemAllocManaged = nullptr;
  decltype(&::cuStreamBeginCapture_v2) cuStreamBeginCapture_v2 = nullptr;
  decltype(&::cuStreamEndCapture) cuStreamEndCapture = nullptr;
  decltype(&::cuGraphInstantiateWithFlags) cuGraphInstantiateWithFlags = nullptr;
  decltype(&::cuGraphLaunch) cuGraphLaunch = nullptr;
  decltype(&::fake_fail_copies) fake_fail_copies = nullptr;
  decltype(&::fake_calls) fake_calls = nullptr;
  decltype(&::fake_bytes) fake_bytes = nullptr;
};

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

void check(int result, const char* call) {
  if (result == 0) return;
  std::fprintf(stderr, "%s gives %d\n", call, result);
  std::exit(1);
}
#define CHECK(call) check(call, #call)

functions load() {
  functions made;
#if defined(LINKED)
#define TAKE(symbol, name, version, flags) made.symbol = ::symbol;
  FUNCTIONS(TAKE)
#define TAKE_MORE(symbol) made.symbol = ::symbol;
#else
  // The program finds functions as the CUDA runtime does: dlsym finds cuGetProcAddress, and
  // cuGetProcAddress finds all other functions.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) die("no driver");
  auto find =
      reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr || dlerror() != nullptr) die("no cuGetProcAddress_v2");
  void* again = nullptr;
  int status = 0;
  CHECK(find("cuGetProcAddress", &again, 12000, 0, &status));
  // A runtime does not ask for a later version than that of the driver.
  int latest = 0;
  CHECK(reinterpret_cast<int (*)(int*)>(dlsym(library, "cuDriverGetVersion"))(&latest));
  find = reinterpret_cast<decltype(find)>(again);
#define TAKE(symbol, name, version, flags)                                \
  {                                                                       \
    void* found = nullptr;                                                \
    CHECK(find(name, &found, std::min(version, latest), flags, &status)); \
    made.symbol = reinterpret_cast<decltype(made.symbol)>(found);         \
  }
  FUNCTIONS(TAKE)
#define TAKE_MORE(symbol)                                                         \
  made.symbol = reinterpret_cast<decltype(made.symbol)>(dlsym(library, #symbol)); \
  if (made.symbol == nullptr) die("no " #symbol);
#endif
  TAKE_MORE(cuMemAllocManaged)
  TAKE_MORE(cuStreamBeginCapture_v2)
  TAKE_MORE(cuStreamEndCapture)
  TAKE_MORE(cuGraphInstantiateWithFlags)
  TAKE_MORE(cuGraphLaunch)
  TAKE_MORE(fake_fail_copies)
  TAKE_MORE(fake_calls)
  TAKE_MORE(fake_bytes)
  return made;
}

const functions& cu() {
  static const functions loaded = load();
  return loaded;
}

// The functions for batches, which a driver for CUDA 12.2 lacks.
struct batch_functions {
  decltype(&::cuMemcpyBatchAsync) old = nullptr;
  decltype(&::cuMemcpyBatchAsync_ptsz) old_per_thread = nullptr;
  decltype(&::cuMemcpyBatchAsync_v2) now = nullptr;
  decltype(&::cuMemcpyBatchAsync_v2_ptsz) now_per_thread = nullptr;
  decltype(&::cuMemcpy3DBatchAsync) volumes_old = nullptr;
  decltype(&::cuMemcpy3DBatchAsync_v2) volumes = nullptr;
};

batch_functions load_batches() {
  batch_functions made;
#if defined(LINKED)
  made = {::cuMemcpyBatchAsync,         ::cuMemcpyBatchAsync_ptsz, ::cuMemcpyBatchAsync_v2,
          ::cuMemcpyBatchAsync_v2_ptsz, ::cuMemcpy3DBatchAsync,    ::cuMemcpy3DBatchAsync_v2};
#else
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  auto find =
      reinterpret_cast<decltype(&::cuGetProcAddress_v2)>(dlsym(library, "cuGetProcAddress_v2"));
  const auto take = [&](auto& function, const char* name, int version, std::uint64_t flags) {
    void* found = nullptr;
    int status = 0;
    CHECK(find(name, &found, version, flags, &status));
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  take(made.old, "cuMemcpyBatchAsync", 12080, 0);
  take(made.old_per_thread, "cuMemcpyBatchAsync", 12090, 2);
  take(made.now, "cuMemcpyBatchAsync", 13000, 0);
  take(made.now_per_thread, "cuMemcpyBatchAsync", 13000, 2);
  take(made.volumes_old, "cuMemcpy3DBatchAsync", 12080, 0);
  take(made.volumes, "cuMemcpy3DBatchAsync", 13000, 0);
#endif
  return made;
}

const batch_functions& cu_batches() {
  static const batch_functions loaded = load_batches();
  return loaded;
}

std::atomic<long> copies{0};
std::atomic<long> copied{0};

constexpr int gpus = 4;
constexpr std::size_t buffer_bytes = std::size_t{4} << 20;

std::array<CUctx_st*, gpus> contexts{};

void begin() {
  CHECK(cu().cuInit(0));
  for (int gpu = 0; gpu < gpus; ++gpu)
    CHECK(cu().cuDevicePrimaryCtxRetain(&contexts[static_cast<std::size_t>(gpu)], gpu));
  CHECK(cu().cuCtxSetCurrent(contexts[0]));
}

// A buffer and its expected contents.
struct buffer {
  enum { gpu, pinned, pageable, managed } kind = gpu;
  int of = 0;
  address at = 0;
  std::vector<unsigned char> shadow;
  std::vector<unsigned char> own;
};

class work {
 public:
  // Works in the context of one GPU, with random numbers from `seed`.
  work(int gpu, unsigned seed) : gpu_(gpu), random_(seed) {
    for (int one = 0; one < gpus; ++one) {
      CHECK(cu().cuCtxSetCurrent(contexts[static_cast<std::size_t>(one)]));
      add(buffer::gpu, one);
    }
    CHECK(cu().cuCtxSetCurrent(contexts[static_cast<std::size_t>(gpu)]));
    for (const auto kind : {buffer::pinned, buffer::pinned, buffer::pageable, buffer::managed})
      add(kind, 0);
    CHECK(cu().cuStreamCreate(&blocking_, 0));
    CHECK(cu().cuStreamCreate(&free_, 1));
  }

  void run(int count) {
    CUstream_st* stream = nullptr;
    for (int index = 0; index < count; ++index) {
      if (random_() % 4 == 0) stream = change(stream);
      copy(stream);
    }
    CHECK(cu().cuCtxSynchronize());
    compare();
  }

  void compare() const {
    for (const buffer& one : buffers_)
      if (std::memcmp(reinterpret_cast<void*>(one.at), one.shadow.data(), buffer_bytes) != 0)
        die("a byte is wrong");
  }

  // Makes a copy from the host to the GPU. The copy is so large that several paths make it faster.
  int large(CUstream_st* stream) {
    buffer& from = buffers_[gpus];
    buffer& to = buffers_[static_cast<std::size_t>(gpu_)];
    ++copies;
    copied += buffer_bytes;
    const int result =
        cu().cuMemcpyHtoDAsync_v2(to.at, reinterpret_cast<void*>(from.at), buffer_bytes, stream);
    if (result == 0) to.shadow = from.shadow;
    return result;
  }
  CUstream_st* own_stream() { return free_; }
  CUstream_st* blocking_stream() { return blocking_; }
  std::mt19937_64& random() { return random_; }
  buffer& of_gpu() { return buffers_[static_cast<std::size_t>(gpu_)]; }
  buffer& locked() { return buffers_[gpus]; }
  buffer& pageable() { return buffers_[gpus + 2]; }
  // Fills the host buffer with contents that the GPU buffer does not have yet.
  void scramble() {
    for (std::size_t index = 0; index < buffer_bytes; index += 8) {
      const auto value = random_();
      std::memcpy(&buffers_[gpus].shadow[index], &value, 8);
    }
    std::memcpy(reinterpret_cast<void*>(buffers_[gpus].at), buffers_[gpus].shadow.data(),
                buffer_bytes);
  }

 private:
  void add(decltype(buffer::gpu) kind, int of) {
    buffer made;
    made.kind = kind;
    made.of = of;
    if (kind == buffer::gpu) CHECK(cu().cuMemAlloc_v2(&made.at, buffer_bytes));
    if (kind == buffer::managed) CHECK(cu().cuMemAllocManaged(&made.at, buffer_bytes, 1));
    if (kind == buffer::pinned) {
      void* memory = nullptr;
      CHECK(cu().cuMemHostAlloc(&memory, buffer_bytes, 0));
      made.at = reinterpret_cast<address>(memory);
    }
    if (kind == buffer::pageable) {
      made.own.resize(buffer_bytes);
      made.at = reinterpret_cast<address>(made.own.data());
    }
    made.shadow.resize(buffer_bytes);
    for (std::size_t index = 0; index < buffer_bytes; index += 8) {
      const auto value = random_();
      std::memcpy(&made.shadow[index], &value, 8);
    }
    std::memcpy(reinterpret_cast<void*>(made.at), made.shadow.data(), buffer_bytes);
    buffers_.push_back(std::move(made));
  }

  // Blocking streams wait for the default stream, and the default stream waits for blocking
  // streams. The default stream therefore orders blocking streams without events.
  CUstream_st* change(CUstream_st* from) {
    auto* legacy = reinterpret_cast<CUstream_st*>(1);
    auto* thread = reinterpret_cast<CUstream_st*>(2);
    const bool is_default = from == nullptr || from == legacy;
    if (is_default && random_() % 2 == 0) return blocking_;
    if (from == blocking_ && random_() % 2 == 0) return nullptr;
    CHECK(cu().cuStreamSynchronize(from));
    const std::array<CUstream_st*, 5> all{nullptr, legacy, thread, blocking_, free_};
    return all[random_() % all.size()];
  }

  void copy(CUstream_st* stream) {
    buffer& from = buffers_[random_() % buffers_.size()];
    buffer& to = buffers_[random_() % buffers_.size()];
    if (&from == &to) return;
    std::size_t bytes = 1 + random_() % buffer_bytes;
    if (random_() % 3 == 0) bytes = 1 + random_() % 70000;
    if (random_() % 8 == 0) bytes = buffer_bytes;
    const std::size_t from_at = random_() % (buffer_bytes - bytes + 1);
    const std::size_t to_at = random_() % (buffer_bytes - bytes + 1);
    const address source = from.at + from_at;
    const address target = to.at + to_at;
    const bool from_host = from.kind == buffer::pinned || from.kind == buffer::pageable;
    const bool to_host = to.kind == buffer::pinned || to.kind == buffer::pageable;
    const bool both_gpus = from.kind == buffer::gpu && to.kind == buffer::gpu;
    // In functions with per-thread default streams, the null stream means the stream of the thread.
    // In the other functions, it means the legacy default stream.
    const bool per_thread = stream != nullptr && random_() % 2 == 0;
    auto* thread = reinterpret_cast<CUstream_st*>(2);
    CUstream_st* on = per_thread && stream == thread ? nullptr : stream;
    ++copies;
    copied += static_cast<long>(bytes);
    auto* source_host = reinterpret_cast<void*>(source);
    auto* target_host = reinterpret_cast<void*>(target);
    const auto kind = random_() % 3;
    if (kind == 0 && from_host && to.kind == buffer::gpu) {
      CHECK(per_thread ? cu().cuMemcpyHtoDAsync_v2_ptsz(target, source_host, bytes, on)
                       : cu().cuMemcpyHtoDAsync_v2(target, source_host, bytes, on));
    } else if (kind == 0 && to_host && from.kind == buffer::gpu) {
      CHECK(per_thread ? cu().cuMemcpyDtoHAsync_v2_ptsz(target_host, source, bytes, on)
                       : cu().cuMemcpyDtoHAsync_v2(target_host, source, bytes, on));
    } else if (kind == 0 && both_gpus) {
      CHECK(per_thread ? cu().cuMemcpyDtoDAsync_v2_ptsz(target, source, bytes, on)
                       : cu().cuMemcpyDtoDAsync_v2(target, source, bytes, on));
    } else if (kind == 1 && both_gpus) {
      CUctx_st* one = contexts[static_cast<std::size_t>(to.of)];
      CUctx_st* other = contexts[static_cast<std::size_t>(from.of)];
      CHECK(per_thread ? cu().cuMemcpyPeerAsync_ptsz(target, one, source, other, bytes, on)
                       : cu().cuMemcpyPeerAsync(target, one, source, other, bytes, on));
    } else if (kind == 2 && from_host && to.kind == buffer::gpu && stream == nullptr) {
      CHECK(cu().cuMemcpyHtoD_v2(target, source_host, bytes));
    } else {
      CHECK(per_thread ? cu().cuMemcpyAsync_ptsz(target, source, bytes, on)
                       : cu().cuMemcpyAsync(target, source, bytes, on));
    }
    std::memcpy(to.shadow.data() + to_at, from.shadow.data() + from_at, bytes);
  }

  int gpu_;
  std::mt19937_64 random_;
  std::vector<buffer> buffers_;
  CUstream_st* blocking_ = nullptr;
  CUstream_st* free_ = nullptr;
};

// Blocks of two buffers at random places. The places do not overlap.
struct blocks {
  std::vector<address> to, from;
  std::vector<std::size_t> bytes;
  fake_attributes attributes;
  std::size_t first = 0;

  blocks(work& in, buffer& target, buffer& source, std::size_t size, std::size_t count) {
    const std::size_t places = buffer_bytes / size;
    std::vector<std::size_t> order(places), other(places);
    for (std::size_t at = 0; at < places; ++at) order[at] = other[at] = at * size;
    std::shuffle(order.begin(), order.end(), in.random());
    std::shuffle(other.begin(), other.end(), in.random());
    for (std::size_t at = 0; at < std::min(places, count); ++at) {
      const std::size_t length = in.random()() % 4 == 0 ? 1 + in.random()() % size : size;
      to.push_back(target.at + order[at]);
      from.push_back(source.at + other[at]);
      bytes.push_back(length);
      std::memcpy(target.shadow.data() + order[at], source.shadow.data() + other[at], length);
    }
    attributes.order = in.random()() % 2 == 0 ? 1 : 3;
  }
  void count_them() const {
    copies += static_cast<long>(bytes.size());
    for (const std::size_t one : bytes) copied += static_cast<long>(one);
  }
  int old(CUstream_st* stream, std::size_t* failed = nullptr) {
    count_them();
    return cu_batches().old(to.data(), from.data(), bytes.data(), bytes.size(), &attributes, &first,
                            1, failed, stream);
  }
  int now(CUstream_st* stream) {
    count_them();
    return cu_batches().now(to.data(), from.data(), bytes.data(), bytes.size(), &attributes, &first,
                            1, stream);
  }
};

// Makes batches that a kernel can make, in every form. Plain copies of the same buffers come before
// and after each batch.
void batches_of(work& one, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const std::size_t size = std::size_t{512} << one.random()() % 7;
    const bool out = one.random()() % 2 == 0;
    buffer& target = out ? one.locked() : one.of_gpu();
    buffer& source = out ? one.of_gpu() : one.locked();
    CUstream_st* stream = one.random()() % 2 == 0 ? one.own_stream() : one.blocking_stream();
    blocks made(one, target, source, size, 4000);
    std::size_t failed = 77;
    switch (one.random()() % 4) {
      case 0:
        CHECK(made.old(stream, &failed));
        break;
      case 1:
        CHECK(made.now(stream));
        break;
      case 2:
        made.count_them();
        CHECK(cu_batches().old_per_thread(made.to.data(), made.from.data(), made.bytes.data(),
                                          made.bytes.size(), &made.attributes, &made.first, 1,
                                          &failed, nullptr));
        stream = reinterpret_cast<CUstream_st*>(2);
        break;
      default:
        made.count_them();
        stream = reinterpret_cast<CUstream_st*>(2);
        CHECK(cu_batches().now_per_thread(made.to.data(), made.from.data(), made.bytes.data(),
                                          made.bytes.size(), &made.attributes, &made.first, 1,
                                          stream));
    }
    if (failed != 77 && failed != static_cast<std::size_t>(-1))
      die("a batch without a failure reports the index of a failure");
    // The program may reuse its lists as soon as the call returns.
    std::fill(made.to.begin(), made.to.end(), 0);
    std::fill(made.from.begin(), made.from.end(), 0);
    std::fill(made.bytes.begin(), made.bytes.end(), 0);
    if (round % 3 == 0) CHECK(one.large(stream));
    CHECK(cu().cuStreamSynchronize(stream));
    one.compare();
  }
}

void batches(unsigned seed) {
  begin();
  work one(static_cast<int>(seed % gpus), seed);
  batches_of(one, 12);
  CHECK(cu().cuCtxSynchronize());
  one.compare();
}

void batches_of_threads(unsigned seed) {
  begin();
  std::vector<std::thread> all;
  for (unsigned index = 0; index < 6; ++index)
    all.emplace_back([=] {
      work one(static_cast<int>(index % 2), seed + index);
      batches_of(one, 4);
    });
  for (std::thread& one : all) one.join();
}

// Makes batches that no kernel may copy. The program must get the driver's results, and the bytes
// that the driver copies.
void refused(unsigned seed) {
  begin();
  work one(0, seed);
  CUstream_st* stream = one.own_stream();
  const auto expect = [](int found, int wanted, const char* what) {
    if (found == wanted) return;
    std::fprintf(stderr, "%s: %d, not %d\n", what, found, wanted);
    std::exit(1);
  };
  const auto fresh = [&] { return blocks(one, one.of_gpu(), one.locked(), 4096, 1000); };
  const auto whole = static_cast<std::size_t>(-1);
  std::size_t failed = 0;
  {
    blocks made = fresh();
    expect(made.old(nullptr, &failed), 1, "the default stream");
    expect(static_cast<int>(failed == whole), 1, "which copy failed");
    expect(made.now(reinterpret_cast<CUstream_st*>(1)), 1, "the legacy stream");
    made.count_them();
    expect(
        cu_batches().now_per_thread(made.to.data(), made.from.data(), made.bytes.data(),
                                    made.bytes.size(), &made.attributes, &made.first, 1, nullptr),
        1, "the null stream of the new form");
    made.attributes.hints[2] = 3;  // the hint names a NUMA node of the host
    CHECK(made.now(stream));       // the driver copies the expected bytes
    made.attributes.hints[2] = 0;
    CHECK(cu().cuStreamSynchronize(stream));
    made.attributes.order = 0;
    expect(made.now(stream), 1, "no order");
    made.attributes.order = 1;
    made.attributes.flags = 2;
    expect(made.now(stream), 1, "an unknown flag");
    made.attributes.flags = 1;
    CHECK(made.now(stream));  // this batch asks the driver not to use compute units
    made.attributes.flags = 0;
    made.attributes.order = 2;
    CHECK(made.now(stream));  // the driver must read the source during the call
    made.attributes.order = 1;
    made.first = 1;
    expect(made.now(stream), 1, "attributes that begin too late");
    made.first = 0;
    made.attributes.hints[0] = 77;
    expect(made.now(stream), 1, "a hint of no place");
    made.attributes.hints[0] = 0;
    const std::size_t length = std::exchange(made.bytes[9], 0);
    expect(made.old(stream, &failed), 1, "an empty block");
    expect(static_cast<int>(failed), 9, "which block is empty");
    made.bytes[9] = length;
    made.from[7] = one.locked().at + buffer_bytes - 100;
    expect(made.old(stream, &failed), 1, "a block that ends beyond its buffer");
    expect(static_cast<int>(failed), 7, "the index of the copy that ends beyond its buffer");
    expect(cu_batches().now(nullptr, made.from.data(), made.bytes.data(), 1, &made.attributes,
                            &made.first, 1, stream),
           1, "no destinations");
    copies += 1;
    copied += static_cast<long>(made.bytes[0]);
    expect(cu_batches().old(nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0, &failed, stream), 1,
           "nothing at all");
  }
  {
    blocks made = fresh();  // two copies have the same destination, and the later copy wins
    made.to[900] = made.to[3];
    made.bytes[900] = made.bytes[3] = 4096;
    std::memcpy(one.of_gpu().shadow.data() + (made.to[3] - one.of_gpu().at),
                reinterpret_cast<void*>(made.from[900]), 4096);
    // Block 900 no longer goes to its own place, so that place must keep its contents.
    std::vector<unsigned char> now(buffer_bytes);
    CHECK(made.now(stream));
    CHECK(cu().cuStreamSynchronize(stream));
    std::memcpy(now.data(), reinterpret_cast<void*>(one.of_gpu().at), buffer_bytes);
    if (std::memcmp(now.data() + (made.to[3] - one.of_gpu().at),
                    reinterpret_cast<void*>(made.from[900]), 4096) != 0)
      die("the later of two copies to one place did not win");
    one.of_gpu().shadow = now;
  }
  {
    blocks made(one, one.of_gpu(), one.pageable(), 4096, 1000);
    made.attributes.order = 1;
    CHECK(made.now(stream));
    // The driver must read pageable sources before the call returns.
    for (auto& byte : one.pageable().own) byte = 0;
    one.pageable().shadow.assign(buffer_bytes, 0);
  }
  {
    blocks made = fresh();
    CHECK(cu().cuStreamBeginCapture_v2(stream, 0));
    expect(made.now(stream), 900, "a stream that is being captured");
    CUgraph_st* graph = nullptr;
    CHECK(cu().cuStreamEndCapture(stream, &graph));
    CHECK(made.now(stream));
  }
  {
    blocks made = fresh();
    CHECK(cu().cuCtxSetCurrent(contexts[1]));
    CHECK(made.now(stream));  // the current context is not that of the stream
    CHECK(cu().cuCtxSetCurrent(contexts[0]));
  }
  {
    blocks made(one, one.of_gpu(), one.locked(), std::size_t{1} << 20, 4);
    CHECK(made.now(stream));  // these blocks are too large for a kernel
  }
  {
    unsigned char volume[112] = {};
    const std::size_t extent[3] = {16, 4, 2};
    std::memcpy(volume + 80, extent, sizeof extent);
    CHECK(cu_batches().volumes_old(1, volume, &failed, 0, stream));
    CHECK(cu_batches().volumes(1, volume, 0, stream));
    copies += 2;
    copied += 256;
  }
  CHECK(cu().cuCtxSynchronize());
  one.compare();
}

// Makes a batch in the context of GPU 3, with separate memory. Each call has another `round`.
constexpr std::size_t blocks_of_last = 1024, block_of_last = 4096;
void batch_on_last(int round) {
  CHECK(cu().cuCtxSetCurrent(contexts[3]));
  address gpu = 0;
  void* memory = nullptr;
  CHECK(cu().cuMemAlloc_v2(&gpu, blocks_of_last * block_of_last));
  CHECK(cu().cuMemHostAlloc(&memory, blocks_of_last * block_of_last, 0));
  auto* host = static_cast<unsigned char*>(memory);
  std::vector<address> to, from;
  std::vector<std::size_t> bytes(blocks_of_last, block_of_last);
  for (std::size_t at = 0; at < blocks_of_last; ++at) {
    to.push_back(gpu + (at * 7 % blocks_of_last) * block_of_last);
    from.push_back(reinterpret_cast<address>(host) + at * block_of_last);
    std::memset(host + at * block_of_last, static_cast<int>(at + static_cast<std::size_t>(round)),
                block_of_last);
  }
  fake_attributes attributes;
  std::size_t first = 0;
  CHECK(cu_batches().now_per_thread(to.data(), from.data(), bytes.data(), blocks_of_last,
                                    &attributes, &first, 1, reinterpret_cast<CUstream_st*>(2)));
  copies += blocks_of_last;
  copied += blocks_of_last * block_of_last;
  CHECK(cu().cuStreamSynchronize(reinterpret_cast<CUstream_st*>(2)));
  for (std::size_t at = 0; at < blocks_of_last; ++at)
    if (std::memcmp(reinterpret_cast<void*>(to[at]), host + at * block_of_last, block_of_last) != 0)
      die("a block is wrong");
}

// Makes batches before and after a reset of a context, and after a release and a new retain of the
// context.
void renewed() {
  CHECK(cu().cuInit(0));
  for (int round = 0; round < 3; ++round) {
    if (round != 1) CHECK(cu().cuDevicePrimaryCtxRetain(&contexts[3], 3));
    batch_on_last(round);
    if (round == 0)
      CHECK(cu().cuDevicePrimaryCtxReset_v2(3));
    else
      CHECK(cu().cuDevicePrimaryCtxRelease_v2(3));
  }
}

// Runs while the engine holds the context of GPU 3. The program retains and releases this context
// several times, then resets it, and then retains it once more.
void held(unsigned seed) {
  begin();
  CHECK(cu().cuDevicePrimaryCtxRelease_v2(3));
  work one(0, seed);
  CHECK(one.large(one.blocking_stream()));  // starts the engine
  std::uint64_t locked = 0;
  for (int round = 0; round < 4; ++round) {
    CHECK(cu().cuDevicePrimaryCtxRetain(&contexts[3], 3));
    batch_on_last(round);
    CHECK(cu().cuDevicePrimaryCtxRelease_v2(3));
    const std::uint64_t now = cu().fake_bytes(0) - (static_cast<std::uint64_t>(round) + 1) *
                                                       blocks_of_last * block_of_last;
    if (round == 0) locked = now;
    if (now != locked) die("page-locked memory was not freed");
  }
  CHECK(cu().cuDevicePrimaryCtxRetain(&contexts[3], 3));
  CHECK(cu().cuDevicePrimaryCtxReset_v2(3));
  batch_on_last(4);  // after the reset, the driver makes this batch
  CHECK(cu().cuDevicePrimaryCtxRetain(&contexts[3], 3));
  batch_on_last(5);
  CHECK(cu().cuDevicePrimaryCtxRelease_v2(3));
  CHECK(cu().cuDevicePrimaryCtxRelease_v2(3));
  CHECK(cu().cuCtxSetCurrent(contexts[0]));
  CHECK(cu().cuCtxSynchronize());
  one.compare();
}

// Makes copies with calls that return only when the copy and all earlier work are complete.
void waiting(unsigned seed) {
  begin();
  work one(0, seed);
  buffer& host = one.locked();
  buffer& gpu = one.of_gpu();
  CHECK(one.large(one.blocking_stream()));  // starts the engine
  for (int round = 0; round < 4; ++round) {
    one.scramble();
    copies += 3;
    copied += 3 * static_cast<long>(buffer_bytes);
    CHECK(cu().cuMemcpyHtoD_v2(gpu.at, reinterpret_cast<void*>(host.at), buffer_bytes));
    if (std::memcmp(reinterpret_cast<void*>(gpu.at), host.shadow.data(), buffer_bytes) != 0)
      die("a waiting copy to a GPU returns too early");
    std::memset(reinterpret_cast<void*>(host.at), 0, buffer_bytes);
    CHECK(cu().cuMemcpyDtoHAsync_v2(reinterpret_cast<void*>(host.at), gpu.at, buffer_bytes,
                                    one.blocking_stream()));
    CHECK(cu().cuMemcpyDtoH_v2(reinterpret_cast<void*>(host.at), gpu.at, buffer_bytes));
    if (std::memcmp(reinterpret_cast<void*>(host.at), host.shadow.data(), buffer_bytes) != 0)
      die("a waiting copy to the host returns too early");
    gpu.shadow = host.shadow;
  }
  one.compare();
}

void report() {
  std::printf("made %ld %ld\n", copies.load(), copied.load());
  std::fflush(stdout);
}

void mixed(unsigned seed) {
  begin();
  work(static_cast<int>(seed % gpus), seed).run(60);
}

void threads(unsigned seed) {
  begin();
  std::vector<std::thread> all;
  for (unsigned index = 0; index < 6; ++index)
    all.emplace_back([=] { work(static_cast<int>(index % gpus), seed + index).run(20); });
  for (std::thread& one : all) one.join();
}

// Four processes make copies: a child, a second child that is killed, a program that a third child
// executes, and the parent. The parent ends without running destructors.
void family(const char* self, unsigned seed) {
  const auto end_of = [](pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  };
  pid_t child = fork();
  if (child == 0) {
    mixed(seed + 1);
    report();
    _exit(0);
  }
  if (end_of(child) != 0) die("the child failed");
  child = fork();
  if (child == 0) {
    mixed(seed + 2);
    report();
    raise(SIGKILL);
  }
  if (!WIFSIGNALED(end_of(child))) die("the child was not killed");
  child = fork();
  if (child == 0) {
    execl(self, self, "mixed", std::to_string(seed + 3).c_str(), nullptr);
    _exit(1);
  }
  if (end_of(child) != 0) die("the program failed");
  mixed(seed);
  // This child is forked after the parent has used the driver, so the library may only pass the
  // child's calls through to the driver.
  child = fork();
  if (child == 0) {
    copies = 1;
    copied = 0;
    (void)cu().cuMemcpyAsync(0, 0, 0, nullptr);
    report();
    _exit(0);
  }
  if (end_of(child) != 0) die("a child of a process with GPUs failed");
  report();
  _exit(0);
}

void capture(unsigned seed) {
  begin();
  work one(0, seed);
  CHECK(one.large(one.own_stream()));  // starts the engine
  CHECK(cu().cuStreamBeginCapture_v2(one.own_stream(), 0));
  CHECK(one.large(one.own_stream()));
  CUgraph_st* graph = nullptr;
  CHECK(cu().cuStreamEndCapture(one.own_stream(), &graph));
  CUgraphExec_st* executable = nullptr;
  CHECK(cu().cuGraphInstantiateWithFlags(&executable, graph, 0));
  CHECK(cu().cuStreamSynchronize(one.own_stream()));
  one.scramble();
  CHECK(cu().cuGraphLaunch(executable, one.own_stream()));
  CHECK(one.large(one.own_stream()));
  CHECK(cu().cuCtxSynchronize());
  one.compare();
}

void reset(unsigned seed) {
  begin();
  {
    work one(0, seed);
    CHECK(one.large(nullptr));
    CHECK(cu().cuCtxSynchronize());
    one.compare();
  }
  // A retain followed by a release ends no context. A reset ends the context, and so does the
  // program's last release.
  CUctx_st* context = nullptr;
  CHECK(cu().cuDevicePrimaryCtxRetain(&context, 3));
  CHECK(cu().cuDevicePrimaryCtxRelease_v2(3));
  CHECK(cu().cuDevicePrimaryCtxReset_v2(2));
  work two(1, seed + 1);
  two.run(20);
  CHECK(cu().cuDevicePrimaryCtxRelease_v2(3));
  CHECK(cu().cuDevicePrimaryCtxRetain(&contexts[3], 3));
  two.run(20);
}

void peers(unsigned seed) {
  begin();
  const auto expect = [](int found, int wanted, const char* what) {
    if (found == wanted) return;
    std::fprintf(stderr, "%s: %d, not %d\n", what, found, wanted);
    std::exit(1);
  };
  expect(cu().cuCtxEnablePeerAccess(contexts[1], 0), 0, "enabled, before the engine starts");
  expect(cu().cuCtxDisablePeerAccess(contexts[2]), 705, "disabled, before the engine starts");
  {
    work one(0, seed);
    CHECK(one.large(nullptr));  // starts the engine
    expect(cu().cuCtxEnablePeerAccess(contexts[1], 0), 704, "enabled again");
    expect(cu().cuCtxEnablePeerAccess(contexts[2], 0), 0, "enabled, after the engine has started");
    expect(cu().cuCtxEnablePeerAccess(contexts[2], 0), 704,
           "enabled again, after the engine has started");
    expect(cu().cuCtxDisablePeerAccess(contexts[2]), 0, "disabled");
    expect(cu().cuCtxDisablePeerAccess(contexts[2]), 705, "disabled again");
    expect(cu().cuCtxDisablePeerAccess(contexts[3]), 705, "disabled, never enabled");
    expect(cu().cuCtxEnablePeerAccess(contexts[2], 0), 0, "enabled once more");
    one.run(20);
  }
  CHECK(cu().cuDevicePrimaryCtxReset_v2(2));
  expect(cu().cuCtxEnablePeerAccess(contexts[1], 0), 704,
         "enabled again, after the reset of another GPU");
  expect(cu().cuCtxDisablePeerAccess(contexts[1]), 0, "disabled, after the reset of another GPU");
  expect(cu().cuCtxDisablePeerAccess(contexts[2]), 705, "disabled, after the reset of this GPU");
  expect(cu().cuCtxEnablePeerAccess(contexts[2], 0), 0, "enabled, after the reset of this GPU");
  CHECK(cu().cuDevicePrimaryCtxRelease_v2(2));
  CHECK(cu().cuDevicePrimaryCtxRetain(&contexts[2], 2));
  expect(cu().cuCtxDisablePeerAccess(contexts[2]), 705, "disabled, after the release of this GPU");
}

// A module in the folder of the preloaded library gets the driver's own functions. Other modules
// get the library's functions.
void module(const char* file) {
  void* opened = dlopen(file, RTLD_NOW);
  if (opened == nullptr) die("no module");
  auto* find = reinterpret_cast<void* (*)(void*, const char*)>(dlsym(opened, "module_find"));
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  const auto from = [](void* function) {
    Dl_info facts{};
    return dladdr(function, &facts) == 0 ? std::string() : std::string(facts.dli_fname);
  };
  const auto stands_in = [&](void* function) {
    return from(function).find("libinterlace_preload") != std::string::npos;
  };
  for (const char* name : {"cuMemcpyAsync", "cuGetProcAddress_v2", "cuInit"}) {
    const bool wanted = std::strcmp(name, "cuInit") != 0;
    if (stands_in(dlsym(library, name)) != wanted)
      die("the program's lookup finds the wrong function");
    if (from(find(library, name)).find("libcuda.so.1") == std::string::npos)
      die("the module's lookup does not find the driver's function");
  }
  // The first form of cuMemcpyHtoDAsync has other parameters than the later forms, so the library
  // does not replace it.
  const auto ask =
      reinterpret_cast<decltype(&::cuGetProcAddress)>(dlsym(library, "cuGetProcAddress"));
  for (const int version : {2000, 3020, 12000}) {
    void* function = nullptr;
    CHECK(ask("cuMemcpyHtoDAsync", &function, version, 0));
    if (stands_in(function) != (version > 2000))
      die("the library replaces the wrong form of a function");
  }
}

// Copies while the driver refuses some copies, including some copies of the engine.
void failing(unsigned seed) {
  begin();
  work one(0, seed);
  CHECK(one.large(nullptr));
  for (long after = 0; after < 6; ++after) {
    one.scramble();
    cu().fake_fail_copies(after, 1);
    // Either the program's copy fails, or one of the engine's copies for it.
    CHECK(one.large(nullptr));
    cu().fake_fail_copies(0, 0);
    CHECK(cu().cuCtxSynchronize());
    one.compare();
  }
  // If the engine's copy and the plain copy both fail, the program must get the driver's error.
  cu().fake_fail_copies(0, 1000);
  if (one.large(nullptr) != 719) die("the program did not get the driver's error");
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) die("program MODE SEED");
  const std::string mode = words[1];
  const auto seed = static_cast<unsigned>(std::atoi(words[2]));
  if (mode == "mixed")
    mixed(seed);
  else if (mode == "threads")
    threads(seed);
  else if (mode == "family")
    family(words[0], seed);
  else if (mode == "capture")
    capture(seed);
  else if (mode == "reset")
    reset(seed);
  else if (mode == "peers")
    peers(seed);
  else if (mode == "failing")
    failing(seed);
  else if (mode == "renewed")
    renewed();
  else if (mode == "held")
    held(seed);
  else if (mode == "waiting")
    waiting(seed);
  else if (mode == "batches")
    batches(seed);
  else if (mode == "batches_of_threads")
    batches_of_threads(seed);
  else if (mode == "refused")
    refused(seed);
  else if (mode == "module")
    module(words[2]);
  else
    die("there is no such mode");
  report();
  return 0;
}
