#include "cuda/transfer/page_locked.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>

namespace interlace::cuda {

namespace {

constexpr std::uint64_t large_page = std::uint64_t{2} << 20U;
// The number of bytes that a thread touches in one turn.
constexpr std::uint64_t piece_bytes = std::uint64_t{8} << 20U;

// Maps memory that begins at the border of a large page, so that the kernel can use large pages for
// all of it. Returns null if there is no memory.
char* map_new(std::uint64_t bytes) {
  void* const mapped = mmap(nullptr, bytes + large_page, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(mapped);
  const std::uint64_t before =
      (large_page - reinterpret_cast<std::uintptr_t>(begin) % large_page) % large_page;
  if (before != 0) (void)munmap(begin, before);
  begin += before;
  if (before != large_page) (void)munmap(begin + bytes, large_page - before);
  (void)madvise(begin, bytes, MADV_HUGEPAGE);
  // After a fork, the GPU would write to the pages of only one of the two processes. The child
  // therefore does not get these pages.
  (void)madvise(begin, bytes, MADV_DONTFORK);
  return begin;
}

[[noreturn]] void throw_no_memory(std::uint64_t bytes) {
  throw out_of_host_memory("the host has no memory for " + std::to_string(bytes) +
                           " bytes of page-locked memory");
}

}  // namespace

page_locked::page_locked(const driver_table& driver, char* mapped, std::uint64_t bytes)
    : driver_(&driver), bytes_(bytes) {
  int result = driver.host_register(mapped, bytes, host_memory_portable);
  if (result == driver_result::success) {
    data_ = mapped;
    return;
  }
  (void)munmap(mapped, bytes);
  if (result == driver_result::out_of_memory) throw_no_memory(bytes);
  // Some machines refuse to register memory. On such a machine, the driver allocates the memory.
  void* allocated = nullptr;
  result = driver.allocate_host(&allocated, bytes, host_memory_portable);
  if (result == driver_result::out_of_memory) throw_no_memory(bytes);
  check(driver, result, "cuMemHostAlloc");
  data_ = static_cast<char*>(allocated);
  of_driver_ = true;
}

page_locked::page_locked(page_locked&& other) noexcept { *this = std::move(other); }

page_locked& page_locked::operator=(page_locked&& other) noexcept {
  std::swap(driver_, other.driver_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(of_driver_, other.of_driver_);
  return *this;
}

void page_locked::clear() noexcept {
  if (data_ == nullptr) return;
  if (of_driver_) {
    log_failure(*driver_, driver_->free_host(data_), "cuMemFreeHost");
  } else {
    const int result = driver_->host_unregister(data_);
    log_failure(*driver_, result, "cuMemHostUnregister");
    // Memory that the driver still uses must stay mapped.
    if (result == driver_result::success) (void)munmap(data_, bytes_);
  }
  data_ = nullptr;
}

page_locker::page_locker(const driver_table& driver, std::uint64_t slab_bytes, std::size_t slabs,
                         unsigned threads)
    : driver_(driver),
      slab_bytes_(slab_bytes),
      pieces_in_slab_((slab_bytes + piece_bytes - 1) / piece_bytes),
      pieces_(pieces_in_slab_ * slabs),
      bytes_(slab_bytes * slabs),
      untouched_(slabs, pieces_in_slab_) {
  // All slabs are in one mapping. Otherwise each further call to map memory would wait for the
  // driver's page-locking, and would delay the page-locking.
  memory_ = map_new(bytes_);
  if (memory_ == nullptr) throw_no_memory(bytes_);
  try {
    while (threads_.size() < std::min<std::uint64_t>(threads, pieces_))
      threads_.emplace_back([this] { touch_pieces(); });
  } catch (const std::system_error&) {  // without threads, `next` touches the memory itself
  }
}

page_locker::~page_locker() {
  next_piece_ = pieces_;
  for (std::thread& one : threads_) one.join();
  const std::uint64_t taken = taken_ * slab_bytes_;
  if (taken < bytes_) (void)munmap(memory_ + taken, bytes_ - taken);
}

void page_locker::touch_pieces() {
  while (touch_piece()) {
  }
}

// Touches a piece. Returns false if all pieces are taken.
bool page_locker::touch_piece() {
  const std::uint64_t piece = next_piece_++;
  if (piece >= pieces_) return false;
  const std::uint64_t slab = piece / pieces_in_slab_;
  const std::uint64_t begin = piece % pieces_in_slab_ * piece_bytes;
  const std::uint64_t end = std::min(begin + piece_bytes, slab_bytes_);
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  // The loop touches pages one by one, because page faults of several threads run in parallel.
  // MADV_POPULATE_WRITE calls would exclude each other.
  for (std::uint64_t at = begin; at < end; at += page)
    *static_cast<volatile char*>(memory_ + slab * slab_bytes_ + at) = 0;
  const std::lock_guard lock(mutex_);
  if (--untouched_[slab] == 0) touched_.notify_all();
  return true;
}

page_locked page_locker::next() {
  const std::size_t slab = taken_;
  if (threads_.empty()) {
    while (untouched_[slab] != 0) (void)touch_piece();
  } else {
    std::unique_lock lock(mutex_);
    // This uses `wait_for`, because `wait` needs a newer libstdc++ than RHEL 9 and Ubuntu 22.04
    // have.
    while (!touched_.wait_for(lock, std::chrono::hours(1), [&] { return untouched_[slab] == 0; })) {
    }
  }
  ++taken_;
  return {driver_, memory_ + slab * slab_bytes_, slab_bytes_};
}

}  // namespace interlace::cuda
