#include "sim/trace/accel_sim.hpp"

#include <algorithm>

#include "base/cut_text.hpp"
#include "interlace/base/errors.hpp"
#include "sim/trace/words.hpp"

namespace interlace::sim::trace {

namespace {

// The generic addresses of shared memory lie in a window of this size. The generic addresses of
// local memory lie in another window of the same size.
constexpr std::uint64_t window_bytes = std::uint64_t{1} << 24U;
constexpr std::uint32_t zero_register = 255;

}  // namespace

std::vector<listed> read_kernels_list(std::string_view text, const std::string& file) {
  std::vector<listed> found;
  line_splitter lines;
  const auto fail = [&](const std::string& what) {
    throw usage_error(file + ", line " + std::to_string(lines.number()) + ": " + what);
  };
  const auto take = [&](std::string_view line) {
    if (line.empty()) return;
    listed l;
    l.line = lines.number();
    if (line.substr(0, 6) == "kernel") {
      if (line.find('/') != std::string_view::npos) {
        fail(shown(line) + " is in another folder; a kernel's file must be next to its list");
      }
      l.file = line;
      found.push_back(std::move(l));
      return;
    }
    const std::string_view whole = line;
    const std::string_view what = cut_text(line, ',');
    const auto address = address_of(cut_text(line, ','));
    const auto bytes = number_of<std::uint64_t>(line);
    if ((what != "MemcpyHtoD" && what != "MemcpyDtoH") || !address || !bytes) {
      fail("expected a kernel's file or MemcpyHtoD,ADDRESS,BYTES, found " + shown(whole));
    }
    l.is_copy = true;
    l.to_gpu = what == "MemcpyHtoD";
    l.address = *address;
    l.bytes = *bytes;
    found.push_back(std::move(l));
  };
  if (!lines.feed(text, take)) fail("the line is too long; this is not a list of kernels");
  lines.finish(take);
  return found;
}

accel_sim::accel_sim(sink& to, const header& h)
    : to_(to), ranges_(h), gpus_(h.gpus), last_(h.gpus, no_dependence) {}

std::string accel_sim::where() const {
  return file_ + ", line " + std::to_string(splitter_.number());
}

void accel_sim::fail(const std::string& what) const { throw usage_error(where() + ": " + what); }

void accel_sim::copy(const listed& l, const std::string& list) {
  if (l.bytes == 0) return;
  const auto home = ranges_.home(l.address, l.bytes);
  if (!home) {
    throw usage_error(list + ", line " + std::to_string(l.line) + ": " + std::to_string(l.bytes) +
                      " bytes at address " + hex(l.address) +
                      " are in no GPU's range; add a range with these bytes to the map");
  }
  trace::copy c;
  c.from = l.to_gpu ? host : *home;
  c.to = l.to_gpu ? *home : host;
  (l.to_gpu ? c.to_address : c.from_address) = l.address;
  c.bytes = l.bytes;
  to_.program(c);
  ++tasks_;
}

void accel_sim::begin_file(const std::string& name, std::uint32_t gpu) {
  if (gpu >= gpus_) {
    throw usage_error(name + " is of gpu" + std::to_string(gpu) + ", but there are " +
                      std::to_string(gpus_) + " GPUs");
  }
  lines_ += splitter_.number();
  file_ = name;
  splitter_ = {};
  place_ = place::head;
  launch_ = {};
  launch_.gpu = gpu;
  grid_ = {};
  block_dim_ = {};
  version_ = 0;
  line_info_ = false;
  shared_base_ = 0;
  local_base_ = 0;
  next_block_ = 0;
}

void accel_sim::feed(std::string_view text) {
  if (!splitter_.feed(text, [this](std::string_view line) { take(line); })) {
    fail("the line is too long; this is not a trace of Accel-Sim");
  }
}

void accel_sim::end_file() {
  splitter_.finish([this](std::string_view line) { take(line); });
  if (place_ == place::head) fail("the file ends before its first block; it is cut off");
  if (place_ != place::between) fail("the file ends inside a block; it is cut off, get it again");
}

template <class Number>
Number accel_sim::word_number(std::string_view& line, int base, const char* what) const {
  std::string_view word = next_word(line);
  if (word.empty()) fail(std::string("the line ends before ") + what);
  const std::string_view whole = word;
  if (base == 16) take_prefix(word, "0x");
  const auto number = number_of<Number>(word, base);
  if (!number) fail("expected " + std::string(what) + ", found " + shown(whole));
  return *number;
}

void accel_sim::take(std::string_view line) {
  if (line.empty()) return;
  if (place_ == place::head && line[0] == '-') {
    take_head(line.substr(1));
  } else if (line == "#BEGIN_TB") {
    if (place_ == place::head) begin_kernel();
    if (place_ != place::between) fail("a block begins before the end of the block before it");
    place_ = place::block;
    in_block_ = false;
  } else if (line[0] == '#' && line != "#END_TB") {
    if (place_ != place::head) fail("expected a block, found " + shown(line));
  } else if (place_ == place::head || place_ == place::between) {
    fail("expected a line of the kernel's head or #BEGIN_TB, found " + shown(line));
  } else if (line == "#END_TB") {
    if (place_ == place::warp) end_warp();
    if (!in_block_) fail("a block ends without its index");
    place_ = place::between;
  } else if (take_prefix(line, "thread block = ")) {
    begin_block(line);
  } else if (take_prefix(line, "warp = ")) {
    begin_warp(line);
  } else if (take_prefix(line, "insts = ")) {
    const auto count = number_of<std::uint32_t>(line);
    if (place_ != place::warp || taken_ != 0 || !count)
      fail("a number of instructions is in the wrong place");
    stated_ = *count;
  } else if (place_ == place::warp) {
    take_instruction(line);
  } else if (!take_prefix(line, "cluster ")) {
    fail("expected a warp, found " + shown(line));
  }
}

void accel_sim::take_head(std::string_view line) {
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos) fail("expected NAME = VALUE, found " + shown(line));
  std::string_view key = line.substr(0, equals);
  while (!key.empty() && key.back() == ' ') key.remove_suffix(1);
  std::string_view value = line.substr(equals + 1);
  while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  const auto number = [&](auto like, int base) {
    std::string_view digits = value;
    if (base == 16) take_prefix(digits, "0x");
    const auto found = number_of<decltype(like)>(digits, base);
    if (!found) fail(std::string(key) + " is " + shown(value) + ", which is not a number");
    return *found;
  };
  const auto dimensions = [&] {
    std::optional<std::array<std::uint32_t, 3>> found;
    if (value.size() > 2 && value.front() == '(' && value.back() == ')') {
      found = triple_of(value.substr(1, value.size() - 2));
    }
    if (!found || (*found)[0] == 0 || (*found)[1] == 0 || (*found)[2] == 0) {
      fail(std::string(key) + " is " + shown(value) + "; expected (x,y,z)");
    }
    return *found;
  };
  if (key == "kernel name") launch_.name = value;
  if (key == "grid dim") grid_ = dimensions();
  if (key == "block dim") block_dim_ = dimensions();
  if (key == "shmem") launch_.shared_bytes = number(std::uint32_t{}, 10);
  if (key == "shmem base_addr") shared_base_ = number(std::uint64_t{}, 16);
  if (key == "local mem base_addr") local_base_ = number(std::uint64_t{}, 16);
  if (key == "enable lineinfo") line_info_ = number(std::uint32_t{}, 10) != 0;
  if (key == "accelsim tracer version") {
    version_ = number(std::uint32_t{}, 10);
    if (version_ != 4 && version_ != 5) {
      fail("the trace is of tracer version " + std::to_string(version_) +
           "; versions 4 and 5 can be read");
    }
  }
}

void accel_sim::begin_kernel() {
  const auto missing = [&](bool absent, const char* what) {
    if (absent) fail(std::string("the kernel's head lacks ") + what);
  };
  missing(version_ == 0, "the tracer's version");
  missing(grid_[0] == 0, "the grid dim");
  missing(block_dim_[0] == 0, "the block dim");
  const auto blocks = blocks_of({grid_[0], grid_[1], grid_[2]});
  if (!blocks) fail("the grid has too many blocks");
  launch_.blocks = *blocks;
  const std::uint64_t face = std::uint64_t{block_dim_[0]} * block_dim_[1];
  if (face > 1024 || face * block_dim_[2] > 1024) fail("a block has more than 1024 threads");
  launch_.threads = static_cast<std::uint32_t>(face * block_dim_[2]);
  std::uint32_t& last = last_[launch_.gpu];
  if (last != no_dependence) launch_.after = {last};
  last = tasks_++;
  to_.program(launch_);
  to_.begin_kernel(launch_.gpu, launches_++);
  place_ = place::between;
}

void accel_sim::begin_block(std::string_view indices) {
  if (place_ != place::block || in_block_) fail("a block's index is in the wrong place");
  const auto index = triple_of(indices);
  if (!index) fail("expected the block's index x,y,z, found " + shown(indices));
  const auto [x, y, z] = *index;
  if (x >= grid_[0] || y >= grid_[1] || z >= grid_[2]) {
    fail("block " + std::string(indices) + " is outside of the grid");
  }
  const std::uint64_t number = (std::uint64_t{z} * grid_[1] + y) * grid_[0] + x;
  if (number < next_block_) {
    fail("block " + std::string(indices) + " comes after a later block; blocks must ascend");
  }
  next_block_ = number + 1;
  in_block_ = true;
  to_.begin_block(launch_.gpu, number);
}

void accel_sim::begin_warp(std::string_view number) {
  if (place_ == place::warp) end_warp();
  if (!in_block_) fail("a warp comes before its block's index");
  const auto found = number_of<std::uint32_t>(number);
  const std::uint32_t warps = (launch_.threads + width - 1) / width;
  if (!found || *found >= warps) {
    fail("warp " + shown(number) + ", but a block has " + std::to_string(warps));
  }
  place_ = place::warp;
  warp_ = *found;
  stated_ = no_dependence;
  taken_ = 0;
  emitted_ = 0;
  waited_ = 0;
  loaded_by_.fill(no_dependence);
  computed_.fill(0);
}

void accel_sim::end_warp() {
  if (taken_ != stated_) {
    fail("warp " + std::to_string(warp_) + " has " + std::to_string(taken_) + " of " +
         (stated_ == no_dependence ? "an unknown number" : std::to_string(stated_)) +
         " instructions; the file is damaged");
  }
  flush_computed();
}

void accel_sim::emit(instruction i) {
  to_.add(launch_.gpu, warp_, i);
  ++emitted_;
}

void accel_sim::flush_computed() {
  for (std::size_t k = 0; k < operation_kinds; ++k) {
    if (computed_[k] == 0) continue;
    instruction i;
    i.kind = action::compute;
    i.operation = static_cast<std::uint8_t>(k);
    i.count = computed_[k];
    emit(i);
    computed_[k] = 0;
    waited_ = emitted_;
  }
}

void accel_sim::computed(operation kind, bool waits) {
  ++computed_[static_cast<std::size_t>(kind)];
  if (waits) flush_computed();
}

bool accel_sim::in_window(std::uint64_t address, std::uint64_t base) const {
  return base != 0 && address >= base && address - base < window_bytes;
}

void accel_sim::take_instruction(std::string_view line) {
  if (taken_ == stated_)
    fail("warp " + std::to_string(warp_) + " has more instructions than stated");
  ++taken_;
  if (line_info_) (void)word_number<std::uint32_t>(line, 10, "the source line");
  (void)word_number<std::uint64_t>(line, 16, "the program counter");
  const auto mask = word_number<std::uint32_t>(line, 16, "the mask");
  const auto registers_of = [&](const char* what, std::uint32_t most) {
    std::array<std::uint32_t, 8> found{};
    found.fill(zero_register);
    const auto count = word_number<std::uint32_t>(line, 10, what);
    if (count > most) fail("an instruction with " + std::to_string(count) + " registers");
    for (std::uint32_t k = 0; k < count; ++k) {
      std::string_view word = next_word(line);
      const std::string_view whole = word;
      const auto number =
          take_prefix(word, "R") ? number_of<std::uint32_t>(word) : std::optional<std::uint32_t>{};
      if (!number || *number >= registers) fail("expected a register, found " + shown(whole));
      found[k] = *number;
    }
    return found;
  };
  const std::uint32_t result = registers_of("the number of results", 1)[0];
  const std::string_view name = next_word(line);
  if (name.empty()) fail("the line ends before the opcode");
  const auto sources = registers_of("the number of sources", 8);
  const auto memory_bytes = word_number<std::uint32_t>(line, 10, "the width of the access");
  const opcode what = read_opcode(name);
  if (what.kind == opcode_kind::bulk && mask != 0) {
    fail(std::string(name) + " moves memory in bulk, and the trace does not say how much");
  }
  if (memory_bytes != 0) take_addresses(line, mask);
  if (version_ >= 5) next_word(line);  // skips the immediate
  if (!next_word(line).empty()) fail("the line has too many words for an instruction");
  if (mask == 0) return;  // no lane executes the instruction

  // The latest load on which the instruction depends and that no wait covers yet.
  std::uint32_t source = no_dependence;
  for (const std::uint32_t r : sources) {
    const std::uint32_t by = r == zero_register ? no_dependence : loaded_by_[r];
    if (by == no_dependence || by < waited_) continue;
    source = source == no_dependence ? by : std::max(source, by);
  }
  if (what.kind == opcode_kind::access && memory_bytes != 0) {
    access(what, mask, source, result == zero_register ? std::nullopt : std::optional(result));
    return;
  }
  if (result != zero_register) loaded_by_[result] = no_dependence;
  if (what.kind == opcode_kind::fence || what.kind == opcode_kind::barrier) {
    flush_computed();
    instruction i;
    i.kind = what.kind == opcode_kind::fence ? action::release : action::barrier;
    i.scope = what.kind == opcode_kind::fence ? what.scope : scope::none;
    emit(i);
    waited_ = emitted_;
  } else if (what.kind == opcode_kind::other) {
    computed(what.computes, source != no_dependence);
  }
}

void accel_sim::take_addresses(std::string_view& line, std::uint32_t mask) {
  const auto lanes = static_cast<std::uint32_t>(__builtin_popcount(mask));
  const auto mode = word_number<std::uint32_t>(line, 10, "the way in which addresses are given");
  if (mode == 0) {
    for (std::uint32_t k = 0; k < lanes; ++k) {
      addresses_[k] = word_number<std::uint64_t>(line, 16, "the address of each active lane");
    }
  } else if (mode == 1 || mode == 2) {
    auto address = word_number<std::uint64_t>(line, 16, "the base address");
    const std::int64_t stride =
        mode == 1 ? word_number<std::int64_t>(line, 10, "the stride") : std::int64_t{0};
    for (std::uint32_t k = 0; k < lanes; ++k) {
      if (k != 0) {
        address += static_cast<std::uint64_t>(
            mode == 1 ? stride
                      : word_number<std::int64_t>(line, 10, "a difference for each active lane"));
      }
      addresses_[k] = address;
    }
  } else {
    fail("the format of the addresses is " + std::to_string(mode) + "; it must be 0, 1 or 2");
  }
}

void accel_sim::access(const opcode& what, std::uint32_t mask, std::uint32_t source,
                       std::optional<std::uint32_t> result) {
  if (result) loaded_by_[*result] = no_dependence;
  if (what.generic &&
      (in_window(addresses_[0], shared_base_) || in_window(addresses_[0], local_base_))) {
    return;
  }
  instruction i;
  i.kind = what.what;
  i.scope = what.scope;
  i.bytes = what.bytes;
  i.depends = source;
  i.lanes = mask;
  i.addresses = addresses_.data();
  if (ranges_.refuses(i, true)) ranges_.check(i, where(), true);
  if (what.what == action::load && result) {
    for (std::uint32_t k = 0; k < std::max(1U, what.bytes / 4U); ++k) {
      if (*result + k < zero_register) loaded_by_[*result + k] = emitted_;
    }
  }
  emit(i);
}

}  // namespace interlace::sim::trace
