#include "preload/take_over.hpp"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "cuda/transfer/copy_engine.hpp"
#include "cuda/transfer/memory_view.hpp"
#include "preload/entries.hpp"
#include "preload/process.hpp"
#include "preload/settings.hpp"

namespace interlace::preload {
namespace {

using cuda::copy_engine;
using cuda::copy_result;
using cuda::driver_result::success;

enum class phase : std::uint8_t {
  idle,      // copies that could be taken over are counted towards the start
  starting,  // a thread makes the engine
  ready,
  over,  // nothing is taken over any more
};

std::atomic<phase> now{phase::idle};
std::atomic<std::uint64_t> moved{0};  // bytes that could have been taken over
std::atomic<copy_engine*> engine{nullptr};
std::atomic<int> inside{0};  // threads that use the engine
std::atomic<bool> ever{false};
pthread_t starter{};
bool starter_runs = false;                             // behind the lock
pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;  // of the phase

// Calls that the engine, or the driver itself, makes meanwhile are not the program's. One may stand
// inside another: the first copy may make the engine.
thread_local bool within = false;

class mark_within {
 public:
  mark_within() = default;
  ~mark_within() { within = before_; }
  mark_within(const mark_within&) = delete;
  mark_within& operator=(const mark_within&) = delete;

 private:
  bool before_ = std::exchange(within, true);
};

// A thread that is ended from outside is ended between calls, not inside the engine.
class without_cancellation {
 public:
  without_cancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~without_cancellation() { pthread_setcancelstate(before_, nullptr); }
  without_cancellation(const without_cancellation&) = delete;
  without_cancellation& operator=(const without_cancellation&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

class lock_changes {
 public:
  lock_changes() { pthread_mutex_lock(&changing); }
  ~lock_changes() { pthread_mutex_unlock(&changing); }
  lock_changes(const lock_changes&) = delete;
  lock_changes& operator=(const lock_changes&) = delete;
};

std::uint64_t nanoseconds(double seconds) {
  return seconds > 0 ? static_cast<std::uint64_t>(seconds * 1e9) : 0;
}

void set_state(engine_state state) { counters().engine.store(static_cast<std::uint64_t>(state)); }

// --- the engine's life
// ----------------------------------------------------------------------------

// GPUs that only one process at a time may use would be taken from others.
bool exclusive(const cuda::driver_table& calls) {
  constexpr int compute_mode = 20;
  constexpr int exclusive_process = 3;
  auto* ask = reinterpret_cast<int (*)(int*, int, int)>(driver_symbol("cuDeviceGetAttribute"));
  int count = 0;
  if (ask == nullptr || calls.device_count(&count) != success) return false;
  for (int gpu = 0; gpu < count; ++gpu) {
    int mode = 0;
    if (ask(&mode, compute_mode, gpu) == success && mode == exclusive_process) return true;
  }
  return false;
}

void make_engine() {
  const auto begin = std::chrono::steady_clock::now();
  set_state(engine_state::starting);
  copy_engine* made = nullptr;
  try {
    const mark_within own;
    if (exclusive(cuda::real_driver()))
      throw std::runtime_error(
          "copies are left alone, since a GPU is in exclusive-process mode (nvidia-smi -c 0 ends "
          "it)");
    auto fresh = std::make_unique<copy_engine>(
        cuda::real_driver(), copy_options::from_environment(),
        std::function<cuda::copy_machine()>(),
        [](const std::string& sentence) { counters_note(sentence.c_str()); });
    fresh->prepare();
    if (fresh->usable()) made = fresh.release();
  } catch (const std::exception& error) {
    counters_note(error.what());
  } catch (...) {
    counters_note("the engine cannot start");
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  counters().started_ns.store(nanoseconds(took.count()));
  set_state(made != nullptr ? engine_state::ready : engine_state::useless);
  engine.store(made);
  phase starting = phase::starting;
  if (!now.compare_exchange_strong(starting, made != nullptr ? phase::ready : phase::over)) {
    // The process is ending. What was made stays.
  }
}

void* run_starter(void* /*unused*/) {
  make_engine();
  return nullptr;
}

void wait_for_starter() {
  if (!starter_runs) return;
  starter_runs = false;
  pthread_join(starter, nullptr);
}

// At the end of the process, ahead of the driver's own end: that must not meet a thread that makes
// contexts. The engine itself is left to the driver.
void finish() {
  const lock_changes locked;
  now.store(phase::over);
  wait_for_starter();
}

void start() {
  const lock_changes locked;
  phase idle = phase::idle;
  if (!now.compare_exchange_strong(idle, phase::starting)) return;
  remember_own_contexts();
  if (!ever.exchange(true)) std::atexit(finish);  // NOLINT(cert-err33-c): no place, no joining
  if (chosen().start == start_mode::wait) {
    make_engine();
    return;
  }
  // The program's signals are for its own threads.
  sigset_t all{};
  sigset_t before{};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  starter_runs = pthread_create(&starter, nullptr, run_starter, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!starter_runs) now.store(phase::over);
}

// --- a copy
// ---------------------------------------------------------------------------------------

// Null where the driver cannot be used: then nothing is taken over.
const cuda::driver_table* driver() noexcept {
  static std::atomic<const cuda::driver_table*> table{nullptr};
  const cuda::driver_table* found = table.load(std::memory_order_acquire);
  if (found != nullptr || now.load() == phase::over) return found;
  const lock_changes locked;
  try {
    found = &cuda::real_driver();
    table.store(found, std::memory_order_release);
  } catch (const std::exception& error) {
    counters_note(error.what());
    now.store(phase::over);
  }
  return found;
}

outcome outcome_of(copy_result result) {
  switch (result) {
    case copy_result::streams:
    case copy_result::graph:
    case copy_result::captured:
      return outcome::taken_over;
    case copy_result::capturing:
      return outcome::capturing;
    case copy_result::below_threshold:
      return outcome::small;
    case copy_result::one_path:
      return outcome::one_path;
    case copy_result::same_place:
      return outcome::same_gpu;
    case copy_result::pageable:
      return outcome::pageable;
    case copy_result::managed:
      return outcome::managed;
    case copy_result::mixed:
      return outcome::mixed;
    case copy_result::unreachable:
      return outcome::unreachable;
    case copy_result::no_staging:
      return outcome::no_staging;
    case copy_result::other_context:
      return outcome::other_context;
    case copy_result::no_engine:
      break;
  }
  return outcome::failed;
}

direction way_between(const cuda::memory_view& from, const cuda::memory_view& to) {
  using cuda::memory_kind;
  const bool from_host = from.kind == memory_kind::pinned || from.kind == memory_kind::host;
  const bool to_host = to.kind == memory_kind::pinned || to.kind == memory_kind::host;
  if (from_host && to.kind == memory_kind::gpu) return direction::host_to_gpu;
  if (from.kind == memory_kind::gpu && to_host) return direction::gpu_to_host;
  if (from.kind == memory_kind::gpu && to.kind == memory_kind::gpu) return direction::gpu_to_gpu;
  return direction::unknown;
}

// cuMemcpyAsync and its like do not say between what they copy.
void name_way(asked_copy& asked, const cuda::memory_view& from, const cuda::memory_view& to) {
  if (asked.way == direction::unknown) asked.way = way_between(from, to);
}

// What an engine would make of the memories; taken_over where it could carry the copy.
outcome kind_of(const cuda::memory_view& from, const cuda::memory_view& to) {
  using cuda::memory_kind;
  for (const cuda::memory_view& one : {from, to}) {
    if (one.kind == memory_kind::managed) return outcome::managed;
    if (one.kind == memory_kind::mixed) return outcome::mixed;
    if (one.kind == memory_kind::host) return outcome::pageable;
  }
  if (from.kind == to.kind && (from.kind == memory_kind::pinned || from.gpu == to.gpu))
    return outcome::same_gpu;
  return outcome::taken_over;
}

struct decision {
  outcome what = outcome::failed;
  bool enqueued = false;
};

decision by_engine(copy_engine& ready, asked_copy& asked) {
  cuda::copy_report made;
  try {
    made = ready.try_copy(asked.to, asked.from, asked.bytes, asked.stream);
  } catch (const std::exception& error) {
    // It has waited for whatever it had enqueued, so the program's own copy may follow.
    counters_note(error.what());
    return {outcome::failed, false};
  }
  name_way(asked, made.source, made.destination);
  const outcome what = outcome_of(made.result);
  if (what == outcome::taken_over) {
    const auto way = static_cast<std::size_t>(asked.way);
    counters().predicted_ns.at(way).fetch_add(nanoseconds(made.predicted_s));
    counters().direct_ns.at(way).fetch_add(nanoseconds(made.direct_s));
  }
  return {what, made.enqueued};
}

// Nothing where no engine is ready.
std::optional<decision> by_engine(asked_copy& asked) {
  inside.fetch_add(1);  // ahead of the look at the phase: stop_engine does both the other way round
  std::optional<decision> made;
  if (now.load() == phase::ready) made = by_engine(*engine.load(), asked);
  inside.fetch_sub(1);
  return made;
}

decision decide(asked_copy& asked) {
  if (!chosen().problem.empty() || now.load() == phase::over || chosen().start == start_mode::never)
    return {outcome::switched_off, false};
  const cuda::driver_table* calls = driver();
  if (calls == nullptr) return {outcome::failed, false};
  // A copy without a context is an error, and remains one.
  if (current_context() == nullptr) return {outcome::other_context, false};
  if (const auto made = by_engine(asked)) return *made;
  int status = cuda::capture_none;
  unsigned long long id = 0;
  CUgraph_st* graph = nullptr;
  CUgraphNode_st* const* roots = nullptr;
  std::size_t count = 0;
  if (calls->capture_info(asked.stream, &status, &id, &graph, &roots, &count) != success ||
      status != cuda::capture_none)
    return {outcome::capturing, false};
  const cuda::memory_view from = cuda::view_memory(*calls, asked.from, asked.bytes);
  const cuda::memory_view to = cuda::view_memory(*calls, asked.to, asked.bytes);
  name_way(asked, from, to);
  const outcome possible = kind_of(from, to);
  if (possible != outcome::taken_over) return {possible, false};
  if (now.load() == phase::idle &&
      moved.fetch_add(asked.bytes) + asked.bytes >= chosen().after_bytes) {
    start();
    if (const auto made = by_engine(asked)) return *made;
  }
  return {outcome::not_started, false};
}

}  // namespace

bool take_over(const asked_copy& asked) noexcept {
  if (within) return false;
  if (asked.bytes < chosen().threshold_bytes) {
    count(asked.way, outcome::small, asked.bytes);
    return false;
  }
  const mark_within own;
  const without_cancellation whole;
  asked_copy one = asked;
  decision made{outcome::unknown_memory, false};
  try {
    made = decide(one);
  } catch (const std::exception&) {  // the driver does not know the memory
  }
  count(one.way, made.what, one.bytes);
  return made.enqueued;
}

void pass_now(direction way, std::size_t bytes) noexcept {
  if (!within) count(way, outcome::synchronous, bytes);
}

bool engine_started() noexcept { return ever.load(); }

void stop_engine() noexcept {
  if (within || !ever.load()) return;
  const without_cancellation whole;
  const lock_changes locked;
  wait_for_starter();
  if (now.load() != phase::ready) return;
  now.store(phase::idle);
  moved.store(0);
  while (inside.load() != 0) sched_yield();
  const mark_within own;
  delete engine.exchange(nullptr);
  set_state(engine_state::none);
}

CUctx_st* current_context() noexcept {
  const cuda::driver_table* calls = driver();
  CUctx_st* context = nullptr;
  if (calls == nullptr || calls->current(&context) != success) return nullptr;
  return context;
}

// Held while a process forks, so that the child finds the engine's state whole.
void take_over_before_fork() noexcept { pthread_mutex_lock(&changing); }

void take_over_after_fork(bool child) noexcept {
  if (!child) {
    pthread_mutex_unlock(&changing);
    return;
  }
  changing = PTHREAD_MUTEX_INITIALIZER;
  // The parent's engine and its threads are not in the child.
  engine.store(nullptr);
  inside.store(0);
  moved.store(0);
  ever.store(false);
  starter_runs = false;
  if (now.load() != phase::over) now.store(phase::idle);
}

}  // namespace interlace::preload
