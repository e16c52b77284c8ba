#include "sim/trace/address_ranges.hpp"

#include <algorithm>
#include <cstdio>

#include "interlace/base/errors.hpp"

namespace interlace::sim::trace {

namespace {

std::string shown(const range& r) { return "[" + hex(r.begin) + ", " + hex(r.end) + ")"; }

std::vector<range> sorted(std::vector<range> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const range& a, const range& b) { return a.begin < b.begin; });
  return ranges;
}

bool power_of_two(std::uint64_t n) { return n != 0 && (n & (n - 1)) == 0; }

}  // namespace

std::string hex(std::uint64_t value) {
  std::array<char, 24> text{};
  (void)std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
  return text.data();
}

void check_header(const header& h) {
  if (h.gpus == 0 || h.gpus > max_devices) {
    throw usage_error("a trace has 1 to " + std::to_string(max_devices) + " GPUs, not " +
                      std::to_string(h.gpus));
  }
  if (h.warp_width == 0 || h.warp_width > max_lanes) {
    throw usage_error("a trace's warps have 1 to " + std::to_string(max_lanes) + " lanes, not " +
                      std::to_string(h.warp_width));
  }
  const std::vector<range> ranges = sorted(h.ranges);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const range& r = ranges[i];
    if (r.begin >= r.end) throw usage_error("address range " + shown(r) + " is empty");
    if (r.gpu >= h.gpus) {
      throw usage_error("address range " + shown(r) + " is on gpu" + std::to_string(r.gpu) +
                        ", but the trace has " + std::to_string(h.gpus) + " GPUs");
    }
    if (r.page_bytes != 0 && (!power_of_two(r.page_bytes) || r.page_bytes < 4096)) {
      throw usage_error("address range " + shown(r) + " has pages of " +
                        std::to_string(r.page_bytes) +
                        " bytes; give a power of two of at least 4096");
    }
    if (i != 0 && ranges[i - 1].end > r.begin) {
      throw usage_error("address ranges " + shown(ranges[i - 1]) + " and " + shown(r) +
                        " overlap; an address has one home");
    }
  }
}

address_ranges::address_ranges(const header& h) : gpus_(h.gpus), ranges_(sorted(h.ranges)) {}

const range* address_ranges::search(std::uint64_t address) const {
  const auto behind = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                       [](std::uint64_t a, const range& r) { return a < r.begin; });
  if (behind == ranges_.begin()) return nullptr;
  const auto found = behind - 1;
  if (address >= found->end) return nullptr;
  last_ = static_cast<std::size_t>(found - ranges_.begin());
  return &*found;
}

bool address_ranges::refuses(const instruction& access, bool aligned) const {
  const auto lanes = static_cast<std::size_t>(__builtin_popcountll(access.lanes));
  aligned = aligned || access.kind == action::atomic;
  if (aligned && !power_of_two(access.bytes)) return true;
  for (std::size_t k = 0; k < lanes; ++k) {
    const range* r = find(access.addresses[k]);
    if (r == nullptr || access.bytes > r->end - access.addresses[k]) return true;
    if (aligned && access.addresses[k] % access.bytes != 0) return true;
  }
  return false;
}

void address_ranges::check(const instruction& access, const std::string& where,
                           bool aligned) const {
  const auto lanes = static_cast<std::size_t>(__builtin_popcountll(access.lanes));
  aligned = aligned || access.kind == action::atomic;
  const auto bytes = [&] { return std::to_string(access.bytes) + " bytes"; };
  if (aligned && !power_of_two(access.bytes)) {
    throw usage_error(where + ": an access of " + bytes() + ", which is not a power of two");
  }
  for (std::size_t k = 0; k < lanes; ++k) {
    const std::uint64_t address = access.addresses[k];
    const range* r = find(address);
    if (r == nullptr) {
      throw usage_error(where + ": address " + hex(address) +
                        " is in no GPU's range; add a range with this address to the map");
    }
    if (access.bytes > r->end - address) {
      throw usage_error(where + ": " + bytes() + " at address " + hex(address) +
                        " reach past the end of range " + shown(*r));
    }
    if (aligned && address % access.bytes != 0) {
      throw usage_error(where + ": an access of " + bytes() + " at address " + hex(address) +
                        ", which is not aligned to its size");
    }
  }
}

}  // namespace interlace::sim::trace
