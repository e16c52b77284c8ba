#include "preload/batches.hpp"

#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <optional>

#include "cuda/transfer/block_copier.hpp"
#include "cuda/transfer/block_overlap.hpp"
#include "cuda/transfer/memory_view.hpp"
#include "preload/counters.hpp"
#include "preload/own_call.hpp"
#include "preload/process.hpp"
#include "preload/settings.hpp"
#include "preload/take_over.hpp"

namespace interlace::preload {
namespace {

using cuda::driver_result::success;

// Values of CUmemcpySrcAccessOrder, and a flag of CUmemcpyFlags.
constexpr int order_of_stream = 1;
constexpr int order_during_call = 2;
constexpr int order_any = 3;
constexpr unsigned overlap_with_compute = 1;

// Whether the driver accepts a hint. A hint can name nothing, a GPU, or a place of the host. The
// driver ignores the number of a place of the host.
bool is_known(const cuda::memory_location& hint) {
  constexpr int a_gpu = 1;
  constexpr int last_of_host = 4;
  return hint.type == a_gpu ? hint.id == 0 : hint.type >= 0 && hint.type <= last_of_host;
}

// The reason why the batch is left to the driver because of its arguments. There is no value if the
// arguments allow a kernel.
std::optional<outcome> judge_arguments(const requested_batch& asked) {
  if (asked.to == nullptr || asked.from == nullptr || asked.bytes == nullptr ||
      asked.attributes == nullptr || asked.firsts == nullptr || asked.kinds == 0 ||
      asked.kinds > asked.count)
    return outcome::refused;
  for (std::size_t at = 0; at < asked.kinds; ++at) {
    const std::size_t first = asked.firsts[at];
    if (at == 0 ? first != 0 : first <= asked.firsts[at - 1] || first >= asked.count)
      return outcome::refused;
    const copy_attributes& one = asked.attributes[at];
    if (one.order == order_during_call) return outcome::read_early;
    if (one.order != order_of_stream && one.order != order_any) return outcome::refused;
    // The driver refuses hints that name no place.
    if (!is_known(one.source) || !is_known(one.destination)) return outcome::refused;
    if (one.flags == overlap_with_compute) return outcome::overlap_wanted;
    if (one.flags != 0) return outcome::refused;
  }
  return std::nullopt;
}

bool is_legacy(CUstream_st* stream) {
  return stream == nullptr || reinterpret_cast<std::uintptr_t>(stream) == cuda::legacy_stream;
}

// The reason why the batch is left to the driver because of its stream. There is no value if the
// stream allows a kernel.
std::optional<outcome> judge_stream(const cuda::driver_table& driver, CUstream_st* stream,
                                    CUctx_st*& context) {
  CUctx_st* of_stream = nullptr;
  if (is_legacy(stream) || driver.current(&context) != success || context == nullptr)
    return outcome::refused;
  int status = cuda::capture_none;
  unsigned long long id = 0;
  CUgraph_st* graph = nullptr;
  CUgraphNode_st* const* roots = nullptr;
  std::size_t count = 0;
  if (driver.capture_info(stream, &status, &id, &graph, &roots, &count) != success ||
      status != cuda::capture_none)
    return outcome::capturing;
  if (driver.stream_context(stream, &of_stream) != success || of_stream != context)
    return outcome::other_context;
  return std::nullopt;
}

// The reason why the batch is left to the driver because of the memory of its first block. There is
// no value if this memory allows a kernel. In most batches that no kernel can copy, the first block
// already shows this.
std::optional<outcome> judge_first(const cuda::driver_table& driver, const requested_batch& asked,
                                   copy_direction& moves) {
  const cuda::memory_facts from = cuda::query_memory(driver, asked.from[0]);
  const cuda::memory_facts to = cuda::query_memory(driver, asked.to[0]);
  for (const cuda::memory_facts* one : {&from, &to}) {
    if (one->managed != 0) return outcome::managed;
    if (one->type != cuda::memory_host && one->type != cuda::memory_device)
      return outcome::pageable;
  }
  if (from.type == to.type) return outcome::same_gpu;
  moves =
      to.type == cuda::memory_device ? copy_direction::host_to_gpu : copy_direction::gpu_to_host;
  return std::nullopt;
}

// --- the kernel ----------------------------------------------------------------------------------

// Page-locked memory for lists of blocks, in each context that has the kernel. The memory is taken
// in advance, because taking memory later could wait for work of the program. The memory has room
// for several batches. A program can enqueue a batch for each layer of a model before the first
// batch is complete.
constexpr std::size_t small_lists = 32;
constexpr std::size_t small_list = std::size_t{64} << 10U;
constexpr std::size_t middle_lists = 6;
constexpr std::size_t middle_list = std::size_t{256}
                                    << 10U;  // size of the list for 16,384 blocks of one size
constexpr std::size_t large_list = std::size_t{4} << 20U;
constexpr std::size_t list_bytes =
    small_lists * small_list + middle_lists * middle_list + large_list;

constexpr std::array<std::size_t, small_lists + middle_lists + 1> lists = [] {
  std::array<std::size_t, small_lists + middle_lists + 1> sizes{};
  for (std::size_t at = 0; at < sizes.size(); ++at)
    sizes.at(at) = at < small_lists ? small_list : middle_list;
  sizes.back() = large_list;
  return sizes;
}();

// A kernel that is loaded in the primary context of a GPU.
struct loaded_kernel {
  std::atomic<CUctx_st*> context{nullptr};
  std::atomic<cuda::block_copier*> copier{nullptr};
  std::atomic<int> users{0};  // number of threads that are in a call of the copier
  // guards the beginning and the end of the context
  pthread_mutex_t changes = PTHREAD_MUTEX_INITIALIZER;
  bool failed = false;  // whether the driver did not load the kernel, and would refuse again
};
std::array<loaded_kernel, 64> kernels;
std::atomic<int> kernel_count{0};  // number of GPUs that may have a kernel

loaded_kernel& kernel_of(int gpu) { return kernels.at(static_cast<std::size_t>(gpu)); }

// Makes the kernel usable from now on.
void publish(int gpu, CUctx_st* context, cuda::block_copier* copier) {
  loaded_kernel& one = kernel_of(gpu);
  one.context.store(context, std::memory_order_release);
  one.copier.store(copier);
  int count = kernel_count.load();
  while (count <= gpu && !kernel_count.compare_exchange_weak(count, gpu + 1)) {
  }
}

// While this object lives, forget_kernel waits, so the context's kernel stays usable.
class kernel_use {
 public:
  explicit kernel_use(const CUctx_st* context) {
    for (int gpu = 0; gpu < kernel_count.load(std::memory_order_acquire); ++gpu) {
      loaded_kernel& one = kernel_of(gpu);
      if (one.context.load(std::memory_order_acquire) != context) continue;
      // This count grows before the copier is read, because forget_kernel accesses the two in the
      // opposite order.
      one.users.fetch_add(1);
      used_ = &one;
      copier_ = one.copier.load();
      return;
    }
  }
  ~kernel_use() {
    if (used_ != nullptr) used_->users.fetch_sub(1);
  }
  kernel_use(const kernel_use&) = delete;
  kernel_use& operator=(const kernel_use&) = delete;

  cuda::block_copier* copier() const { return copier_; }

 private:
  loaded_kernel* used_ = nullptr;
  cuda::block_copier* copier_ = nullptr;
};

outcome outcome_of(cuda::block_ends ends) {
  switch (ends) {
    case cuda::block_ends::pageable:
      return outcome::pageable;
    case cuda::block_ends::managed:
      return outcome::managed;
    case cuda::block_ends::other_gpu:
    case cuda::block_ends::no_access:
      return outcome::unreachable;
    case cuda::block_ends::other_context:
      return outcome::other_context;
    case cuda::block_ends::one_gpu:
    case cuda::block_ends::mixed:
    case cuda::block_ends::too_many:
      return outcome::mixed;
    case cuda::block_ends::outside:
      break;
  }
  return outcome::refused;
}

outcome outcome_of(const cuda::block_report& report) {
  switch (report.result) {
    case cuda::block_result::enqueued:
      return outcome::one_kernel;
    case cuda::block_result::another_way:
      return outcome::driver_as_fast;
    case cuda::block_result::memory:
      return outcome_of(report.ends);
    case cuda::block_result::capturing:
      return outcome::capturing;
    case cuda::block_result::no_kernels:
      return outcome::no_kernel;
    case cuda::block_result::no_room:
      return outcome::no_staging;
    case cuda::block_result::nothing:
      break;
  }
  return outcome::refused;
}

void add_prediction(copy_direction moves, const plan::block_choice& choice) {
  const auto nanoseconds = [&](plan::block_way way) {
    return static_cast<std::uint64_t>(choice.predicted_us.at(static_cast<std::size_t>(way)) * 1e3);
  };
  const auto at = static_cast<std::size_t>(moves);
  counters().predicted_ns.at(at).fetch_add(nanoseconds(plan::block_way::kernel));
  counters().direct_ns.at(at).fetch_add(nanoseconds(plan::block_way::driver_batch));
}

outcome launch(const requested_batch& asked, const CUctx_st* context, copy_direction moves) {
  const kernel_use kernel(context);
  if (kernel.copier() == nullptr) return outcome::no_kernel;
  const plan::block_list list{.to = {.numbers = asked.to},
                              .from = {.numbers = asked.from},
                              .sizes = asked.bytes,
                              .count = asked.count};
  static_assert(sizeof(std::size_t) == sizeof(std::uint64_t));
  const cuda::block_report report = kernel.copier()->try_kernel(list, asked.stream);
  const outcome what = outcome_of(report);
  if (what == outcome::one_kernel) add_prediction(moves, report.choice);
  return what;
}

bool wanted() {
  const settings& chosen = process_settings();
  return chosen.problem.empty() && chosen.start != start_mode::never && chosen.most_blocks != 0U;
}

outcome decide(const requested_batch& asked, copy_direction& moves) {
  if (!wanted()) return outcome::switched_off;
  if (const auto reason = judge_arguments(asked)) return *reason;
  const cuda::driver_table* driver = usable_driver();
  if (driver == nullptr) return outcome::failed;
  CUctx_st* context = nullptr;
  if (const auto reason = judge_stream(*driver, asked.stream, context)) return *reason;
  if (const auto reason = judge_first(*driver, asked, moves)) return *reason;
  if (cuda::blocks_overlap({asked.to, asked.count}, {asked.bytes, asked.count}))
    return outcome::overlapping;
  return launch(asked, context, moves);
}

}  // namespace

batch_bytes bytes_of(const requested_batch& asked) noexcept {
  batch_bytes found;
  if (asked.bytes == nullptr) return found;
  for (std::size_t at = 0; at < asked.count; ++at) {
    found.total += asked.bytes[at];
    found.any_empty |= asked.bytes[at] == 0;
  }
  return found;
}

bool take_over_batch(const requested_batch& asked, const batch_bytes& bytes) noexcept {
  if (in_own_call) return false;
  copy_direction moves = copy_direction::unknown;
  outcome what = outcome::small;
  if (bytes.total >= process_settings().threshold_bytes) {
    const own_call own;
    const without_cancellation whole;
    try {
      what = bytes.any_empty ? outcome::refused : decide(asked, moves);
    } catch (const std::exception& error) {
      counters_note(error.what());
      what = outcome::failed;
    }
  }
  count(moves, what, bytes.total, asked.count);
  const bool taken = what == outcome::one_kernel;
  if (taken) counters().batches.fetch_add(1, std::memory_order_relaxed);
  return taken;
}

volumes volumes_of(const volume_copy* operations, std::size_t count) noexcept {
  volumes all;
  if (operations == nullptr) return all;
  constexpr int an_address = 1;
  for (std::size_t at = 0; at < count; ++at) {
    const volume_copy& one = operations[at];
    all.bytes += one.width * one.height * one.depth;
    if (at != 0) continue;
    all.to = one.to.type == an_address ? one.to.address : 0;
    all.from = one.from.type == an_address ? one.from.address : 0;
  }
  return all;
}

void count_volumes(std::uint64_t bytes, std::size_t copies) noexcept {
  if (!in_own_call) count(copy_direction::unknown, outcome::several_dimensions, bytes, copies);
}

primary_change::primary_change(int gpu) noexcept : gpu_(gpu) {
  pthread_mutex_lock(&kernel_of(gpu_).changes);
}
primary_change::~primary_change() { pthread_mutex_unlock(&kernel_of(gpu_).changes); }

void load_kernel(int gpu, CUctx_st* context) noexcept {
  if (!wanted()) return;
  loaded_kernel& one = kernel_of(gpu);
  if (one.copier.load() != nullptr || one.failed) return;
  const cuda::driver_table* driver = usable_driver();
  // If the driver has no batches, the kernel is not needed.
  if (driver == nullptr || driver->copy_batch == nullptr) return;
  const own_call own;
  const without_cancellation whole;
  try {
    auto made = std::make_unique<cuda::block_copier>(
        *driver,
        cuda::block_options{
            .most_thread_blocks = process_settings().most_blocks.value_or(0),
            .room_bytes = list_bytes,
            .report = [](const std::string& sentence) { counters_note(sentence.c_str()); }});
    made->prepare(context, lists);
    publish(gpu, context, made.release());
  } catch (const std::exception& error) {
    one.failed = true;
    counters_note(error.what());
  }
}

// The copier must not be destroyed before the context has ended, because the copier's destructor
// would wait for the context's work.
cuda::block_copier* forget_kernel(int gpu) noexcept {
  loaded_kernel& one = kernel_of(gpu);
  one.failed = false;
  cuda::block_copier* const forgotten = one.copier.exchange(nullptr);
  if (forgotten == nullptr) return nullptr;
  one.context.store(nullptr);
  while (one.users.load() != 0) sched_yield();
  return forgotten;
}

void settle_kernel(int gpu, CUctx_st* context, cuda::block_copier* kernel, bool exists) noexcept {
  if (kernel == nullptr) return;
  if (exists) {
    publish(gpu, context, kernel);
    return;
  }
  // The context has already freed the kernel's memory.
  kernel->abandon();
  const std::unique_ptr<cuda::block_copier> ended(kernel);
}

void kernels_forked() noexcept {
  for (loaded_kernel& one : kernels) {
    one.changes = PTHREAD_MUTEX_INITIALIZER;
    one.context.store(nullptr);
    one.copier.store(nullptr);
    one.users.store(0);
  }
}

}  // namespace interlace::preload
