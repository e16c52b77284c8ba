// Fuzzes the reader of the output of NVBit's mem_trace.
#include "sim/trace/mem_trace.hpp"

#include "fuzzer.hpp"
#include "trace_check.hpp"

namespace {

using namespace interlace;  // NOLINT: this file is a whole program

std::string line(const std::string& before, const std::string& address) {
  std::string text = "MEMTRACE: CTX 0x00001 - grid_launch_id " + before + " - ";
  for (int k = 0; k < 32; ++k) text += (k < 3 ? address : std::string("0x0000000000000000")) + " ";
  return text + "\n";
}

void try_input(const std::string& input) {
  sim::trace::header h;
  h.gpus = 2;
  h.ranges = {{0x7f0000000000, 0x7f0000100000, 0, 0}, {0x7f0000200000, 0x7f0000300000, 1, 0}};
  fuzz::check_conversion(h, [&](sim::trace::sink& to) {
    sim::trace::mem_trace from(to, h, "out", {{2, 1}});
    from.feed(std::string_view(input).substr(0, input.size() / 2));
    from.feed(std::string_view(input).substr(input.size() / 2));
    from.finish();
  });
}

}  // namespace

interlace::fuzz::target interlace::fuzz::make_target() {
  const std::string sizes =
      " - grid size 2,1,1 - block size 64,1,1 - nregs 9 - shmem 0 - cuda stream id 0\n";
  const std::string launch =
      "MEMTRACE: CTX 0x00001 - LAUNCH - Kernel pc 0x7f - Kernel name k - "
      "grid launch id ";
  return {{launch + "0" + sizes + line("0 - CTA 1,0,0 - warp 9 - STG.E.64", "0x7f0000200000") +
               line("0 - CTA 0,0,0 - warp 1 - LDG.E", "0x7f0000000010") + launch + "1" + sizes +
               line("1 - CTA 0,0,0 - warp 2 - LDS", "0x4"),
           launch + "7\nwords\n" + line("7 - CTA 0,3,9 - warp 2 - RED.E.ADD", "0x7f0000000020")},
          {"\n", " ", " - ", "0x", "CTX 0x2", "LAUNCH - ", "4294967296", ",", "LDGSTS", "UTMALDG",
           "CTA ", "warp ", "grid launch id ", "grid size ", "1024", "MEMTRACE: CTX ", "-1"},
          nullptr,
          try_input};
}
