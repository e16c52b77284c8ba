#include "sim/trace/block_grouping.hpp"

#include <algorithm>

#include "interlace/base/errors.hpp"
#include "sim/trace/coding.hpp"

namespace interlace::sim::trace {

namespace {

// Decodes a number. The function checks nothing, because it reads only bytes that this file wrote.
std::uint64_t get_varint(const std::vector<std::uint8_t>& bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const std::uint8_t b = bytes[at++];
    value |= std::uint64_t{b & 0x7fU} << shift;
    if (b < 0x80) return value;
  }
}

}  // namespace

void block_grouping::add(const index& block, std::uint32_t warp, const instruction& i) {
  kept& k = blocks_[block];
  for (std::size_t c = 0; c < 3; ++c) last_[c] = std::max(last_[c], block[c]);
  const auto place = std::lower_bound(k.warps.begin(), k.warps.end(), warp);
  if (place == k.warps.end() || *place != warp) {
    k.warps.insert(place, warp);
    most_warps_ = std::max(most_warps_, static_cast<std::uint32_t>(k.warps.size()));
  }
  const std::size_t before = k.bytes.size();
  put_varint(k.bytes, warp);
  k.bytes.push_back(static_cast<std::uint8_t>(i.kind));
  k.bytes.push_back(static_cast<std::uint8_t>(i.scope));
  k.bytes.push_back(i.bytes);
  put_varint(k.bytes, i.lanes);
  const auto lanes = static_cast<std::size_t>(__builtin_popcountll(i.lanes));
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    put_signed(k.bytes, i.addresses[lane] - k.last_address);
    k.last_address = i.addresses[lane];
  }
  used_ += k.bytes.size() - before;
  if (used_ > held_) spill();
}

void block_grouping::spill() {
  if (!file_) file_.reset(std::tmpfile());
  if (!file_)
    throw device_error("no temporary file can be made; set TMPDIR to a folder with space");
  for (auto& [block, k] : blocks_) {
    if (k.bytes.empty()) continue;
    if (std::fwrite(k.bytes.data(), 1, k.bytes.size(), file_.get()) != k.bytes.size()) {
      throw device_error("a temporary file cannot be written; is the disk full?");
    }
    k.spilled.emplace_back(file_bytes_, k.bytes.size());
    file_bytes_ += k.bytes.size();
    k.bytes = {};
  }
  used_ = 0;
}

void block_grouping::read_back(kept& k) {
  std::vector<std::uint8_t> all;
  for (const auto& [offset, size] : k.spilled) {
    const std::size_t begin = all.size();
    all.resize(begin + size);
    if (std::fseek(file_.get(), static_cast<long>(offset), SEEK_SET) != 0 ||
        std::fread(&all[begin], 1, size, file_.get()) != size) {
      throw device_error("a temporary file cannot be read back");
    }
  }
  all.insert(all.end(), k.bytes.begin(), k.bytes.end());
  k.bytes = std::move(all);
}

void block_grouping::flush(const std::function<void(const index&)>& begin_block,
                           const std::function<void(std::uint32_t, const instruction&)>& take) {
  std::array<std::uint64_t, max_lanes> addresses{};
  for (auto& [block, k] : blocks_) {
    if (!k.spilled.empty()) read_back(k);
    begin_block(block);
    std::uint64_t address = 0;
    for (std::size_t at = 0; at < k.bytes.size();) {
      const auto warp = static_cast<std::uint32_t>(get_varint(k.bytes, at));
      instruction i;
      i.kind = static_cast<action>(k.bytes[at++]);
      i.scope = static_cast<scope>(k.bytes[at++]);
      i.bytes = k.bytes[at++];
      i.lanes = get_varint(k.bytes, at);
      const auto lanes = static_cast<std::size_t>(__builtin_popcountll(i.lanes));
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        addresses[lane] = address += unfold(get_varint(k.bytes, at));
      }
      i.addresses = addresses.data();
      take(static_cast<std::uint32_t>(std::lower_bound(k.warps.begin(), k.warps.end(), warp) -
                                      k.warps.begin()),
           i);
    }
    k.bytes = {};
  }
  blocks_.clear();
  used_ = 0;
  last_ = {};
  most_warps_ = 0;
  file_.reset();
  file_bytes_ = 0;
}

}  // namespace interlace::sim::trace
