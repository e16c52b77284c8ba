// Implements the C functions of interlace/copy.h with the copies of interlace/copy.hpp.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cuda/transfer/c_results.hpp"
#include "cuda/transfer/driver_table.hpp"
#include "cuda/transfer/memory_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/copy.h"
#include "interlace/copy.hpp"
#include "interlace/version.hpp"
#include "plan/copy_settings.hpp"

struct interlace_copier {
  interlace::copier made;
};

struct interlace_event {
  CUevent_st* recorded = nullptr;
};

namespace interlace {
namespace {

copier& of(interlace_copier* given) {
  if (given != nullptr) return given->made;
  (void)driver();
  try {
    return process_copier();
  } catch (const usage_error& error) {
    throw failed(INTERLACE_INVALID_SETTING, error.what());
  }
}

// The primary context of a GPU. The context is retained once and never released.
CUctx_st* context_of(int gpu) {
  static constexpr int most = 1024;
  static std::array<std::atomic<CUctx_st*>, most> known{};
  const cuda::driver_table& calls = driver();
  if (gpu >= 0 && gpu < most)
    if (CUctx_st* context = known[static_cast<std::size_t>(gpu)].load(std::memory_order_acquire))
      return context;
  int count = 0;
  cuda::check(calls, calls.device_count(&count), "cuDeviceGetCount");
  if (gpu < 0 || gpu >= std::min(count, most))
    throw usage_error("there is no GPU " + std::to_string(gpu) + "; this process sees " +
                      std::to_string(count) + (count == 1 ? " GPU" : " GPUs") +
                      ", numbered from 0");
  CUctx_st* context = nullptr;
  cuda::check(calls, calls.primary_retain(&context, gpu), "cuDevicePrimaryCtxRetain");
  known[static_cast<std::size_t>(gpu)].store(context, std::memory_order_release);
  return context;
}

// Makes the primary context of the GPU current while this object lives. With INTERLACE_CURRENT_GPU,
// the thread's current context stays current.
class on_gpu {
 public:
  explicit on_gpu(int gpu) {
    if (gpu != INTERLACE_CURRENT_GPU) on_.emplace(driver(), context_of(gpu));
  }

 private:
  std::optional<cuda::in_context> on_;
};

void copy_on(interlace_copier* copier, int gpu, void* dst, const void* src, std::size_t bytes,
             CUstream_st* stream) {
  if (bytes == 0) return;
  if (dst == nullptr || src == nullptr)
    throw usage_error(std::string(dst == nullptr ? "the destination" : "the source") +
                      " of a copy of " + std::to_string(bytes) + " bytes is a null pointer");
  interlace::copier& by = of(copier);
  const on_gpu on(gpu);
  by.copy_async(dst, src, bytes, stream);
}

void copy_batch_on(interlace_copier* copier, int gpu, const interlace_batch_copy* copies,
                   std::size_t count, CUstream_st* stream) {
  if (count != 0 && copies == nullptr)
    throw usage_error("the copies of a batch are a null pointer");
  std::vector<batch_copy> wanted;
  for (std::size_t at = 0; at < count; ++at) {
    const interlace_batch_copy& one = copies[at];
    if (one.bytes == 0) continue;
    if (one.dst == nullptr || one.src == nullptr)
      throw usage_error(std::string(one.dst == nullptr ? "the destination" : "the source") +
                        " of copy " + std::to_string(at) + " of a batch is a null pointer");
    wanted.push_back({one.dst, one.src, one.bytes});
  }
  if (wanted.empty()) return;
  interlace::copier& by = of(copier);
  const on_gpu on(gpu);
  by.copy_batch_async(wanted, stream);
}

blocks_side side_of(const interlace_blocks_side& given) {
  return {.base = given.base,
          .stride = given.stride,
          .numbers = given.numbers,
          .number_bytes = given.number_bytes,
          .extent = given.extent};
}

interlace_blocks_way copy_blocks_on(interlace_copier* copier, int gpu,
                                    const interlace_blocks* blocks, std::size_t size,
                                    CUstream_st* stream) {
  if (blocks == nullptr) throw usage_error("the blocks of a batch are a null pointer");
  interlace_blocks known{};  // members that the caller does not know stay 0
  std::memcpy(&known, blocks, std::min(size, sizeof known));
  if (known.count == 0) return INTERLACE_BLOCKS_NOTHING;
  if (known.only < INTERLACE_BLOCKS_NOTHING || known.only > INTERLACE_BLOCKS_COPIES)
    throw usage_error("there is no way " + std::to_string(known.only) +
                      " to copy a batch of blocks");
  interlace::copier& by = of(copier);
  const on_gpu on(gpu);
  return static_cast<interlace_blocks_way>(
      by.copy_blocks_async({.dst = side_of(known.dst),
                            .src = side_of(known.src),
                            .sizes = known.sizes,
                            .bytes = known.bytes,
                            .count = known.count,
                            .numbers_on_gpu = known.numbers_on_gpu != 0,
                            .most_thread_blocks = known.most_thread_blocks,
                            .stage_pageable = known.stage_pageable != 0,
                            .only = static_cast<blocks_way>(known.only)},
                           stream));
}
static_assert(static_cast<int>(blocks_way::staged) == INTERLACE_BLOCKS_STAGED);

// Calls `what(copier, send, receive)` for a collective of `count` elements or bytes.
template <class Collective>
void collect_on(interlace_copier* copier, int gpu, const void* const* send, void* const* receive,
                std::size_t participants, std::size_t size, const Collective& what) {
  if (participants == 0 || size == 0) return;
  if (send == nullptr || receive == nullptr)
    throw usage_error(
        std::string(send == nullptr ? "the buffers to send" : "the buffers to receive") +
        " of a collective are a null pointer");
  interlace::copier& by = of(copier);
  const on_gpu on(gpu);
  what(by, std::span(send, participants), std::span(receive, participants));
}

// Converts an enumeration. The enumerations of the two interfaces have the same numbers.
template <class Kind>
Kind known(int number, std::size_t kinds, const char* what) {
  if (number < 0 || static_cast<std::size_t>(number) >= kinds)
    throw usage_error(std::string("there is no ") + what + " " + std::to_string(number) +
                      " of an all-reduce");
  return static_cast<Kind>(number);
}
static_assert(static_cast<int>(reduced_type::int64) == INTERLACE_INT64 &&
              INTERLACE_INT64 + 1 == reduced_types);
static_assert(static_cast<int>(reduce_by::max) == INTERLACE_MAX &&
              INTERLACE_MAX + 1 == reduce_kinds);

copy_options options_of(const char* const* settings) {
  std::vector<std::string> words;
  for (; settings != nullptr && *settings != nullptr; ++settings) words.emplace_back(*settings);
  return plan::read_copy_options(words);
}

int place_of(const void* memory, std::size_t bytes) {
  const auto seen = cuda::view_memory(driver(), reinterpret_cast<cuda::device_address>(memory),
                                      bytes == 0 ? 1 : bytes);
  switch (seen.kind) {
    case cuda::memory_kind::gpu:
      return seen.gpu;
    case cuda::memory_kind::pinned:
      return INTERLACE_PAGE_LOCKED;
    case cuda::memory_kind::managed:
      return INTERLACE_MANAGED;
    case cuda::memory_kind::mixed:
      return INTERLACE_MIXED;
    case cuda::memory_kind::host:
      break;
  }
  return INTERLACE_PAGEABLE;
}

bool is_capturing(int gpu, CUstream_st* stream) {
  const on_gpu on(gpu);
  int status = cuda::capture_none;
  unsigned long long sequence = 0;
  CUgraph_st* graph = nullptr;
  CUgraphNode_st* const* nodes = nullptr;
  std::size_t count = 0;
  // The driver reports an error if the default stream is queried while another stream is being
  // captured. This error means that the default stream itself is not being captured.
  return driver().capture_info(stream, &status, &sequence, &graph, &nodes, &count) ==
             cuda::driver_result::success &&
         status == cuda::capture_active;
}

std::unique_ptr<interlace_event> record(int gpu, CUstream_st* stream) {
  const cuda::driver_table& calls = driver();
  const cuda::relaxed_capture_mode relaxed(calls);
  const on_gpu on(gpu);
  // An event must belong to its stream's context. That context can belong to another GPU.
  std::optional<cuda::in_context> of_stream;
  CUctx_st* context = nullptr;
  if (reinterpret_cast<std::uintptr_t>(stream) > cuda::per_thread_stream &&
      calls.stream_context(stream, &context) == cuda::driver_result::success)
    of_stream.emplace(calls, context);
  auto made = std::make_unique<interlace_event>();
  cuda::check(calls, calls.event_create(&made->recorded, cuda::event_without_timing),
              "cuEventCreate");
  const int result = calls.event_record(made->recorded, stream);
  if (result != cuda::driver_result::success) {
    cuda::log_failure(calls, calls.event_destroy(made->recorded), "cuEventDestroy");
    cuda::check(calls, result, "cuEventRecord");
  }
  return made;
}

bool is_done(const interlace_event& event) {
  const cuda::driver_table& calls = driver();
  const cuda::relaxed_capture_mode relaxed(calls);
  const int result = calls.event_query(event.recorded);
  if (result == cuda::driver_result::not_ready) return false;
  cuda::check(calls, result, "cuEventQuery");
  return true;
}

interlace_copy_statistics as_c(const copy_statistics& now) {
  interlace_copy_statistics made{};
  made.direct = now.direct;
  made.streams = now.streams;
  made.graphs = now.graphs;
  made.captured = now.captured;
  made.bytes = now.bytes;
  made.hits = now.hits;
  made.misses = now.misses;
  made.evictions = now.evictions;
  made.executables = now.executables;
  made.creation_s = now.creation_s;
  made.construction_s = now.construction_s;
  made.instantiation_s = now.instantiation_s;
  made.update_s = now.update_s;
  made.launch_s = now.launch_s;
  made.nodes = now.nodes;
  made.updates = now.updates;
  made.launches = now.launches;
  made.staging_bytes = now.staging_bytes;
  return made;
}

}  // namespace
}  // namespace interlace

extern "C" {

int interlace_copy_abi(void) { return INTERLACE_COPY_ABI; }

const char* interlace_version(void) { return INTERLACE_VERSION; }

const char* interlace_last_error(void) { return interlace::last_error(); }

interlace_result interlace_copy_async(void* dst, const void* src, size_t bytes,
                                      CUstream_st* stream) {
  return interlace_copier_copy_async(nullptr, INTERLACE_CURRENT_GPU, dst, src, bytes, stream);
}

interlace_result interlace_copier_create(const char* const* settings, interlace_copier** copier) {
  return interlace::guarded([&] {
    if (copier == nullptr) throw interlace::usage_error("the pointer for the new copier is null");
    const auto options = [&] {
      try {
        return interlace::options_of(settings);
      } catch (const interlace::usage_error& error) {
        throw interlace::failed(INTERLACE_INVALID_SETTING, error.what());
      }
    }();
    (void)interlace::driver();
    *copier =
        std::make_unique<interlace_copier>(interlace_copier{interlace::copier(options)}).release();
  });
}

void interlace_copier_destroy(interlace_copier* copier) {
  (void)interlace::guarded([&] { const std::unique_ptr<interlace_copier> ended(copier); });
}

interlace_result interlace_copier_copy_async(interlace_copier* copier, int gpu, void* dst,
                                             const void* src, size_t bytes, CUstream_st* stream) {
  return interlace::guarded([&] { interlace::copy_on(copier, gpu, dst, src, bytes, stream); });
}

interlace_result interlace_copier_copy_batch_async(interlace_copier* copier, int gpu,
                                                   const interlace_batch_copy* copies, size_t count,
                                                   CUstream_st* stream) {
  return interlace::guarded([&] { interlace::copy_batch_on(copier, gpu, copies, count, stream); });
}

interlace_result interlace_copier_copy_blocks_async(interlace_copier* copier, int gpu,
                                                    const interlace_blocks* blocks, size_t size,
                                                    CUstream_st* stream,
                                                    interlace_blocks_way* way) {
  return interlace::guarded([&] {
    const interlace_blocks_way taken = interlace::copy_blocks_on(copier, gpu, blocks, size, stream);
    if (way != nullptr) *way = taken;
  });
}

interlace_result interlace_copier_all_gather_async(interlace_copier* copier, int gpu,
                                                   const void* const* send, void* const* receive,
                                                   size_t participants, size_t bytes,
                                                   CUstream_st* stream) {
  return interlace::guarded([&] {
    interlace::collect_on(copier, gpu, send, receive, participants, bytes,
                          [&](interlace::copier& by, auto from, auto to) {
                            by.all_gather_async(from, to, bytes, stream);
                          });
  });
}

interlace_result interlace_copier_all_to_all_async(interlace_copier* copier, int gpu,
                                                   const void* const* send, void* const* receive,
                                                   size_t participants, size_t bytes,
                                                   CUstream_st* stream) {
  return interlace::guarded([&] {
    interlace::collect_on(copier, gpu, send, receive, participants, bytes,
                          [&](interlace::copier& by, auto from, auto to) {
                            by.all_to_all_async(from, to, bytes, stream);
                          });
  });
}

interlace_result interlace_copier_all_reduce_async(interlace_copier* copier, int gpu,
                                                   const void* const* send, void* const* receive,
                                                   size_t participants, size_t count,
                                                   interlace_element type, interlace_reduction by,
                                                   CUstream_st* stream) {
  return interlace::guarded([&] {
    const auto of = interlace::known<interlace::reduced_type>(
        static_cast<int>(type), interlace::reduced_types, "element type");
    const auto how = interlace::known<interlace::reduce_by>(static_cast<int>(by),
                                                            interlace::reduce_kinds, "reduction");
    interlace::collect_on(copier, gpu, send, receive, participants, count,
                          [&](interlace::copier& with, auto from, auto to) {
                            with.all_reduce_async(from, to, count, of, how, stream);
                          });
  });
}

interlace_result interlace_copier_prepare(interlace_copier* copier) {
  return interlace::guarded([&] { interlace::of(copier).prepare(); });
}

interlace_result interlace_copier_statistics(interlace_copier* copier,
                                             interlace_copy_statistics* statistics, size_t size) {
  return interlace::guarded([&] {
    if (statistics == nullptr)
      throw interlace::usage_error("the pointer for the statistics is null");
    const interlace_copy_statistics now = interlace::as_c(interlace::of(copier).statistics());
    // Members that this version of the library does not know stay 0.
    std::memset(statistics, 0, size);
    std::memcpy(statistics, &now, std::min(size, sizeof now));
  });
}

interlace_result interlace_memory_place(const void* memory, size_t bytes, int* place) {
  return interlace::guarded([&] {
    if (place == nullptr) throw interlace::usage_error("the pointer for the answer is null");
    *place = interlace::place_of(memory, bytes);
  });
}

interlace_result interlace_stream_is_capturing(int gpu, CUstream_st* stream, int* answer) {
  return interlace::guarded([&] {
    if (answer == nullptr) throw interlace::usage_error("the pointer for the answer is null");
    *answer = interlace::is_capturing(gpu, stream) ? 1 : 0;
  });
}

interlace_result interlace_event_record(int gpu, CUstream_st* stream, interlace_event** event) {
  return interlace::guarded([&] {
    if (event == nullptr) throw interlace::usage_error("the pointer for the event is null");
    *event = interlace::record(gpu, stream).release();
  });
}

interlace_result interlace_event_wait(const interlace_event* event, int gpu, CUstream_st* stream) {
  return interlace::guarded([&] {
    if (event == nullptr) throw interlace::usage_error("there is no event to wait for");
    const interlace::cuda::driver_table& calls = interlace::driver();
    const interlace::on_gpu on(gpu);
    interlace::cuda::check(calls, calls.stream_wait(stream, event->recorded, 0),
                           "cuStreamWaitEvent");
  });
}

interlace_result interlace_event_done(const interlace_event* event, int* answer) {
  return interlace::guarded([&] {
    if (event == nullptr || answer == nullptr)
      throw interlace::usage_error("the event, or the pointer for the answer, is null");
    *answer = interlace::is_done(*event) ? 1 : 0;
  });
}

void interlace_event_destroy(interlace_event* event) {
  if (event == nullptr) return;
  (void)interlace::guarded([&] {
    const std::unique_ptr<interlace_event> ended(event);
    const interlace::cuda::driver_table& calls = interlace::driver();
    const interlace::cuda::relaxed_capture_mode relaxed(calls, std::nothrow);
    interlace::cuda::log_failure(calls, calls.event_destroy(ended->recorded), "cuEventDestroy");
  });
}

}  // extern "C"
