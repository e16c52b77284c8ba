// k-means, from Hetero-Mark. One kernel transposes the points' features, so that neighbouring lanes
// read neighbouring elements. The next kernel finds the nearest centre of each point; a lane
// handles one point. The host then moves each centre to the mean of the points that are nearest to
// it. The last two steps repeat until no point changes its centre.
//
// Features are multiples of 1/16 from 0 to 1, and the host rounds centres to multiples of 1/256.
// Squares and their sums are therefore exact in float32, and every node computes the same results.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "workload/shared/unified_program.hpp"

namespace interlace::workload {

// Transposes the features: turned(f, p) = features(p, f).
struct kmeans_turn_kernel {
  static constexpr std::uint32_t threads = 64;

  unified<float> features;
  unified<float> turned;
  std::uint32_t points = 0;
  std::uint32_t count = 0;  // number of features

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint64_t point = lane.global_index();
      if (point >= points) return;
      for (auto f : lane.range(0U, count)) {
        const float value = lane.load(features, point * count + f);
        lane.store(turned, static_cast<std::uint64_t>(f) * points + point, value);
        lane.compute(operation::integer, 6);
      }
    });
  }
};

struct kmeans_nearest_kernel {
  static constexpr std::uint32_t threads = 64;

  struct state {
    float least;
    float sum;
    std::uint32_t nearest;
  };

  unified<float> turned;
  unified<float> centres;
  unified<std::uint32_t> membership;
  std::uint32_t points = 0;
  std::uint32_t count = 0;  // number of features
  std::uint32_t clusters = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto found = lane_state<state>(block, {3.4e38F, 0.0F, 0});
    block.each_warp([&](auto warp) {
      for (std::uint32_t k = 0; k < clusters; ++k) {
        for (std::uint32_t f = 0; f < count; ++f) {
          const float centre = warp.load(centres, k * count + f);
          warp.each([&](auto lane) {
            const std::uint64_t point = lane.global_index();
            if (point >= points) return;
            const float distance =
                lane.load(turned, static_cast<std::uint64_t>(f) * points + point) - centre;
            state& s = found[lane];
            s.sum += distance * distance;
            if (f + 1 == count) {
              if (s.sum < s.least) {
                s.least = s.sum;
                s.nearest = k;
              }
              s.sum = 0;
            }
            lane.compute({.fp32 = 2, .integer = 6});
          });
        }
      }
      warp.each([&](auto lane) {
        const std::uint64_t point = lane.global_index();
        if (point < points) lane.store(membership, point, found[lane].nearest);
        lane.compute(operation::integer, 6);
      });
    });
  }
};

template <class Node>
class kmeans;

struct kmeans_problem {
  static constexpr const char* summary = "a clustering of points";
  static constexpr std::array arguments{"features", "clusters", "iterations"};

  std::uint32_t points = 0;
  std::uint32_t features = 0;  // number of features of each point
  std::uint32_t clusters = 0;
  std::uint32_t iterations = 0;  // the most iterations
  // The features of each point, one point after another; the first points are the initial
  // centres.
  std::vector<float> values;

  static kmeans_problem make(const array_view<float, 2>& features, std::uint32_t clusters,
                             std::uint32_t iterations) {
    return {extent_of(features, 0), extent_of(features, 1), clusters, iterations,
            values_of(features)};
  }

  template <class Node>
  kmeans<Node> on(Node& node, const unified_placement& placement) const {
    return {node, *this, placement};
  }
};

template <class Node>
class kmeans {
 public:
  kmeans(Node& node, const kmeans_problem& data, const unified_placement& placement)
      : node_(node), data_(data), blocks_(placement.blocks) {
    const std::uint64_t values = std::uint64_t{data.points} * data.features;
    if (data.clusters == 0 || data.features == 0 || data.iterations == 0 ||
        data.points < data.clusters || data.values.size() != values) {
      throw usage_error(
          "k-means needs as many points as centres, with as many values as features; "
          "there are " +
          std::to_string(data.points) + " points, " + std::to_string(data.clusters) +
          " centres and " + std::to_string(data.values.size()) + " values");
    }
    for (const float v : data.values) {
      if (v >= 0 && v <= 1 && v * 16 == std::floor(v * 16)) continue;
      throw usage_error("a feature is " + std::to_string(v) +
                        "; features are multiples of 1/16 from 0 to 1");
    }
    const auto own = kernel::page_placement::contiguous();
    turn_.features = put_unified(node, data.values, placement.of(own));
    turn_.turned = node.template allocate_unified<float>(values, placement.of(own));
    turn_.points = data.points;
    turn_.count = data.features;
    centres_.assign(data.values.begin(),
                    data.values.begin() + std::ptrdiff_t{data.clusters} * data.features);
    members_.assign(data.points, data.clusters);  // no point has a centre yet
    nearest_.turned = turn_.turned;
    nearest_.membership =
        node.template allocate_unified<std::uint32_t>(data.points, placement.of(own));
    nearest_.centres = put_unified(node, centres_, placement.of({}));
    nearest_.points = data.points;
    nearest_.count = data.features;
    nearest_.clusters = data.clusters;
  }

  void enqueue() {
    const std::uint64_t blocks =
        (data_.points + kmeans_nearest_kernel::threads - 1) / kmeans_nearest_kernel::threads;
    if (done_ == 0) {
      node_.launch_over(turn_, {blocks, kmeans_turn_kernel::threads, 0}, blocks_);
      node_.exchange();
    }
    node_.launch_over(nearest_, {blocks, kmeans_nearest_kernel::threads, 0}, blocks_);
    node_.exchange();
  }
  bool another() {
    const std::vector<std::uint32_t> found = node_.download(nearest_.membership);
    const bool changed = found != members_;
    members_ = found;
    move_centres();
    if (++done_ == data_.iterations || !changed) return false;
    node_.upload(nearest_.centres, centres_);
    return true;
  }
  // The number of each point's centre, followed by the features of the centres.
  std::vector<float> result() const {
    std::vector<float> values(members_.begin(), members_.end());
    values.insert(values.end(), centres_.begin(), centres_.end());
    return values;
  }

 private:
  void move_centres() {
    const std::size_t features = data_.features;
    std::vector<double> sums(centres_.size());
    std::vector<std::uint32_t> counts(data_.clusters);
    for (std::size_t p = 0; p < data_.points; ++p) {
      ++counts[members_[p]];
      for (std::size_t f = 0; f < features; ++f) {
        sums[members_[p] * features + f] += static_cast<double>(data_.values[p * features + f]);
      }
    }
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const std::uint32_t count = counts[k / features];
      const double middle = count == 0 ? 0.0 : sums[k] / count;
      centres_[k] = static_cast<float>(std::floor(middle * 256 + 0.5) / 256);
    }
  }

  Node& node_;
  kmeans_problem data_;
  kernel::block_placement blocks_;
  kmeans_turn_kernel turn_;
  kmeans_nearest_kernel nearest_;
  std::vector<float> centres_;
  std::vector<std::uint32_t> members_;
  std::uint32_t done_ = 0;  // number of iterations so far
};

}  // namespace interlace::workload
