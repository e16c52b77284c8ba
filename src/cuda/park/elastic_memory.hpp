// A range of addresses on a GPU. Its physical memory can be released and created again, while the
// addresses stay reserved.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cuda/transfer/driver_table.hpp"

namespace interlace::cuda {

// The place and the kind of a memory, and the GPUs that may use it.
struct elastic_place {
  physical_properties properties;  // properties of the memory, including the number of the GPU
  std::uint64_t granularity = 1;   // sizes must be multiples of this number of bytes
  std::vector<int> peers;          // other GPUs, which get access if the driver allows it
};

// Describes memory on the GPU `gpu`, which `peers` may use. The GPU's context must be current.
// Throws device_error.
elastic_place elastic_place_of(const driver_table& driver, int gpu, std::vector<int> peers);

class elastic_memory {
 public:
  // Reserves addresses for at least `bytes` bytes. Copies of GPU `user` need access to the memory.
  // Throws device_error.
  elastic_memory(const driver_table& driver, const elastic_place& place, std::uint64_t bytes,
                 int user);
  // Unmaps and releases the physical memory, if there is any. No work may use the memory at this
  // time.
  ~elastic_memory();
  elastic_memory(const elastic_memory&) = delete;
  elastic_memory& operator=(const elastic_memory&) = delete;

  device_address address() const { return address_; }
  std::uint64_t bytes() const { return bytes_; }
  int gpu() const { return place_.properties.location.id; }
  bool attached() const { return usable_; }

  // Creates physical memory, unless `detach` has kept it, and maps it. Does nothing if the memory
  // is already mapped. If the function throws device_error, nothing has changed.
  void attach();
  // Unmaps the memory and keeps the physical memory with its contents. If the function throws
  // device_error, nothing has changed.
  void detach();
  // Gives detached physical memory back and drops its contents. Writes a line to the log if this
  // fails.
  void release() noexcept;

 private:
  void give_access();
  [[noreturn]] void throw_no_memory() const;

  const driver_table& driver_;
  const elastic_place& place_;
  std::uint64_t bytes_;
  int user_;
  device_address address_ = 0;
  physical_memory physical_ = 0;  // valid if `has_physical_`
  bool has_physical_ = false;
  bool mapped_ = false;
  bool usable_ = false;  // whether the memory is mapped and the GPU has access
};

}  // namespace interlace::cuda
