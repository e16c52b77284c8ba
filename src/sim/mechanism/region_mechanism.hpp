// What a mechanism does on the simulated node with a region: at the launches that write it, and at
// its exchange. Each has a file in this folder; table.hpp, which is made, has them all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "kernel/region.hpp"
#include "sim/gpu/subscribed_pages.hpp"
#include "sim/mechanism/streams.hpp"
#include "sim/remote/egress.hpp"
#include "sim/trace/instruction.hpp"

namespace interlace::sim {

// What an exchange does besides its flags.
struct region_exchange {
  bool instant = false;                        // flags take no time, nor does what appears
  std::vector<trace::stretch> appears;         // in devices' memory
  std::vector<std::function<void()>> arrived;  // when the last device has arrived
};

class region_mechanism {
 public:
  virtual ~region_mechanism() = default;

  // Throws usage_error for a region that it cannot move.
  virtual void check(const kernel::region_state& /*state*/) const {}
  // How stores that go to the subscribers by themselves leave the GPU.
  virtual store_path path() const { return store_path::packets; }
  // Who is sent pages of the region; null: all that it names.
  virtual std::unique_ptr<subscribed_pages> subscribe(const kernel::region_state& /*state*/,
                                                      const streams& /*on*/,
                                                      const machine::machine& /*m*/) const {
    return nullptr;
  }

  // On a machine with several devices.
  virtual void launch(const region_launch& l, streams& on) const {
    on.add_kernel(l.device, l.shape, l.record, l.block, path());
  }
  // Before the buffers swap.
  virtual void exchange(std::uint32_t /*region*/, streams& /*on*/,
                        region_exchange& /*work*/) const {}
};

// By stores that go to the subscribers one by one, on a path of their own.
class store_mechanism : public region_mechanism {
 public:
  explicit store_mechanism(store_path path) : path_(path) {}
  store_path path() const override { return path_; }

 private:
  store_path path_;
};

}  // namespace interlace::sim
