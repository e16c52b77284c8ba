// Builds the byte strings that are keys of caches.
#pragma once

#include <cstdint>
#include <string>

namespace interlace::cuda {

inline void append(std::string& key, std::uint64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace interlace::cuda
