// A single simulated GPU reports the work that it still holds, until a kernel has ended.
#include "sim/gpu/gpu.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "interlace/base/errors.hpp"
#include "interlace/kernel/serial_block.hpp"
#include "sim/described.hpp"

namespace interlace::sim::gpu_tests {
namespace {

alignas(128) std::uint32_t words[8192];

struct copy {
  local<std::uint32_t> data{words, 8192};
  template <class Block>
  void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      lane.store(data, 4096 + i, lane.load(data, i));
    });
  }
};

class nobody : public message_receiver {
  void departed(const message& /*m*/) override {}
  void delivered(const message& /*m*/) override {}
};

TEST(gpu, says_what_it_holds_until_its_kernel_has_ended) {
  const auto m = test::meshed(1, machine::protocol_kind::nvlink2);
  address_map addresses;
  event_queue queue;
  nobody receiver;
  fabric links(m, queue, receiver);
  gpu g(0, m.gpu, addresses, queue, links);
  g.check_empty();

  recorder::settings record;
  record.address_base = reinterpret_cast<const std::byte*>(words);
  const grid shape{16, 256, 0};
  const block_function block = [&](std::uint64_t index, recorder& r, kernel::block_memory& memory) {
    kernel::serial_block<recorder> b(r, memory, index, shape, 32);
    copy{}(b);
  };
  const auto held = [&g]() -> std::string {
    try {
      g.check_empty();
    } catch (const model_error& error) {
      return error.what();
    }
    return "";
  };
  g.start_kernel(shape, record, block, 0);
  bool ended = false;
  std::uint64_t complaints = 0;
  while (!queue.empty()) {
    const event e = queue.pop([](const auto&) {});
    if (e.kind != event_kind::kernel_ends) {
      g.handle(e);
    } else if (g.stores_arrived() > e.time) {
      queue.push(g.stores_arrived(), event_kind::kernel_ends, 0, 0, 0);
    } else {
      ended = true;
    }
    if (!ended && held().rfind("gpu0 ends a run with ", 0) == 0) ++complaints;
  }
  EXPECT_TRUE(ended);
  EXPECT_GT(complaints, 100U);
  EXPECT_EQ(held(), "");
  EXPECT_GT(g.issue_time(), 0U);
  EXPECT_EQ(g.counters().accesses, 16U * 8 * 2);
}

}  // namespace
}  // namespace interlace::sim::gpu_tests
