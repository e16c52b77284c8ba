// Fuzzes the reader of MGPUSim's mem.trace.
#include "sim/trace/mgpusim.hpp"

#include "fuzzer.hpp"
#include "trace_check.hpp"

namespace {

using namespace interlace;  // NOLINT: this file is a whole program

void try_input(const std::string& input) {
  sim::trace::header h;
  h.gpus = 2;
  h.warp_width = 1;
  h.ranges = sim::trace::mgpusim_ranges(2);
  fuzz::check_conversion(h, [&](sim::trace::sink& to) {
    sim::trace::mgpusim from(to, h, "mem.trace", "L1V");
    from.feed(std::string_view(input).substr(0, input.size() / 2));
    from.feed(std::string_view(input).substr(input.size() / 2));
    from.finish();
  });
}

}  // namespace

interlace::fuzz::target interlace::fuzz::make_target() {
  return {{"start, 0.1, GPU_1.SA_00.L1VCache_00, 7@x, *mem.ReadReq, 0x100000040, 64\n"
           "start, 0.2, GPU_1.SA_00.L1VCache_00, 8_req_out, *mem.ReadReq, 0x100000040, 64\n"
           "step, 0.3, 7@x, hit\nend, 0.3, 7@x\n"
           "start, 0.4, GPU_2.SA_00.L1VCache_01, 9@x, *mem.WriteReq, 0x200000044, 12\n"},
          {"\n", ", ", "GPU_3", "GPU[2]", "GPU_0", "0x", "start, ", "step, ", "4294967297", "128",
           "L1V", "@", "*mem.WriteReq", "-1"},
          nullptr,
          try_input};
}
