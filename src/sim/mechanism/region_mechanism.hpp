// The work of a mechanism for a region on the simulated node. A mechanism acts at the launches that
// write the region, and at the region's exchange. Each mechanism has a file in this folder. The
// generated table.hpp lists all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "interlace/kernel/region.hpp"
#include "interlace/sim/gpu/subscribed_pages.hpp"
#include "sim/mechanism/streams.hpp"
#include "sim/remote/egress.hpp"
#include "sim/trace/instruction.hpp"

namespace interlace::sim {

// The additional work of an exchange, besides its flags.
struct region_exchange {
  bool instant = false;  // if true, neither the flags nor the changes of `appears` take time
  std::vector<trace::stretch> appears;  // stretches of devices' memory that change at the exchange
  std::vector<std::function<void()>> arrived;  // functions to call when the last device has arrived
};

class region_mechanism {
 public:
  virtual ~region_mechanism() = default;

  // Throws usage_error if the mechanism cannot move the region.
  virtual void check(const kernel::region_state& /*state*/) const {}
  // The way in which stores to subscribers leave the GPU.
  virtual store_path path() const { return store_path::packets; }
  // Decides which subscribers receive which pages of the region. With null, all subscribers that
  // the region names receive all pages.
  virtual std::unique_ptr<subscribed_pages> subscribe(const kernel::region_state& /*state*/,
                                                      const streams& /*on*/,
                                                      const machine::machine& /*m*/) const {
    return nullptr;
  }

  // Launches a kernel. The node calls this function only if the machine has several devices.
  virtual void launch(const region_launch& l, streams& on) const {
    on.add_kernel(l.device, l.shape, l.record, l.block, path());
  }
  // Adds the mechanism's work to an exchange. The node calls this function before the buffers swap.
  virtual void exchange(std::uint32_t /*region*/, streams& /*on*/,
                        region_exchange& /*work*/) const {}
};

// A mechanism whose stores go to the subscribers one by one, on a special path.
class store_mechanism : public region_mechanism {
 public:
  explicit store_mechanism(store_path path) : path_(path) {}
  store_path path() const override { return path_; }

 private:
  store_path path_;
};

}  // namespace interlace::sim
