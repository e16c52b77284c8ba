// Memory of the GPUs of one process, and access between GPUs.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace interlace::cuda {

// Makes a GPU the current one as long as the object lives. The destructor restores the previous
// GPU.
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

// Plain cudaMalloc memory that lives as long as its owner. Every byte starts as 0xff. Elements that
// were never written are therefore easy to see: they are NaN, or the largest unsigned number.
class device_memory {
 public:
  device_memory() = default;
  ~device_memory();
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  device_memory(device_memory&&) = delete;
  device_memory& operator=(device_memory&&) = delete;

  // Returns poisoned memory; nullptr for 0 bytes.
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

// Enables access from `from` to the memory of `to`, once for the process. Returns false if the
// machine does not support it.
bool try_peer_access(int from, int to);

// Enables access between each pair of these GPUs, once for the process. Throws device_error, which
// names the pair, if the machine does not support it.
void enable_peer_access(const std::vector<int>& ordinals);

}  // namespace interlace::cuda
