// Strings of bytes by which caches find what was made before.
#pragma once

#include <cstdint>
#include <string>

namespace interlace::cuda {

inline void append(std::string& key, std::uint64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace interlace::cuda
