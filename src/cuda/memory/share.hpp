// Shares device memory between processes: plain memory by CUDA IPC, memory mapped by virtual memory
// management by file descriptors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/processes.hpp"
#include "cuda/memory/pieces.hpp"

namespace interlace::cuda {

// Smaller plain memory can be in one allocation with other memory, which would then be shared as
// well.
inline constexpr std::uint64_t least_shared_bytes = std::uint64_t{2} << 20U;

struct exported_memory {
  std::string text;                     // argument of import
  std::vector<descriptor> descriptors;  // descriptors of the pieces, in order
};

// Throws usage_error that begins with `what` if the memory cannot be shared.
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

  // The number of descriptors that belong to the text.
  static std::size_t descriptors_of(const std::string& text);
  // Maps the memory for GPU `ordinal`, until clear. Throws device_error.
  void* import(const std::string& text, const std::vector<descriptor>& descriptors, int ordinal);
  void clear() noexcept;

 private:
  struct opened {
    int ordinal;
    void* data;  // mapped by CUDA IPC; null: by virtual memory management
    std::uint64_t address;
    std::uint64_t reserved;
    std::uint64_t mapped;
  };
  std::vector<opened> opened_;
};

}  // namespace interlace::cuda
