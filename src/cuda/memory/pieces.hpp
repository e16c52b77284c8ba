// What memory that a caller brings is made of: one allocation, or pieces that were mapped one
// behind the other, as PyTorch's expandable segments are.
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
  bool mapped = false;        // by virtual memory management; else one piece, of cudaMalloc
  std::vector<piece> pieces;  // adjoining
  std::uint64_t offset = 0;   // of the memory from the first one's address
};

// Of [data, data + bytes) on the GPU. Throws usage_error that begins with `what` where it is not
// all in such memory of that GPU.
memory_pieces find_pieces(const void* data, std::uint64_t bytes, int ordinal,
                          const std::string& what);

// Lets GPUs of this process, which have peer access, reach them.
void grant_access(const memory_pieces& memory, const std::vector<int>& ordinals);

}  // namespace interlace::cuda
