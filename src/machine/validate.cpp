#include "machine/validate.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include "machine/route.hpp"

namespace interlace::machine {
namespace {

class problems {
 public:
  void require(bool holds, std::string sentence) {
    if (!holds) found_.push_back(std::move(sentence));
  }
  bool none() const { return found_.empty(); }
  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

void check_rate(double bytes_per_s, const std::string& where, problems& found) {
  found.require(std::isfinite(bytes_per_s) && bytes_per_s >= least_bytes_per_s,
                where + " is less than 1e8, or not finite");
}

// Of those that are 0 where nothing is known.
bool in_range_or_0(double bytes_per_s, double most) {
  return bytes_per_s == 0 || (bytes_per_s >= least_bytes_per_s && bytes_per_s <= most);
}

bool power_of_two(std::uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

void check_cache(const cache& level, const std::string& where, problems& found) {
  found.require(level.bytes > 0, where + ".bytes is 0");
  found.require(level.ways > 0, where + ".ways is 0");
  found.require(level.banks > 0, where + ".banks is 0");
  found.require(level.mshrs > 0, where + ".mshrs is 0");
  found.require(power_of_two(level.line_bytes), where + ".line_bytes is not a power of two");
  found.require(power_of_two(level.sector_bytes), where + ".sector_bytes is not a power of two");
  found.require(level.sector_bytes <= level.line_bytes,
                where + ".sector_bytes is more than line_bytes");
  // What the simulator packs into an event.
  found.require(level.line_bytes == 64 || level.line_bytes == 128,
                where + ".line_bytes is neither 64 nor 128");
  found.require(level.sector_bytes * 6 >= level.line_bytes,
                where + ".sector_bytes is less than a sixth of line_bytes");
  found.require(level.mshrs < 65536, where + ".mshrs is more than 65535");
  check_rate(level.bytes_per_s, where + ".bytes_per_s", found);
  const std::uint64_t row = std::uint64_t{level.banks} * level.ways * level.line_bytes;
  found.require(row == 0 || level.bytes % row == 0,
                where + ".bytes is not a multiple of banks x ways x line_bytes");
}

void check_gpu(const gpu& unit, problems& found) {
  found.require(unit.compute_units > 0, "gpu.compute_units is 0");
  found.require(unit.compute_units < 65535, "gpu.compute_units is more than 65534");
  found.require(std::isfinite(unit.clock_hz) && unit.clock_hz >= least_clock_hz,
                "gpu.clock_hz is less than 1e6, or not finite");
  found.require(power_of_two(unit.warp_width) && unit.warp_width <= 64,
                "gpu.warp_width is not a power of two up to 64");
  found.require(unit.max_warps > 0, "gpu.max_warps is 0");
  found.require(unit.max_blocks > 0, "gpu.max_blocks is 0");
  found.require(unit.store_queue_lines > 0, "gpu.store_queue_lines is 0");
  found.require(unit.remote_store_bytes == 0 || power_of_two(unit.remote_store_bytes),
                "gpu.remote_store_bytes is not a power of two");
  if (unit.store_bytes_per_s != 0)
    check_rate(unit.store_bytes_per_s, "gpu.store_bytes_per_s", found);
  found.require(unit.issue.instructions > 0 && unit.issue.fp32 > 0 && unit.issue.fp64 > 0 &&
                    unit.issue.integer > 0 && unit.issue.special > 0 && unit.issue.memory_lines > 0,
                "gpu.issue has a rate of 0");
  check_cache(unit.l1, "gpu.l1", found);
  check_cache(unit.l2, "gpu.l2", found);
  found.require(unit.l1.line_bytes == unit.l2.line_bytes, "gpu.l1 and gpu.l2 differ in line_bytes");
  found.require(unit.l1.sector_bytes == unit.l2.sector_bytes,
                "gpu.l1 and gpu.l2 differ in sector_bytes");
  const scalar_cache& scalar = unit.scalar_l1;
  if (scalar.bytes != 0) {
    const std::uint64_t row = std::uint64_t{scalar.ways} * unit.l1.line_bytes;
    found.require(row != 0 && scalar.bytes % row == 0,
                  "gpu.scalar_l1.bytes is not a multiple of ways x line_bytes");
    found.require(scalar.compute_units != 0 && unit.compute_units % scalar.compute_units == 0,
                  "gpu.scalar_l1.compute_units does not divide gpu.compute_units");
  }
  found.require(unit.dram.bytes > 0, "gpu.dram.bytes is 0");
  found.require(unit.dram.channels > 0, "gpu.dram.channels is 0");
  check_rate(unit.dram.bytes_per_s, "gpu.dram.bytes_per_s", found);
  found.require(unit.atomic_ops_per_clock_per_bank > 0, "gpu.atomic_ops_per_clock_per_bank is 0");
  found.require(unit.copy_engines > 0, "gpu.copy_engines is 0");
  found.require(unit.copy_peer_engines <= unit.copy_engines,
                "gpu.copy_peer_engines is above gpu.copy_engines");
  check_rate(unit.copy_bytes_per_s, "gpu.copy_bytes_per_s", found);
  found.require(unit.device_launches_pending > 0, "gpu.device_launches_pending is 0");
}

void check_write_queue(const gpu& unit, problems& found) {
  const remote_write_queue& q = unit.write_queue;
  found.require(q.entries > 0, "gpu.write_queue.entries is 0");
  found.require(q.windows > 0, "gpu.write_queue.windows is 0");
  found.require(q.unpacked_lines > 0, "gpu.write_queue.unpacked_lines is 0");
  found.require(q.subheader_bytes >= 2 && q.subheader_bytes <= 6,
                "gpu.write_queue.subheader_bytes is not 2 to 6");
  found.require(
      q.payload_bytes <= 4096 && q.payload_bytes >= unit.l2.line_bytes + q.subheader_bytes,
      "gpu.write_queue.payload_bytes is less than a line with a sub-header, or more than 4096");
  found.require(unit.gps.queue_lines > 0, "gpu.gps.queue_lines is 0");
  found.require(unit.gps.page_bytes > 0, "gpu.gps.page_bytes is 0");
}

void check_dualopt(const gpu& unit, problems& found) {
  const dualopt& d = unit.dualopt;
  if (d.rdma_cache_bytes == 0) return;
  found.require(d.piece_bytes == 4 || d.piece_bytes == 8 || d.piece_bytes == 16,
                "gpu.dualopt.piece_bytes is not 4, 8 or 16");
  found.require(d.packet_bytes >= 6 + d.piece_bytes,
                "gpu.dualopt.packet_bytes has no room for a piece");
  found.require(d.buffer_pieces >= 16, "gpu.dualopt.buffer_pieces is less than 16");
  found.require(d.monitored > 0, "gpu.dualopt.monitored is 0");
  found.require(d.agreeing_windows > 0, "gpu.dualopt.agreeing_windows is 0");
  found.require(d.page_loads > 0, "gpu.dualopt.page_loads is 0");
  found.require(d.looking_units > 0, "gpu.dualopt.looking_units is 0");
  const std::uint64_t row = std::uint64_t{d.rdma_cache_ways} * unit.l2.line_bytes;
  found.require(row != 0 && d.rdma_cache_bytes % row == 0,
                "gpu.dualopt.rdma_cache_bytes is not a multiple of its ways x line_bytes");
  const std::uint64_t l2_row = std::uint64_t{unit.l2.banks} * unit.l2.ways * unit.l2.line_bytes;
  found.require(d.rdma_cache_bytes < unit.l2.bytes &&
                    (l2_row == 0 || (unit.l2.bytes - d.rdma_cache_bytes) % l2_row == 0),
                "gpu.dualopt.rdma_cache_bytes does not leave whole sets to the L2");
  for (const double threshold : {d.remote_threshold, d.block_threshold, d.hit_threshold}) {
    found.require(threshold >= 0 && threshold <= 1, "a threshold of gpu.dualopt is not 0 to 1");
  }
}

void check_tlb(const gpu& unit, problems& found) {
  const tlb& t = unit.tlb;
  if (t.page_bytes == 0) return;
  found.require(std::has_single_bit(t.page_bytes) && t.page_bytes >= unit.l2.line_bytes,
                "gpu.tlb.page_bytes is not a power of two of at least a line");
  const auto sets = [](std::uint32_t entries, std::uint32_t ways) {
    return ways != 0 && entries % ways == 0 && std::has_single_bit(entries / ways);
  };
  found.require(sets(t.l1_entries, t.l1_ways),
                "gpu.tlb.l1_entries is not l1_ways times a power of two");
  found.require(sets(t.l2_entries, t.l2_ways),
                "gpu.tlb.l2_entries is not l2_ways times a power of two");
  found.require(t.l1_mshrs > 0, "gpu.tlb.l1_mshrs is 0");
  found.require(t.l2_mshrs > 0, "gpu.tlb.l2_mshrs is 0");
  found.require(t.walks > 0, "gpu.tlb.walks is 0");
}

void check_griffin(const gpu& unit, problems& found) {
  const griffin& g = unit.griffin;
  if (g.batch_pages == 0) return;
  found.require(g.counting_clocks * 1e12 >= unit.clock_hz,
                "gpu.griffin.counting_clocks are less than a picosecond");
  found.require(g.look_periods > 0, "gpu.griffin.look_periods is 0");
  found.require(g.counted_pages > 0, "gpu.griffin.counted_pages is 0");
}

bool exists(const machine& described, endpoint end) {
  switch (end.kind) {
    case endpoint_kind::gpu:
      return end.index < described.gpu_count;
    case endpoint_kind::network_switch:
      return end.index < described.switches.size();
    case endpoint_kind::host:
      return end.index == 0;
  }
  return false;
}

bool is_nvlink(protocol_kind kind) { return kind >= protocol_kind::nvlink1; }

void check_links(const machine& described, problems& found) {
  using end_key = std::pair<endpoint_kind, std::uint32_t>;
  std::set<std::pair<std::pair<end_key, end_key>, std::string>> seen;
  for (std::size_t index = 0; index < described.links.size(); ++index) {
    const link& edge = described.links[index];
    const std::string where = "link " + std::to_string(index);
    const bool ends = exists(described, edge.a) && exists(described, edge.b);
    found.require(ends, where + " has an end that does not exist");
    found.require(!(edge.a == edge.b), where + " has the same device at both ends");
    check_rate(edge.bytes_per_s, where + ".bytes_per_s", found);
    found.require(edge.width > 0, where + ".width is 0");
    found.require(edge.queue_bytes > 0 && edge.queue_bytes <= most_queue_bytes,
                  where + ".queue_bytes is 0 or more than 1 GiB");
    found.require(in_range_or_0(edge.copy_bytes_per_s, edge.bytes_per_s),
                  where + ".copy_bytes_per_s is neither 0 nor from 1e8 to bytes_per_s");
    found.require(in_range_or_0(edge.copy_both_bytes_per_s, 2 * edge.bytes_per_s),
                  where + ".copy_both_bytes_per_s is neither 0 nor from 1e8 to twice bytes_per_s");
    const std::uint32_t payload = edge.protocol.max_payload_bytes;
    if (is_nvlink(edge.protocol.kind))
      found.require(payload >= 16 && payload <= 256 && payload % 16 == 0,
                    where + ": NVLink packets carry 16 to 256 B in steps of 16");
    else
      found.require(power_of_two(payload) && payload >= 16 && payload <= 4096,
                    where + ": PCIe payload sizes are powers of two from 16 to 4096 B");
    end_key low{edge.a.kind, edge.a.index};
    end_key high{edge.b.kind, edge.b.index};
    if (high < low) std::swap(low, high);
    found.require(seen.insert({{low, high}, edge.protocol_name}).second,
                  where + " is a second " + edge.protocol_name + " link between the same devices");
  }
}

}  // namespace

std::vector<std::string> validate(const machine& described) {
  problems found;
  found.require(described.gpu_count >= 1 && described.gpu_count <= max_devices,
                "gpu_count is " + std::to_string(described.gpu_count) + ", not 1 to " +
                    std::to_string(max_devices));
  check_gpu(described.gpu, found);
  check_write_queue(described.gpu, found);
  check_dualopt(described.gpu, found);
  check_tlb(described.gpu, found);
  check_griffin(described.gpu, found);
  check_rate(described.host.memory_bytes_per_s, "host.memory_bytes_per_s", found);
  found.require(
      in_range_or_0(described.host.copy_write_bytes_per_s, described.host.memory_bytes_per_s),
      "host.copy_write_bytes_per_s is neither 0 nor from 1e8 to memory_bytes_per_s");
  check_links(described, found);
  if (found.none()) {
    // every pair, as GPUs do not forward: two that a third one reaches may not reach each other
    for (std::uint32_t one = 0; one < described.gpu_count; ++one)
      for (std::uint32_t other = one + 1; other < described.gpu_count; ++other) {
        const bool reached =
            route(described, {endpoint_kind::gpu, one}, {endpoint_kind::gpu, other}).has_value();
        found.require(reached,
                      "no path from gpu" + std::to_string(one) + " to gpu" + std::to_string(other));
      }
  }
  return found.take();
}

}  // namespace interlace::machine
