// A reader must return what a writer wrote to a trace file. If a file is damaged, the error must
// name the position of a byte.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "sim/trace/layout.hpp"
#include "sim/trace/reader.hpp"
#include "sim/trace/recorded.hpp"
#include "sim/trace/temporary_file.hpp"
#include "sim/trace/writer.hpp"

namespace interlace::file_tests {
namespace {

using namespace sim::trace;  // NOLINT: this file tests the whole namespace
using test::recorded;

constexpr std::uint64_t memory = std::uint64_t{1} << 30U;  // bytes of memory on each GPU

header random_header(std::mt19937_64& random) {
  header h;
  h.gpus = 1 + static_cast<std::uint32_t>(random() % 4);
  h.warp_width = std::array<std::uint32_t, 4>{1, 7, 32, 64}[random() % 4];
  h.source = "test";
  for (std::uint32_t g = 0; g < h.gpus; ++g) {
    const std::uint64_t begin = 0x7f0000000000U + g * 3 * memory;
    h.ranges.push_back({begin, begin + memory, g, 0});
  }
  h.ranges.push_back({0x1000, 0x1000 + memory, 0, 8192});
  return h;
}

instruction random_instruction(const header& h, std::uint32_t number, std::mt19937_64& random,
                               std::vector<std::uint64_t>& addresses) {
  instruction i;
  i.kind = static_cast<action>(random() % actions);
  const auto some = [&] { return static_cast<std::uint32_t>(random() >> (32 + random() % 32)); };
  switch (i.kind) {
    case action::load:
    case action::store:
    case action::atomic: {
      i.bytes = static_cast<std::uint8_t>(1U << random() % 5);
      if (i.kind != action::atomic && random() % 8 == 0) {
        i.bytes = static_cast<std::uint8_t>(1 + random() % max_lane_bytes);
      }
      i.scope = static_cast<scope>(random() % 4);
      const std::uint64_t all =
          h.warp_width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << h.warp_width) - 1;
      i.lanes = random() % 2 == 0 ? all : random() & all;
      if (i.lanes == 0) i.lanes = 1;
      if (number != 0 && random() % 3 == 0)
        i.depends = static_cast<std::uint32_t>(random() % number);
      const range& r = h.ranges[random() % h.ranges.size()];
      const std::uint64_t most = memory / 2;
      const std::uint64_t start = r.begin + random() % (most / i.bytes) * i.bytes;
      const std::uint64_t stride = random() % 1000 * i.bytes;
      const bool strided = random() % 2 == 0;
      addresses.clear();
      for (int k = 0; k < __builtin_popcountll(i.lanes); ++k) {
        addresses.push_back(strided ? start + static_cast<std::uint64_t>(k) * stride
                                    : r.begin + random() % (most / i.bytes) * i.bytes);
      }
      i.addresses = addresses.data();
      break;
    }
    case action::release:
      i.scope = static_cast<scope>(random() % 4);
      break;
    case action::compute:
      i.operation = static_cast<std::uint8_t>(random() % 4);
      i.count = some();
      break;
    case action::shared:
    case action::shuffle:
      i.count = some();
      if (number != 0 && random() % 3 == 0)
        i.depends = static_cast<std::uint32_t>(random() % number);
      break;
    case action::wait:
    case action::barrier:
      break;
  }
  return i;
}

std::vector<std::uint32_t> random_tasks(std::uint32_t tasks, std::mt19937_64& random) {
  std::vector<std::uint32_t> found;
  for (std::uint32_t t = 0; t < tasks; ++t) {
    if (random() % 4 == 0) found.push_back(t);
  }
  return found;
}

// Writes a trace with every kind of record to `to`.
void make_trace(const header& h, std::uint64_t seed, std::uint32_t launches, sink& to) {
  std::mt19937_64 random(seed);
  std::uint32_t tasks = 0;
  std::vector<std::uint64_t> addresses;
  for (std::uint32_t n = 0; n < launches; ++n) {
    launch l;
    l.gpu = static_cast<std::uint32_t>(random() % h.gpus);
    l.blocks = random() % 6;
    l.threads = 1 + static_cast<std::uint32_t>(random() % 256);
    l.shared_bytes = static_cast<std::uint32_t>(random() % 5000);
    l.name = std::string(random() % 40, static_cast<char>('a' + random() % 26));
    l.after = random_tasks(tasks++, random);
    to.program(l);
    if (random() % 4 == 0 && h.gpus > 1) {
      copy c;
      c.to = 1;
      c.from_address = h.ranges[0].begin + random() % 1000;
      c.to_address = h.ranges[1].begin + random() % 1000;
      c.bytes = 1 + random() % 100000;
      c.by = random() % 2 == 0 ? copy_start::stream : copy_start::by_host;
      if (random() % 4 == 0) c.from = host;
      c.after = random_tasks(tasks++, random);
      to.program(c);
    }
    if (random() % 4 == 0) {
      exchange x;
      x.payload = static_cast<std::uint32_t>(random() % 100);
      x.instant = random() % 2 == 0;
      for (std::uint32_t g = 0; g < h.gpus; ++g) x.after.push_back(random_tasks(tasks, random));
      tasks += h.gpus;
      if (x.instant && random() % 2 == 0) {
        x.appears.push_back({0, h.ranges[0].begin + random() % 1000, random() % 1000});
      }
      to.program(x);
    }
    if (random() % 8 == 0) {
      call c;
      c.name = "sort";
      c.bytes_read = random();
      c.operations[2] = random();
      c.after = random_tasks(tasks++, random);
      to.program(c);
    }
    if (random() % 5 == 0) {
      to.program(join{});
      tasks = 0;
    }
    to.begin_kernel(l.gpu, n);
    const std::uint32_t warps = (l.threads + h.warp_width - 1) / h.warp_width;
    for (std::uint64_t b = 0; b < l.blocks; ++b) {
      if (random() % 5 == 0) continue;  // this warp has no accesses
      to.begin_block(l.gpu, b);
      std::vector<std::uint32_t> numbers(warps, 0);
      for (std::uint64_t k = random() % 60; k != 0; --k) {
        const auto warp = static_cast<std::uint32_t>(random() % warps);
        to.add(l.gpu, warp, random_instruction(h, numbers[warp]++, random, addresses));
      }
    }
  }
}

TEST(trace_file, what_is_written_is_read) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const header h = random_header(random);
    const test::temporary_file file;
    recorded expected(h.gpus);
    make_trace(h, seed, seed == 30 ? 400 : 12, expected);
    writer to(file.path(), h);
    make_trace(h, seed, seed == 30 ? 400 : 12, to);
    EXPECT_THROW(reader(file.path()), usage_error);  // a file that is not complete is refused
    to.finish();
    const reader from(file.path());
    EXPECT_EQ(from.head().gpus, h.gpus);
    EXPECT_EQ(from.head().warp_width, h.warp_width);
    EXPECT_EQ(from.head().source, "test");
    ASSERT_EQ(from.head().ranges.size(), h.ranges.size());
    EXPECT_EQ(from.ranges().home(0x1000 + 8192, 4), 1 % h.gpus);
    EXPECT_EQ(from.ranges().home(0x1000 + 8192 * h.gpus, 4), 0U);
    recorded seen(h.gpus);
    from.read_all(seen, {});
    EXPECT_EQ(seen.program_text, expected.program_text);
    for (std::uint32_t g = 0; g < h.gpus; ++g) EXPECT_EQ(seen.gpus[g], expected.gpus[g]);
    EXPECT_EQ(from.stated(), to.written());
  }
}

TEST(trace_file, is_compact) {
  header h;
  h.ranges.push_back({0, std::uint64_t{1} << 36U, 0, 0});
  const test::temporary_file file;
  writer to(file.path(), h);
  to.program(launch{0, 1, 32, 0, "k", {}});
  to.begin_kernel(0, 0);
  to.begin_block(0, 0);
  constexpr std::uint64_t count = 100'000;
  std::array<std::uint64_t, 32> addresses{};
  for (std::uint64_t n = 0; n < count; ++n) {
    for (std::uint64_t k = 0; k < 32; ++k) addresses[k] = n * 128 + k * 4;
    instruction i;
    i.bytes = 4;
    i.lanes = 0xffffffffU;
    i.addresses = addresses.data();
    to.add(0, 0, i);
  }
  to.finish();
  // Each record takes one tag byte, two bytes of address difference, and one byte of stride.
  EXPECT_LT(file.content().size(), count * 4 + 2000);
}

// Returns the position of the byte that the reader's error names.
std::uint64_t refused_at(const std::string& path) {
  try {
    const reader from(path);
    recorded seen(from.head().gpus);
    from.read_all(seen, {});
  } catch (const usage_error& error) {
    const std::string message = error.what();
    const std::string mark = ", byte ";
    const auto at = message.find(mark);
    EXPECT_EQ(message.substr(0, path.size()), path) << message;
    EXPECT_NE(at, std::string::npos) << message;
    return at == std::string::npos ? 0 : std::stoull(message.substr(at + mark.size()));
  }
  ADD_FAILURE() << "a damaged file was read";
  return 0;
}

TEST(trace_file, damage_is_refused_with_the_byte) {
  std::mt19937_64 random(7);
  header h = random_header(random);
  const test::temporary_file file;
  {
    writer to(file.path(), h);
    make_trace(h, 7, 6, to);
    to.finish();
  }
  const std::string whole = file.content();
  ASSERT_GT(whole.size(), 1000U);
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 9) {
    file.fill(whole.substr(0, size));
    EXPECT_LE(refused_at(file.path()), size) << "cut to " << size;
  }
  file.fill(whole.substr(0, whole.size() - 1));
  EXPECT_EQ(refused_at(file.path()), whole.size() - 1);
  for (std::size_t at = 0; at < whole.size(); at += 1 + random() % 120) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1U << random() % 8));
    file.fill(damaged);
    EXPECT_LE(refused_at(file.path()), whole.size()) << "byte " << at;
  }
  file.fill(whole + "x");
  EXPECT_EQ(refused_at(file.path()), whole.size());
  file.fill("no trace, but long enough for the header of one");
  EXPECT_EQ(refused_at(file.path()), 0U);
}

TEST(trace_file, headers_that_cannot_be_meant) {
  const test::temporary_file file;
  const auto with = [](auto change) {
    header h;
    h.gpus = 2;
    h.ranges = {{0x1000, 0x2000, 0, 0}, {0x2000, 0x3000, 1, 0}};
    change(h);
    return h;
  };
  EXPECT_NO_THROW(writer(file.path(), with([](header&) {})));
  const auto refuse = [&](auto change) {
    EXPECT_THROW(writer(file.path(), with(change)), usage_error);
  };
  refuse([](header& h) { h.gpus = 0; });
  refuse([](header& h) { h.gpus = 17; });
  refuse([](header& h) { h.gpus = 1; });
  refuse([](header& h) { h.warp_width = 65; });
  refuse([](header& h) { h.ranges[1].begin = 0x1fff; });
  refuse([](header& h) { h.ranges[1].end = 0x2000; });
  refuse([](header& h) { h.ranges[1].page_bytes = 5000; });
  refuse([](header& h) {
    h.ranges.clear();
    for (std::uint64_t n = 1; n <= 200'000; ++n)
      h.ranges.push_back({n << 32U, (n << 32U) + 1, 0, 0});
  });
  EXPECT_THROW(writer("/nowhere/at/all", with([](header&) {})), usage_error);
  EXPECT_THROW(writer("/dev/null", with([](header&) {})), usage_error);
}

TEST(trace_file, what_a_reader_would_refuse_is_not_written) {
  header h;
  h.ranges = {{0x1000, 0x2000, 0, 0}};
  const test::temporary_file file;
  for (const launch& l : {launch{0, max_blocks + 1, 32, 0, "k", {}},
                          launch{0, 1, 65537, 0, "k", {}}, launch{0, 1, 0, 0, "k", {}}}) {
    writer to(file.path(), h);
    EXPECT_THROW(to.program(l), usage_error);
  }
  writer to(file.path(), h);
  to.program(launch{0, max_blocks, max_threads, 0, std::string(max_name_bytes + 1, 'k'), {}});
  to.program(launch{});
  to.finish();
  EXPECT_EQ(reader(file.path()).stated().launches, 2U);
}

TEST(trace_file, a_program_that_memory_cannot_hold_is_refused) {
  const test::temporary_file file;
  writer to(file.path(), header{});
  constexpr std::size_t held = std::size_t{256} << 20U;
  for (std::size_t n = 0; n <= held / sizeof(step); ++n) to.program(join{});
  to.finish();
  EXPECT_LT(file.content().size(), held / 50);
  EXPECT_LT(refused_at(file.path()), file.content().size());
}

}  // namespace
}  // namespace interlace::file_tests
