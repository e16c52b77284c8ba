// Device memory of one process in others: plain memory by CUDA IPC, what virtual memory management
// mapped by file descriptors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/processes.hpp"
#include "cuda/memory/pieces.hpp"

namespace interlace::cuda {

// Plain memory of fewer bytes may lie in an allocation with others', which would be shared as well.
inline constexpr std::uint64_t least_shared_bytes = std::uint64_t{2} << 20U;

struct exported_memory {
  std::string text;                     // for import
  std::vector<descriptor> descriptors;  // that go with it, in this order
};

// Throws usage_error that begins with `what` where the memory was not made to be shared.
exported_memory export_memory(const memory_pieces& memory, const std::string& what);

// What a process maps of others'.
class imported_memory {
 public:
  imported_memory() = default;
  ~imported_memory() { clear(); }
  imported_memory(const imported_memory&) = delete;
  imported_memory& operator=(const imported_memory&) = delete;
  imported_memory(imported_memory&&) = delete;
  imported_memory& operator=(imported_memory&&) = delete;

  // How many descriptors go with the text.
  static std::size_t descriptors_of(const std::string& text);
  // The memory as GPU `ordinal` reaches it, until clear. Throws device_error.
  void* import(const std::string& text, const std::vector<descriptor>& descriptors, int ordinal);
  void clear() noexcept;

 private:
  struct opened {
    int ordinal;
    void* data;  // by CUDA IPC; null: mapped
    std::uint64_t address;
    std::uint64_t reserved;
    std::uint64_t mapped;
  };
  std::vector<opened> opened_;
};

}  // namespace interlace::cuda
