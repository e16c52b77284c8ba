#include "python/unified_result.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "interlace/base/errors.hpp"
#include "interlace/base/limits.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

nb::dict load_counts(const kernel::remote_load_counts& c) {
  nb::dict d;
  d["vector_accesses"] = c.vector_accesses;
  d["scalar_accesses"] = c.scalar_accesses;
  d["local_loads"] = c.local;
  d["remote_loads"] = c.remote;
  d["remote_hits"] = c.hits;
  d["remote_useful_bytes"] = c.useful_bytes;
  d["local_stores"] = c.local_stores;
  d["remote_stores"] = c.remote_stores;
  d["requests"] = c.requests;
  d["reply_bytes"] = c.reply_bytes;
  d["wire_bytes"] = c.wire;
  d["mean_latency_s"] = c.mean_latency_s;
  d["bypassed"] = c.bypassed;
  d["mask_hits"] = c.mask_hits;
  d["mask_misses"] = c.mask_misses;
  d["coalesced_packets"] = c.coalesced;
  d["timeout_packets"] = c.timeouts;
  d["coalesced_pieces"] = c.pieces;
  d["cache_hits"] = c.cache_hits;
  d["cache_misses"] = c.cache_misses;
  d["remote_by_words"] = std::vector<std::uint64_t>(c.by_words.begin(), c.by_words.end());
  d["coalesced_pages"] = c.coalesced_pages;
  d["cached_pages"] = c.cached_pages;
  d["migrated_pages"] = c.migrated_pages;
  d["migrated_again"] = c.migrated_again;
  d["delayed_touches"] = c.delayed_touches;
  d["migration_batches"] = c.migration_batches;
  d["l2_loads"] = c.l2_loads;
  d["l2_hits"] = c.l2_hits;
  d["mean_wait_s"] = c.mean_wait_s;
  d["mean_in_links_s"] = c.mean_in_links_s;
  d["tlb_hits"] = c.tlb_hits;
  d["tlb_misses"] = c.tlb_misses;
  d["l2_tlb_hits"] = c.l2_tlb_hits;
  d["l2_tlb_misses"] = c.l2_tlb_misses;
  d["walks"] = c.walks;
  d["walk_wire_bytes"] = c.walk_wire;
  d["mean_walk_s"] = c.mean_walk_s;
  return d;
}

nb::dict decision_dict(const kernel::remote_load_decision& decided) {
  nb::dict d;
  d["made"] = decided.made;
  d["choice"] = decided.choice;
  d["when_s"] = decided.when_s;
  d["accesses"] = decided.accesses;
  d["remote"] = decided.remote;
  d["loads"] = decided.loads;
  d["remote_ratio"] = decided.remote_ratio;
  d["block_utilisation"] = decided.block_utilisation;
  d["hit_rate"] = decided.hit_rate;
  return d;
}

}  // namespace

run::unified_request unified_request_of(std::uint32_t gpus, const std::string& pages,
                                        const std::string& blocks) {
  if (gpus == 0 || gpus > max_devices) {
    throw usage_error(std::to_string(gpus) + " GPUs cannot be used; give 1 to " +
                      std::to_string(max_devices));
  }
  run::unified_request asked;
  asked.gpus = gpus;
  asked.own_pages = pages == "own";
  if (!pages.empty() && !asked.own_pages)
    asked.placement.pages = kernel::parse_page_placement(pages, gpus);
  asked.placement.blocks = kernel::parse_block_placement(blocks);
  return asked;
}

nb::ndarray<nb::numpy, float, nb::ndim<1>> array_of(std::vector<float> values) {
  auto found = std::make_unique<std::vector<float>>(std::move(values));
  float* first = found->data();
  const std::size_t count = found->size();
  nb::capsule owner(found.release(),
                    [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  return {first, {count}, owner};
}

nb::dict unified_result(run::unified_result result, double cpu_s) {
  nb::dict d;
  d["time_s"] = result.run.time_s;
  d["cpu_s"] = cpu_s;
  d["link_bytes"] = result.run.wire.useful + result.run.wire.wasted + result.run.wire.protocol;
  d["loads"] = load_counts(result.run.loads);
  nb::list decisions;
  for (const auto& one : result.run.loads.decisions) decisions.append(decision_dict(one));
  d["decisions"] = decisions;
  d["values"] = array_of(std::move(result.values));
  return d;
}

}  // namespace interlace::python
