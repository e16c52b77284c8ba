#include "cuda/transfer/pinned_rooms.hpp"

#include <algorithm>
#include <bit>

namespace interlace::cuda {
namespace {

constexpr std::size_t least_bytes = std::size_t{64} << 10U;

}  // namespace

pinned_rooms::pinned_rooms(const driver_table& driver, std::size_t bound)
    : driver_(driver), bound_(bound) {}

pinned_rooms::~pinned_rooms() {
  for (const auto& one : rooms_) {
    log_failure(driver_, driver_.event_synchronize(one->last), "cuEventSynchronize");
    log_failure(driver_, driver_.event_destroy(one->last), "cuEventDestroy");
    // If a graph that still exists may use the memory, the memory is never freed.
    if (one.use_count() == 1) log_failure(driver_, driver_.free_host(one->memory), "cuMemFreeHost");
  }
}

pinned_rooms::room* pinned_rooms::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t wanted = std::max(std::bit_ceil(bytes), least_bytes);
  const auto try_room = [&](std::size_t at, bool larger) -> room* {
    room& one = *rooms_[at];
    if (one.bytes < bytes || (one.bytes > wanted) != larger ||
        one.taken.load(std::memory_order_acquire))
      return nullptr;
    // The query also succeeds before the first use.
    const int result = driver_.event_query(one.last);
    if (result == driver_result::not_ready) return nullptr;
    check(driver_, result, "cuEventQuery");
    one.taken.store(true, std::memory_order_relaxed);
    next_ = at + 1;
    return &one;
  };
  // The room that was used last is tried first, because it is in the caches of the processor.
  if (next_ != 0)
    if (room* const one = try_room(next_ - 1, false)) return one;
  for (const bool larger : {false, true})  // larger rooms are kept for lists that need them
    for (std::size_t tried = 0; tried < rooms_.size(); ++tried)
      if (room* const one = try_room((next_ + tried) % rooms_.size(), larger)) return one;
  if (reserved_ + wanted > bound_) return nullptr;
  auto made = std::make_shared<room>();
  rooms_.reserve(rooms_.size() + 1);
  // The event is made before any work is enqueued. Enqueued work could not be undone if the event
  // failed.
  check(driver_, driver_.event_create(&made->last, event_without_timing), "cuEventCreate");
  void* memory = nullptr;
  const int result = driver_.allocate_host(&memory, wanted, host_memory_portable);
  if (result != driver_result::success) {
    log_failure(driver_, driver_.event_destroy(made->last), "cuEventDestroy");
    if (result == driver_result::out_of_memory) return nullptr;
    check(driver_, result, "cuMemHostAlloc");
  }
  made->memory = static_cast<std::byte*>(memory);
  made->bytes = wanted;
  reserved_ += wanted;
  rooms_.push_back(std::move(made));
  return rooms_.back().get();
}

void pinned_rooms::give(room* used, CUstream_st* stream) noexcept {
  int result = driver_.event_record(used->last, stream);
  log_failure(driver_, result, "cuEventRecord");
  // If no event tells when the stream's work ends, this call waits for the end now. If that fails,
  // the room stays taken.
  if (result != driver_result::success) result = driver_.stream_synchronize(stream);
  if (result == driver_result::success) used->taken.store(false, std::memory_order_release);
}

void pinned_rooms::give_to_graph(room* used, CUgraph_st* graph) {
  std::unique_ptr<std::shared_ptr<room>> owned;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& one : rooms_)
      if (one.get() == used) owned = std::make_unique<std::shared_ptr<room>>(one);
  }
  CUuserObject_st* object = nullptr;
  check(driver_,
        driver_.user_object_create(
            &object, owned.get(),
            [](void* data) {  // a callback of the driver, which may not call the driver
              const std::unique_ptr<std::shared_ptr<room>> ended(
                  static_cast<std::shared_ptr<room>*>(data));
              (*ended)->taken.store(false, std::memory_order_release);
            },
            1, user_object_unsynchronized),
        "cuUserObjectCreate");
  (void)owned.release();  // the user object owns the room now
  const int result = driver_.graph_retain_user_object(graph, object, 1, graph_takes_user_object);
  if (result != driver_result::success) {
    log_failure(driver_, driver_.user_object_release(object, 1), "cuUserObjectRelease");
    check(driver_, result, "cuGraphRetainUserObject");
  }
}

}  // namespace interlace::cuda
