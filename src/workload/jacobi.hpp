// Jacobi iteration on a banded, diagonally dominant system A x = b. An iteration is one epoch:
//
//   x'(i) = (b(i) - sum over j != i, |j - i| <= K of A(i, j) x(j)) / A(i, i)
//
// The region is x, and a device owns a contiguous range of rows. The matrix is stored by diagonals.
// Each lane of a warp has one row, so the warp reads consecutive words of every diagonal and of x.
// Each diagonal of a device's part begins at the start of a cache line. The main diagonal is stored
// as its reciprocal.
//
// Memory is the limit. A row needs 2 K words of the matrix, the reciprocal, b, x and x'. These
// words are 8 K + 16 bytes for 2 K + 1 operations, and no cache can avoid them. The other 2 K words
// of x come from a cache, because neighbouring rows have just read them.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/workload/problem.hpp"
#include "interlace/workload/slabs.hpp"
#include "workload/shared/parts.hpp"

namespace interlace::workload {

struct jacobi_update {
  static constexpr std::uint32_t threads = 256;
  static constexpr std::uint32_t blocks_at_once = 2048 / threads;
  // The kernel handles this many distances from the main diagonal together. With 2 distances, 8
  // loads are in flight before the first value is used. The registers still suffice for all warps
  // of a compute unit.
  static constexpr std::uint32_t batch = 2;
  static constexpr std::uint32_t shared_bytes = sum_bytes(1);

  // The elements of this device's rows outside of the main diagonal. Diagonals are stored in the
  // order -1, +1, -2, +2, ..., each `pitch` words after the previous diagonal.
  local<const float> off_diagonals;
  local<const float> reciprocal;  // 1 / A(i, i)
  local<const float> right;       // b
  replicated<float> x;
  reduced<double> change;  // sum of |x' - x|
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
  std::uint32_t pitch = 0;
  std::uint32_t half_bandwidth = 0;
  bool track_residual = false;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    auto residual = lane_state<float>(block);
    block.each([&](auto lane) {
      const auto own = static_cast<std::uint32_t>(lane.global_index());
      if (own >= rows) return;
      const std::uint32_t i = first_row + own;
      const std::uint32_t behind = static_cast<std::uint32_t>(x.size) - 1 - i;
      // The band ends at the edge of the matrix.
      const std::uint32_t lower = i < half_bandwidth ? i : half_bandwidth;
      const std::uint32_t upper = behind < half_bandwidth ? behind : half_bandwidth;
      const std::uint32_t farthest = lower < upper ? upper : lower;
      const float scale = lane.load(reciprocal, own);
      float rest = lane.load(right, own);
      for (auto t : lane.range(0U, farthest, batch)) {
        float a[2 * batch] = {};
        float v[2 * batch] = {};
        for (std::uint32_t k = 0; k < batch; ++k) {
          const std::uint32_t away = t + k + 1;
          const std::uint32_t at = 2 * (t + k) * pitch + own;
          if (away <= lower) {
            a[2 * k] = lane.load(off_diagonals, at);
            v[2 * k] = lane.load(x, i - away);
          }
          if (away <= upper) {
            a[2 * k + 1] = lane.load(off_diagonals, at + pitch);
            v[2 * k + 1] = lane.load(x, i + away);
          }
        }
        for (std::uint32_t k = 0; k < 2 * batch; ++k) rest -= a[k] * v[k];
      }
      const float next = rest * scale;
      lane.store(x, i, next);
      if (track_residual) residual[lane] = fabsf(next - lane.load(x, i));
      const std::uint32_t turns = (farthest + batch - 1) / batch;
      lane.compute(
          {.fp32 = 2 * batch * turns + (track_residual ? 3U : 1U), .integer = 23 * turns + 28});
    });
    if (track_residual) add_sums(block, change, 1, residual);
  }
};

struct banded_system {
  std::uint64_t rows = 0;
  std::uint32_t half_bandwidth = 0;  // K, the number of diagonals on each side; less than rows
  // Element [half_bandwidth + k][i] is A(i, i + k), for |k| <= half_bandwidth.
  const float* diagonals = nullptr;
  const float* right = nullptr;  // [rows]
};

template <class Node>
class jacobi {
 public:
  // `boundaries`: device d owns rows [boundaries[d], boundaries[d + 1]). With `halo`, each element
  // of x goes only to the devices whose rows need that element.
  jacobi(Node& node, const banded_system& system, kernel::region_options options, bool halo)
      : node_(node),
        system_(system),
        boundaries_(options.boundaries),
        x_(node.template create_region<float>(
            halo ? with_halo(std::move(options), system.half_bandwidth) : std::move(options))),
        change_(node.template create_reduction<double, combine::add>(1, 64)) {
    for (std::uint32_t d = 0; d < node.devices(); ++d) parts_.push_back(make_part(d));
    reset();
  }

  // Sets x to 0 again.
  void reset() {
    node_.set_front(x_, std::vector<float>(system_.rows, 0.0F));
    node_.set_front(change_, std::vector<double>{0.0});
  }

  void enqueue_iteration(bool track_residual) {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const part& p = parts_[d];
      const auto first = static_cast<std::uint32_t>(boundaries_[d]);
      const jacobi_update update{p.off_diagonals,        p.reciprocal,  p.right, node_.view(x_, d),
                                 node_.view(change_, d), first,         p.rows,  p.pitch,
                                 system_.half_bandwidth, track_residual};
      const std::uint64_t blocks =
          (std::uint64_t{p.rows} + jacobi_update::threads - 1) / jacobi_update::threads;
      node_.launch(
          d, update, {blocks, jacobi_update::threads, jacobi_update::shared_bytes}, x_,
          kernel::block_mapping::contiguous(first, jacobi_update::threads, boundaries_[d + 1]));
    }
    if (track_residual) {
      node_.exchange(x_, change_);
    } else {
      node_.exchange(x_);
    }
  }

  // Returns the x that device `device` holds. With a halo, only two kinds of elements are up to
  // date: those of the device's own rows, and those that these rows need.
  std::vector<float> result(std::uint32_t device) const { return node_.front(x_, device); }

  // The sum of |x' - x| over all rows, in the last iteration that tracked the residual.
  double residual() const { return node_.front(change_, 0)[0]; }

 private:
  struct part {
    std::uint32_t rows = 0;
    std::uint32_t pitch = 0;
    local<float> off_diagonals;
    local<float> reciprocal;
    local<float> right;
  };

  part make_part(std::uint32_t d) {
    const std::uint64_t begin = boundaries_[d];
    const std::uint64_t rows = boundaries_[d + 1] - begin;
    constexpr std::uint64_t line = 128 / sizeof(float);
    const std::uint64_t pitch = (rows + line - 1) / line * line;
    const std::uint64_t words = 2 * pitch * system_.half_bandwidth;
    constexpr std::uint64_t most = 0xffffffffU;  // the kernels count elements in 32 bits
    if (words > most || system_.rows > most - jacobi_update::threads) {
      throw usage_error("GPU " + std::to_string(d) + " would own " + std::to_string(words) +
                        " words of a matrix of " + std::to_string(system_.rows) +
                        " rows; at most " + std::to_string(most) +
                        " of each are possible: use more GPUs or a smaller matrix");
    }
    const auto diagonal = [&](std::int64_t k) {
      return system_.diagonals + (system_.half_bandwidth + k) * system_.rows + begin;
    };
    std::vector<float> off(words, 0.0F);
    for (std::uint32_t t = 0; t < system_.half_bandwidth; ++t) {
      const auto away = static_cast<std::int64_t>(t) + 1;
      std::copy_n(diagonal(-away), rows, off.begin() + 2 * t * pitch);
      std::copy_n(diagonal(away), rows, off.begin() + (2 * t + 1) * pitch);
    }
    std::vector<float> reciprocal(rows);
    std::transform(diagonal(0), diagonal(0) + rows, reciprocal.begin(),
                   [](float a) { return 1.0F / a; });
    part p;
    p.rows = static_cast<std::uint32_t>(rows);
    p.pitch = static_cast<std::uint32_t>(pitch);
    p.off_diagonals = put(node_, d, off);
    p.reciprocal = put(node_, d, reciprocal);
    p.right =
        put(node_, d, std::vector<float>(system_.right + begin, system_.right + begin + rows));
    return p;
  }

  Node& node_;
  banded_system system_;
  std::vector<std::uint64_t> boundaries_;
  kernel::region<float> x_;
  kernel::reduction<double, combine::add> change_;
  std::vector<part> parts_;
};

struct jacobi_problem {
  static constexpr const char* summary = "the Jacobi iteration";
  static constexpr std::array arguments{"diagonals", "right", "halo"};
  using launching_kernels = kernel_list<jacobi_update>;

  banded_system system;
  bool halo = false;  // each element of x goes only to devices whose rows need it

  static jacobi_problem make(const array_view<float, 2>& diagonals, const array_view<float>& right,
                             bool halo) {
    const std::size_t rows = right.size();
    const std::size_t half = diagonals.extent(0) / 2;
    if (diagonals.extent(0) % 2 != 1 || diagonals.extent(1) != rows || half >= rows) {
      throw usage_error("the diagonals are not those of a band around the main diagonal");
    }
    const float* main = diagonals.data() + half * rows;
    if (std::any_of(main, main + rows, [](float a) { return a == 0; })) {
      throw usage_error("the main diagonal has a zero");
    }
    return {{rows, static_cast<std::uint32_t>(half), diagonals.data(), right.data()}, halo};
  }

  std::uint64_t elements() const { return system.rows; }

  template <class Node>
  jacobi<Node> on(Node& node, kernel::region_options options) const {
    return {node, system, std::move(options), halo};
  }
};

}  // namespace interlace::workload

// The registers and instructions of the kernels, as nvcc 13.0 compiles them.
namespace interlace {

template <>
inline constexpr compiled_kernel compiled_as<workload::jacobi_update>{32, 194};

}  // namespace interlace
