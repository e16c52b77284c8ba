// Pools of GPU memory whose contents can leave the GPU and come back to the same addresses.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/park/elastic_memory.hpp"
#include "cuda/transfer/driver_table.hpp"
#include "cuda/transfer/page_locked.hpp"

namespace interlace::cuda {

// Places for parked contents. A place is one of these two values, or the number of a GPU.
inline constexpr int park_on_host = -1;
inline constexpr int park_nowhere = -2;

struct park_request {
  int to = park_on_host;
  bool keep_pool = true;  // whether to keep the page-locked memory when the pool resumes
  // The addresses of allocations whose contents may be dropped.
  std::span<const device_address> without_contents{};
};

struct park_report {
  std::uint64_t bytes = 0;  // number of bytes of contents that moved
  // bytes of physical memory that the GPUs gained in a park, or lost in a resume
  std::uint64_t gpu_bytes = 0;
  std::uint64_t locked_bytes = 0;  // bytes of host memory that were page-locked anew
  double seconds = 0;
};

struct gpu_range {
  device_address address = 0;
  std::uint64_t bytes = 0;
  int gpu = 0;
};

struct pool_facts {
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;
  bool parked = false;
  int place = park_on_host;      // place of the contents, if the pool is parked
  std::uint64_t host_bytes = 0;  // bytes of page-locked memory that the contents occupy
};

struct parking_options {
  std::uint64_t slab_bytes = std::uint64_t{64} << 20U;  // size of a slab of page-locked memory
  // The number of threads that touch new memory; 0 means one for each core, up to 16.
  unsigned threads = 0;
  // Returns the number of bytes of host memory that can be page-locked, or no value if this is
  // unknown.
  std::function<std::optional<std::uint64_t>()> available_bytes;
};

// Pools of memory and their operations. All functions are thread-safe. They throw usage_error for
// an unknown pool or address, and device_error if the driver fails.
class parking {
 public:
  // A stream-ordered copy between unified addresses, such as interlace::copy_async.
  using copy_function = std::function<void(device_address to, device_address from,
                                           std::uint64_t bytes, CUstream_st*)>;

  parking(const driver_table& driver, copy_function copy, parking_options options);
  // Frees everything. No work may use the memory at this time.
  ~parking();
  parking(const parking&) = delete;
  parking& operator=(const parking&) = delete;

  // Makes a pool, unless a pool of this name exists.
  void make_pool(const std::string& name);
  // Allocates memory in a pool. Throws usage_error if the pool is parked.
  device_address allocate(const std::string& name, int gpu, std::uint64_t bytes);
  // Frees an allocation. Unless the memory is parked, waits for all work on the GPU first. If the
  // function throws, the memory is still allocated.
  void free(device_address address);

  // Page-locks memory for the contents of all pools for which this function was called since they
  // were parked last. The next parks of these pools then need not page-lock memory. A park that
  // begins during the call ends the call early, and page-locks the memory that is still missing.
  // Returns the number of bytes that were page-locked. If the function throws, the memory that was
  // page-locked so far is kept for later parks.
  std::uint64_t prepare(const std::string& name);
  // Waits for all work on the pool's GPUs, moves the contents away and releases the physical
  // memory. If the function throws, either nothing has changed, or the message says that `resume`
  // must be called.
  park_report park(const std::string& name, const park_request& how);
  // Creates physical memory and brings the contents back. Returns when the contents are back. If
  // the function throws, the pool is still parked.
  park_report resume(const std::string& name);

  // keep_contents is for allocators that map and unmap memory themselves. It waits for all work on
  // the GPUs and copies the contents of the ranges to page-locked memory. `report` gets the counts.
  // If the function throws, nothing is kept.
  struct kept_contents;
  std::shared_ptr<kept_contents> keep_contents(std::span<const gpu_range> ranges,
                                               park_report& report);
  // Copies contents back. Each address must be the first address of a range that was kept.
  park_report restore_contents(kept_contents& kept, std::span<const device_address> addresses);
  // Drops the contents and keeps the page-locked memory for later parks. The contents cannot be
  // restored afterwards.
  void drop_contents(kept_contents& kept);

  pool_facts facts(const std::string& name);
  // The name of the pool that has the memory at an address. There is no value if no pool has it.
  std::optional<std::string> pool_of(device_address address);
  // The number of page-locked bytes that are kept for the next park.
  std::uint64_t idle_host_bytes();
  // Returns to the system the page-locked memory that is kept for the next park.
  void free_idle_host_memory();

 private:
  struct gpu_state;
  struct content;
  struct allocation;
  struct pool;
  class transfer;
  struct owner {
    std::shared_ptr<pool> of;
    std::uint64_t bytes = 0;
  };

  std::shared_ptr<pool> find(const std::string& name);
  gpu_state& gpu_of(int number);
  void synchronize(const gpu_state& gpu);
  std::uint64_t park_on_slabs(pool& of);
  void fill(std::vector<page_locked>& slabs, std::size_t ready, transfer& copies);
  std::uint64_t store(const std::string& what, transfer& copies, std::vector<page_locked>& slabs,
                      const std::function<void()>& release, const std::function<bool()>& needed);
  void store_on_gpu(pool& of, int number);
  void detach(allocation& one);
  static bool any_away(const pool& of);
  void undo(pool& of, const std::string& reason);
  std::uint64_t restore(pool& of);
  void end_parking(pool& of);

  std::vector<page_locked> take_idle(std::size_t most);
  void check_available(const std::string& what, std::uint64_t missing) const;
  std::unique_lock<std::mutex> end_preparing();
  void keep(std::vector<page_locked>& slabs);
  void clear(std::vector<page_locked>& slabs) noexcept;
  void give_back(std::unique_ptr<elastic_memory> memory);
  void leave(std::vector<page_locked>& slabs);
  void leave(std::unique_ptr<elastic_memory> memory);
  void sweep();

  const driver_table& driver_;
  copy_function copy_;
  parking_options options_;
  // Guards pools_, owners_ and gpus_. A thread that also needs a pool's mutex must lock the pool's
  // mutex first.
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<pool>> pools_;
  std::map<device_address, owner> owners_;  // the key is the first address of an allocation
  std::map<int, std::unique_ptr<gpu_state>> gpus_;
  std::mutex preparing_mutex_;              // locked while memory is page-locked in advance
  std::atomic<int> wait_for_preparing_{0};  // number of threads that wait for preparing_mutex_
  std::mutex idle_mutex_;                   // guards the following members
  std::vector<page_locked> idle_;
  std::map<std::string, std::size_t> prepared_;  // for each prepared pool, the slabs that it needs
  // Memory that could not be given back yet, because copies may still use it or because unmapping
  // failed.
  std::vector<page_locked> left_slabs_;
  std::vector<std::unique_ptr<elastic_memory>> left_memory_;
};

}  // namespace interlace::cuda
