// Fuzzes the reader of copy profiles, which `interlace tune copy` writes.
#include "fuzzer.hpp"
#include "plan/copy_profile.hpp"

interlace::fuzz::target interlace::fuzz::make_target() {
  const std::string choice =
      R"({"bytes": 2097152, "paths": "gpus+host", "chunks": 4, "executor": "streams"})";
  const std::string profile =
      R"({"kind": "interlace copy profile", "format": 1, "machine": {"model": "NVIDIA \u00e9", )"
      R"("gpus": 4, "driver": "580.1"}, "directions": {"host-to-gpu": {"classes": [)" +
      choice +
      R"(]}, "gpu-to-host": {"classes": []}, "gpu-to-gpu": {"classes": []}}, )"
      R"("x": [null, true, -1.5e3]})";
  return {{profile},
          {"\"",
           "{",
           "}",
           "[",
           "]",
           ",",
           ":",
           "\\u12",
           "\\",
           "null",
           "1e999",
           "-0",
           "\"format\"",
           "\"bytes\": 0",
           "18446744073709551616",
           "\"gpus\"",
           "\"host\"",
           "\"direct\"",
           choice,
           "\"executor\": \"graphs\"",
           "[[[[[[[["},
          nullptr,
          [](const std::string& input) { (void)plan::read_copy_profile(input, "profile"); }};
}
