// Fuzzes the reader of trace files in Interlace's format. Most changed files get correct check
// sums, so that the reader gets past the check of these sums.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "fuzzer.hpp"
#include "sim/trace/coding.hpp"
#include "sim/trace/reader.hpp"
#include "sim/trace/writer.hpp"
#include "trace_check.hpp"

namespace {

using namespace interlace;   // NOLINT: this file is a whole program
using namespace sim::trace;  // NOLINT

std::string sound() {
  header h;
  h.gpus = 2;
  h.ranges = {{0x10000, 0x20000, 0, 0}, {0x20000, 0x30000, 1, 0}, {0x40000, 0x60000, 0, 4096}};
  const descriptor file(memfd_create("sound", MFD_CLOEXEC));
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  writer to(path, h);
  to.program(launch{0, 3, 64, 16, "kernel", {}});
  to.program(launch{1, 1, 32, 0, "", {}});
  to.program(copy{0, 1, copy_start::stream, 0x10000, 0x20010, 100, {0}});
  to.program(exchange{8, false, {{0, 2}, {1}}, {}});
  to.program(exchange{8, true, {{}, {}}, {{1, 0x20100, 300}}});
  to.program(call{1, "sort", 10, 20, {1, 2, 3, 4}, {4}});
  to.program(join{});
  const std::array<std::uint64_t, 4> scattered{0x10000, 0x10010, 0x20008, 0x41000};
  const std::array<std::uint64_t, 4> even{0x11000, 0x11004, 0x11008, 0x1100c};
  to.begin_kernel(0, 0);
  for (const std::uint64_t b : {0U, 2U}) {
    to.begin_block(0, b);
    instruction i;
    i.bytes = 4;
    i.lanes = 0x8421;
    i.addresses = scattered.data();
    to.add(0, 1, i);
    i.kind = action::store;
    i.depends = 0;
    i.addresses = even.data();
    i.scope = scope::system;
    to.add(0, 1, i);
    for (const action a : {action::release, action::compute, action::shared, action::shuffle,
                           action::wait, action::barrier}) {
      instruction other;
      other.kind = a;
      other.count = 7;
      to.add(0, 0, other);
    }
  }
  to.begin_kernel(1, 1);
  to.begin_block(1, 0);
  to.finish();
  std::ifstream stream(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(stream), {});
  return bytes;
}

// Sets correct check sums wherever the lengths allow this.
std::string with_check_sums(std::string file, fuzz::mutation& mutate) {
  if (mutate.below(8) == 0 || file.size() < file_head_bytes) return file;
  auto* bytes = reinterpret_cast<std::uint8_t*>(file.data());
  std::size_t size = get_word(bytes + 12);
  if (size > file.size() - file_head_bytes) return file;
  put_word(bytes + 16, crc32(crc32(0, bytes, 16), bytes + file_head_bytes, size));
  for (std::size_t at = file_head_bytes + size; file.size() - at >= chunk_head_bytes; at += size) {
    size = get_word(bytes + at + 4);
    std::size_t left = file.size() - at - chunk_head_bytes;
    if (size > left) {
      if (mutate.below(2) == 0) return file;
      // The stated size reaches past the end of the file, so the chunk becomes the rest of the
      // file.
      size = left;
      put_word(bytes + at + 4, static_cast<std::uint32_t>(size));
    }
    put_word(bytes + at + 12, crc32(crc32(0, bytes + at, 12), bytes + at + chunk_head_bytes, size));
    at += chunk_head_bytes;
  }
  return file;
}

void try_input(const std::string& input) {
  descriptor file(memfd_create("trace", MFD_CLOEXEC));
  if (!file ||
      write(file.get(), input.data(), input.size()) != static_cast<ssize_t>(input.size())) {
    throw std::runtime_error("no memory for a file");
  }
  const reader from(std::move(file), "trace");
  if (from.program().size() > 100'000) return;
  fuzz::check_conversion(from.head(), [&](sink& to) { from.read_all(to, {}); });
}

}  // namespace

interlace::fuzz::target interlace::fuzz::make_target() {
  return {{sound()}, {}, with_check_sums, try_input};
}
