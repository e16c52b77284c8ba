// Pools of GPU memory whose contents can leave the GPU and come back to the same addresses.
#pragma once

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

// Places of parked contents besides the numbers of GPUs.
inline constexpr int park_on_host = -1;
inline constexpr int park_nowhere = -2;

struct park_request {
  int to = park_on_host;
  bool keep_pool = true;  // keep the page-locked memory when the pool resumes
  // Addresses of allocations whose contents nobody needs.
  std::span<const device_address> without_contents{};
};

struct park_report {
  std::uint64_t bytes = 0;  // bytes of contents that moved
  std::uint64_t gpu_bytes =
      0;  // physical memory that the GPUs gained by a park, or lost by a resume
  std::uint64_t locked_bytes = 0;  // host memory that was page-locked anew
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
  int place = park_on_host;      // the place of the contents, if it is parked
  std::uint64_t host_bytes = 0;  // page-locked memory that the contents occupy
};

struct parking_options {
  std::uint64_t slab_bytes = std::uint64_t{64} << 20U;  // the size of a slab of page-locked memory
  unsigned threads = 0;  // threads that touch new memory; 0: one for each core, up to 16
  // Returns the bytes of host memory that can be page-locked; no value if unknown.
  std::function<std::optional<std::uint64_t>()> available_bytes;
};

// All functions are thread-safe. They throw usage_error for a pool or an address that is not known,
// and device_error.
class parking {
 public:
  // A stream-ordered copy between unified addresses, such as interlace::copy_async.
  using copy_function = std::function<void(device_address to, device_address from,
                                           std::uint64_t bytes, CUstream_st*)>;

  parking(const driver_table& driver, copy_function copy, parking_options options);
  // Frees everything. No work may use the memory.
  ~parking();
  parking(const parking&) = delete;
  parking& operator=(const parking&) = delete;

  // Makes a pool, if there is none of that name.
  void make_pool(const std::string& name);
  // Throws usage_error if the pool is parked.
  device_address allocate(const std::string& name, int gpu, std::uint64_t bytes);
  // Frees an allocation. Waits for all work on the GPU first, unless the memory is parked. If it
  // throws, the memory is still allocated.
  void free(device_address address);

  // Waits for all work on the pool's GPUs, moves the contents away and releases the physical
  // memory. If it throws, nothing has changed, or the message says that `resume` must be called.
  park_report park(const std::string& name, const park_request& how);
  // Makes physical memory and brings the contents back, and returns when they are there. If it
  // throws, the pool is still parked.
  park_report resume(const std::string& name);

  // For allocators that map and unmap memory themselves: waits for all work on the GPUs and copies
  // the contents of the ranges to page-locked memory. `report` gets the counts. If it throws,
  // nothing is kept.
  struct kept_contents;
  std::shared_ptr<kept_contents> keep_contents(std::span<const gpu_range> ranges,
                                               park_report& report);
  // Copies contents back. Each address must be the first address of a range that was kept.
  park_report restore_contents(kept_contents& kept, std::span<const device_address> addresses);
  // Drops the contents and keeps the page-locked memory for later parks. The contents cannot be
  // restored afterwards.
  void drop_contents(kept_contents& kept);

  pool_facts facts(const std::string& name);
  // The name of the pool whose memory has the address; no value if there is none.
  std::optional<std::string> pool_of(device_address address);
  // Page-locked memory that is kept for the next park.
  std::uint64_t idle_host_bytes();
  // Gives the page-locked memory that is kept back to the system.
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
  void keep(std::vector<page_locked>& slabs);
  void clear(std::vector<page_locked>& slabs) noexcept;
  void give_back(std::unique_ptr<elastic_memory> memory);
  void leave(std::vector<page_locked>& slabs);
  void leave(std::unique_ptr<elastic_memory> memory);
  void sweep();

  const driver_table& driver_;
  copy_function copy_;
  parking_options options_;
  std::mutex mutex_;  // guards pools_, owners_ and gpus_; a pool's own mutex is locked first
  std::map<std::string, std::shared_ptr<pool>> pools_;
  std::map<device_address, owner> owners_;  // the key is the first address of an allocation
  std::map<int, std::unique_ptr<gpu_state>> gpus_;
  std::mutex idle_mutex_;  // guards the members below
  std::vector<page_locked> idle_;
  // Memory that could not be given back yet: copies may still use it, or it could not be unmapped.
  std::vector<page_locked> left_slabs_;
  std::vector<std::unique_ptr<elastic_memory>> left_memory_;
};

}  // namespace interlace::cuda
