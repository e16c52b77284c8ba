#include "sim/remote/rdma_cache.hpp"

#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::sim {

std::uint64_t carve_rdma_cache(std::uint64_t l2_bytes, std::uint64_t l2_row_bytes,
                               std::uint64_t rdma_bytes, std::uint32_t rdma_ways,
                               std::uint32_t line_bytes) {
  const std::string what =
      "gpu.dualopt.rdma_cache_KiB is " + std::to_string(rdma_bytes / 1024) + ", which ";
  if (rdma_bytes == 0 || rdma_bytes >= l2_bytes) {
    throw usage_error(what + "is not more than 0 and less than the L2, which has " +
                      std::to_string(l2_bytes / 1024) + " KiB");
  }
  const std::uint64_t row = std::uint64_t{rdma_ways} * line_bytes;
  if (row == 0 || rdma_bytes % row != 0) {
    throw usage_error(what + "does not divide into sets of " + std::to_string(rdma_ways) +
                      " ways; give a multiple of rdma_cache_ways x line_bytes");
  }
  if ((l2_bytes - rdma_bytes) % l2_row_bytes != 0) {
    throw usage_error(what + "leaves " + std::to_string((l2_bytes - rdma_bytes) / 1024) +
                      " KiB to the L2, which do not divide into its sets");
  }
  return l2_bytes - rdma_bytes;
}

rdma_cache::rdma_cache(std::uint64_t bytes, std::uint32_t ways, std::uint32_t line_bytes)
    : ways_(ways),
      line_bytes_(line_bytes),
      sets_(static_cast<std::uint32_t>(bytes / line_bytes / ways)),
      slots_(std::size_t{sets_} * ways) {
  if (sets_ == 0 || std::uint64_t{sets_} * ways * line_bytes != bytes) {
    throw usage_error("a cache of " + std::to_string(bytes) +
                      " bytes does not divide into sets of " + std::to_string(ways) + " lines of " +
                      std::to_string(line_bytes) + " bytes");
  }
  for (std::uint32_t at = 0; at < line_bytes; at += 64) whole_.set(at, 64);
}

rdma_cache::slot* rdma_cache::find(std::uint64_t line) {
  const std::size_t first = line / line_bytes_ % sets_ * ways_;
  for (std::size_t k = first; k < first + ways_; ++k) {
    if (slots_[k].used != 0 && slots_[k].line == line) {
      slots_[k].used = ++clock_;
      return &slots_[k];
    }
  }
  return nullptr;
}

rdma_cache::slot& rdma_cache::place(std::uint64_t line, dirty_line& displaced) {
  if (slot* here = find(line)) return *here;
  const std::size_t first = line / line_bytes_ % sets_ * ways_;
  std::size_t oldest = first;
  for (std::size_t k = first; k < first + ways_; ++k) {
    if (slots_[k].used < slots_[oldest].used) oldest = k;
  }
  slot& s = slots_[oldest];
  if (s.used != 0) displaced = {s.line, s.dirty};
  s = {line, ++clock_, {}, {}};
  return s;
}

bool rdma_cache::read(std::uint64_t line, const byte_mask& wanted) {
  const slot* s = find(line);
  return s != nullptr && (wanted & s->valid) == wanted;
}

rdma_cache::dirty_line rdma_cache::fill(std::uint64_t line) {
  dirty_line displaced;
  place(line, displaced).valid = whole_;
  return displaced;
}

rdma_cache::dirty_line rdma_cache::write(std::uint64_t line, const byte_mask& bytes) {
  dirty_line displaced;
  slot& s = place(line, displaced);
  s.valid = s.valid | bytes;
  s.dirty = s.dirty | bytes;
  return displaced;
}

std::vector<rdma_cache::dirty_line> rdma_cache::flush() {
  std::vector<dirty_line> dirty;
  for (slot& s : slots_) {
    if (s.used != 0 && s.dirty.any()) dirty.push_back({s.line, s.dirty});
    s = {};
  }
  return dirty;
}

std::uint32_t rdma_cache::lines() const {
  std::uint32_t n = 0;
  for (const slot& s : slots_) n += s.used != 0 ? 1U : 0U;
  return n;
}

}  // namespace interlace::sim
