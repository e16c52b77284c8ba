// The environment variables of the preloaded library. Those of the copies themselves
// (INTERLACE_COPY...) are in plan/copy_settings.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace interlace::preload {

enum class start_mode : std::uint8_t {
  background,  // copies stay as they are until the engine is ready
  wait,        // the copy that starts the engine waits for it
  never,       // nothing is taken over, only counted
};

struct settings {
  // INTERLACE_PRELOAD_THRESHOLD: copies of fewer bytes are never taken over; 64K, 2M, 1G.
  std::uint64_t threshold_bytes = std::uint64_t{2} << 20U;
  // INTERLACE_PRELOAD_AFTER: bytes that copies which could be taken over move before the engine
  // starts, which takes memory of every GPU; 0: it starts with the first one.
  std::uint64_t after_bytes = std::uint64_t{256} << 20U;
  // INTERLACE_PRELOAD_START: background, wait or never.
  start_mode start = start_mode::background;
  // INTERLACE_PRELOAD_COUNTERS: the file of counters, which `interlace run` makes; none: nothing is
  // counted.
  std::string counters;

  // Why a value means nothing, a sentence; then nothing is taken over. `interlace run` refuses such
  // values before the program starts.
  std::string problem;
};

// Of this process, from its start.
const settings& chosen();

}  // namespace interlace::preload
