#include <array>
#include <vector>

#include "run/gpu_trace.hpp"
#include "sim/trace/address_ranges.hpp"
#include "sim/trace/block_grouping.hpp"
#include "sim/trace/writer.hpp"

namespace interlace::run {

namespace {

namespace trace = sim::trace;

trace::header header_of(const cuda::node& node) {
  trace::header h;
  h.gpus = node.devices();
  h.source = "recorded on GPUs";
  for (std::uint32_t d = 0; d < node.devices(); ++d) {
    for (const cuda::memory_range& r : node.memory(d)) h.ranges.push_back({r.begin, r.end, d, 0});
  }
  return h;
}

trace::action action_of(kernel::traced_access kind) {
  switch (kind) {
    case kernel::traced_access::load:
      return trace::action::load;
    case kernel::traced_access::store:
      return trace::action::store;
    case kernel::traced_access::atomic:
      break;
  }
  return trace::action::atomic;
}

}  // namespace

struct gpu_trace::parts {
  parts(const trace::header& h, const std::string& path)
      : ranges(h), file(path, h), last(h.gpus, trace::no_dependence) {}

  trace::address_ranges ranges;
  trace::writer file;
  std::vector<std::uint32_t> last;  // the number of the last launch on each GPU
  std::uint32_t launches = 0;
  trace::launch now;
  trace::block_grouping accesses;
  std::array<std::uint64_t, 32> addresses{};
};

gpu_trace::gpu_trace(cuda::node& node, const std::string& path)
    : node_(node), parts_(std::make_unique<parts>(header_of(node), path)) {}
gpu_trace::~gpu_trace() = default;

void gpu_trace::begin(std::uint32_t device, grid shape, const std::string& name) {
  parts& p = *parts_;
  p.now = {};
  p.now.gpu = device;
  p.now.blocks = shape.blocks;
  p.now.threads = shape.threads;
  p.now.shared_bytes = shape.shared_bytes;
  p.now.name = name;
}

void gpu_trace::add(const kernel::warp_access& a) {
  parts& p = *parts_;
  trace::instruction i;
  i.kind = action_of(a.kind);
  i.scope = a.kind == kernel::traced_access::atomic ? trace::scope::device : trace::scope::none;
  i.bytes = static_cast<std::uint8_t>(a.bytes);
  i.lanes = a.lanes;
  const auto lanes = static_cast<std::uint32_t>(__builtin_popcount(a.lanes));
  for (std::uint32_t k = 0; k < lanes; ++k) p.addresses[k] = a.addresses[k];
  i.addresses = p.addresses.data();
  if (p.ranges.refuses(i, false)) p.ranges.check(i, "kernel " + p.now.name, false);
  // Block numbers have 64 bits, but the grid of a GPU uses only 31 of these bits.
  p.accesses.add({0, 0, static_cast<std::uint32_t>(a.block)}, a.warp, i);
}

void gpu_trace::end() {
  parts& p = *parts_;
  const std::uint32_t gpu = p.now.gpu;
  if (p.last[gpu] != trace::no_dependence) p.now.after = {p.last[gpu]};
  p.last[gpu] = p.launches;
  p.file.program(p.now);
  p.file.begin_kernel(gpu, p.launches++);
  p.accesses.flush(
      [&](const trace::block_grouping::index& at) { p.file.begin_block(gpu, at[2]); },
      [&](std::uint32_t warp, const trace::instruction& i) { p.file.add(gpu, warp, i); });
}

void gpu_trace::finish() { parts_->file.finish(); }

}  // namespace interlace::run
