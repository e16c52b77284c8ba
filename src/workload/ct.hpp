// Model-based iterative reconstruction of a slice from X-ray projections. The image x minimises
//
//   1/2 sum over rays of w (y - a . x)^2 + beta/2 sum over neighbours of (x(j) - x(k))^2,  x >= 0
//
// where y is a ray's measurement, a(j) its length in pixel j (Siddon, 1985), and w its statistical
// weight. The method is ordered subsets with separable quadratic surrogates (Erdogan and Fessler,
// 1999): the angles are divided into S subsets, and a step with each subset in turn is
//
//   x'(j) = max(0, x(j) + (S sum of a(j) w (y - a . x) - beta sum of (x(j) - x(k))) / d(j))
//
// with the curvature d(j) = sum over all rays of a(j) w |a| + 2 beta per neighbour. The commercial
// system from which the PROACT paper takes its X-ray CT updates one pixel after another (Thibault,
// Sauer, Bouman and Hsieh, 2007), which GPUs cannot share. GPU implementations update all pixels
// together (McGaffin and Fessler, 2015, which the FinePack paper names as its source).
//
// A step is two epochs, each with its own region. In the first epoch, every device projects a part
// of the subset's rays and stores w (y - a . x). In the second epoch, it updates a part of the
// image; each pixel needs two rays of every angle. A device's rays cross the whole image, so every
// device needs all pixels. Of an angle's rays, a device needs only those that cross its rows. Each
// pixel gathers its rays, and no ray scatters to pixels, so the result does not depend on the order
// of atomics. The fewer angles a subset has, the less computation there is for the same transfer of
// the image.
//
// Geometry: pixels have side 1 and row 0 is the top. The rays of an angle t are x cos t + y sin t =
// b - (detectors - 1) / 2 for b = 0, 1, ..., 1 apart. Positions are integers of 2^-40. Within a
// tile lanes continue in 2^-23 or float32, so that errors do not grow with the image.
//
// Project. An angle's rays are followed along rows or along columns, whichever they cross more
// steeply. A ray meets at most two pixels of a row. It leaves the row by some fraction past the
// last pixel's edge. This fraction divided by the ray's slope is the share of its length in that
// pixel (at most all of it). A block stages 16 rows (or columns) that its rays cross in shared
// memory, so that loads are coalesced in both cases. A ray takes 2 words of shared memory for each
// row. A warp needs 2 turns for each word, because its rays are spread over 32 to 45 words. Staging
// adds 1.25 words that are loaded and written. These 6.5 turns of a multiprocessor's one path to
// shared memory and cache are the limit; the 22 instructions, 5.5 clocks of its four schedulers,
// come close. The image is in the L2, or comes from memory once for several angles. A subset has
// few rays for a GPU's threads. Therefore several blocks share the same rays, with some strips
// each, and the last block adds up the results of all of them, in the order of the strips.
//
// Renew. A lane has four pixels of a column, or fewer if a GPU's part of the image is small. A warp
// has 32 columns. A ray's length in a pixel follows from its distance from the pixel's centre: a
// trapezoid. A pixel and an angle take 2 words of the first-level cache, at one or two turns each,
// because a warp's rays are spread over up to 32 words. They also take 14 instructions, 3.6 clocks
// of the schedulers. Cache and schedulers limit the kernel alike. The rays of a subset are in the
// L2. An image has few pixels for a GPU's threads, too. If a subset has many angles, which a lane
// takes one after another, teams of warps divide the angles among themselves.
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

// The type of positions in pixels or bins.
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

// The rays of an angle, as they cross strips of the image. Strips are rows, or columns if `turned`.
struct ray_family {
  fixed_point first = 0;  // where ray 0 crosses strip 0, measured along the strip
  fixed_point slope = 0;  // change from one strip to the next, at most 1
  fixed_point apart = 0;  // distance from one ray to the next
  float steepness = 0;    // 1 / |slope|
  float length = 0;       // length of any ray in a strip
  std::uint32_t turned = 0;
};

// The positions of the image's pixels on an angle's detector, in bins.
struct pixel_family {
  fixed_point first = 0;  // position of pixel (0, 0)
  fixed_point right = 0;  // change from one column to the next
  fixed_point down = 0;   // change from one row to the next
  // The length of a ray in a pixel, divided by the longest possible length, is min(1, edge -
  // steepness * (distance - 1/2)).
  float steepness = 0;
  float edge = 0;
};

// The directions of `angles` angles in half a turn. They are exact at 0 and 90 degrees.
class scan_geometry {
 public:
  scan_geometry(std::uint32_t size, std::uint32_t angles, std::uint32_t detectors)
      : size_(size), angles_(angles), detectors_(detectors) {}

  ray_family rays(std::uint32_t angle) const {
    const auto [cosine, sine] = direction(angle);
    const bool turned = std::abs(sine) > std::abs(cosine);
    // Rows are counted downwards: column(row) = half + (bin - middle + (row - half) sine) / cosine.
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

// Computes w (y - a . x) for a subset's rays, times the length of a ray in a strip. This length is
// the longest possible length of a ray in a pixel.
struct project_rays {
  static constexpr std::uint32_t threads = 128;  // a ray a lane
  static constexpr std::uint32_t depth = 16;     // strips that are staged at a time
  // The words from one staged strip to the next. The rays of a block, with their slopes, span 127 *
  // sqrt(2) + 15 pixels. Up to 4 more pixels are read, and pixels are staged in groups of 32. The
  // number is twice an odd number, so that 16 strips by 2 pixels are in 32 banks.
  static constexpr std::uint32_t pitch = 226;
  static constexpr std::uint32_t batch = 4;  // loads that a staging lane has in flight
  static constexpr std::uint32_t shared_bytes = depth * pitch * sizeof(float) + sum_bytes(1);
  static constexpr std::uint32_t fraction_bits = 23;  // bits of a position within the staged strips

  local<const ray_family> angles;  // angles of the subset
  local<const float> measured;     // y of the device's rays
  local<const float> weights;
  local<float> partial;          // shape [blocks][threads]: the block's result for each ray
  local<std::uint32_t> arrived;  // for each group of rays, the number of blocks that are done
  replicated<float> image;
  replicated<float> rays;
  reduced<double> cost;  // sum of w (y - a . x)^2
  std::uint32_t size = 0;
  std::uint32_t detectors = 0;
  // The device's first group. An angle has ceil(detectors / threads) groups.
  std::uint32_t first_group = 0;
  std::uint32_t first_ray = 0;
  std::uint32_t strips = 0;  // strips of a block, a multiple of depth
  bool track_residual = false;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    const auto staged = shared<float>(block, depth * pitch);
    auto sum = lane_state<float>(block);
    auto residual = lane_state<float>(block);
    const std::uint32_t groups = (detectors + threads - 1) / threads;
    const std::uint32_t parts = (size + strips - 1) / strips;  // blocks that share the same rays
    const auto index = static_cast<std::uint32_t>(block.index());
    const std::uint32_t group = first_group + index / parts;
    const std::uint32_t first_strip = index % parts * strips;
    const std::uint32_t end_strip = first_strip + strips < size ? first_strip + strips : size;
    const std::uint32_t angle = group / groups;
    const std::uint32_t first_bin = group % groups * threads;
    const ray_family family = block.load(angles, angle);

    // `before` is the smallest offset of any lane and strip from `at`; it is 0 or less.
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
      if (origin >= static_cast<std::int32_t>(size) || end <= 0) continue;  // outside of the image
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

  // The strips of a block, for a subset with `groups` groups of rays. There are at most most_blocks
  // blocks, and a block stages at least twice.
  static std::uint32_t strips_for(std::uint32_t size, std::uint64_t groups) {
    constexpr std::uint64_t most_blocks = 8192;
    std::uint32_t strips = 2 * depth;
    while (strips < size && groups * ((size + strips - 1) / strips) > most_blocks) strips += depth;
    return strips;
  }

 private:
  // Stages pixels from position `origin` along the strips, in strips from number `strip` on. Pixels
  // outside of the image are 0. With `Whole`, no pixel is outside.
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
        // As an unsigned number, a negative position is large.
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

  // The sum along a ray that is at `own` in the first strip, if its length in each strip is 1.
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
      // The bits of 1 plus the part of the last pixel that the ray reaches.
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

// The most pixels of a lane in renew_pixels. A device can be faster with fewer pixels in each lane.
inline constexpr std::uint32_t most_rows_of_lane = 4;

// Renews the pixels of a device from the results of project_rays. A lane has `Rows` pixels of a
// column. Each of `Teams` teams has all pixels of a block and every Teams-th angle. `Teams` is 1,
// or so large that in the end each lane finishes one pixel.
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
  // The detector position of the pixel from which a lane counts, and the distances from there to
  // the positions of the neighbouring pixels.
  struct tile_place {
    float offset;  // offset from a bin's centre, less 1/2
    float right;
    float down;
    float steepness;
    float edge;
    std::uint32_t ray;  // number of this bin, less the bits of `rounder`
  };
  static constexpr std::uint32_t team_sums = Teams == 1 ? 0 : Teams * tile * tile_rows;
  static constexpr std::uint32_t shared_bytes =
      batch * sizeof(tile_place) + team_sums * sizeof(float);
  // Adding this constant to a number rounds the number to a whole one, whose value is then in the
  // low bits of the sum.
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
  std::uint32_t last_row = 0;  // exclusive
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
    // Positions count from a row that does not depend on Rows, so the results do not depend on Rows
    // either.
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
        // Lanes outside of the image take the image's last pixels, and store nothing.
        const auto place = place_of(lane, column0, row0);
        const auto x = static_cast<float>(smaller(place.column, size - 1) - column0);
        float y[Rows];
        for (std::uint32_t k = 0; k < Rows; ++k) {
          y[k] = static_cast<float>(smaller(place.row + k, size - 1) - origin);
        }
        sums sum = total[lane];
        // The loop handles the rays of four rows in a turn.
        for (auto a : lane.carrying(4 / Rows, {.fp32 = 8 * Rows + 1, .integer = 2 * Rows + 1},
                                    lane.index() / team_threads, count, Teams)) {
          const tile_place p = lane.load(places, a);
          const float left = fmaf(x, p.right, p.offset);
          for (std::uint32_t k = 0; k < Rows; ++k) {
            const float from = fmaf(y[k], p.down, left);
            const float rounded = from + rounder;
            // The position relative to the middle between the two rays on both sides of the pixel's
            // centre.
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
  // Updates a pixel if the device owns it. `sum` is the sum of a(j) w (y - a . x).
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

// The pixels of a lane in renew_pixels, for `rows` rows of `columns` pixels on a device that holds
// `at_once` of its blocks at a time. A pixel takes the fewest instructions if a lane has four
// pixels. But a device that holds less than a quarter of its possible warps waits for its cache.
// And a device that stores to others and holds all its blocks at a time would store everything at
// the end.
inline std::uint32_t rows_of_lane(std::uint64_t columns, std::uint64_t rows, std::uint64_t at_once,
                                  bool stores_to_others) {
  const std::uint64_t least = stores_to_others ? at_once : at_once / 4;
  if (renew_pixels<1, most_rows_of_lane>::blocks(columns, rows) >= least) return most_rows_of_lane;
  if (renew_pixels<1, 2>::blocks(columns, rows) >= least) return 2;
  return 1;
}

struct ct_scan {
  std::uint32_t size = 0;  // pixels of a side
  std::uint32_t angles = 0;
  // There is one ray for each bin. The number is even if and only if `size` is, so that no ray is
  // on an edge of pixels. There must be enough bins to see the whole image.
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
  // `options.boundaries`: device d owns the pixels [boundaries[d], boundaries[d + 1]), which are
  // whole rows. The constructor cuts the rays. With `to_readers` a ray goes only to devices whose
  // pixels need it. Throws usage_error if the scan is invalid.
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
        // The number of copies is a prime. Several blocks form a group that shares the same rays,
        // and one block of each group adds the group's part to a copy. In simulation it is the
        // block with the same number in each group, so the adding blocks are equally far apart.
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

  // The image as device `device` holds it.
  std::vector<float> result(std::uint32_t device) const { return node_.front(image_, device); }

  // The sum of w (y - a . x)^2 over all rays in the last iteration that tracked it. Each subset is
  // measured before its step.
  double residual() const { return node_.front(cost_, 0)[0]; }

 private:
  // A subset of at least this many angles is renewed by teams.
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
    std::uint32_t rows_of_lane = most_rows_of_lane;  // the rows in renew_pixels
    kernel::block_mapping ray_mapping;
    kernel::block_mapping pixel_mapping;
  };

  static const ct_scan& checked(const ct_scan& scan) {
    constexpr std::uint32_t most = 8192;
    const auto given = [](const char* what, std::uint32_t n) {
      return std::string("a scan has ") + std::to_string(n) + " " + what + "; ";
    };
    if (scan.size < 2 || scan.size > most) {
      throw usage_error(given("pixels a side", scan.size) + "2 to " + std::to_string(most) +
                        " are possible");
    }
    const std::uint32_t least = least_detectors(scan.size);
    if (scan.detectors < least || scan.detectors > 4 * most || (scan.detectors - least) % 2 != 0) {
      throw usage_error(given("detectors", scan.detectors) + "an image of " +
                        std::to_string(scan.size) + " pixels a side needs " +
                        std::to_string(least) + ", or more by an even number");
    }
    if (scan.subsets == 0 || scan.angles == 0 || scan.angles % scan.subsets != 0) {
      throw usage_error(given("angles", scan.angles) + "they cannot be cut into " +
                        std::to_string(scan.subsets) + " equal subsets");
    }
    if (std::uint64_t{scan.angles} * scan.detectors >= 1ULL << 31U) {
      throw usage_error(given("angles", scan.angles) + "with " + std::to_string(scan.detectors) +
                        " detectors there are too many rays");
    }
    return scan;
  }

  std::uint64_t pixels() const { return std::uint64_t{scan_.size} * scan_.size; }

  // The angle of a subset's k-th slot. A subset has every S-th angle. The order of its slots
  // follows the golden section, which fills the half turn evenly, so that all devices have all
  // directions.
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

  // For each ray of a subset, the devices whose tiles of pixels the ray crosses. The result is the
  // same for all subsets.
  std::vector<std::uint16_t> readers_of_rays() const {
    const scan_geometry geometry(scan_.size, scan_.angles, scan_.detectors);
    std::vector<std::uint16_t> readers(std::size_t{of_subset_} * scan_.detectors, 0);
    for (std::uint32_t d = 0; d + 1 < boundaries_.size(); ++d) {
      const std::uint64_t first = boundaries_[d] / scan_.size;
      const std::uint64_t rows = boundaries_[d + 1] / scan_.size - first;
      if (rows == 0) continue;
      // Assumes blocks of the greatest possible height, and includes their rows beyond the device's
      // part.
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
        // A pixel needs the ray before its centre and the ray after it. If the position rounds up,
        // it also needs the next ray.
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

// What nvcc 13.0 makes of the kernels: registers and instructions.
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
