#include "cuda/epoch/recorder.hpp"
#include "cuda/mechanism/table.hpp"
#include "cuda/memory/managed.hpp"

namespace interlace::cuda {

namespace {

// All devices share one copy of each buffer. The driver moves a buffer's pages to the device that
// touches them.
class by_pages final : public node_mechanism {
 public:
  using node_mechanism::node_mechanism;

  void prepare(std::uint32_t /*id*/, kernel::region_state& state) override {
    of().gpus.require_idle("an allocation");
    const std::vector<int>& gpus = of().gpus.ordinals();
    for (std::uint32_t parity = 0; parity < 2; ++parity) {
      void* one = memory_.take(gpus, state.elements * state.element_bytes);
      for (std::uint32_t d = 0; d < of().gpus.count(); ++d) state.buffers[d][parity] = one;
      managed_memory::advise(gpus, state, one);
    }
  }

  // If the hint gives copies to readers, the exchange prefetches the elements to which each device
  // subscribes.
  bool deliver(recorder& /*from*/, std::uint32_t id, exchange_operation& to) override {
    const kernel::region_state& s = region(id);
    if (s.options.hint != kernel::memory_hint::read_mostly) return true;
    for (const kernel::delivery& k : s.deliveries()) {
      const copy_operation c = copy_of(k, s);
      to.prefetches[k.to].push_back({.data = c.to, .bytes = c.bytes});
    }
    return true;
  }

 private:
  managed_memory memory_{kernel::mechanism_name(kernel::mechanism::unified_memory)};
};

}  // namespace

std::unique_ptr<node_mechanism> make_unified_memory(const node_parts& of) {
  return std::make_unique<by_pages>(of);
}

}  // namespace interlace::cuda
