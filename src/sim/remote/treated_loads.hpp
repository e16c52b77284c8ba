// The steps of DualOpt (PACT 2022) in one GPU. Loads can bypass the L1 and request pieces of lines.
// Several replies can share a packet. A cache can hold remote lines.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/gpu/gpu.hpp"
#include "sim/gpu/remote_accesses.hpp"
#include "sim/remote/load_treatment.hpp"
#include "sim/remote/masked_mshr.hpp"
#include "sim/remote/rdma_cache.hpp"
#include "sim/remote/reply_coalescer.hpp"
#include "sim/remote/reply_egress.hpp"

namespace interlace::sim {

class treated_loads final : public load_rules {
 public:
  // All GPUs share `treatment`. `treatment` says which steps are active.
  treated_loads(gpu& of, load_treatment& treatment, event_queue& queue, fabric& links);

  // Takes the RDMA cache's part from the L2, or gives the part back. Both caches are empty
  // afterwards.
  void use_rdma_cache(bool used);
  // The mechanism calls this function when a kernel of this GPU starts.
  void begin_kernel() {
    if (rdma_) rdma_->flush();
  }
  // Takes a coalesced reply: another GPU sent this packet at time `sent`.
  void take_replies(std::span<const std::uint8_t> packet, picoseconds sent);
  reply_egress& replies() { return replies_; }

  answer issue(const load& l) override;
  void entry_done(std::uint32_t unit, std::uint32_t token) override;
  bool needs_request(picoseconds time, std::uint32_t unit, std::uint32_t entry,
                     line_access l) override;
  bool takes_reply(std::uint32_t unit, std::uint32_t entry, line_access l) override;
  void reply(const part& p) override;
  void saw_local() override;
  void saw_remote_store() override;
  void saw_remote_load(line_access l, std::uint32_t words, std::optional<bool> hit) override;
  const char* left() const override;

 private:
  struct compute_unit {
    masked_mshr masked;
    std::vector<std::uint32_t> entries;  // for each entry of `masked`, the GPU's entry
  };
  void request(picoseconds time, std::uint32_t unit, std::uint32_t entry, line_access l,
               piece_mask pieces);

  gpu& gpu_;
  load_treatment& treatment_;
  event_queue& queue_;
  std::uint32_t mshrs_;  // number of entries of each compute unit
  std::vector<compute_unit> units_;
  reply_egress replies_;
  reply_decoalescer decoalescer_;
  std::optional<rdma_cache> rdma_;
  // For each line that the cache requested, the entries that wait for the line. An element is
  // compute unit << 16 | entry.
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> rdma_waiting_;
};

}  // namespace interlace::sim
