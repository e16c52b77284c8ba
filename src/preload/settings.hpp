// The environment variables of the preloaded library. The variables of the copies themselves
// (INTERLACE_COPY...) are in plan/copy_settings.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace interlace::preload {

enum class start_mode : std::uint8_t {
  background,  // copies are passed through until the engine is ready
  wait,        // the copy that starts the engine waits until the engine is ready
  never,       // copies are counted but never taken over
};

struct settings {
  // INTERLACE_PRELOAD_THRESHOLD: a size such as 64K, 2M or 1G. Copies of fewer bytes are never
  // taken over.
  std::uint64_t threshold_bytes = std::uint64_t{2} << 20U;
  // INTERLACE_PRELOAD_AFTER: the engine starts only after the program has copied this many bytes in
  // copies that the engine could have taken over. The start is late because the engine takes memory
  // of every GPU. With 0, the engine starts with the first copy.
  std::uint64_t after_bytes = std::uint64_t{256} << 20U;
  // INTERLACE_PRELOAD_START: background, wait or never.
  start_mode start = start_mode::background;
  // INTERLACE_PRELOAD_BLOCKS: the largest number of multiprocessors that the kernel for a batch of
  // small blocks uses. With 0, no batch is taken over. With auto, the kernel uses the fewest
  // multiprocessors that fill the link.
  std::optional<unsigned> most_blocks;  // no value means auto
  // INTERLACE_PRELOAD_COUNTERS: the file of counters, which `interlace run` makes. Without a file,
  // nothing is counted.
  std::string counters;

  // A sentence about an invalid value. It is empty if all values are valid. With an invalid value
  // the library takes over no copies. `interlace run` refuses invalid values before the program
  // starts.
  std::string problem;
};

// The settings of this process. They are read once.
const settings& process_settings();

}  // namespace interlace::preload
