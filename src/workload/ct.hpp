// Model-based iterative reconstruction of a slice from X-ray projections. The result is the image x
// that minimises
//
//   1/2 sum over rays of w (y - a . x)^2 + beta/2 sum over neighbours of (x(j) - x(k))^2,  x >= 0
//
// Here y is a ray's measurement, a(j) is the ray's length in pixel j (Siddon, 1985), and w is the
// ray's statistical weight. The method is ordered subsets with separable quadratic surrogates
// (Erdogan and Fessler, 1999). The angles are divided into S subsets. Each subset in turn makes a
// step:
//
//   x'(j) = max(0, x(j) + (S sum of a(j) w (y - a . x) - beta sum of (x(j) - x(k))) / d(j))
//
// The curvature d(j) is the sum over all rays of a(j) w |a|, plus 2 beta for each neighbour. The
// PROACT paper takes its X-ray CT from a commercial system. That system updates one pixel after
// another (Thibault, Sauer, Bouman and Hsieh, 2007), which GPUs cannot share. GPU implementations
// update all pixels together (McGaffin and Fessler, 2015, which the FinePack paper names as its
// source).
//
// A step is two epochs, and each epoch has its own region. In the first epoch, every device
// projects a part of the subset's rays and stores w (y - a . x). In the second epoch, every device
// updates a part of the image; a pixel needs two rays of each angle. A device's rays cross the
// whole image, so every device needs all pixels. But a device needs only those rays that cross its
// own rows. Each pixel gathers from its rays, and no ray scatters to pixels. The result therefore
// does not depend on the order of atomics. With fewer angles in a subset, a step computes less but
// still transfers the whole image.
//
// Geometry: a pixel has side 1, and row 0 is at the top. Ray number b of an angle t is the line x
// cos t + y sin t = b - (detectors - 1) / 2, for b = 0, 1, ... Adjacent rays are 1 apart. Positions
// are integers in units of 2^-40. Within a tile, lanes compute positions in units of 2^-23 or in
// float32, so rounding errors do not grow with the size of the image.
//
// Kernel project_rays: the kernel follows an angle's rays along rows or along columns, whichever
// they cross more steeply. A ray meets at most two pixels of a row. The ray leaves the row at some
// distance past the last pixel's edge. This distance divided by the ray's slope is the last pixel's
// share of the ray's length in the row (at most all of it). A block stages in shared memory 16 rows
// (or columns) that its rays cross. Loads are therefore coalesced in both cases. A ray reads 2
// words of shared memory for each row. A warp needs 2 turns for each of these words, because the
// rays of a warp are spread over 32 to 45 words. For each row, staging loads 1.25 words and writes
// them. A multiprocessor has one path to shared memory and cache, and for each row these accesses
// take 6.5 turns of this path. They are the limit. The 22 instructions for each row take 5.5 clocks
// of the four schedulers, which is close to the limit. The image is in the L2, or comes from memory
// once for several angles. A subset has few rays in comparison with a GPU's threads. Several blocks
// therefore share the same rays, and each block takes some of the strips. The last block adds up
// the results of all these blocks, in the order of the strips.
//
// Kernel renew_pixels: a lane has four pixels of a column, or fewer if a GPU's part of the image is
// small. A warp has 32 columns. A ray's length in a pixel is a function of the ray's distance from
// the pixel's centre; the function has the shape of a trapezoid. For each pixel and angle, a lane
// reads 2 words through the first-level cache. Each word takes one or two turns, because the rays
// of a warp are spread over up to 32 words. Each pixel and angle also takes 14 instructions, 3.6
// clocks of the schedulers. The cache and the schedulers are equally close to their limits. The
// rays of a subset are in the L2. An image, too, has few pixels in comparison with a GPU's threads.
// A lane takes a subset's angles one after another. If a subset has many angles, teams of warps
// therefore divide the angles among themselves.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/workload/problem.hpp"
#include "workload/shared/parts.hpp"
#include "workload/shared/readers.hpp"

namespace interlace::workload {

// The type of positions. The unit is a pixel or a bin, times 2^-40.
using fixed_point = std::int64_t;
inline constexpr std::uint32_t fixed_bits = 40;
inline fixed_point to_fixed(double x) { return std::llround(std::ldexp(x, fixed_bits)); }

INTERLACE_HOST_DEVICE float saturate(float x) {
#if defined(__CUDA_ARCH__)
  return __saturatef(x);
#else
  return x < 0.0F ? 0.0F : x > 1.0F ? 1.0F : x;
#endif
}

// The rays of an angle, and where they cross the strips of the image. Strips are rows, or columns
// if `turned`.
struct ray_family {
  fixed_point first = 0;  // position where ray 0 crosses strip 0, measured along the strip
  fixed_point slope = 0;  // change from one strip to the next, at most 1
  fixed_point apart = 0;  // distance from one ray to the next
  float steepness = 0;    // 1 / |slope|
  float length = 0;       // length of each ray in a strip
  std::uint32_t turned = 0;
};

// The positions of the image's pixels on an angle's detector, in bins.
struct pixel_family {
  fixed_point first = 0;  // position of pixel (0, 0)
  fixed_point right = 0;  // change from one column to the next
  fixed_point down = 0;   // change from one row to the next
  // A ray's length in a pixel is the longest possible length times min(1, edge - steepness *
  // (distance - 1/2)).
  float steepness = 0;
  float edge = 0;
};

// The directions of `angles` angles that fill half a turn. The directions are exact at 0 and at 90
// degrees.
class scan_geometry {
 public:
  scan_geometry(std::uint32_t size, std::uint32_t angles, std::uint32_t detectors)
      : size_(size), angles_(angles), detectors_(detectors) {}

  ray_family rays(std::uint32_t angle) const {
    const auto [cosine, sine] = direction(angle);
    const bool turned = std::abs(sine) > std::abs(cosine);
    // Row numbers grow downwards: column(row) = half + (bin - middle + (row - half) sine) / cosine.
    const double slope = turned ? cosine / sine : sine / cosine;
    const double apart = turned ? -1 / sine : 1 / cosine;
    const double first = half() - middle() * apart - half() * slope;
    return {to_fixed(first + std::max(slope, 0.0)),
            to_fixed(slope),
            to_fixed(apart),
            static_cast<float>(1 / std::max(std::abs(slope), vertical)),
            static_cast<float>(std::abs(apart)),
            turned ? 1U : 0U};
  }

  pixel_family pixels(std::uint32_t angle) const {
    const auto [cosine, sine] = direction(angle);
    const double c = std::abs(cosine);
    const double s = std::abs(sine);
    const double less = std::max(std::min(c, s), vertical);
    return {to_fixed(middle() + (0.5 - half()) * (cosine - sine)), to_fixed(cosine),
            to_fixed(-sine), static_cast<float>(1 / less),
            static_cast<float>((c + s - 1) / (2 * less))};
  }

 private:
  // Smaller slopes count as 0.
  static constexpr double vertical = 1e-9;

  std::pair<double, double> direction(std::uint32_t angle) const {
    if (2 * angle == angles_) return {0.0, 1.0};
    const double turn = std::acos(-1.0) * angle / angles_;
    return {std::cos(turn), std::sin(turn)};
  }
  double half() const { return size_ / 2.0; }
  double middle() const { return (detectors_ - 1.0) / 2; }

  std::uint32_t size_;
  std::uint32_t angles_;
  std::uint32_t detectors_;
};

// Computes w (y - a . x) for the rays of a subset, times the length of a ray in a strip. That
// length is also the longest possible length of the ray in a pixel.
struct project_rays {
  static constexpr std::uint32_t threads = 128;  // one ray for each lane
  static constexpr std::uint32_t depth = 16;     // strips that are staged at a time
  // The number of words from one staged strip to the next. The rays of a block, with their slopes,
  // span 127 * sqrt(2) + 15 pixels. Up to 4 more pixels are read, and pixels are staged in groups
  // of 32. The number is twice an odd number, so that 16 strips by 2 pixels are in 32 different
  // banks.
  static constexpr std::uint32_t pitch = 226;
  static constexpr std::uint32_t batch = 4;  // loads that a staging lane has in flight
  static constexpr std::uint32_t shared_bytes = depth * pitch * sizeof(float) + sum_bytes(1);
  static constexpr std::uint32_t fraction_bits = 23;  // bits of a position within the staged strips

  local<const ray_family> angles;  // the angles of the subset
  local<const float> measured;     // y of the device's rays
  local<const float> weights;
  local<float> partial;          // shape [blocks][threads]: the block's result for each ray
  local<std::uint32_t> arrived;  // for each group of rays, the number of blocks that are done
  replicated<float> image;
  replicated<float> rays;
  reduced<double> cost;  // sum of w (y - a . x)^2
  std::uint32_t size = 0;
  std::uint32_t detectors = 0;
  // The number of the device's first group of rays. An angle has ceil(detectors / threads) groups.
  std::uint32_t first_group = 0;
  std::uint32_t first_ray = 0;
  std::uint32_t strips = 0;  // the number of strips of a block, a multiple of depth
  bool track_residual = false;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const auto staged = shared<float>(block, depth * pitch);
    auto sum = lane_state<float>(block);
    auto residual = lane_state<float>(block);
    const std::uint32_t groups = (detectors + threads - 1) / threads;
    // The number of blocks that share the same rays.
    const std::uint32_t parts = (size + strips - 1) / strips;
    const auto index = static_cast<std::uint32_t>(block.index());
    const std::uint32_t group = first_group + index / parts;
    const std::uint32_t first_strip = index % parts * strips;
    const std::uint32_t end_strip = first_strip + strips < size ? first_strip + strips : size;
    const std::uint32_t angle = group / groups;
    const std::uint32_t first_bin = group % groups * threads;
    const ray_family family = block.load(angles, angle);

    // `before` is the smallest offset from `at` over all lanes and strips. It is 0 or negative.
    constexpr fixed_point one = fixed_point{1} << fixed_bits;
    const fixed_point over_lanes = family.apart * (threads - 1);
    const fixed_point over_strips = family.slope * (depth - 1);
    const fixed_point before =
        (over_lanes < 0 ? over_lanes : 0) + (over_strips < 0 ? over_strips : 0);
    const fixed_point span = (over_lanes < 0 ? -over_lanes : over_lanes) +
                             (over_strips < 0 ? -over_strips : over_strips);
    const auto used = static_cast<std::uint32_t>(span >> fixed_bits) + 4;
    fixed_point at = family.first + family.apart * first_bin + family.slope * first_strip;
    for (std::uint32_t strip = first_strip; strip < end_strip;
         strip += depth, at += family.slope * depth) {
      const auto origin = static_cast<std::int32_t>((at + before) >> fixed_bits) - 2;
      const std::int32_t end = origin + static_cast<std::int32_t>(used);
      // The strip is outside of the image.
      if (origin >= static_cast<std::int32_t>(size) || end <= 0) continue;
      const bool whole =
          origin >= 0 && end + 31 <= static_cast<std::int32_t>(size) && strip + depth <= size;
      block.each([&](auto lane) {
        if (whole) {
          stage<true>(lane, staged, family.turned != 0, strip, origin, used);
        } else {
          stage<false>(lane, staged, family.turned != 0, strip, origin, used);
        }
      });
      block.each([&](auto lane) {
        const fixed_point own = at - one * origin + family.apart * lane.index();
        sum[lane] += cross(lane, staged, family, own);
      });
    }
    const std::uint32_t crossing = 12 * ((end_strip - first_strip + depth - 1) / depth) + 50;
    if (parts > 1) {
      block.each([&](auto lane) {
        lane.store(partial, std::uint64_t{index} * threads + lane.index(), sum[lane]);
        lane.compute(operation::integer, crossing + 4);
      });
      if (!block.last_to_arrive(arrived, group - first_group, parts)) return;
    }
    block.each([&](auto lane) {
      const std::uint32_t bin = first_bin + lane.index();
      if (bin >= detectors) return;
      const std::uint32_t ray = angle * detectors + bin;
      float all = sum[lane];
      if (parts > 1) {
        const std::uint64_t first =
            std::uint64_t{group - first_group} * parts * threads + lane.index();
        all = 0;
        for (auto part : lane.range(0U, parts)) all += lane.load(partial, first + part * threads);
        lane.compute({.fp32 = parts, .integer = parts + 6});
      }
      const float error = lane.load(measured, ray - first_ray) - all * family.length;
      const float weighted = lane.load(weights, ray - first_ray) * error;
      lane.store(rays, ray, weighted * family.length);
      if (track_residual) residual[lane] = weighted * error;
      lane.compute({.fp32 = 3, .integer = (parts > 1 ? 0 : crossing) + 16});
    });
    if (track_residual) add_sums(block, cost, 1, residual);
  }

  // The number of strips of a block, for a subset with `groups` groups of rays. The number is so
  // large that there are at most most_blocks blocks, and that a block has at least two stages.
  static std::uint32_t strips_for(std::uint32_t size, std::uint64_t groups) {
    constexpr std::uint64_t most_blocks = 8192;
    std::uint32_t strips = 2 * depth;
    while (strips < size && groups * ((size + strips - 1) / strips) > most_blocks) strips += depth;
    return strips;
  }

 private:
  // Stages the pixels from position `origin` along the strips, in the strips from number `strip`
  // on. Pixels outside of the image are 0. With `Whole`, the caller promises that no pixel is
  // outside.
  template <bool Whole, class Lane, class Shared>
  INTERLACE_KERNEL void stage(const Lane& lane, const Shared& staged, bool turned,
                              std::uint32_t strip, std::int32_t origin, std::uint32_t used) const {
    // Adjacent lanes load adjacent pixels of a row.
    const std::uint32_t i = lane.index();
    const std::uint32_t across = turned ? i / depth : i % 32;
    const std::uint32_t across_step = turned ? threads / depth : 0;
    const std::uint32_t down = turned ? i % depth : i / 32;
    const std::uint32_t down_step = turned ? 0 : threads / 32;
    const std::uint32_t across_pitch = turned ? size : 1;
    const std::uint32_t down_pitch = turned ? 1 : size;
    const std::uint32_t step = across_step * across_pitch + down_step * down_pitch;
    for (auto from : lane.range(across, across + used, 32U)) {
      const std::uint32_t minor = static_cast<std::uint32_t>(origin) + from;
      const std::uint32_t major = strip + down;
      const std::uint32_t first = minor * across_pitch + major * down_pitch;
      float pixel[batch] = {};
      for (auto k : lane.range(0U, batch)) {
        // A negative position is a large number here, because the type is unsigned. One comparison
        // is therefore enough.
        const bool inside = minor + k * across_step < size && major + k * down_step < size;
        if (Whole || inside) pixel[k] = lane.load(image, first + k * step);
      }
      for (auto k : lane.range(0U, batch)) {
        lane.store(staged, (down + k * down_step) * pitch + from + k * across_step, pixel[k]);
      }
    }
    const std::uint32_t turns = (used + 31) / 32;
    lane.compute(operation::integer, (Whole ? 14 : 24) * turns + 30);
  }

  // The sum of the pixels along a ray whose position in the first strip is `own`, if the ray's
  // length in each strip is 1.
  template <class Lane, class Shared>
  static INTERLACE_KERNEL float cross(const Lane& lane, const Shared& staged,
                                      const ray_family& family, fixed_point own) {
    constexpr std::uint32_t cut = fixed_bits - fraction_bits;
    constexpr std::uint32_t mask = (1U << fraction_bits) - 1;
    const auto slope =
        static_cast<std::uint32_t>((family.slope + (fixed_point{1} << (cut - 1))) >> cut);
    auto at = static_cast<std::uint32_t>(own >> cut);
    float sum = 0;
    for (auto strip : lane.range(0U, depth)) {
      const std::uint32_t last = strip * pitch + (at >> fraction_bits);
      // The bits of 1 + f. The ray covers the fraction f of the last pixel.
      const float reach = __builtin_bit_cast(float, (at & mask) | 0x3f800000U);
      const float share = saturate(fmaf(reach, family.steepness, -family.steepness));
      const float before = lane.load(staged, last - 1);
      sum += before;
      sum += share * (lane.load(staged, last) - before);
      at += slope;
    }
    lane.compute({.fp32 = 4 * depth + 1, .integer = 5 * depth + 10});
    return sum;
  }
};

// The most pixels that a lane has in renew_pixels. Fewer pixels in each lane can be faster on some
// devices.
inline constexpr std::uint32_t most_rows_of_lane = 4;

// Updates the pixels of a device from the results of project_rays. A lane has `Rows` pixels of a
// column. Each of the `Teams` teams has all pixels of a block and every Teams-th angle. `Teams` is
// either 1 or large enough that each lane finishes at most one pixel at the end.
template <std::uint32_t Teams, std::uint32_t Rows>
struct renew_pixels {
  static constexpr std::uint32_t team_threads = 256;
  static constexpr std::uint32_t threads = Teams * team_threads;
  static constexpr std::uint32_t blocks_at_once = 2048 / threads;
  static constexpr std::uint32_t tile = 32;  // columns of a block
  static constexpr std::uint32_t tile_rows = team_threads / tile * Rows;
  static constexpr std::uint32_t batch = 64;  // angles that are prepared at a time
  static_assert(Teams == 1 || Teams == Rows);
  // The number of blocks for a device with `rows` rows.
  static constexpr std::uint64_t blocks(std::uint64_t columns, std::uint64_t rows) {
    return (columns + tile - 1) / tile * ((rows + tile_rows - 1) / tile_rows);
  }
  // The detector position of the pixel at which a lane starts, and the distances from that position
  // to the positions of neighbouring pixels.
  struct tile_place {
    float offset;  // distance of the position from its bin's centre, minus 1/2
    float right;
    float down;
    float steepness;
    float edge;
    std::uint32_t ray;  // number of this bin, minus the bits of `rounder`
  };
  static constexpr std::uint32_t team_sums = Teams == 1 ? 0 : Teams * tile * tile_rows;
  static constexpr std::uint32_t shared_bytes =
      batch * sizeof(tile_place) + team_sums * sizeof(float);
  // Adding this constant to a number rounds the number to an integer. The low bits of the sum hold
  // that integer.
  static constexpr float rounder = 12582912.0F;
  static constexpr std::uint32_t rounder_bits = 0x4b400000U;

  local<const pixel_family> angles;  // angles of the subset
  local<const float> steps;          // 1 / d of the device's pixels
  replicated<float> rays;
  replicated<float> image;
  std::uint32_t size = 0;
  std::uint32_t detectors = 0;
  std::uint32_t angle_count = 0;
  std::uint32_t first_row = 0;
  std::uint32_t last_row = 0;  // last row, exclusive
  float subsets = 1;
  float beta = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    struct sums {
      float v[Rows];
    };
    const auto places = shared<tile_place>(block, batch);
    auto total = lane_state<sums>(block, sums{});
    const std::uint32_t tiles = (size + tile - 1) / tile;
    const auto index = static_cast<std::uint32_t>(block.index());
    const std::uint32_t column0 = index % tiles * tile;
    const std::uint32_t row0 = first_row + index / tiles * tile_rows;
    // The kernel counts positions from a row that does not depend on Rows. The results therefore do
    // not depend on Rows either.
    const std::uint32_t origin = row0 - (row0 - first_row) % tile;
    for (std::uint32_t first = 0; first < angle_count; first += batch) {
      const std::uint32_t count = angle_count - first < batch ? angle_count - first : batch;
      block.each([&](auto lane) {
        if (lane.index() >= count) return;
        const std::uint32_t angle = first + lane.index();
        const pixel_family family = lane.load(angles, angle);
        const fixed_point at = family.first + family.right * column0 + family.down * origin;
        constexpr float unit = 1.0F / (1U << 23U);
        constexpr std::uint32_t cut = fixed_bits - 23;
        const auto fraction = static_cast<std::uint32_t>(at >> cut) & ((1U << 23U) - 1);
        const auto bin = static_cast<std::uint32_t>(at >> fixed_bits);
        lane.store(places, lane.index(),
                   {static_cast<float>(fraction) * unit - 0.5F, in_pixels(family.right),
                    in_pixels(family.down), family.steepness, family.edge,
                    angle * detectors + bin - rounder_bits});
        lane.compute({.fp32 = 3, .integer = 20, .special = 3});
      });
      block.each([&](auto lane) {
        // Lanes outside of the image compute the image's last pixels and store nothing.
        const auto place = place_of(lane, column0, row0);
        const auto x = static_cast<float>(smaller(place.column, size - 1) - column0);
        float y[Rows];
        for (std::uint32_t k = 0; k < Rows; ++k) {
          y[k] = static_cast<float>(smaller(place.row + k, size - 1) - origin);
        }
        sums sum = total[lane];
        // Each turn of the loop handles the rays of four rows.
        for (auto a : lane.carrying(4 / Rows, {.fp32 = 8 * Rows + 1, .integer = 2 * Rows + 1},
                                    lane.index() / team_threads, count, Teams)) {
          const tile_place p = lane.load(places, a);
          const float left = fmaf(x, p.right, p.offset);
          for (std::uint32_t k = 0; k < Rows; ++k) {
            const float from = fmaf(y[k], p.down, left);
            const float rounded = from + rounder;
            // The pixel's centre lies between two rays. `off` is the centre's position relative to
            // the middle between these two rays.
            const float off = from - (rounded - rounder);
            const std::uint64_t ray = p.ray + __builtin_bit_cast(std::uint32_t, rounded);
            sum.v[k] += saturate(fmaf(off, -p.steepness, p.edge)) * lane.load(rays, ray);
            sum.v[k] += saturate(fmaf(off, p.steepness, p.edge)) * lane.load(rays, ray + 1);
          }
        }
        total[lane] = sum;
        lane.compute(operation::special, Rows + 1);
      });
    }
    if constexpr (Teams == 1) {
      block.each([&](auto lane) {
        const auto place = place_of(lane, column0, row0);
        for (std::uint32_t k = 0; k < Rows; ++k) {
          renew(lane, place.row + k, place.column, total[lane].v[k]);
        }
      });
    } else {
      const auto found = shared<float>(block, team_sums);  // [teams][row][column]
      block.each([&](auto lane) {
        const auto own = place_of(lane, 0, lane.index() / team_threads * tile_rows);
        for (std::uint32_t k = 0; k < Rows; ++k) {
          lane.store(found, (own.row + k) * tile + own.column, total[lane].v[k]);
        }
        lane.compute(operation::integer, 6);
      });
      block.each([&](auto lane) {
        float sum = 0;
        for (std::uint32_t t = 0; t < Teams; ++t) {
          sum += lane.load(found, t * threads + lane.index());
        }
        lane.compute(operation::fp32, Teams);
        renew(lane, row0 + lane.index() / tile, column0 + lane.index() % tile, sum);
      });
    }
  }

 private:
  struct pixel_place {
    std::uint32_t column, row;
  };
  template <class Lane>
  static INTERLACE_KERNEL pixel_place place_of(const Lane& lane, std::uint32_t column0,
                                               std::uint32_t row0) {
    return {column0 + lane.index() % tile, row0 + lane.index() % team_threads / tile * Rows};
  }
  // Updates a pixel if the device owns the pixel. `sum` is the sum of a(j) w (y - a . x).
  template <class Lane>
  INTERLACE_KERNEL void renew(const Lane& lane, std::uint32_t row, std::uint32_t column,
                              float sum) const {
    if (column >= size || row >= last_row) return;
    const std::uint32_t j = row * size + column;
    const float own = lane.load(image, j);
    float pull = 0;
    if (row > 0) pull += own - lane.load(image, j - size);
    if (row + 1 < size) pull += own - lane.load(image, j + size);
    if (column > 0) pull += own - lane.load(image, j - 1);
    if (column + 1 < size) pull += own - lane.load(image, j + 1);
    const float down = subsets * sum - beta * pull;
    const float next = fmaf(lane.load(steps, j - first_row * size), down, own);
    lane.store(image, j, next > 0 ? next : 0.0F);
    lane.compute({.fp32 = 12, .integer = 32});
  }
  static INTERLACE_KERNEL std::uint32_t smaller(std::uint32_t a, std::uint32_t b) {
    return a < b ? a : b;
  }
  static INTERLACE_KERNEL float in_pixels(fixed_point x) {
    constexpr float unit = 1.0F / (1U << 30U);
    constexpr std::uint32_t cut = fixed_bits - 30;
    return static_cast<float>(static_cast<std::int32_t>(x >> cut)) * unit;
  }
};

// The number of pixels that a lane has in renew_pixels. The device has `rows` rows of `columns`
// pixels and holds `at_once` blocks of the kernel at a time. A pixel takes the fewest instructions
// if a lane has four pixels. There are two reasons to choose fewer pixels. A device that holds less
// than a quarter of its possible warps waits for its cache. A device that stores to other devices
// and holds all its blocks at a time would store everything at the end.
inline std::uint32_t rows_of_lane(std::uint64_t columns, std::uint64_t rows, std::uint64_t at_once,
                                  bool stores_to_others) {
  const std::uint64_t least = stores_to_others ? at_once : at_once / 4;
  if (renew_pixels<1, most_rows_of_lane>::blocks(columns, rows) >= least) return most_rows_of_lane;
  if (renew_pixels<1, 2>::blocks(columns, rows) >= least) return 2;
  return 1;
}

struct ct_scan {
  std::uint32_t size = 0;  // pixels along each side
  std::uint32_t angles = 0;
  // The number of rays of an angle, one for each bin. The number is even if and only if `size` is
  // even, so that no ray runs along the edges of pixels. There must be enough bins to cover the
  // whole image.
  std::uint32_t detectors = 0;
  std::uint32_t subsets = 1;         // must divide `angles`
  float beta = 0;                    // strength of the prior
  const float* measured = nullptr;   // [angles][detectors], y
  const float* weights = nullptr;    // [angles][detectors], w
  const float* curvature = nullptr;  // [size][size], d
};

// The smallest number of detectors for an image of this size.
inline std::uint32_t least_detectors(std::uint32_t size) {
  const auto diagonal = static_cast<std::uint32_t>(std::ceil(std::sqrt(2.0) * size));
  return diagonal + (diagonal + size) % 2;
}

template <class Node>
class ct {
 public:
  // `options.boundaries`: device d owns the pixels [boundaries[d], boundaries[d + 1]), which must
  // be whole rows. The constructor divides the rays among the devices. With `to_readers`, a ray
  // goes only to devices whose pixels need it. Throws usage_error if the scan is invalid.
  ct(Node& node, const ct_scan& scan, const kernel::region_options& options,
     bool to_readers = false)
      : node_(node),
        scan_(checked(scan)),
        of_subset_(scan.angles / scan.subsets),
        groups_((scan.detectors + project_rays::threads - 1) / project_rays::threads),
        strips_(project_rays::strips_for(scan.size, std::uint64_t{of_subset_} * groups_)),
        boundaries_(options.boundaries),
        image_(node.template create_region<float>(options)),
        rays_(node.template create_region<float>(
            to_readers ? sent_to_readers(cut_rays(options), readers_of_rays())
                       : cut_rays(options))),
        // The number of copies is a prime. A group of blocks shares the same rays, and one block of
        // each group adds the group's cost to one of the copies. In simulation the adding block has
        // the same number in each group, so the numbers of the adding blocks have a common stride.
        // A prime number of copies spreads these blocks over all copies.
        cost_(node.template create_reduction<double, combine::add>(1, 61)) {
    for (const std::uint64_t b : boundaries_) {
      if (b % scan.size == 0) continue;
      throw model_error("a boundary of the image is pixel " + std::to_string(b) +
                        ", where no row begins");
    }
    for (std::uint32_t d = 0; d < node.devices(); ++d)
      parts_.push_back(make_part(d, options.mechanism));
    reset();
  }

  // Sets all pixels to 0 again.
  void reset() {
    node_.set_front(image_, std::vector<float>(pixels(), 0.0F));
    node_.set_front(rays_, std::vector<float>(std::size_t{of_subset_} * scan_.detectors, 0.0F));
    node_.set_front(cost_, std::vector<double>{0.0});
    for (const part& p : parts_)
      node_.upload(p.arrived, std::vector<std::uint32_t>(p.arrived.size));
  }

  // Makes a step with every subset.
  void enqueue_iteration(bool track_residual) {
    for (std::uint32_t subset = 0; subset < scan_.subsets; ++subset) {
      enqueue_projection(subset, track_residual);
      if (track_residual && subset + 1 == scan_.subsets) {
        node_.exchange(rays_, cost_);
      } else {
        node_.exchange(rays_);
      }
      enqueue_renewal(subset);
      node_.exchange(image_);
    }
  }

  // The image that device `device` holds.
  std::vector<float> result(std::uint32_t device) const { return node_.front(image_, device); }

  // The sum of w (y - a . x)^2 over all rays, in the last iteration that tracked the residual. For
  // each ray, x is the image just before the step of the ray's subset.
  double residual() const { return node_.front(cost_, 0)[0]; }

 private:
  // Teams of warps update the pixels from a subset with at least this many angles.
  static constexpr std::uint32_t many_angles = 32;

  struct part {
    local<ray_family> ray_families;      // [angles], by subset
    local<pixel_family> pixel_families;  // [angles], by subset
    local<float> measured;               // [subsets][rays]
    local<float> weights;
    local<float> steps;
    local<float> partial;
    local<std::uint32_t> arrived;
    std::uint32_t first_group = 0;
    std::uint32_t groups = 0;
    std::uint32_t first_ray = 0;
    std::uint32_t rays = 0;  // number of rays of a subset
    std::uint64_t ray_blocks = 0;
    std::uint32_t rows_of_lane = most_rows_of_lane;  // rows of a lane in renew_pixels
    kernel::block_mapping ray_mapping;
    kernel::block_mapping pixel_mapping;
  };

  static const ct_scan& checked(const ct_scan& scan) {
    constexpr std::uint32_t most = 8192;
    const auto given = [](const char* what, std::uint32_t n) {
      return std::string("a scan has ") + std::to_string(n) + " " + what + "; ";
    };
    if (scan.size < 2 || scan.size > most) {
      throw usage_error(given("pixels on each side", scan.size) + "2 to " + std::to_string(most) +
                        " are possible");
    }
    const std::uint32_t least = least_detectors(scan.size);
    if (scan.detectors < least || scan.detectors > 4 * most || (scan.detectors - least) % 2 != 0) {
      throw usage_error(given("detectors", scan.detectors) + "an image of " +
                        std::to_string(scan.size) + " pixels on each side needs an " +
                        (least % 2 == 0 ? "even" : "odd") + " number of detectors from " +
                        std::to_string(least) + " to " + std::to_string(4 * most));
    }
    if (scan.subsets == 0 || scan.angles == 0 || scan.angles % scan.subsets != 0) {
      throw usage_error(given("angles", scan.angles) + "these angles cannot be cut into " +
                        std::to_string(scan.subsets) + " equal subsets");
    }
    if (std::uint64_t{scan.angles} * scan.detectors >= 1ULL << 31U) {
      throw usage_error(given("angles", scan.angles) + "with " + std::to_string(scan.detectors) +
                        " detectors, the number of rays must be below 2^31");
    }
    return scan;
  }

  std::uint64_t pixels() const { return std::uint64_t{scan_.size} * scan_.size; }

  // The angle in slot `slot` of a subset. A subset has every S-th angle. The order of the slots
  // follows the golden section, which fills the half turn evenly. Each device therefore gets rays
  // of all directions.
  std::uint32_t angle_of(std::uint32_t subset, std::uint32_t slot) const {
    auto stride = static_cast<std::uint32_t>(0.382 * of_subset_) + 1;
    while (std::gcd(stride, of_subset_) != 1) ++stride;
    const std::uint64_t turn = std::uint64_t{slot} * stride % of_subset_;
    return subset + static_cast<std::uint32_t>(turn) * scan_.subsets;
  }

  // The first ray of group g of a subset.
  std::uint64_t first_of_group(std::uint64_t g) const {
    return g / groups_ * scan_.detectors + g % groups_ * project_rays::threads;
  }
  std::uint64_t group_of_device(std::uint32_t d) const {
    return std::uint64_t{of_subset_} * groups_ * d / (boundaries_.size() - 1);
  }

  kernel::region_options cut_rays(kernel::region_options options) const {
    for (std::uint32_t d = 0; d < options.boundaries.size(); ++d) {
      options.boundaries[d] = first_of_group(group_of_device(d));
    }
    return options;
  }

  // For each ray of a subset, the set of devices whose tiles of pixels the ray crosses. The result
  // is the same for all subsets.
  std::vector<std::uint16_t> readers_of_rays() const {
    const scan_geometry geometry(scan_.size, scan_.angles, scan_.detectors);
    std::vector<std::uint16_t> readers(std::size_t{of_subset_} * scan_.detectors, 0);
    for (std::uint32_t d = 0; d + 1 < boundaries_.size(); ++d) {
      const std::uint64_t first = boundaries_[d] / scan_.size;
      const std::uint64_t rows = boundaries_[d + 1] / scan_.size - first;
      if (rows == 0) continue;
      // This function assumes blocks of the greatest possible height, including the rows of a block
      // that lie beyond the device's part.
      constexpr std::uint64_t tile = renew_pixels<1, most_rows_of_lane>::tile_rows;
      const std::uint64_t last =
          std::min<std::uint64_t>(scan_.size, first + (rows + tile - 1) / tile * tile) - 1;
      for (std::uint32_t k = 0; k < scan_.angles; ++k) {
        const std::uint32_t slot = k % of_subset_;
        const pixel_family family = geometry.pixels(angle_of(k / of_subset_, slot));
        const fixed_point across = family.right * (scan_.size - 1);
        const auto [low, high] =
            std::minmax({family.down * static_cast<fixed_point>(first),
                         family.down * static_cast<fixed_point>(last),
                         across + family.down * static_cast<fixed_point>(first),
                         across + family.down * static_cast<fixed_point>(last)});
        // A pixel needs the last ray before its centre and the first ray after its centre. If the
        // position of the centre is rounded up, the pixel also needs the ray after these two.
        const auto bin = [&](fixed_point at) { return (family.first + at) >> fixed_bits; };
        const auto begin = std::max<fixed_point>(0, bin(low) - 1);
        const auto end = std::min<fixed_point>(scan_.detectors, bin(high) + 3);
        for (fixed_point b = begin; b < end; ++b) {
          std::uint16_t& of_ray =
              readers[std::size_t{slot} * scan_.detectors + static_cast<std::size_t>(b)];
          of_ray = static_cast<std::uint16_t>(of_ray | 1U << d);
        }
      }
    }
    return readers;
  }

  part make_part(std::uint32_t d, kernel::mechanism how) {
    const scan_geometry geometry(scan_.size, scan_.angles, scan_.detectors);
    part p;
    const std::uint64_t first_group = group_of_device(d);
    const std::uint64_t last_group = group_of_device(d + 1);
    const std::uint64_t first_ray = first_of_group(first_group);
    const std::uint64_t last_ray = first_of_group(last_group);
    p.first_group = static_cast<std::uint32_t>(first_group);
    p.groups = static_cast<std::uint32_t>(last_group - first_group);
    p.first_ray = static_cast<std::uint32_t>(first_ray);
    p.rays = static_cast<std::uint32_t>(last_ray - first_ray);
    std::vector<ray_family> ray_families;
    std::vector<pixel_family> pixel_families;
    std::vector<float> measured;
    std::vector<float> weights;
    for (std::uint32_t subset = 0; subset < scan_.subsets; ++subset) {
      for (std::uint32_t slot = 0; slot < of_subset_; ++slot) {
        const std::uint32_t angle = angle_of(subset, slot);
        ray_families.push_back(geometry.rays(angle));
        pixel_families.push_back(geometry.pixels(angle));
      }
      for (std::uint64_t ray = first_ray; ray < last_ray; ++ray) {
        const auto slot = static_cast<std::uint32_t>(ray / scan_.detectors);
        const std::size_t from =
            std::size_t{angle_of(subset, slot)} * scan_.detectors + ray % scan_.detectors;
        measured.push_back(scan_.measured[from]);
        weights.push_back(scan_.weights[from]);
      }
    }
    std::vector<float> steps(boundaries_[d + 1] - boundaries_[d]);
    std::transform(scan_.curvature + boundaries_[d], scan_.curvature + boundaries_[d + 1],
                   steps.begin(), [](float c) { return 1.0F / c; });
    p.ray_families = put(node_, d, ray_families);
    p.pixel_families = put(node_, d, pixel_families);
    p.measured = put(node_, d, measured);
    p.weights = put(node_, d, weights);
    p.steps = put(node_, d, steps);
    const std::uint32_t parts = (scan_.size + strips_ - 1) / strips_;
    p.ray_blocks = std::uint64_t{p.groups} * parts;
    p.partial =
        node_.template allocate<float>(d, parts == 1 ? 0 : p.ray_blocks * project_rays::threads);
    p.arrived = node_.template allocate<std::uint32_t>(d, parts == 1 ? 0 : p.groups);
    std::vector<std::uint64_t> starts;
    for (std::uint64_t g = first_group; g <= last_group; ++g) starts.push_back(first_of_group(g));
    p.ray_mapping =
        kernel::block_mapping::custom([starts = std::move(starts), parts](std::uint64_t block) {
          const std::uint64_t g = block / parts;
          return std::vector<kernel::element_range>{{starts[g], starts[g + 1]}};
        });
    const std::uint64_t rows = (boundaries_[d + 1] - boundaries_[d]) / scan_.size;
    const std::uint64_t held = threads_at_once(node_, d);
    if (held != 0 && of_subset_ < many_angles) {
      p.rows_of_lane =
          rows_of_lane(scan_.size, rows, held / renew_pixels<1, most_rows_of_lane>::threads,
                       node_.devices() > 1 && how == kernel::mechanism::inline_stores);
    }
    p.pixel_mapping = kernel::block_mapping::stencil(
        boundaries_[d], scan_.size, scan_.size, rows, renew_pixels<1, 1>::tile,
        std::uint64_t{p.rows_of_lane} * renew_pixels<1, 1>::tile_rows);
    return p;
  }

  template <class T>
  static local<const T> piece(const local<T>& whole, std::uint64_t k, std::uint64_t n) {
    return {whole.data + k * n, n};
  }

  void enqueue_projection(std::uint32_t subset, bool track_residual) {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const part& p = parts_[d];
      const project_rays project{piece(p.ray_families, subset, of_subset_),
                                 piece(p.measured, subset, p.rays),
                                 piece(p.weights, subset, p.rays),
                                 p.partial,
                                 p.arrived,
                                 node_.view(image_, d),
                                 node_.view(rays_, d),
                                 node_.view(cost_, d),
                                 scan_.size,
                                 scan_.detectors,
                                 p.first_group,
                                 p.first_ray,
                                 strips_,
                                 track_residual};
      node_.launch(d, project, {p.ray_blocks, project_rays::threads, project_rays::shared_bytes},
                   rays_, p.ray_mapping);
    }
  }

  void enqueue_renewal(std::uint32_t subset) {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      if (of_subset_ >= many_angles) {
        renew<most_rows_of_lane, most_rows_of_lane>(d, subset);
      } else if (parts_[d].rows_of_lane == most_rows_of_lane) {
        renew<1, most_rows_of_lane>(d, subset);
      } else if (parts_[d].rows_of_lane == 2) {
        renew<1, 2>(d, subset);
      } else {
        renew<1, 1>(d, subset);
      }
    }
  }

  template <std::uint32_t Teams, std::uint32_t Rows>
  void renew(std::uint32_t d, std::uint32_t subset) {
    using kernel_type = renew_pixels<Teams, Rows>;
    const part& p = parts_[d];
    const std::uint64_t first_row = boundaries_[d] / scan_.size;
    const std::uint64_t last_row = boundaries_[d + 1] / scan_.size;
    const kernel_type kernel{piece(p.pixel_families, subset, of_subset_),
                             p.steps,
                             node_.view(rays_, d),
                             node_.view(image_, d),
                             scan_.size,
                             scan_.detectors,
                             of_subset_,
                             static_cast<std::uint32_t>(first_row),
                             static_cast<std::uint32_t>(last_row),
                             static_cast<float>(scan_.subsets),
                             scan_.beta};
    const std::uint64_t blocks = kernel_type::blocks(scan_.size, last_row - first_row);
    node_.launch(d, kernel, {blocks, kernel_type::threads, kernel_type::shared_bytes}, image_,
                 p.pixel_mapping);
  }

  Node& node_;
  ct_scan scan_;
  std::uint32_t of_subset_;  // number of angles of a subset
  std::uint32_t groups_;     // number of groups of rays of an angle
  std::uint32_t strips_;     // number of strips of a block of project_rays
  std::vector<std::uint64_t> boundaries_;
  kernel::region<float> image_;
  kernel::region<float> rays_;
  kernel::reduction<double, combine::add> cost_;
  std::vector<part> parts_;
};

struct ct_problem {
  static constexpr const char* summary = "a tomographic reconstruction";
  static constexpr std::array arguments{"measured", "weights", "curvature",
                                        "subsets",  "beta",    "subscribe"};
  using launching_kernels = kernel_list<project_rays, renew_pixels<1, 1>, renew_pixels<1, 2>,
                                        renew_pixels<1, 4>, renew_pixels<4, 4>>;

  ct_scan scan;
  bool to_readers = false;  // rays go only to devices whose pixels they cross

  static ct_problem make(const array_view<float, 2>& measured, const array_view<float, 2>& weights,
                         const array_view<float, 2>& curvature, std::uint32_t subsets, double beta,
                         const std::string& subscribe) {
    constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
    if (weights.extent(0) != measured.extent(0) || weights.extent(1) != measured.extent(1) ||
        curvature.extent(0) != curvature.extent(1) || measured.size() > most ||
        curvature.size() > most) {
      throw usage_error("measurements, weights and image do not belong to the same scan");
    }
    if (!std::all_of(curvature.begin(), curvature.end(), [](float d) { return d > 0; })) {
      throw usage_error("a pixel's curvature is not above 0");
    }
    if (!(beta >= 0 && std::isfinite(beta))) {
      throw usage_error("beta must be a finite number of at least 0");
    }
    return {{static_cast<std::uint32_t>(curvature.extent(0)),
             static_cast<std::uint32_t>(measured.extent(0)),
             static_cast<std::uint32_t>(measured.extent(1)), subsets, static_cast<float>(beta),
             measured.data(), weights.data(), curvature.data()},
            parse_subscribers(subscribe)};
  }

  std::uint64_t elements() const { return std::uint64_t{scan.size} * scan.size; }

  template <class Node>
  ct<Node> on(Node& node, const kernel::region_options& options) const {
    return {node, scan, options, to_readers};
  }
};

}  // namespace interlace::workload

// The registers and instructions of the kernels, as nvcc 13.0 compiles them.
namespace interlace {

template <>
inline constexpr compiled_kernel compiled_as<workload::project_rays>{48, 1024};
template <>
inline constexpr compiled_kernel compiled_as<workload::renew_pixels<1, 1>>{32, 315};
template <>
inline constexpr compiled_kernel compiled_as<workload::renew_pixels<1, 2>>{32, 337};
template <>
inline constexpr compiled_kernel compiled_as<workload::renew_pixels<1, 4>>{32, 397};
template <>
inline constexpr compiled_kernel compiled_as<workload::renew_pixels<4, 4>>{32, 263};

}  // namespace interlace
