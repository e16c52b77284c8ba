#include "sim/remote/treated_loads.hpp"

#include <algorithm>
#include <utility>

namespace interlace::sim {

namespace {
// A request for pieces has a field with the number of pieces. This bit of the field is set if the
// reply to the request may share a packet with other replies.
constexpr std::uint32_t coalesced_request = 0x80U;
}  // namespace

treated_loads::treated_loads(gpu& of, load_treatment& treatment, event_queue& queue, fabric& links)
    : gpu_(of),
      treatment_(treatment),
      queue_(queue),
      mshrs_(of.config().l1.mshrs),
      units_(of.config().compute_units,
             compute_unit{masked_mshr(mshrs_), std::vector<std::uint32_t>(mshrs_, none)}),
      replies_(of.index(), of.config(), of.addresses().devices, queue, links, of.counted()) {}

void treated_loads::use_rdma_cache(bool used) {
  const machine::dualopt& d = gpu_.config().dualopt;
  const machine::cache& l2 = gpu_.config().l2;
  rdma_.reset();  // Stores bypass the RDMA cache, so the cache has nothing to write back.
  if (used) rdma_.emplace(d.rdma_cache_bytes, d.rdma_cache_ways, l2.line_bytes);
  gpu_.second_level().resize(queue_.now(), l2.bytes - (used ? d.rdma_cache_bytes : 0));
}

// --- Accesses at the L1s

void treated_loads::saw_local() {
  if (treatment_.watches()) treatment_.local(queue_.now());
}

void treated_loads::saw_remote_store() {
  if (treatment_.watches()) treatment_.remote_store(queue_.now());
}

void treated_loads::saw_remote_load(line_access l, std::uint32_t words, std::optional<bool> hit) {
  if (treatment_.watches()) treatment_.remote_load(queue_.now(), l.line(), words, hit);
}

// --- Loads

// A load that bypasses the L1 neither looks up the L1 nor fills it. The load's entry records the
// pieces that the load fetches.
load_rules::answer treated_loads::issue(const load& l) {
  const kernel::remote_load_steps& steps = treatment_.steps(l.unit, l.line.line());
  if (!steps.bypass) return answer::plain;
  // The steps are read only once, because the counting below can change them.
  const bool fine = steps.fine;
  const piece_mask pieces =
      fine ? treatment_.pieces_of(gpu_.words_of(l.warp, *l.what)) : treatment_.masks().whole_line();
  compute_unit& u = units_[l.unit];
  // A load that an entry already serves needs no new entry. Any other load needs a new entry. Other
  // misses of the L1 use the same entries.
  if (!gpu_.has_entry(l.unit) && !u.masked.serves(l.line.line(), pieces)) return answer::no_entry;
  const picoseconds at = gpu_.pass_l1(l.unit);
  const masked_mshr::answer found = u.masked.request(l.line.line(), pieces);
  gpu_.count_passed_load(l.warp, *l.what, l.line);
  remote_load_counts& counts = gpu_.counted().loads;
  ++counts.bypassed;
  if (found.what == masked_mshr::outcome::hit) {
    ++counts.mask_hits;
    gpu_.wait_for(l.unit, u.entries[found.entry], l.warp, *l.what);
    return answer::taken;
  }
  if (found.what == masked_mshr::outcome::other_mask) ++counts.mask_misses;
  const std::uint32_t entry = gpu_.take_entry(l.unit, found.entry);
  u.entries[found.entry] = entry;
  request(at, l.unit, entry, l.line, fine ? pieces : 0);
  gpu_.wait_for(l.unit, entry, l.warp, *l.what);
  return answer::taken;
}

// Requests a line from another GPU. If `pieces` is not empty, requests only these pieces of the
// line.
void treated_loads::request(picoseconds time, std::uint32_t unit, std::uint32_t entry,
                            line_access l, piece_mask pieces) {
  auto wanted = static_cast<std::uint32_t>(__builtin_popcount(pieces));
  if (wanted != 0 && treatment_.steps(unit, l.line()).coalesce &&
      wanted <= replies_.format().most_pieces()) {
    wanted |= coalesced_request;
    decoalescer_.expect(static_cast<std::uint16_t>(unit * mshrs_ + entry), pieces);
  }
  gpu_.request(time, unit, entry, l, wanted);
}

void treated_loads::entry_done(std::uint32_t unit, std::uint32_t token) {
  units_[unit].masked.release(token);
}

bool treated_loads::needs_request(picoseconds time, std::uint32_t unit, std::uint32_t entry,
                                  line_access l) {
  if (!rdma_ || !treatment_.steps(unit, l.line()).cache) return true;
  byte_mask whole;
  for (std::uint32_t b = 0; b < gpu_.config().l2.line_bytes; b += 64) whole.set(b, 64);
  if (rdma_->read(l.line(), whole)) {
    ++gpu_.counted().loads.cache_hits;
    gpu_.load_done_at(time + gpu_.to_l2(), unit, entry, l);
    return false;
  }
  ++gpu_.counted().loads.cache_misses;
  auto& waiting = rdma_waiting_[l.line()];
  waiting.push_back(unit << 16U | entry);
  return waiting.size() == 1;  // otherwise the line is already in flight
}

// --- Replies

bool treated_loads::takes_reply(std::uint32_t unit, std::uint32_t entry, line_access l) {
  const auto found = rdma_waiting_.empty() ? rdma_waiting_.end() : rdma_waiting_.find(l.line());
  if (found == rdma_waiting_.end() || found->second.front() != (unit << 16U | entry)) return false;
  const std::vector<std::uint32_t> waiting = std::move(found->second);
  rdma_waiting_.erase(found);
  if (rdma_) rdma_->fill(l.line());
  for (const std::uint32_t w : waiting) gpu_.load_done(w >> 16U, w & 0xffffU, l);
  return true;
}

void treated_loads::take_replies(std::span<const std::uint8_t> packet, picoseconds sent) {
  remote_load_counts& counts = gpu_.counted().loads;
  ++counts.coalesced;
  for (const std::uint16_t id : decode_reply(packet, replies_.format()).ids) {
    ++counts.pieces;
    if (!decoalescer_.arrived(id).complete) continue;
    counts.in_links += queue_.now() - sent;
    const std::uint32_t unit = id / mshrs_;
    const std::uint32_t entry = id % mshrs_;
    gpu_.replied(unit, entry, {units_[unit].masked.line(gpu_.token_of(unit, entry)), 0});
  }
}

void treated_loads::reply(const part& p) {
  const std::uint32_t pieces = p.wanted & ~coalesced_request;
  const machine::gpu& config = gpu_.config();
  if ((p.wanted & coalesced_request) != 0) {
    const picoseconds read =
        gpu_.second_level().read(queue_.now(), p.line.line(), p.line.sectors());
    replies_.reply(read + gpu_.port_to_l2(), p.to,
                   static_cast<std::uint16_t>(p.unit * mshrs_ + p.entry), pieces);
    return;
  }
  const std::uint32_t bytes =
      static_cast<std::uint32_t>(__builtin_popcount(p.line.sectors())) * config.l2.sector_bytes;
  gpu_.send_reply(queue_.now(), p, std::min(bytes, pieces * config.dualopt.piece_bytes));
}

const char* treated_loads::left() const {
  if (!replies_.empty()) return "replies were not sent";
  if (decoalescer_.waiting() != 0 || !rdma_waiting_.empty()) return "remote loads without a reply";
  const bool used = std::any_of(units_.begin(), units_.end(),
                                [](const compute_unit& u) { return u.masked.used() != 0; });
  return used ? "loads of pieces under way" : nullptr;
}

}  // namespace interlace::sim
