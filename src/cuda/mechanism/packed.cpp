// The warps of kernels pack updates into packets and store the packets in the owners' queues.
#include <memory>
#include <utility>

#include "cuda/mechanism/table.hpp"

namespace interlace::cuda {

namespace {

class packed final : public node_mechanism {
 public:
  using node_mechanism::node_mechanism;

  void launch_updates(recorder& to, update_launch l) override { launch_packing(to, std::move(l)); }
};

}  // namespace

std::unique_ptr<node_mechanism> make_packed(const node_parts& of) {
  return std::make_unique<packed>(of);
}

}  // namespace interlace::cuda
