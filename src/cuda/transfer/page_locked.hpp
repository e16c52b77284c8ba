// Allocates new page-locked memory on the host.
//
// The driver's own allocation touches and locks pages in one thread, at 3 GB/s. Locking pages that
// were already touched is as fast as a link. But only one call of the driver can lock pages at a
// time. Several threads therefore touch pages, and one thread locks the pages that they have
// touched.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda/transfer/driver_table.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::cuda {

// Thrown if the host has too little memory.
class out_of_host_memory : public device_error {
 public:
  using device_error::device_error;
};

class page_locked {
 public:
  page_locked() = default;
  // Frees the memory. A context must be current.
  ~page_locked() { clear(); }
  page_locked(page_locked&& other) noexcept;
  page_locked& operator=(page_locked&& other) noexcept;
  page_locked(const page_locked&) = delete;
  page_locked& operator=(const page_locked&) = delete;

  char* data() const { return data_; }  // null if there is no memory
  std::uint64_t bytes() const { return bytes_; }

 private:
  friend class page_locker;
  // Takes over memory that the caller has mapped, and registers it for all GPUs.
  page_locked(const driver_table& driver, char* mapped, std::uint64_t bytes);
  void clear() noexcept;

  const driver_table* driver_ = nullptr;
  char* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  // True: the driver allocated the memory; false: it was mapped and registered.
  bool of_driver_ = false;
};

// Makes slabs of page-locked memory. Each call of next() makes one slab. All slabs have the same
// size, which is a multiple of 2 MiB or of the page size.
class page_locker {
 public:
  // Maps memory for all slabs and starts the threads that touch it. Throws out_of_host_memory.
  page_locker(const driver_table& driver, std::uint64_t slab_bytes, std::size_t slabs,
              unsigned threads);
  // Ends the threads, and unmaps the memory that no slab has taken.
  ~page_locker();
  page_locker(const page_locker&) = delete;
  page_locker& operator=(const page_locker&) = delete;

  // Locks the next slab for all GPUs, after the slab has been touched. A context must be current.
  // Throws out_of_host_memory and device_error.
  page_locked next();

 private:
  void touch_pieces();
  bool touch_piece();

  const driver_table& driver_;
  std::uint64_t slab_bytes_;
  std::uint64_t pieces_in_slab_;
  std::uint64_t pieces_;
  std::size_t taken_ = 0;
  char* memory_ = nullptr;
  std::uint64_t bytes_;
  std::atomic<std::uint64_t> next_piece_{0};
  std::mutex mutex_;
  std::condition_variable touched_;
  // For each slab, the number of pieces that were not touched yet.
  std::vector<std::uint64_t> untouched_;
  std::vector<std::thread> threads_;
};

}  // namespace interlace::cuda
