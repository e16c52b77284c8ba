// Fuzzes the readers of kernel files from Accel-Sim's tracer (versions 4 and 5), and of lists of
// such files.
#include "sim/trace/accel_sim.hpp"

#include "fuzzer.hpp"
#include "trace_check.hpp"

namespace {

using namespace interlace;  // NOLINT: this file is a whole program
using sim::trace::header;

const std::string head =
    "-kernel name = k\n-grid dim = (2,2,1)\n-block dim = (33,1,1)\n-shmem = 128\n"
    "-shmem base_addr = 0x00007e0000000000\n-local mem base_addr = 0x00007e0002000000\n";
const std::string body =
    "\n#traces format = x\n\n#BEGIN_TB\n\nthread block = 1,0,0\n\nwarp = 0\ninsts = 6\n"
    "0000 0000000d 1 R2 LDG.E.SYS 1 R4 4 0 0x7f0000000000 0x7f0000000010 0x7f0000000008\n"
    "0010 0000000f 0 STG.E.64.SYS 2 R4 R2 8 1 0x7f0000200000 8\n"
    "0020 00000111 1 R9 LDG.E.U8.STRONG.GPU 1 R8 1 2 0x7f0000000100 -16 300\n"
    "0030 ffffffff 1 R5 FFMA 3 R9 R2 R255 0\n"
    "0040 ffffffff 0 BAR.SYNC 0 0\n0050 ffffffff 0 MEMBAR.SC.SYS 0 0\n"
    "\nwarp = 1\ninsts = 1\n0020 00000001 0 RED.E.ADD.F64 2 R4 R2 4 2 0x7f0000000100\n\n#END_TB\n"
    "\n#BEGIN_TB\nthread block = 0,1,0\ncluster id = 0,0,0\n#END_TB\n";

void try_input(const std::string& input) {
  header h;
  h.gpus = 2;
  h.ranges = {{0x7f0000000000, 0x7f0000100000, 0, 0}, {0x7f0000200000, 0x7f0000300000, 1, 0}};
  fuzz::check_conversion(h, [&](sim::trace::sink& to) {
    sim::trace::accel_sim from(to, h);
    if (input.compare(0, 1, "-") != 0) {
      for (const auto& step : sim::trace::read_kernels_list(input, "list")) {
        if (step.is_copy) from.copy(step, "list");
      }
      return;
    }
    from.begin_file("k", 1);
    from.feed(std::string_view(input).substr(0, input.size() / 2));
    from.feed(std::string_view(input).substr(input.size() / 2));
    from.end_file();
  });
}

}  // namespace

interlace::fuzz::target interlace::fuzz::make_target() {
  std::string with_immediates = body;
  for (std::size_t at = with_immediates.find("\n0"); at != std::string::npos;
       at = with_immediates.find("\n0", at + 1)) {
    const std::size_t end = with_immediates.find('\n', at + 1);
    with_immediates.insert(end, " 16");
  }
  return {{head + "-accelsim tracer version = 4\n" + body,
           head + "-accelsim tracer version = 5\n-enable lineinfo = 0\n" + with_immediates,
           "MemcpyHtoD,0x00007f0000000010,64\nkernel-1.traceg\nMemcpyDtoH,0x7f0000200000,8\n"},
          {"\n",
           " ",
           "0x",
           "-1",
           "4294967296",
           "18446744073709551616",
           "R256",
           "R0",
           "#END_TB\n",
           "#BEGIN_TB\n",
           "thread block = ",
           "warp = ",
           "insts = ",
           "\n\n",
           "ffffffff",
           "LDG.E.128",
           "ATOMG",
           "UBLKCP",
           "-enable lineinfo = 1\n",
           ",",
           "-",
           "2147483647"},
          nullptr,
          try_input};
}
