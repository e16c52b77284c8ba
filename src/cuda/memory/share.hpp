// Shares device memory between processes. Plain memory is shared by CUDA IPC. Memory that virtual
// memory management has mapped is shared by file descriptors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/processes.hpp"
#include "cuda/memory/pieces.hpp"

namespace interlace::cuda {

// The least size of plain memory that can be shared. Smaller memory can be in one allocation with
// other memory, which would be shared, too.
inline constexpr std::uint64_t least_shared_bytes = std::uint64_t{2} << 20U;

struct exported_memory {
  std::string text;                     // the argument of import
  std::vector<descriptor> descriptors;  // descriptors of the pieces, in order
};

// Exports memory. Throws usage_error if the memory cannot be shared. The error begins with `what`.
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
  // Maps the memory for GPU `ordinal`. The memory stays mapped until clear is called. Throws
  // device_error.
  void* import(const std::string& text, const std::vector<descriptor>& descriptors, int ordinal);
  void clear() noexcept;

 private:
  struct opened {
    int ordinal;
    void* data;  // memory that CUDA IPC mapped; null if virtual memory management mapped it
    std::uint64_t address;
    std::uint64_t reserved;
    std::uint64_t mapped;
  };
  std::vector<opened> opened_;
};

}  // namespace interlace::cuda
