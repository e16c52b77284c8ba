#include "preload/watched_call.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

#include "preload/lookups.hpp"
#include "preload/own_call.hpp"

namespace interlace::preload {

bool watching = false;

namespace {

using cuda::device_address;

// Every copy of at least this many bytes is recorded, because such a copy takes longer than
// recording it.
constexpr std::size_t always_looked_at = std::size_t{1} << 20U;
constexpr std::size_t most_frames = 24;
constexpr std::size_t key_frames = 6;  // number of frames by which stacks are distinguished
constexpr std::size_t most_stacks = 4096;

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// --- which calls are sampled ---------------------------------------------------------------------

struct sampling {
  std::uint32_t left = 1;    // number of calls until the next sample
  std::uint32_t weight = 1;  // number of calls for which the next sample stands
  std::uint32_t seen = 0;
  std::uint32_t random = 0x9E3779B9U;
};
thread_local sampling of_thread;

// The number of calls until the next sample. The first calls of a thread are all sampled. Later the
// distance between samples is random, so that samples cannot fall into step with a loop of the
// program.
std::uint32_t distance(sampling& own) {
  const std::uint32_t period = own.seen < 256 ? 1 : own.seen < 65536 ? 16 : 64;
  if (period == 1) return 1;
  own.random ^= own.random << 13U;
  own.random ^= own.random >> 17U;
  own.random ^= own.random << 5U;
  return 1 + own.random % (2 * period - 1);
}

// The number of calls for which this call stands, or 0 if this call is not sampled.
std::uint32_t weight_of_next(std::size_t bytes) {
  if (bytes >= always_looked_at) return 1;
  sampling& own = of_thread;
  if (own.seen < 65536) ++own.seen;
  if (--own.left != 0) return 0;
  const std::uint32_t weight = own.weight;
  own.left = own.weight = distance(own);
  return weight;
}

// --- who called ----------------------------------------------------------------------------------

struct stack {
  std::array<void*, most_frames> frames{};
  std::size_t count = 0;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* into) {
  auto& found = *static_cast<stack*>(into);
  const std::uintptr_t returns_to = _Unwind_GetIP(context);
  if (returns_to == 0) return _URC_END_OF_STACK;
  // A return address can already belong to the next function, so one byte is subtracted.
  auto* at = reinterpret_cast<void*>(returns_to - 1);
  if (within_this_library(at)) return _URC_NO_REASON;
  found.frames.at(found.count++) = at;
  return found.count == most_frames ? _URC_END_OF_STACK : _URC_NO_REASON;
}

std::string_view file_name(const char* path) {
  const std::string_view whole = path == nullptr ? "" : path;
  return whole.substr(whole.rfind('/') + 1);
}

bool is_part_of_cuda(std::string_view library) {
  return library.starts_with("libcudart") || library.starts_with("libcuda.so");
}

// The name of the function at an address. A function without a name is shown by its distance from
// the beginning of the library.
std::string symbol_at(const Dl_info& known, const void* at) {
  if (known.dli_sname == nullptr) {
    std::array<char, 32> text{};
    const auto distance = static_cast<const char*>(at) - static_cast<const char*>(known.dli_fbase);
    (void)std::snprintf(text.data(), text.size(), "+0x%tx", distance);
    return text.data();
  }
  int status = 0;
  char* plain = abi::__cxa_demangle(known.dli_sname, nullptr, nullptr, &status);
  std::string name = plain != nullptr ? plain : known.dli_sname;
  std::free(plain);  // NOLINT: __cxa_demangle allocates by malloc
  return name;
}

template <std::size_t Size>
void put(std::array<char, Size>& into, std::string_view text) {
  std::memcpy(into.data(), text.data(), std::min(text.size(), Size - 1));
}

// The names of a call site. Texts are cut to the room that a call_site has for them.
struct place {
  std::string module;
  std::string symbol;
  std::string outer_module;
  std::string outer_symbol;
};

std::string fitting(std::string text, std::size_t size) {
  if (text.size() >= size) text.resize(size - 1);
  return text;
}

place place_of(const stack& calls) {
  place found;
  for (std::size_t at = 0; at < calls.count; ++at) {
    Dl_info known{};
    if (dladdr(calls.frames.at(at), &known) == 0) continue;
    const std::string_view library = file_name(known.dli_fname);
    if (is_part_of_cuda(library) || library == found.module) continue;
    if (found.module.empty()) {
      found.module = fitting(std::string(library), site_module_bytes);
      found.symbol = fitting(symbol_at(known, calls.frames.at(at)), site_symbol_bytes);
    } else {
      found.outer_module = fitting(std::string(library), site_module_bytes);
      found.outer_symbol = fitting(symbol_at(known, calls.frames.at(at)), site_symbol_bytes);
      break;
    }
  }
  return found;
}

// Maps stacks to call sites. A change needs the lock, but the lookup of a known stack needs no
// lock.
struct known_stack {
  std::atomic<std::uint64_t> key{0};  // 0 if the entry is free
  std::uint32_t site = 0;
};
std::array<known_stack, most_stacks> stacks;
std::size_t stack_count = 0;
std::size_t site_count = 0;
std::array<std::uint32_t, 512> own_sites;
pthread_mutex_t sites_lock = PTHREAD_MUTEX_INITIALIZER;

class sites_locked {
 public:
  sites_locked() { pthread_mutex_lock(&sites_lock); }
  ~sites_locked() { pthread_mutex_unlock(&sites_lock); }
  sites_locked(const sites_locked&) = delete;
  sites_locked& operator=(const sites_locked&) = delete;
};

std::uint64_t key_of(const stack& calls, entry which) {
  std::uint64_t key = static_cast<std::uint64_t>(which) + 1;
  for (std::size_t at = 0; at < std::min(calls.count, key_frames); ++at)
    key = (key ^ reinterpret_cast<std::uintptr_t>(calls.frames.at(at))) * 0x9E3779B97F4A7C15U;
  return key == 0 ? 1 : key;
}

// Returns the process's site with this name. Makes the site if it is new. The last site of the file
// stands for all sites for which there is no room.
std::uint32_t site_named(const place& named, entry which) {
  const auto sites = call_sites();
  for (std::size_t at = 0; at < site_count; ++at) {
    const call_site& one = sites[own_sites.at(at)];
    if (one.function == static_cast<std::uint32_t>(which) && named.module == one.module.data() &&
        named.symbol == one.symbol.data() && named.outer_module == one.outer_module.data() &&
        named.outer_symbol == one.outer_symbol.data())
      return own_sites.at(at);
  }
  const auto last = static_cast<std::uint32_t>(sites.size() - 1);
  if (site_count == own_sites.size()) return last;
  const std::uint64_t number = claim_site();
  if (number >= last) return last;
  call_site& made = sites[number];
  made.slot = counters_slot_number();
  made.function = static_cast<std::uint32_t>(which);
  put(made.module, named.module);
  put(made.symbol, named.symbol);
  put(made.outer_module, named.outer_module);
  put(made.outer_symbol, named.outer_symbol);
  made.named.store(1, std::memory_order_release);
  own_sites.at(site_count++) = static_cast<std::uint32_t>(number);
  return static_cast<std::uint32_t>(number);
}

std::uint32_t site_of(entry which) {
  stack calls;
  _Unwind_Backtrace(add_frame, &calls);
  const std::uint64_t key = key_of(calls, which);
  const auto at = [&](std::size_t step) -> known_stack& {
    return stacks.at((key + step) % most_stacks);
  };
  for (std::size_t step = 0; step < 16; ++step) {
    const std::uint64_t there = at(step).key.load(std::memory_order_acquire);
    if (there == key) return at(step).site;
    if (there == 0) break;
  }
  const sites_locked locked;
  for (std::size_t step = 0; step < 16; ++step) {
    known_stack& one = at(step);
    const std::uint64_t there = one.key.load(std::memory_order_relaxed);
    if (there == key) return one.site;
    if (there != 0) continue;
    if (2 * stack_count >= most_stacks) break;
    one.site = site_named(place_of(calls), which);
    one.key.store(key, std::memory_order_release);
    ++stack_count;
    return one.site;
  }
  return static_cast<std::uint32_t>(call_sites().size() - 1);
}

// --- what was copied -----------------------------------------------------------------------------

struct ends {
  copy_direction moves = copy_direction::unknown;
  host_memory host = host_memory::none;
};

struct one_end {
  bool gpu = false;
  host_memory host = host_memory::pageable;
};

one_end end_at(const cuda::driver_table& driver, device_address at) {
  unsigned type = cuda::memory_unknown;
  unsigned managed = 0;
  std::array<int, 2> which{cuda::pointer_memory_type, cuda::pointer_is_managed};
  std::array<void*, 2> into{&type, &managed};
  one_end found;
  if (driver.pointer_attributes(2, which.data(), into.data(), at) != cuda::driver_result::success)
    return found;
  if (managed != 0) return {.gpu = false, .host = host_memory::managed};
  found.gpu = type == cuda::memory_device;
  if (type == cuda::memory_host) found.host = host_memory::locked;
  return found;
}

ends ends_of(device_address to, device_address from) {
  const cuda::driver_table* driver = usable_driver();
  if (driver == nullptr) return {};
  const own_call own;
  const one_end target = end_at(*driver, to);
  const one_end source = end_at(*driver, from);
  if (target.gpu && source.gpu) return {copy_direction::gpu_to_gpu, host_memory::none};
  if (target.gpu) return {copy_direction::host_to_gpu, source.host};
  if (source.gpu) return {copy_direction::gpu_to_host, target.host};
  return {copy_direction::unknown, std::max(target.host, source.host)};
}

std::size_t size_class(std::size_t bytes) {
  const std::size_t found = bytes < 2 ? 0 : static_cast<std::size_t>(std::bit_width(bytes)) - 1;
  return std::min(found, std::size_t{31});
}

void add_to_site(call_site& site, const ends& between, std::uint64_t weight, std::size_t bytes,
                 std::size_t pieces, std::uint64_t took_ns, bool taken) {
  const auto relaxed = std::memory_order_relaxed;
  site.sampled.fetch_add(1, relaxed);
  auto& tally = site.tallies.at(static_cast<std::size_t>(between.moves))
                    .at(static_cast<std::size_t>(between.host));
  tally.copies.fetch_add(weight * pieces, relaxed);
  tally.bytes.fetch_add(weight * bytes, relaxed);
  tally.host_ns.fetch_add(weight * took_ns, relaxed);
  if (taken) site.taken_over.fetch_add(weight * bytes, relaxed);
  site.sizes.at(size_class(pieces == 0 ? 0 : bytes / pieces)).fetch_add(weight * pieces, relaxed);
}

void add_call(entry which, const ends& between, std::size_t bytes, std::size_t pieces,
              std::uint64_t begin_ns, std::uint64_t took_ns, outcome what) {
  static thread_local const auto thread = static_cast<std::uint32_t>(syscall(SYS_gettid));
  const auto calls = seen_calls();
  const std::uint64_t number = claim_call();
  if (number >= calls.size()) return;
  seen_call& one = calls[number];
  one.begin_ns = begin_ns;
  one.took_ns = took_ns;
  one.bytes = bytes;
  one.pieces = static_cast<std::uint32_t>(std::min<std::size_t>(pieces, UINT32_MAX));
  one.slot = counters_slot_number();
  one.thread = thread;
  one.function = static_cast<std::uint8_t>(which);
  one.direction = static_cast<std::uint8_t>(between.moves);
  one.what = static_cast<std::uint8_t>(what);
  one.complete.store(1, std::memory_order_release);
}

}  // namespace

void watched_call::begin() noexcept {
  if (in_own_call) return;
  weight_ = call_sites().empty() ? 0 : weight_of_next(bytes_);
  wanted_ = weight_ != 0 || !seen_calls().empty();
  if (wanted_) begin_ns_ = now_ns();
}

void watched_call::end() noexcept {
  const std::uint64_t took_ns = now_ns() - begin_ns_;
  const int saved = errno;
  try {
    const last_count counted = counted_last;
    const ends between = ends_of(to_, from_);
    const bool taken = static_cast<std::size_t>(counted.what) < taken_over_count;
    if (weight_ != 0)
      add_to_site(call_sites()[site_of(which_)], between, weight_, bytes_, pieces_, took_ns, taken);
    if (!seen_calls().empty())
      add_call(which_, between, bytes_, pieces_, begin_ns_, took_ns, counted.what);
  } catch (...) {  // there is no memory for a name, so the call is not listed
  }
  errno = saved;
}

void watched_calls_forked() noexcept {
  sites_lock = PTHREAD_MUTEX_INITIALIZER;
  for (known_stack& one : stacks) one.key.store(0);
  stack_count = 0;
  site_count = 0;
}

}  // namespace interlace::preload
