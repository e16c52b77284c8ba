// The pieces of memory that a caller supplies. The memory is either one allocation, or several
// adjacent mapped pieces as in PyTorch's expandable segments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace interlace::cuda {

struct memory_pieces {
  struct piece {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
  };
  // true: virtual memory management mapped the pieces; false: one piece from cudaMalloc
  bool mapped = false;
  std::vector<piece> pieces;  // adjacent pieces
  std::uint64_t offset = 0;   // offset of the memory from the first piece's address
};

// Finds the pieces of [data, data + bytes) on the GPU. Throws usage_error unless all of the memory
// is in such pieces on this GPU. The error begins with `what`.
memory_pieces find_pieces(const void* data, std::uint64_t bytes, int ordinal,
                          const std::string& what);

// Gives GPUs of this process access to the pieces. The GPUs must have peer access.
void grant_access(const memory_pieces& memory, const std::vector<int>& ordinals);

}  // namespace interlace::cuda
