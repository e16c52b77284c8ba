// Memory of the GPUs of one process, and access between GPUs.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace::cuda {

// Makes a GPU the current GPU while the object lives. The destructor restores the previous GPU.
class current_device {
 public:
  explicit current_device(int ordinal);
  ~current_device();
  current_device(const current_device&) = delete;
  current_device& operator=(const current_device&) = delete;
  current_device(current_device&&) = delete;
  current_device& operator=(current_device&&) = delete;

 private:
  int before_ = 0;
};

// Memory from plain cudaMalloc. The memory lives as long as its owner. Every byte starts as 0xff,
// so that elements that were never written are easy to see: they are NaN, or the largest unsigned
// number.
class device_memory {
 public:
  device_memory() = default;
  ~device_memory();
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  device_memory(device_memory&&) = delete;
  device_memory& operator=(device_memory&&) = delete;

  // Allocates memory in which every byte is 0xff. Returns nullptr for 0 bytes.
  void* take(int ordinal, std::uint64_t bytes);

 private:
  struct allocation {
    int ordinal;
    void* data;
  };
  std::vector<allocation> allocations_;
};

// Host memory that all GPUs access at the same address. Every byte starts as 0.
class mapped_memory {
 public:
  explicit mapped_memory(std::size_t bytes);
  ~mapped_memory();
  mapped_memory(const mapped_memory&) = delete;
  mapped_memory& operator=(const mapped_memory&) = delete;
  mapped_memory(mapped_memory&&) = delete;
  mapped_memory& operator=(mapped_memory&&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

// Enables access from GPU `from` to the memory of GPU `to`, once for the process. Returns false if
// the machine does not support this access.
bool try_peer_access(int from, int to);

// Enables access between each pair of these GPUs, once for the process. Throws device_error if the
// machine does not support access between a pair. The error names the pair.
void enable_peer_access(const std::vector<int>& ordinals);

}  // namespace interlace::cuda
