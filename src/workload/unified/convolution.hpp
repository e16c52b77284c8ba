// The convolution of an image and a mask, from the AMD APP SDK's simple convolution. A lane
// computes one pixel of the result, from a square of pixels of the padded image. The mask is the
// same for all lanes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/shared/unified_program.hpp"

namespace interlace::workload {

struct convolution_kernel {
  static constexpr std::uint32_t threads = 64;

  unified<std::uint32_t> image;
  unified<float> mask;
  unified<std::int32_t> output;
  std::uint32_t width = 0;  // the width of the output
  std::uint32_t height = 0;
  std::uint32_t side = 0;  // the side of the mask

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto sum = lane_state<float>(block);
    block.each_warp([&](auto warp) {
      for (std::uint32_t m = 0; m < side; ++m) {
        for (std::uint32_t n = 0; n < side; ++n) {
          const float weight = warp.load(mask, m * side + n);
          warp.each([&](auto lane) {
            const auto pixel = static_cast<std::uint32_t>(lane.global_index());
            const std::uint32_t x = pixel % width;
            const std::uint32_t y = pixel / width;
            if (y >= height) return;
            const std::uint64_t at = std::uint64_t{y + m} * (width + side - 1) + x + n;
            sum[lane] += static_cast<float>(lane.load(image, at)) * weight;
            lane.compute({.fp32 = 1, .integer = 6, .special = 1});
          });
        }
      }
      warp.each([&](auto lane) {
        const std::uint64_t pixel = lane.global_index();
        if (pixel >= output.size) return;
        lane.compute({.fp32 = 1, .integer = 20, .special = 1});
        // This rounds to nearest. No sum is negative, because the mask is not negative.
        const float above = sum[lane] + 0.5F;
        lane.store(output, pixel, static_cast<std::int32_t>(above));
      });
    });
  }
};

template <class Node>
class convolution;

struct convolution_problem {
  static constexpr const char* summary = "a convolution";
  static constexpr std::array arguments{"image", "mask"};

  std::uint32_t width = 0;  // the width of the output
  std::uint32_t height = 0;
  std::uint32_t side = 0;            // the side of the mask
  std::vector<std::uint32_t> image;  // (height + side - 1) x (width + side - 1)
  std::vector<float> mask;

  static convolution_problem make(const array_view<std::uint32_t, 2>& image,
                                  const array_view<float, 2>& mask) {
    const std::uint32_t side = extent_of(mask, 0);
    if (mask.extent(1) != side || side == 0 || image.extent(0) < side || image.extent(1) < side) {
      throw usage_error(
          "a convolution needs a square mask, and an image that is at least as large as the mask");
    }
    return {extent_of(image, 1) - side + 1, extent_of(image, 0) - side + 1, side, values_of(image),
            values_of(mask)};
  }

  template <class Node>
  convolution<Node> on(Node& node, const unified_placement& placement) const {
    return {node, *this, placement};
  }
};

template <class Node>
class convolution {
 public:
  convolution(Node& node, const convolution_problem& data, const unified_placement& placement)
      : node_(node), blocks_(placement.blocks) {
    const std::uint64_t pixels =
        std::uint64_t{data.width + data.side - 1} * (data.height + data.side - 1);
    if (data.width == 0 || data.height == 0 || data.side == 0 || data.image.size() != pixels ||
        data.mask.size() != std::uint64_t{data.side} * data.side) {
      throw usage_error(
          "a convolution needs a square mask, and an image with as many rows and columns as the " +
          std::to_string(data.width) + " x " + std::to_string(data.height) +
          " result, plus the mask's side minus one");
    }
    const auto own = kernel::page_placement::contiguous();
    kernel_.image = put_unified(node, data.image, placement.of(own));
    // MGPUSim's program of 2021 distributes the image twice and the output never. The pages of the
    // output therefore go to the devices in turn.
    kernel_.output = node.template allocate_unified<std::int32_t>(
        std::uint64_t{data.width} * data.height, placement.of({}));
    kernel_.mask = put_unified(node, data.mask, placement.of({}));
    kernel_.width = data.width;
    kernel_.height = data.height;
    kernel_.side = data.side;
  }

  // As in the original, the grid has one lane for each pixel of the padded image.
  void enqueue() {
    const std::uint64_t blocks =
        (kernel_.image.size + convolution_kernel::threads - 1) / convolution_kernel::threads;
    node_.launch_over(kernel_, {blocks, convolution_kernel::threads, 0}, blocks_);
    node_.exchange();
  }
  // The pixels of the result. Floats hold values below 2^24 exactly.
  std::vector<float> result() const {
    const std::vector<std::int32_t> pixels = node_.download(kernel_.output);
    std::vector<float> values(pixels.size());
    for (std::size_t k = 0; k < pixels.size(); ++k) values[k] = static_cast<float>(pixels[k]);
    return values;
  }

 private:
  Node& node_;
  kernel::block_placement blocks_;
  convolution_kernel kernel_;
};

}  // namespace interlace::workload
