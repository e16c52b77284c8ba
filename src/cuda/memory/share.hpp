// Shares device memory between processes: plain memory by CUDA IPC, and memory that virtual memory
// management has mapped by file descriptors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/processes.hpp"
#include "cuda/memory/pieces.hpp"

namespace interlace::cuda {

// Smaller plain memory can be in one allocation with other memory. That other memory would then be
// shared, too.
inline constexpr std::uint64_t least_shared_bytes = std::uint64_t{2} << 20U;

struct exported_memory {
  std::string text;                     // the argument of import
  std::vector<descriptor> descriptors;  // the descriptors of the pieces, in order
};

// Throws usage_error, which begins with `what`, if the memory cannot be shared.
exported_memory export_memory(const memory_pieces& memory, const std::string& what);

// Memory of other processes that this process maps.
class imported_memory {
 public:
  imported_memory() = default;
  ~imported_memory() { clear(); }
  imported_memory(const imported_memory&) = delete;
  imported_memory& operator=(const imported_memory&) = delete;
  imported_memory(imported_memory&&) = delete;
  imported_memory& operator=(imported_memory&&) = delete;

  // The number of descriptors that belong to a text.
  static std::size_t descriptors_of(const std::string& text);
  // Maps the memory for GPU `ordinal`, until clear is called. Throws device_error.
  void* import(const std::string& text, const std::vector<descriptor>& descriptors, int ordinal);
  void clear() noexcept;

 private:
  struct opened {
    int ordinal;
    void* data;  // memory mapped by CUDA IPC; null: mapped by virtual memory management
    std::uint64_t address;
    std::uint64_t reserved;
    std::uint64_t mapped;
  };
  std::vector<opened> opened_;
};

}  // namespace interlace::cuda
