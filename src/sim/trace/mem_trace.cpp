#include "sim/trace/mem_trace.hpp"

#include <algorithm>

#include "base/cut_text.hpp"
#include "interlace/base/errors.hpp"
#include "sim/trace/words.hpp"

namespace interlace::sim::trace {

namespace {

constexpr std::string_view dash = " - ";
// The tool prints an asynchronous copy to shared memory as two lines. The second line has offsets
// in shared memory, which are below this size.
constexpr std::uint64_t shared_bytes = std::uint64_t{1} << 24U;
constexpr std::uint32_t most_threads = 1024;  // the most threads of a block; a limit of CUDA

}  // namespace

mem_trace::mem_trace(sink& to, const header& h, std::string name,
                     std::map<std::uint64_t, std::uint32_t> contexts)
    : to_(to),
      ranges_(h),
      gpus_(h.gpus),
      name_(std::move(name)),
      contexts_given_(std::move(contexts)),
      gpu_taken_(h.gpus, false) {
  for (const auto& [id, gpu] : contexts_given_) gpu_taken_.at(gpu) = true;
}

void mem_trace::fail(const std::string& what) const {
  throw usage_error(name_ + ", line " + std::to_string(splitter_.number()) + ": " + what);
}

void mem_trace::feed(std::string_view text) {
  if (!splitter_.feed(text, [this](std::string_view line) { take(line); })) {
    fail("the line is too long; this is not output of mem_trace");
  }
}

void mem_trace::finish() {
  splitter_.finish([this](std::string_view line) { take(line); });
  if (accesses_ == 0)
    fail("no access (MEMTRACE: CTX ... - grid_launch_id ...) was found up to here");
  for (auto& [id, c] : contexts_) end_kernel(c);
}

template <class Number>
Number mem_trace::field(std::string_view& rest, std::string_view before, int base) const {
  std::string_view text = cut_text(rest, dash);
  const std::string_view whole = text;
  std::optional<Number> found;
  if (take_prefix(text, before)) {
    if (base == 16) take_prefix(text, "0x");
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    found = number_of<Number>(text, base);
  }
  if (!found) fail("expected " + std::string(before) + "NUMBER, found " + shown(whole));
  return *found;
}

mem_trace::triple mem_trace::field_triple(std::string_view& rest, std::string_view before) const {
  std::string_view text = cut_text(rest, dash);
  const std::string_view whole = text;
  const auto found = take_prefix(text, before) ? triple_of(text) : std::nullopt;
  if (!found) fail("expected " + std::string(before) + "x,y,z, found " + shown(whole));
  return *found;
}

mem_trace::context& mem_trace::context_of(std::uint64_t id) {
  const auto known = contexts_.find(id);
  if (known != contexts_.end()) return known->second;
  context c;
  if (const auto given = contexts_given_.find(id); given != contexts_given_.end()) {
    c.gpu = given->second;
  } else {
    const auto free = std::find(gpu_taken_.begin(), gpu_taken_.end(), false);
    if (free == gpu_taken_.end()) {
      fail("context " + hex(id) + " is one more context than there are GPUs (" +
           std::to_string(gpus_) +
           "); give the number of GPUs, or the GPU of each context in the map");
    }
    *free = true;
    c.gpu = static_cast<std::uint32_t>(free - gpu_taken_.begin());
  }
  return contexts_.emplace(id, std::move(c)).first->second;
}

void mem_trace::take(std::string_view line) {
  // The program's own output can appear between the lines of the tool, and is skipped.
  if (!take_prefix(line, "MEMTRACE: CTX ")) return;
  const std::string_view id_text = cut_text(line, dash);
  const auto id = address_of(id_text);
  if (!id) fail("expected the number of a context, found " + shown(id_text));
  context& c = context_of(*id);
  if (take_prefix(line, "LAUNCH - ")) {
    take_launch(c, line);
  } else {
    take_access(c, line);
  }
}

void mem_trace::take_launch(context& c, std::string_view rest) {
  constexpr std::string_view mark = " - grid launch id ";
  const std::size_t at = rest.rfind(mark);
  if (at == std::string_view::npos) fail("a launch has no grid launch id");
  stated s;
  std::string_view name = rest.substr(0, at);
  if (const std::size_t begin = name.find("Kernel name "); begin != std::string_view::npos) {
    s.name = name.substr(begin + std::string_view("Kernel name ").size());
  }
  rest.remove_prefix(at + dash.size());
  const auto number = field<std::uint64_t>(rest, "grid launch id ", 10);
  if (!rest.empty()) {
    s.grid = field_triple(rest, "grid size ");
    s.block = field_triple(rest, "block size ");
    s.sizes = true;
    std::uint64_t threads = 1;
    for (std::size_t k = 0; k < 3; ++k) {
      if (s.grid[k] == 0 || s.block[k] == 0) fail("a launch has no blocks or threads");
      threads = std::min<std::uint64_t>(threads, 4096) * s.block[k];
    }
    if (threads > most_threads) fail("a block has more than 1024 threads");
  }
  c.launches[number] = std::move(s);
}

void mem_trace::begin_kernel(context& c, std::uint64_t launch) {
  end_kernel(c);
  if (c.ended && launch <= *c.ended) {
    fail("an access of launch " + std::to_string(launch) +
         ", which has already ended; launches that "
         "overlap in a context cannot be told apart");
  }
  c.open = true;
  c.launch = launch;
  c.first_line = splitter_.number();
  const auto known = c.launches.find(launch);
  c.now = known == c.launches.end() ? stated{} : std::move(known->second);
  // Earlier launches of this context made no access.
  c.launches.erase(c.launches.begin(), c.launches.upper_bound(launch));
}

void mem_trace::take_access(context& c, std::string_view rest) {
  const auto number = field<std::uint64_t>(rest, "grid_launch_id ", 10);
  const triple cta = field_triple(rest, "CTA ");
  const auto warp = field<std::uint32_t>(rest, "warp ", 10);
  const std::string_view name = cut_text(rest, dash);
  if (name.empty() || rest.empty()) fail("the line ends before the addresses");
  if (name != opcode_name_) {
    opcode_name_ = name;
    opcode_ = read_opcode(name);
  }
  if (!c.open || c.launch != number) begin_kernel(c, number);
  for (std::size_t k = 0; k < 3; ++k) {
    if (c.now.sizes && cta[k] >= c.now.grid[k]) fail("a block is outside of its grid");
  }
  instruction i;
  std::size_t active = 0;
  for (std::uint32_t lane = 0; lane < width; ++lane) {
    const std::string_view word = next_word(rest);
    const auto address = address_of(word);
    if (!address)
      fail("expected 32 addresses, found " + shown(word) + " as number " +
           std::to_string(lane + 1));
    if (*address == 0) continue;
    i.lanes |= std::uint64_t{1} << lane;
    addresses_[active++] = *address;
  }
  if (!next_word(rest).empty()) fail("the line has more than 32 addresses");
  ++accesses_;
  if (opcode_.kind == opcode_kind::bulk) {
    fail(opcode_name_ + " moves memory in bulk, and the trace does not say how much");
  }
  if (opcode_.kind != opcode_kind::access || active == 0) return;
  if (opcode_name_.compare(0, 6, "LDGSTS") == 0 && addresses_[0] < shared_bytes) return;
  i.kind = opcode_.what;
  i.scope = opcode_.scope;
  i.bytes = opcode_.bytes;
  i.addresses = addresses_.data();
  if (ranges_.refuses(i, true)) {
    ranges_.check(i, name_ + ", line " + std::to_string(splitter_.number()), true);
  }
  c.accesses->add({cta[2], cta[1], cta[0]}, warp, i);
}

void mem_trace::end_kernel(context& c) {
  if (!c.open) return;
  c.open = false;
  c.ended = c.launch;
  const auto last = c.accesses->last();
  launch l;
  l.gpu = c.gpu;
  l.name = std::move(c.now.name);
  std::array<std::uint64_t, 3> grid{};
  for (std::size_t k = 0; k < 3; ++k) {
    grid[k] = c.now.sizes ? c.now.grid[k] : std::uint64_t{last[2 - k]} + 1;
  }
  const auto blocks = blocks_of(grid);
  if (!blocks) fail("a grid has too many blocks");
  l.blocks = *blocks;
  const std::uint32_t warps = c.accesses->most_warps();
  l.threads = c.now.sizes ? c.now.block[0] * c.now.block[1] * c.now.block[2]
                          : std::clamp(warps * width, width, most_threads);
  if (warps > (l.threads + width - 1) / width) {
    fail("a block of launch " + std::to_string(c.launch) + ", which begins in line " +
         std::to_string(c.first_line) + ", has accesses of " + std::to_string(warps) +
         " warps, but the block has only " + std::to_string((l.threads + width - 1) / width));
  }
  if (c.last_task != no_dependence) l.after = {static_cast<std::uint32_t>(c.last_task)};
  c.last_task = tasks_++;
  to_.program(l);
  const std::uint32_t gpu = c.gpu;
  to_.begin_kernel(gpu, launches_++);
  c.accesses->flush(
      [&](const block_grouping::index& at) {
        to_.begin_block(gpu, (at[0] * grid[1] + at[1]) * grid[0] + at[2]);
      },
      [&](std::uint32_t warp, const instruction& i) { to_.add(gpu, warp, i); });
}

}  // namespace interlace::sim::trace
