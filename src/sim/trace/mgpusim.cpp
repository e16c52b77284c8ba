#include "sim/trace/mgpusim.hpp"

#include "base/cut_text.hpp"
#include "interlace/base/errors.hpp"
#include "sim/trace/words.hpp"

namespace interlace::sim::trace {

namespace {

constexpr std::string_view comma = ", ";

// The GPU's number in the name of a component: 1 in "GPU_1.SA_00...", "GPU1..." and "GPU[1]...".
std::optional<std::uint32_t> gpu_number(std::string_view component) {
  if (!take_prefix(component, "GPU")) return std::nullopt;
  if (!component.empty() && (component[0] == '_' || component[0] == '[')) {
    component.remove_prefix(1);
  }
  std::size_t digits = 0;
  while (digits < component.size() && component[digits] >= '0' && component[digits] <= '9') {
    ++digits;
  }
  return number_of<std::uint32_t>(component.substr(0, digits));
}

}  // namespace

std::vector<range> mgpusim_ranges(std::uint32_t gpus) {
  std::vector<range> ranges;
  for (std::uint64_t g = 0; g < gpus; ++g) {
    ranges.push_back({.begin = (g + 1) << 32U,
                      .end = (g + 2) << 32U,
                      .gpu = static_cast<std::uint32_t>(g),
                      .page_bytes = 0});
  }
  return ranges;
}

mgpusim::mgpusim(sink& to, const header& h, std::string name, std::string wanted)
    : to_(to),
      ranges_(h),
      gpus_(h.gpus),
      name_(std::move(name)),
      wanted_(std::move(wanted)),
      blocks_(h.gpus, 0) {}

void mgpusim::fail(const std::string& what) const {
  throw usage_error(name_ + ", line " + std::to_string(splitter_.number()) + ": " + what);
}

void mgpusim::feed(std::string_view text) {
  if (!splitter_.feed(text, [this](std::string_view line) { take(line); })) {
    fail("the line is too long; this is not a mem.trace of MGPUSim");
  }
}

mgpusim::component& mgpusim::component_of(std::string_view name) {
  const auto known = components_.find(name);
  if (known != components_.end()) return known->second;
  component c;
  if (name.find(wanted_) != std::string_view::npos) {
    const auto number = gpu_number(name);
    if (!number || *number == 0)
      fail("expected a component of a GPU, such as GPU_1, found " + shown(name));
    if (*number > gpus_) {
      fail(shown(name) + " belongs to a GPU past the " + std::to_string(gpus_) +
           " of the trace; give the right number of GPUs");
    }
    c.gpu = *number - 1;
  }
  return components_.emplace(std::string(name), std::move(c)).first->second;
}

void mgpusim::take(std::string_view line) {
  const std::string_view whole = line;
  const std::string_view what = cut_text(line, comma);
  if (what == "step" || what == "end") {
    if (line.empty()) fail("the line is cut off: " + shown(whole));
    return;
  }
  if (what != "start") fail("expected start, step or end, found " + shown(whole));
  cut_text(line, comma);  // skips the time
  const std::string_view place = cut_text(line, comma);
  const std::string_view id = cut_text(line, comma);
  const std::string_view kind = cut_text(line, comma);
  const std::string_view address_text = cut_text(line, comma);
  const auto address = address_of(address_text);
  const auto bytes = number_of<std::uint32_t>(line);
  if (!address || !bytes) {
    fail("expected start, TIME, COMPONENT, ID, KIND, ADDRESS, BYTES, found " + shown(whole));
  }
  const bool read = kind == "*mem.ReadReq";
  if (!read && kind != "*mem.WriteReq") fail("an access of kind " + shown(kind));
  // A component can pass on a request. In this case, the request gets another ID, which lacks the
  // component's name.
  if (id.find('@') == std::string_view::npos) return;
  component& c = component_of(place);
  if (c.gpu == no_dependence) return;
  if (*bytes == 0 || *bytes > max_lane_bytes) {
    fail("an access of " + std::to_string(*bytes) + " bytes; 1 to " +
         std::to_string(max_lane_bytes) + " are possible");
  }
  received r;
  r.kind = read ? action::load : action::store;
  r.bytes = static_cast<std::uint8_t>(*bytes);
  r.address = *address;
  if (!ranges_.home(r.address, r.bytes)) {
    instruction i;
    i.bytes = r.bytes;
    i.lanes = 1;
    i.addresses = &r.address;
    ranges_.check(i, name_ + ", line " + std::to_string(splitter_.number()), false);
  }
  if (r.address % max_lane_bytes + r.bytes > max_lane_bytes) {
    fail(std::to_string(r.bytes) + " bytes at address " + hex(r.address) +
         " cross a line of 64 bytes");
  }
  ++accesses_;
  c.accesses.push_back(r);
  if (c.accesses.size() == most_accesses) flush(c);
}

void mgpusim::flush(component& c) {
  if (c.accesses.empty()) return;
  if (blocks_[c.gpu] == 0) to_.begin_kernel(c.gpu, c.gpu);
  to_.begin_block(c.gpu, blocks_[c.gpu]++);
  for (const received& r : c.accesses) {
    instruction i;
    i.kind = r.kind;
    i.bytes = r.bytes;
    i.lanes = 1;
    i.addresses = &r.address;
    to_.add(c.gpu, 0, i);
  }
  c.accesses.clear();
}

void mgpusim::finish() {
  splitter_.finish([this](std::string_view line) { take(line); });
  if (accesses_ == 0) {
    fail("no component with " + shown(wanted_) +
         " in its name has received an access up to here; name another component with --component");
  }
  for (auto& [name, c] : components_) flush(c);
  for (std::uint32_t g = 0; g < gpus_; ++g) {
    launch l;
    l.gpu = g;
    l.blocks = blocks_[g];
    l.threads = 1;
    l.name = "GPU " + std::to_string(g + 1);
    to_.program(l);
  }
}

}  // namespace interlace::sim::trace
