// Kernels that break the memory model. The reference node must refuse them.
#include "interlace/host/node.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace interlace::node_tests {
namespace {

struct store_at {
  replicated<float> out;
  std::uint64_t element = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      if (lane.index() == 0) lane.store(out, element, 1.0F);
    });
  }
};

kernel::region_options halves(std::uint64_t n) {
  kernel::region_options o;
  o.boundaries = {0, n / 2, n};
  return o;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const model_error& e) {
    return e.what();
  }
  return {};
}

TEST(host_node, two_writers_of_one_element_are_found) {
  host::node node({.devices = 2, .warp_width = 32, .checks = true});
  const auto r = node.create_region<float>(halves(10));
  const auto text = message_of([&] {
    node.launch(0, store_at{node.view(r, 0), 3}, {1, 32, 0});
    node.launch(1, store_at{node.view(r, 1), 3}, {1, 32, 0});
  });
  EXPECT_EQ(text,
            "element 3 of region 0 is written by device 0 and device 1 in one epoch (block 0)");
}

TEST(host_node, another_epoch_may_have_another_writer) {
  host::node node({.devices = 2, .warp_width = 32, .checks = true});
  const auto r = node.create_region<float>(halves(10));
  EXPECT_NO_THROW({
    node.launch(0, store_at{node.view(r, 0), 3}, {1, 32, 0});
    node.exchange(r);
    node.launch(1, store_at{node.view(r, 1), 3}, {1, 32, 0});
  });
}

TEST(host_node, stores_outside_of_the_mapping_are_found) {
  host::node node({.devices = 2, .warp_width = 32, .checks = true});
  const auto r = node.create_region<float>(halves(10));
  const auto text = message_of([&] {
    node.launch(0, store_at{node.view(r, 0), 4}, {1, 32, 0}, r,
                kernel::block_mapping::contiguous(0, 4, 5));
  });
  EXPECT_EQ(
      text,
      "block 0 of device 0 writes an element that its mapping does not name: element 4 of region 0 "
      "(chunk 0 of device 0)");
}

// Stores the elements [begin, end) of `out`. Publishes the given range before or after these
// stores.
struct publisher {
  replicated<float> out{};
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::vector<kernel::element_range> before{};
  std::vector<kernel::element_range> after{};
  bool stores_again = false;
  template <class Block>
  void operator()(Block& block) const {
    for (const auto& p : before) block.publish(out, p.begin, p.end);
    for (int round = 0; round < (stores_again ? 2 : 1); ++round) {
      block.each([&](auto lane) {
        for (auto i : lane.range(begin + lane.index(), end, std::uint64_t{32})) {
          lane.store(out, i, 1.0F);
        }
      });
      if (round > 0) continue;
      for (const auto& p : after) block.publish(out, p.begin, p.end);
    }
  }
};

TEST(host_node, wrong_publications_are_found) {
  const auto outcome = [](publisher kernel) {
    host::node node({.devices = 2, .warp_width = 32, .checks = true});
    const auto r = node.create_region<float>(halves(400));
    kernel.out = node.view(r, 0);
    kernel.begin = 10;
    kernel.end = 90;
    return message_of([&] {
      node.launch(0, kernel, {1, 32, 0}, r, kernel::block_mapping::contiguous(10, 80, 90));
      node.exchange(r);
    });
  };
  const std::string block = "block 0 of device 0 ";
  const auto element = [](int e) {
    return " element " + std::to_string(e) + " of region 0 (chunk 0 of device 0)";
  };
  EXPECT_EQ(outcome({.after = {{10, 90}}}), "");
  EXPECT_EQ(outcome({.after = {{50, 90}, {10, 30}, {30, 50}}}), "");
  EXPECT_EQ(outcome({}), "");  // the node publishes at the end of the block
  EXPECT_EQ(outcome({.after = {{10, 60}, {61, 90}}}), block + "publishes, but not" + element(60));
  EXPECT_EQ(outcome({.after = {{10, 60}, {59, 90}}}), block + "publishes twice" + element(59));
  EXPECT_EQ(outcome({.after = {{10, 91}}}),
            block + "publishes an element that its mapping does not name:" + element(90));
  EXPECT_EQ(outcome({.before = {{20, 30}}}),
            block + "publishes before it has stored" + element(20));
  EXPECT_EQ(outcome({.after = {{10, 90}}, .stores_again = true}),
            block + "writes after it has published" + element(10));
}

struct read_at {
  replicated<float> in;
  std::uint64_t element = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) { lane.load(in, element); });
  }
};

TEST(host_node, elements_that_an_epoch_left_out_are_stale) {
  host::node node({.devices = 2, .warp_width = 32, .checks = true});
  const auto r = node.create_region<float>(halves(10));
  node.set_front(r, std::vector<float>(10, 2.0F));
  node.exchange(r);
  // No kernel has stored, so the value that the host set remains.
  EXPECT_EQ(node.front(r, 1), std::vector<float>(10, 2.0F));
  node.launch(0, store_at{node.view(r, 0), 3}, {1, 32, 0});
  node.exchange(r);
  EXPECT_NO_THROW(node.launch(1, read_at{node.view(r, 1), 3}, {1, 32, 0}));
  EXPECT_NO_THROW(node.launch(1, read_at{node.view(r, 1), 4}, {1, 32, 0}));
  node.exchange(r);
  EXPECT_EQ(message_of([&] {
              node.launch(1, read_at{node.view(r, 1), 3}, {1, 32, 0});
            }),
            "block 0 of device 1 reads element 3 of region 0, which an earlier epoch stored, "
            "but not the last epoch");
  EXPECT_THROW(node.set_front(r, std::vector<float>(11)), model_error);
}

TEST(host_node, out_of_bounds_is_found) {
  host::node node({.devices = 2, .warp_width = 32, .checks = false});
  const auto r = node.create_region<float>(halves(10));
  const auto text = message_of([&] { node.launch(0, store_at{node.view(r, 0), 10}, {1, 32, 0}); });
  EXPECT_EQ(text, "a kernel reaches element 10 of a replicated array of 10");
}

struct greedy {
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    shared<float>(block, 100);
  }
};

TEST(host_node, shared_memory_is_bounded_by_the_launch) {
  host::node node({.devices = 1, .warp_width = 32, .checks = false});
  EXPECT_EQ(message_of([&] {
              node.launch(0, greedy{}, {1, 32, 64});
            }),
            "a block takes 400 bytes of shared memory but was launched with 64");
}

struct add_one {
  reduced<double> sum;
  reduced<std::int32_t, combine::min> least;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      lane.reduce(sum, 0, 1.0);
      lane.reduce(least, 0, 5 - static_cast<std::int32_t>(lane.global_index()));
    });
  }
};

TEST(host_node, reductions_combine_all_devices_and_start_anew) {
  host::node node({.devices = 3, .warp_width = 32, .checks = true});
  const auto sum = node.create_reduction<double, combine::add>(1, 4);
  const auto least = node.create_reduction<std::int32_t, combine::min>(1, 2);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (std::uint32_t d = 0; d < 3; ++d) {
      node.launch(d, add_one{node.view(sum, d), node.view(least, d)}, {10, 64, 0});
    }
    node.exchange(sum, least);
    for (std::uint32_t d = 0; d < 3; ++d) {
      EXPECT_EQ(node.front(sum, d)[0], 3 * 640.0);
      EXPECT_EQ(node.front(least, d)[0], 5 - 639);
    }
  }
  node.exchange(sum, least);
  EXPECT_EQ(node.front(sum, 0)[0], 0.0);
  EXPECT_EQ(node.front(least, 0)[0], std::numeric_limits<std::int32_t>::max());
}

struct reverse_unified {
  unified<float> values;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = lane.global_index();
      if (i >= values.size / 2) return;
      const auto j = values.size - 1 - i;
      const float a = lane.load(values, i);
      lane.store(values, i, lane.load(values, j));
      lane.store(values, j, a);
    });
  }
};

TEST(host_node, unified_arrays_are_of_all_devices) {
  host::node node({.devices = 2, .warp_width = 32, .checks = true});
  const auto values = node.allocate_unified<float>(5);
  for (const float v : node.download(values)) EXPECT_TRUE(std::isnan(v));
  node.upload(values, {1, 2, 3, 4, 5});
  node.launch(0, reverse_unified{values}, {1, 32, 0});
  EXPECT_EQ(node.download(values), (std::vector<float>{5, 4, 3, 2, 1}));
  node.launch(1, reverse_unified{values}, {1, 32, 0});
  EXPECT_EQ(node.download(values), (std::vector<float>{1, 2, 3, 4, 5}));
  EXPECT_THROW(node.upload(values, std::vector<float>(6)), model_error);
}

struct copy_first {
  replicated<float> v;
  std::uint64_t first = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      // Reads elements 0 to 4, whichever device owns them, and writes five elements that its own
      // device owns.
      if (lane.index() < 5) {
        lane.store(v, first + lane.index(), lane.load(v, lane.index()));
      }
    });
  }
};

TEST(host_node, what_is_delivered_and_read_is_counted) {
  host::node node({.devices = 2, .warp_width = 32, .checks = true});
  const auto r = node.create_region<float>(halves(10));
  const auto sum = node.create_reduction<double, combine::add>(1, 1);
  node.set_front(r, std::vector<float>(10, 1.0F));
  const auto run_epochs = [&](int epochs) {
    return node.run([&] {
      for (int epoch = 0; epoch < epochs; ++epoch) {
        for (std::uint32_t d = 0; d < 2; ++d) {
          node.launch(d, copy_first{node.view(r, d), d * 5}, {1, 32, 0});
        }
        node.exchange(r, sum);
      }
      node.exchange(sum);
    });
  };
  const auto result = run_epochs(4);
  // In each of four epochs, each of two devices sends five elements of 4 bytes. Device 1 reads the
  // elements of device 0. No device reads the elements of device 1.
  EXPECT_EQ(result.wire.useful, 4.0 * 5 * 4);
  EXPECT_EQ(result.wire.wasted, 4.0 * 5 * 4);
  EXPECT_EQ(result.sent_bytes, (std::vector<double>{40, 40, 40, 40, 0}));
  EXPECT_EQ(run_epochs(1).sent_bytes, (std::vector<double>{40, 0}));
}

}  // namespace
}  // namespace interlace::node_tests
