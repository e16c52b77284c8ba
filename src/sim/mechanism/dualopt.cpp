// The steps of DualOpt. Either all steps are active from the start, or a decision engine chooses
// which steps are active.
#include <functional>
#include <memory>
#include <vector>

#include "base/units.hpp"
#include "interlace/base/errors.hpp"
#include "sim/mechanism/load_mechanisms.hpp"
#include "sim/remote/load_treatment.hpp"
#include "sim/remote/treated_loads.hpp"

namespace interlace::sim {

namespace {

const char* name_of(optimisation choice) {
  switch (choice) {
    case optimisation::coalesce:
      return "coalesced";
    case optimisation::cache:
      return "rdma-cache";
    default:
      return "none";
  }
}

class dualopt final : public load_mechanism {
 public:
  dualopt(const kernel::remote_load_options& options, const hardware& parts)
      : treatment_(parts.described.gpu, options, parts.addresses.unified_slot(),
                   parts.addresses.page_bytes, [this](bool used) { use_caches(used); }) {
    for (gpu* g : parts.gpus) {
      gpus_.push_back(std::make_unique<treated_loads>(*g, treatment_, parts.queue, parts.links));
      g->treat_loads(gpus_.back().get());
      if (caches_used_) gpus_.back()->use_rdma_cache(true);
    }
  }

  void begin_kernel(std::uint32_t gpu) override { gpus_[gpu]->begin_kernel(); }
  void handle(const event& e) override { gpus_[e.device]->replies().handle(e); }
  void departed(const message& m) override { gpus_[m.from]->replies().departed(m); }
  void delivered(const message& m) override {
    gpus_[m.to]->take_replies(gpus_[m.from]->replies().take(m.unit), m.sent);
  }
  outcome found(picoseconds now) const override {
    outcome o;
    o.coalesced_pages = treatment_.pages(optimisation::coalesce);
    o.cached_pages = treatment_.pages(optimisation::cache);
    const load_treatment::decided decided = treatment_.decisions(now);
    for (const decision_engine::decision& d : decided.what) {
      kernel::remote_load_decision& one = o.decisions.emplace_back();
      one.made = decided.made;
      one.choice = name_of(d.choice);
      one.when_s = seconds_of(d.when);
      one.accesses = d.accesses;
      one.remote = d.remote;
      one.loads = d.loads;
      one.remote_ratio = d.remote_ratio;
      one.block_utilisation = d.block_utilisation;
      one.hit_rate = d.hit_rate;
    }
    return o;
  }

 private:
  void use_caches(bool used) {
    caches_used_ = used;
    for (const auto& g : gpus_) g->use_rdma_cache(used);
  }

  // Whether the RDMA caches are in use. This member keeps the decision, because the treatment may
  // decide before the GPUs exist.
  bool caches_used_ = false;
  std::vector<std::unique_ptr<treated_loads>> gpus_;
  load_treatment treatment_;
};

}  // namespace

std::unique_ptr<load_mechanism> make_dualopt(const kernel::remote_load_options& options,
                                             const hardware& parts) {
  if (parts.described.gpu.dualopt.rdma_cache_bytes == 0) {
    throw usage_error(
        "the machine has no hardware for remote loads; add a table "
        "[gpu.dualopt], as in 4x-r9nano, or use direct");
  }
  return std::make_unique<dualopt>(options, parts);
}

}  // namespace interlace::sim
