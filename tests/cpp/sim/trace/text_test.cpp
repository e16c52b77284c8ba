// Traces of other tools. The tests read small traces that were written by hand, and check the
// errors for wrong lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "sim/trace/accel_sim.hpp"
#include "sim/trace/block_grouping.hpp"
#include "sim/trace/line_splitter.hpp"
#include "sim/trace/mem_trace.hpp"
#include "sim/trace/mgpusim.hpp"
#include "sim/trace/recorded.hpp"
#include "sim/trace/sass.hpp"

namespace interlace::text_tests {
namespace {

using namespace sim::trace;  // NOLINT: this file tests the whole namespace
using test::recorded;
using lines = std::vector<std::string>;

header two_gpus() {
  header h;
  h.gpus = 2;
  h.ranges = {{0x7f0000000000, 0x7f0000100000, 0, 0}, {0x7f0000200000, 0x7f0000300000, 1, 0}};
  return h;
}

// The message of the error that `read` throws.
template <class Read>
std::string refusal(const Read& read) {
  try {
    read();
  } catch (const usage_error& error) {
    return error.what();
  }
  return "nothing was wrong";
}

// --- Accel-Sim

const std::string head_4 =
    "-kernel name = _Z3addPf\n-kernel id = 1\n-grid dim = (2,2,1)\n-block dim = (33,1,1)\n"
    "-shmem = 128\n-nregs = 8\n-binary version = 70\n-cuda stream id = 0\n"
    "-shmem base_addr = 0x00007e0000000000\n-local mem base_addr = 0x00007e0002000000\n"
    "-nvbit version = 1.5.5\n-accelsim tracer version = 4\n\n"
    "#traces format = PC mask dest_num [reg_dests] opcode src_num [reg_srcs] mem_width "
    "[adrrescompress?] [mem_addresses]\n\n";

std::string head_5() {
  std::string head = head_4;
  head.replace(head.find("version = 4"), 11, "version = 5");
  head.insert(head.find("\n\n#traces"), "\n-enable lineinfo = 0");
  return head;
}

std::string block(const std::string& index, const std::string& warps) {
  return "\n#BEGIN_TB\n\nthread block = " + index + "\n" + warps + "\n#END_TB\n";
}

recorded read_accel_sim(const std::string& text, std::size_t piece = std::string::npos) {
  recorded seen(2);
  accel_sim from(seen, two_gpus());
  from.begin_file("k.traceg", 1);
  for (std::size_t at = 0; at < text.size(); at += std::min(piece, text.size())) {
    from.feed(std::string_view(text).substr(at, piece));
  }
  from.end_file();
  return seen;
}

TEST(accel_sim, version_4_in_every_way_of_giving_addresses) {
  const std::string text =
      head_4 +
      block("1,0,0",
            "\nwarp = 0\ninsts = 3\n"
            "0000 0000000d 1 R2 LDG.E.SYS 1 R4 4 0 0x00007f0000000000 0x7f0000000010 "
            "0x00007f0000000008 \n"
            "0010 0000000f 0 STG.E.64.SYS 2 R4 R2 8 1 0x7f0000200000 8 \n"
            "0020 00000111 1 R9 LDG.E.U8.STRONG.GPU 1 R8 1 2 0x7f0000000100 -16 300 \n"
            "\nwarp = 1\ninsts = 1\n"
            "0020 00000001 0 RED.E.ADD.F32.FTZ.RN.STRONG.GPU 2 R4 R2 4 2 0x7f0000000100 \n");
  const recorded seen = read_accel_sim(text);
  EXPECT_EQ(seen.program_text, "launch gpu1 4 x 33 shared 128 _Z3addPf after\n");
  EXPECT_EQ(seen.gpus[0], lines{});
  // The store needs the data of the first load, so it follows that load.
  const std::string stored = " 7f0000200000 7f0000200008 7f0000200010 7f0000200018";
  const lines expected{"kernel 0",
                       "block 1",
                       "w0 load 4 B, lanes d: 7f0000000000 7f0000000010 7f0000000008; scope 3",
                       "w0 store 8 B, lanes f:" + stored + "; scope 3; after 0",
                       "w0 load 1 B, lanes 111: 7f0000000100 7f00000000f0 7f000000021c; scope 2",
                       "w1 atomic 4 B, lanes 1: 7f0000000100; scope 2"};
  EXPECT_EQ(seen.gpus[1], expected);
  for (const std::size_t piece : {1U, 7U, 100U}) {
    EXPECT_EQ(read_accel_sim(text, piece).gpus[1], expected);
  }
}

TEST(accel_sim, version_5_computation_barriers_fences_and_other_memory) {
  const std::string text =
      head_5() +
      block("0,0,0",
            "cluster id = 0,0,0\ncluster cta = 0,0,0\ncluster rank = 0\n\nwarp = 0\ninsts = 13\n"
            "0000 ffffffff 1 R1 MOV 0 0 0 \n"
            "0010 00000001 1 R12 LDG.E.128.SYS 1 R2 16 1 0x7f0000000000 0 0 \n"
            "0020 ffffffff 1 R20 IMAD.WIDE 2 R1 R255 0 16 \n"
            // This instruction uses the last register that the load writes.
            "0030 ffffffff 1 R21 FMUL 2 R15 R15 0 0 \n"
            // No wait is needed, because R21 has arrived.
            "0040 ffffffff 1 R22 DADD 2 R21 R15 0 0 \n"
            "0050 ffffffff 1 R23 MUFU.RCP 1 R21 0 0 \n"
            "0060 00000000 0 BRA 0 0 528 \n"
            "0070 ffffffff 0 BAR.SYNC 0 0 0 \n"
            "0080 00000001 1 R3 LDS.U.32 1 R2 4 1 0x10 0 0 \n"
            // This address is in shared memory.
            "0090 00000001 1 R3 LD.E.SYS 1 R2 4 1 0x7e0000000010 0 0 \n"
            "00a0 ffffffff 0 MEMBAR.SC.SYS 0 0 0 \n"
            "00b0 00000000 1 R3 LDG.E.SYS 1 R2 4 1 0x0 0 0 \n"  // no lane executes this load
            "0200 ffffffff 0 EXIT 0 0 0 \n");
  EXPECT_EQ(read_accel_sim(text).gpus[1],
            (lines{"kernel 0", "block 0", "w0 load 16 B, lanes 1: 7f0000000000; scope 3",
                   "w0 compute 0 x1", "w0 compute 2 x2", "w0 compute 1 x1", "w0 compute 3 x1",
                   "w0 barrier", "w0 release; scope 3", "w0 compute 2 x1"}));
}

TEST(accel_sim, wrong_lines_are_named) {
  const auto of = [](const std::string& text) { return refusal([&] { read_accel_sim(text); }); };
  const std::string good = "0000 0000000f 0 STG.E.SYS 2 R4 R2 4 1 0x7f0000200000 4 \n";
  const auto with = [&](const std::string& line) {
    return of(head_4 + block("0,0,0", "\nwarp = 0\ninsts = 1\n" + line));
  };
  EXPECT_EQ(with(good), "nothing was wrong");
  const std::string place = "k.traceg, line 23: ";
  const std::map<std::string, std::string> wrong{
      {"0000 0000000f 0 STG.E.SYS 2 R4 R2 4 1 0x7f0000200000\n", "the line ends before the stride"},
      {"0000 0000000f 0 STG.E.SYS 2 R4 R2 4 3 0x7f0000200000\n",
       "the format of the addresses is 3; it must be 0, 1 or 2"},
      {"0000 0000000f 0 STG.E.SYS 2 R4 R2 4 2 0x7f0000200000 4 4\n",
       "the line ends before a difference for each active lane"},
      {"0000 0000000f 0 STG.E.SYS 2 R4 R2 4 1 0x7f0000400000 4\n",
       "address 0x7f0000400000 is in no GPU's range"},
      {"0000 0000000f 0 STG.E.SYS 2 R4 R2 4 1 0x7f00002fffff 4\n", "reach past the end of range"},
      {"0000 0000000f 0 STG.E.SYS 2 R4 R2 4 1 0x7f0000200000 4 5 6\n", "too many words"},
      {"0000 0000000f 0 STG.E.SYS 2 R4 X2 4 1 0x7f0000200000 4\n",
       "expected a register, found 'X2'"},
      {"0000 1ffffffff 0 STG.E.SYS 2 R4 R2 4 1 0x7f0000200000 4\n", "expected the mask"},
      {"0000 0000000f 0 RED.E.ADD 2 R4 R2 4 1 0x7f0000200001 4\n", "is not aligned"},
      {"0000 0000000f 0 UBLKCP 2 R4 R2 4 1 0x7f0000200000 4\n", "moves memory in bulk"}};
  for (const auto& [line, message] : wrong) {
    const std::string found = with(line);
    EXPECT_EQ(found.substr(0, place.size()), place) << found;
    EXPECT_NE(found.find(message), std::string::npos) << found;
  }
  const std::string whole = head_4 + block("0,0,0", "\nwarp = 0\ninsts = 1\n" + good);
  for (std::size_t size = 0; size + 8 < whole.size(); ++size) {
    const std::string found = of(whole.substr(0, size));
    EXPECT_EQ(found.substr(0, 15), "k.traceg, line ") << "cut to " << size << ": " << found;
  }
  EXPECT_NE(of(head_4 + block("2,0,0", "")).find("outside of the grid"), std::string::npos);
  EXPECT_NE(of(head_4 + block("1,0,0", "") + block("0,0,0", "")).find("must ascend"),
            std::string::npos);
  EXPECT_NE(of(head_4 + block("0,0,0", "\nwarp = 2\n")).find("a block has 2"), std::string::npos);
  EXPECT_NE(of(head_4 + block("0,0,0", "\nwarp = 0\ninsts = 2\n" + good)).find("has 1 of 2"),
            std::string::npos);
  std::string old = head_4;
  old.replace(old.find("version = 4"), 11, "version = 3");
  EXPECT_NE(of(old).find("k.traceg, line 12: the trace is of tracer version 3"), std::string::npos);
  // The products of these grids' sizes are 2^41 and 2^64. In 64 bits, 2^64 wraps to 0.
  for (const std::string grid : {"(2,1048576,1048576)", "(1048576,1048576,16777216)"}) {
    std::string large = head_4;
    large.replace(large.find("(2,2,1)"), 7, grid);
    EXPECT_NE(of(large + block("0,0,0", "\nwarp = 0\ninsts = 1\n" + good)).find("too many blocks"),
              std::string::npos)
        << grid;
  }
}

TEST(accel_sim, the_list_of_kernels) {
  const auto list = read_kernels_list(
      "MemcpyHtoD,0x00007f0000000010,64\nkernel-1.traceg\n\nMemcpyDtoH,0x00007f0000200000,8\n"
      "kernel-2-ctx_0x55.traceg.xz",
      "kernelslist.g");
  ASSERT_EQ(list.size(), 4U);
  EXPECT_TRUE(list[0].is_copy && list[0].to_gpu);
  EXPECT_EQ(list[0].address, 0x7f0000000010U);
  EXPECT_EQ(list[0].bytes, 64U);
  EXPECT_EQ(list[1].file, "kernel-1.traceg");
  EXPECT_TRUE(list[2].is_copy && !list[2].to_gpu);
  EXPECT_EQ(list[3].file, "kernel-2-ctx_0x55.traceg.xz");
  EXPECT_EQ(list[3].line, 5U);
  for (const std::string bad :
       {"MemcpyHtoD,0x10\n", "MemcpyHtoD,zz,8\n", "launch\n", "kernel-1/../../x\n"}) {
    const std::string found =
        refusal([&] { read_kernels_list("kernel-1.traceg\n" + bad, "kernelslist.g"); });
    EXPECT_EQ(found.substr(0, 23), "kernelslist.g, line 2: ") << found;
  }
  recorded seen(2);
  accel_sim from(seen, two_gpus());
  from.copy(list[0], "kernelslist.g");
  from.copy(list[2], "kernelslist.g");
  EXPECT_EQ(
      seen.program_text,
      "copy 255 to 0 by 0 0 7f0000000010 64 after\ncopy 1 to 255 by 0 7f0000200000 0 8 after\n");
  listed outside = list[0];
  outside.bytes = 0x100000;
  EXPECT_NE(refusal([&] { from.copy(outside, "kernelslist.g"); }).find("kernelslist.g, line 1: "),
            std::string::npos);
}

TEST(sass, opcodes) {
  const auto expect = [](const char* name, opcode_kind kind, action what, std::uint32_t bytes,
                         scope s) {
    const opcode found = read_opcode(name);
    EXPECT_EQ(found.kind, kind) << name;
    if (kind != opcode_kind::access) return;
    EXPECT_EQ(found.what, what) << name;
    EXPECT_EQ(found.bytes, bytes) << name;
    EXPECT_EQ(found.scope, s) << name;
  };
  const auto global = opcode_kind::access;
  expect("LDG.E", global, action::load, 4, scope::none);
  expect("LDG.E.S16.CONSTANT", global, action::load, 2, scope::none);
  expect("LDGSTS.E.BYPASS.128", global, action::load, 16, scope::none);
  expect("ST.E.U8.STRONG.SYS", global, action::store, 1, scope::system);
  expect("ATOMG.E.ADD.F64.RN.STRONG.GPU", global, action::atomic, 8, scope::device);
  expect("RED.E.ADD.F16x2.RN", global, action::atomic, 4, scope::none);
  expect("STL.64", opcode_kind::elsewhere, action::store, 0, scope::none);
  expect("BAR.SYNC.DEFER_BLOCKING", opcode_kind::barrier, action::barrier, 0, scope::none);
  expect("BAR.ARV", opcode_kind::other, action::barrier, 0, scope::none);
  EXPECT_EQ(read_opcode("MEMBAR.ALL.GPU").scope, scope::device);
  EXPECT_EQ(read_opcode("FFMA.FTZ").computes, operation::fp32);
  EXPECT_EQ(read_opcode("DFMA").computes, operation::fp64);
  EXPECT_EQ(read_opcode("DEPBAR.LE").computes, operation::integer);
  EXPECT_EQ(read_opcode("MUFU.EX2").computes, operation::special);
}

// --- NVBit

std::string access_line(std::uint64_t context, int launch, const std::string& cta, int warp,
                        const std::string& opcode, const std::vector<std::uint64_t>& addresses) {
  std::string line = "MEMTRACE: CTX " + hex(context) + " - grid_launch_id " +
                     std::to_string(launch) + " - CTA " + cta + " - warp " + std::to_string(warp) +
                     " - " + opcode + " - ";
  for (std::size_t k = 0; k < 32; ++k) {
    line += (k < addresses.size() ? hex(addresses[k]) : "0x0000000000000000") + " ";
  }
  return line + "\n";
}

std::string launch_line(std::uint64_t context, int launch, const std::string& sizes) {
  return "MEMTRACE: CTX " + hex(context) +
         " - LAUNCH - Kernel pc 0x00007f - Kernel name f(a - b) - grid launch id " +
         std::to_string(launch) + sizes + "\n";
}

recorded read_mem_trace(const std::string& text, std::map<std::uint64_t, std::uint32_t> gpus = {}) {
  recorded seen(2);
  mem_trace from(seen, two_gpus(), "out.txt", std::move(gpus));
  from.feed(text);
  from.finish();
  return seen;
}

TEST(mem_trace, groups_what_comes_mixed) {
  const std::string sizes =
      " - grid size 2,2,1 - block size 64,1,1 - nregs 9 - shmem 0 - cuda stream id 0";
  const std::uint64_t a = 0x7f0000000000;
  const std::string text =
      "the program's own words\n" + launch_line(0x10, 0, sizes) +
      access_line(0x10, 0, "1,1,0", 40, "STG.E.64", {a, 0, a + 0x200000}) +
      access_line(0x10, 0, "0,0,0", 7, "LDG.E", {a + 4}) + launch_line(0x20, 1, "") +
      access_line(0x20, 1, "0,0,0", 3, "LDG.E", {a + 16}) +
      access_line(0x10, 0, "0,0,0", 7, "LDS", {4}) +
      access_line(0x10, 0, "0,0,0", 9, "LDGSTS.E.64", {0x100}) +
      access_line(0x10, 0, "1,1,0", 2, "LDG.E", {a + 8}) + launch_line(0x10, 2, sizes) +
      access_line(0x10, 2, "0,0,0", 0, "LDG.E", {a + 12});
  const recorded seen = read_mem_trace(text);
  EXPECT_EQ(seen.program_text,
            "launch gpu0 4 x 64 shared 0 f(a - b) after\n"
            "launch gpu0 4 x 64 shared 0 f(a - b) after 0\n"
            "launch gpu1 1 x 32 shared 0 f(a - b) after\n");
  EXPECT_EQ(seen.gpus[0], (lines{"kernel 0", "block 0", "w0 load 4 B, lanes 1: 7f0000000004",
                                 "block 3", "w1 store 8 B, lanes 5: 7f0000000000 7f0000200000",
                                 "w0 load 4 B, lanes 1: 7f0000000008", "kernel 1", "block 0",
                                 "w0 load 4 B, lanes 1: 7f000000000c"}));
  EXPECT_EQ(seen.gpus[1], (lines{"kernel 2", "block 0", "w0 load 4 B, lanes 1: 7f0000000010"}));
  // The map assigns the context to a GPU.
  EXPECT_EQ(read_mem_trace(text, {{0x10, 1}}).gpus[1], seen.gpus[0]);
}

TEST(mem_trace, wrong_lines_are_named) {
  const std::uint64_t a = 0x7f0000000000;
  const std::string good = access_line(1, 5, "0,0,0", 0, "LDG.E", {a});
  const auto of = [&](const std::string& line) {
    return refusal([&] { read_mem_trace(good + line); });
  };
  EXPECT_EQ(of(good), "nothing was wrong");
  const std::map<std::string, std::string> wrong{
      {access_line(1, 5, "0,0,0", 0, "LDG.E", {0x1234}), "address 0x1234 is in no GPU's range"},
      {access_line(1, 5, "0,0,0", 0, "LDG.E.64", {a + 4}), "is not aligned to its size"},
      {access_line(1, 4, "0,0,0", 0, "LDG.E", {a}), "launch 4, which has already ended"},
      {access_line(1, 5, "0,0", 0, "LDG.E", {a}), "expected CTA x,y,z"},
      {good.substr(0, good.size() - 30) + "\n", "expected 32 addresses"},
      {good.substr(0, good.size() - 1) + "0x1\n", "more than 32 addresses"},
      {good.substr(0, 40) + "\n", "expected CTA x,y,z, found 'C'"},
      {"MEMTRACE: CTX here - grid_launch_id 0\n", "expected the number of a context"},
      {launch_line(1, 6, " - grid size 0,1,1 - block size 1,1,1"), "a launch has no blocks"},
      {launch_line(1, 6, " - grid size 1,1,1 - block size 1025,1,1"), "more than 1024 threads"}};
  for (const auto& [line, message] : wrong) {
    const std::string found = of(line);
    EXPECT_EQ(found.substr(0, 17), "out.txt, line 2: ") << found;
    EXPECT_NE(found.find(message), std::string::npos) << found;
  }
  const std::string third = refusal([&] {
    read_mem_trace(good + access_line(2, 6, "0,0,0", 0, "LDG.E", {a}) +
                   access_line(3, 7, "0,0,0", 0, "LDG.E", {a}));
  });
  EXPECT_NE(third.find("out.txt, line 3: context 0x3 is one more"), std::string::npos) << third;
  EXPECT_NE(refusal([] { read_mem_trace("nothing\n"); }).find("no access"), std::string::npos);
  // The reader finds these errors at the end of a launch.
  for (const std::string cta : {"4294967295,0,4294967295", "4294967295,4294967295,4294967295"}) {
    const std::string found = of(access_line(1, 5, cta, 0, "LDG.E", {a}));
    EXPECT_EQ(found, "out.txt, line 2: a grid has too many blocks") << cta;
  }
  EXPECT_EQ(of(access_line(1, 5, "4294967295,0,0", 0, "LDG.E", {a})), "nothing was wrong");
  const std::string wide = " - grid size 1048576,1048576,16777216 - block size 1,1,1";
  EXPECT_NE(of(launch_line(1, 6, wide) + access_line(1, 6, "0,0,0", 0, "LDG.E", {a}))
                .find("a grid has too many blocks"),
            std::string::npos);
  std::string warps;
  for (int warp = 1; warp < 33; ++warp) warps += access_line(1, 5, "0,0,0", warp, "LDG.E", {a});
  EXPECT_NE(of(warps).find("has accesses of 33 warps, but the block has only 32"),
            std::string::npos);
}

TEST(mem_trace, a_grid_that_is_not_stated_reaches_to_the_last_block_seen) {
  const std::uint64_t a = 0x7f0000000000;
  const recorded seen = read_mem_trace(access_line(1, 5, "0,0,0", 0, "LDG.E", {a}) +
                                       access_line(1, 5, "4294967295,1,0", 0, "LDG.E", {a}));
  EXPECT_EQ(seen.program_text, "launch gpu0 8589934592 x 32 shared 0  after\n");
  EXPECT_EQ(seen.gpus[0][3], "block 8589934591");
}

TEST(block_grouping, spills_and_keeps_the_order_of_a_warp) {
  for (const std::size_t held : {std::size_t{100}, std::size_t{1} << 20U}) {
    block_grouping grouping(held);
    std::mt19937 random(3);
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random()) % n; };
    std::map<block_grouping::index, std::map<std::uint32_t, std::vector<std::uint64_t>>> expected;
    for (int n = 0; n < 5000; ++n) {
      const block_grouping::index at{below(2), below(3), below(40)};
      const std::uint32_t warp = 10 * below(4);
      const std::uint64_t address = random();
      instruction i;
      i.kind = action::store;
      i.bytes = 4;
      i.lanes = 1;
      i.addresses = &address;
      grouping.add(at, warp, i);
      expected[at][warp].push_back(address);
    }
    std::map<block_grouping::index, std::map<std::uint32_t, std::vector<std::uint64_t>>> seen;
    std::vector<block_grouping::index> order;
    grouping.flush([&](const block_grouping::index& at) { order.push_back(at); },
                   [&](std::uint32_t warp, const instruction& i) {
                     seen[order.back()][warp].push_back(i.addresses[0]);
                   });
    // Warps are numbered from 0 without gaps, even if some warps of the block have no accesses.
    for (auto& [at, warps] : expected) {
      std::map<std::uint32_t, std::vector<std::uint64_t>> numbered;
      for (auto& [warp, addresses] : warps) {
        numbered.emplace(static_cast<std::uint32_t>(numbered.size()), std::move(addresses));
      }
      warps = std::move(numbered);
    }
    EXPECT_TRUE(seen == expected);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    EXPECT_EQ(order.size(), expected.size());
    EXPECT_TRUE(grouping.empty());
  }
}

// --- MGPUSim

recorded read_mgpusim(const std::string& text, const std::string& component = "L1VCache") {
  header h;
  h.gpus = 2;
  h.warp_width = 1;
  h.ranges = mgpusim_ranges(2);
  recorded seen(2);
  mgpusim from(seen, h, "mem.trace", component);
  from.feed(text);
  from.finish();
  return seen;
}

TEST(mgpusim, what_a_component_receives) {
  const std::string text =
      "start, 0.000000001, GPU_1.SA_00.L1VCache_00, 7@GPU_1.SA_00.L1VCache_00, *mem.ReadReq, "
      "0x100000040, 64\n"
      "start, 0.000000002, GPU_1.SA_00.L1VCache_00, 8_req_out, *mem.ReadReq, 0x100000040, 64\n"
      "step, 0.000000003, 7@GPU_1.SA_00.L1VCache_00, hit\n"
      "start, 0.000000002, GPU_1.L2_00, 8@GPU_1.L2_00, *mem.ReadReq, 0x100000040, 64\n"
      "end, 0.000000003, 7@GPU_1.SA_00.L1VCache_00\n"
      "start, 0.000000004, GPU_2.SA_00.L1VCache_01, 9@GPU_2.SA_00.L1VCache_01, *mem.WriteReq, "
      "0x200000044, 12\n";
  const recorded seen = read_mgpusim(text);
  EXPECT_EQ(seen.program_text,
            "launch gpu0 1 x 1 shared 0 GPU 1 after\nlaunch gpu1 1 x 1 shared 0 GPU 2 after\n");
  EXPECT_EQ(seen.gpus[0], (lines{"kernel 0", "block 0", "w0 load 64 B, lanes 1: 100000040"}));
  EXPECT_EQ(seen.gpus[1], (lines{"kernel 1", "block 0", "w0 store 12 B, lanes 1: 200000044"}));
  EXPECT_EQ(read_mgpusim(text, "L2").gpus[0].size(), 3U);
}

TEST(mgpusim, wrong_lines_are_named) {
  const std::string begin = "start, 0.1, GPU_1.SA_00.L1VCache_00, 7@x, ";
  const std::string good = begin + "*mem.ReadReq, 0x100000040, 64\n";
  const std::map<std::string, std::string> wrong{
      {begin + "*mem.ReadReq, 0x100000040\n", "expected start, TIME"},
      {begin + "*mem.ReadReq, 0x10, 64\n", "address 0x10 is in no GPU's range"},
      {begin + "*mem.ReadReq, 0x1ffffffff, 2\n", "reach past the end"},
      {begin + "*mem.FlushReq, 0x100000040, 64\n", "an access of kind '*mem.FlushReq'"},
      {begin + "*mem.ReadReq, 0x100000040, 65\n", "an access of 65 bytes"},
      {begin + "*mem.ReadReq, 0x100000050, 64\n", "cross a line of 64"},
      {"start, 0.1, GPU_3.L1VCache_00, 7@x, *mem.ReadReq, 0x100000040, 64\n", "past the 2"},
      {"start, 0.1, L1VCache_00, 7@x, *mem.ReadReq, 0x100000040, 64\n", "component of a GPU"},
      {"step\n", "cut off"},
      {"begin, 0.1\n", "expected start, step or end, found 'begin, 0.1'"}};
  for (const auto& [line, message] : wrong) {
    const std::string text = good + line;
    const std::string found = refusal([&] { read_mgpusim(text); });
    EXPECT_EQ(found.substr(0, 19), "mem.trace, line 2: ") << found;
    EXPECT_NE(found.find(message), std::string::npos) << found;
  }
  EXPECT_NE(refusal([&] { read_mgpusim(good, "L9"); }).find("no component with 'L9'"),
            std::string::npos);
}

TEST(line_splitter, lines_in_pieces) {
  const std::string text = "one\r\n\ntwo words\nlast";
  for (std::size_t piece = 1; piece < text.size(); ++piece) {
    line_splitter splitter;
    lines seen;
    const auto take = [&](std::string_view line) { seen.emplace_back(line); };
    for (std::size_t at = 0; at < text.size(); at += piece) {
      EXPECT_TRUE(splitter.feed(std::string_view(text).substr(at, piece), take));
    }
    splitter.finish(take);
    EXPECT_EQ(seen, (lines{"one", "", "two words", "last"}));
    EXPECT_EQ(splitter.number(), 4U);
  }
  line_splitter splitter;
  const std::string part(line_splitter::max_line_bytes / 2 + 1, 'x');
  EXPECT_TRUE(splitter.feed(part, [](std::string_view) {}));
  EXPECT_FALSE(splitter.feed(part, [](std::string_view) {}));
  EXPECT_EQ(splitter.number(), 1U);
}

}  // namespace
}  // namespace interlace::text_tests
