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
#include "preload/own_call.hpp"
#include "preload/process.hpp"
#include "preload/settings.hpp"

namespace interlace::preload {
namespace {

using cuda::copy_engine;
using cuda::copy_result;
using cuda::driver_result::success;

enum class phase : std::uint8_t {
  idle,      // the engine has not started; copies that could be taken over count towards its start
  starting,  // a thread is making the engine
  ready,
  ended,  // no copy is taken over any more
};

std::atomic<phase> current_phase{phase::idle};
// The number of bytes in copies that could have been taken over.
std::atomic<std::uint64_t> candidate_bytes{0};
std::atomic<copy_engine*> engine{nullptr};
std::atomic<int> engine_users{0};  // number of threads that are in a call of the engine
std::atomic<bool> start_attempted{false};
// A thread that changes the phase holds this lock.
pthread_mutex_t phase_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_t starter_thread{};
bool starter_runs = false;  // guarded by phase_mutex

class phase_lock {
 public:
  phase_lock() { pthread_mutex_lock(&phase_mutex); }
  ~phase_lock() { pthread_mutex_unlock(&phase_mutex); }
  phase_lock(const phase_lock&) = delete;
  phase_lock& operator=(const phase_lock&) = delete;
};

std::uint64_t nanoseconds(double seconds) {
  return seconds > 0 ? static_cast<std::uint64_t>(seconds * 1e9) : 0;
}

void set_state(engine_state state) { counters().engine.store(static_cast<std::uint64_t>(state)); }

// --- the engine's life ---------------------------------------------------------------------------

// Whether a GPU is in exclusive-process mode. The engine would make a context on this GPU and so
// lock out other processes.
bool has_exclusive_gpu(const cuda::driver_table& calls) {
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
    const own_call own;
    if (has_exclusive_gpu(cuda::real_driver()))
      throw std::runtime_error(
          "copies are left alone, since a GPU is in exclusive-process mode (nvidia-smi -c 0 ends "
          "it)");
    const auto options = copy_options::from_environment();
    auto fresh = std::make_unique<copy_engine>(
        cuda::real_driver(), options, std::function<cuda::copy_machine()>(),
        [](const std::string& sentence) { counters_note(sentence.c_str()); });
    fresh->prepare();
    if (fresh->usable()) {
      made = fresh.release();
    } else {
      counters_note(options.executor == copy_executor::direct
                        ? "copies are left alone, as INTERLACE_COPY=direct asks"
                        : "copies are left alone, since no other path helps; other paths need a "
                          "second GPU that the program can see");
    }
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
  if (!current_phase.compare_exchange_strong(starting,
                                             made != nullptr ? phase::ready : phase::ended)) {
    // The engine is not destroyed here, because the process is ending.
  }
}

void* run_starter(void* /*unused*/) {
  make_engine();
  return nullptr;
}

void wait_for_starter() {
  if (!starter_runs) return;
  starter_runs = false;
  pthread_join(starter_thread, nullptr);
}

// Runs when the process ends, before the driver ends. The driver must not end while a thread makes
// contexts. The engine is not destroyed.
void finish() {
  const phase_lock locked;
  current_phase.store(phase::ended);
  wait_for_starter();
}

void start() {
  const phase_lock locked;
  phase idle = phase::idle;
  if (!current_phase.compare_exchange_strong(idle, phase::starting)) return;
  remember_own_contexts();
  // NOLINTNEXTLINE(cert-err33-c): if the function cannot be registered, nobody waits for the thread
  if (!start_attempted.exchange(true)) std::atexit(finish);
  if (process_settings().start == start_mode::wait) {
    make_engine();
    return;
  }
  // The new thread must not receive signals that are meant for the threads of the program.
  sigset_t all{};
  sigset_t before{};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  starter_runs = pthread_create(&starter_thread, nullptr, run_starter, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!starter_runs) current_phase.store(phase::ended);
}

// --- a copy --------------------------------------------------------------------------------------

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

copy_direction direction_between(const cuda::memory_view& from, const cuda::memory_view& to) {
  using cuda::memory_kind;
  const bool from_host = from.kind == memory_kind::pinned || from.kind == memory_kind::host;
  const bool to_host = to.kind == memory_kind::pinned || to.kind == memory_kind::host;
  if (from_host && to.kind == memory_kind::gpu) return copy_direction::host_to_gpu;
  if (from.kind == memory_kind::gpu && to_host) return copy_direction::gpu_to_host;
  if (from.kind == memory_kind::gpu && to.kind == memory_kind::gpu)
    return copy_direction::gpu_to_gpu;
  return copy_direction::unknown;
}

// Sets the direction of a copy. Functions such as cuMemcpyAsync do not say between which places
// they copy.
void complete_direction(requested_copy& asked, const cuda::memory_view& from,
                        const cuda::memory_view& to) {
  if (asked.moves == copy_direction::unknown) asked.moves = direction_between(from, to);
}

// The outcome of a copy between these memories. It is taken_over if an engine could make the copy.
outcome outcome_between(const cuda::memory_view& from, const cuda::memory_view& to) {
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

decision try_engine(copy_engine& running, requested_copy& asked) {
  cuda::copy_report made;
  try {
    made = running.try_copy(asked.to, asked.from, asked.bytes, asked.stream);
  } catch (const std::exception& error) {
    // The engine has waited for what it had enqueued, so the program's own copy can follow.
    counters_note(error.what());
    return {outcome::failed, false};
  }
  complete_direction(asked, made.source, made.destination);
  const outcome what = outcome_of(made.result);
  if (what == outcome::taken_over) {
    const auto index = static_cast<std::size_t>(asked.moves);
    counters().predicted_ns.at(index).fetch_add(nanoseconds(made.predicted_s));
    counters().direct_ns.at(index).fetch_add(nanoseconds(made.direct_s));
  }
  return {what, made.enqueued};
}

// Lets the engine try the copy. There is no value if no engine is ready.
std::optional<decision> try_engine(requested_copy& asked) {
  // This count grows before the phase is read, because stop_engine changes the phase before it
  // reads the count.
  engine_users.fetch_add(1);
  std::optional<decision> made;
  if (current_phase.load() == phase::ready) made = try_engine(*engine.load(), asked);
  engine_users.fetch_sub(1);
  return made;
}

// Whether the copy is certain to be complete when the driver's blocking call returns.
bool waits(const cuda::driver_table& calls, const requested_copy& asked) {
  const copy_direction moves = direction_between(cuda::view_memory(calls, asked.from, asked.bytes),
                                                 cuda::view_memory(calls, asked.to, asked.bytes));
  return moves == copy_direction::host_to_gpu || moves == copy_direction::gpu_to_host;
}

decision decide(requested_copy& asked, bool waiting) {
  if (!process_settings().problem.empty() || current_phase.load() == phase::ended ||
      process_settings().start == start_mode::never)
    return {outcome::switched_off, false};
  const cuda::driver_table* calls = usable_driver();
  if (calls == nullptr) return {outcome::failed, false};
  // A copy without a current context is an error, and the program must get this error.
  if (current_context() == nullptr) return {outcome::other_context, false};
  if (waiting && !waits(*calls, asked)) return {outcome::synchronous, false};
  if (const auto made = try_engine(asked)) return *made;
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
  complete_direction(asked, from, to);
  const outcome possible = outcome_between(from, to);
  if (possible != outcome::taken_over) return {possible, false};
  if (current_phase.load() == phase::idle &&
      candidate_bytes.fetch_add(asked.bytes) + asked.bytes >= process_settings().after_bytes) {
    start();
    if (const auto made = try_engine(asked)) return *made;
  }
  return {outcome::not_started, false};
}

}  // namespace

const cuda::driver_table* usable_driver() noexcept {
  static std::atomic<const cuda::driver_table*> table{nullptr};
  const cuda::driver_table* found = table.load(std::memory_order_acquire);
  if (found != nullptr || current_phase.load() == phase::ended) return found;
  const phase_lock locked;
  try {
    found = &cuda::real_driver();
    table.store(found, std::memory_order_release);
  } catch (const std::exception& error) {
    counters_note(error.what());
    current_phase.store(phase::ended);
  }
  return found;
}

namespace {

// Waits for the stream. While another stream is captured, the driver's blocking copies are still
// allowed, so this wait must be allowed, too.
int complete(const cuda::driver_table& calls, CUstream_st* stream) noexcept {
  int mode = cuda::capture_mode_relaxed;
  const bool relaxed = calls.exchange_capture_mode(&mode) == success;
  const int result = calls.stream_synchronize(stream);
  if (relaxed) (void)calls.exchange_capture_mode(&mode);
  return result;
}

// Returns true if the copy is enqueued or, with `waiting`, complete. In this case, `result` is the
// result for the program.
bool take_over(const requested_copy& asked, bool waiting, int& result) noexcept {
  if (in_own_call) return false;
  if (asked.bytes < process_settings().threshold_bytes) {
    count(asked.moves, outcome::small, asked.bytes);
    return false;
  }
  const own_call own;
  const without_cancellation whole;
  requested_copy one = asked;
  decision made{outcome::unknown_memory, false};
  try {
    made = decide(one, waiting);
  } catch (const std::exception&) {  // the driver does not know the memory
  }
  count(one.moves, made.what, one.bytes);
  if (made.enqueued && waiting) result = complete(*usable_driver(), one.stream);
  return made.enqueued;
}

}  // namespace

bool take_over(const requested_copy& asked) noexcept {
  int result = success;
  return take_over(asked, false, result);
}

std::optional<int> take_over_waiting(const requested_copy& asked) noexcept {
  int result = success;
  if (take_over(asked, true, result)) return result;
  return std::nullopt;
}

bool engine_started() noexcept { return start_attempted.load(); }

void stop_engine() noexcept {
  if (in_own_call || !start_attempted.load()) return;
  const without_cancellation whole;
  const phase_lock locked;
  wait_for_starter();
  if (current_phase.load() != phase::ready) return;
  current_phase.store(phase::idle);
  candidate_bytes.store(0);
  while (engine_users.load() != 0) sched_yield();
  const own_call own;
  delete engine.exchange(nullptr);
  set_state(engine_state::none);
}

CUctx_st* current_context() noexcept {
  const cuda::driver_table* calls = usable_driver();
  CUctx_st* context = nullptr;
  if (calls == nullptr || calls->current(&context) != success) return nullptr;
  return context;
}

// A fork holds this lock, so that the child's copy of the state is consistent.
void take_over_before_fork() noexcept { pthread_mutex_lock(&phase_mutex); }

void take_over_after_fork(bool child) noexcept {
  if (!child) {
    pthread_mutex_unlock(&phase_mutex);
    return;
  }
  phase_mutex = PTHREAD_MUTEX_INITIALIZER;
  // The child has neither the engine of the parent nor the parent's threads.
  engine.store(nullptr);
  engine_users.store(0);
  candidate_bytes.store(0);
  start_attempted.store(false);
  starter_runs = false;
  if (current_phase.load() != phase::ended) current_phase.store(phase::idle);
}

}  // namespace interlace::preload
