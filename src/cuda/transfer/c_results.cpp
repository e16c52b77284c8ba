#include "cuda/transfer/c_results.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

namespace interlace {

namespace {

// A sentence is cut to this fixed size, so that a lack of memory can be reported without an
// allocation.
thread_local std::array<char, 1024> sentence{};

}  // namespace

const char* last_error() noexcept { return sentence.data(); }

interlace_result fail(interlace_result result, const char* text) noexcept {
  const std::size_t length = std::min(std::strlen(text), sentence.size() - 1);
  std::memcpy(sentence.data(), text, length);
  sentence[length] = '\0';
  return result;
}

const cuda::driver_table& driver() {
  try {
    return cuda::real_driver();
  } catch (const std::runtime_error& error) {
    throw failed(INTERLACE_NO_GPU, error.what());
  }
}

}  // namespace interlace
