// Homogeneous isotropic turbulence: the Navier-Stokes equations in a periodic box, solved by a
// pseudo-spectral method (Rogallo, 1981). The method is that of the code from which the FinePack
// paper takes HIT (Vela-Martin, HIT_MPI). The Fourier coefficients u(k) of the velocity obey
//
//   du/dt = P(k) [u x w](k) - nu |k|^2 u,   w = ik x u,   P(k) a = a - k (k . a) / |k|^2
//
// The product u x w is computed point by point in space. Coefficients with a wavenumber of n / 3 or
// more are dropped (the two-thirds rule), and the coefficient of the mean is not changed. The
// viscous term is integrated exactly. The other term, N(u) = P(k) [u x w](k), is integrated by the
// midpoint rule (Runge-Kutta of second order). With E = exp(-nu |k|^2 dt / 2), a step is
//
//   m = E (u + dt / 2 N(u));   u' = E (E u + dt N(m))
//
// The velocity is real, so the wavenumbers are kx = 0 .. n / 2, and ky, kz = -n / 2 .. n / 2. Every
// device has the coefficients of some ky. In space, every device has the planes of some z. These
// kernels and transforms evaluate N:
//
//   rotate          u and w of the coefficients             [kz][6 fields][own ky][kx]
//   fft             backward along z                        in place
//   send_planes     stores u and w to the region `planes`   as they are
//   take_planes     collects the own planes                 [6 fields][own z][ky][kx]
//   fft             backward along y and x                  [6 fields][own z][y][x]
//   cross           u x w                                   [3 fields][own z][y][x]
//   fft             forward along x and y                   [3 fields][own z][ky][kx]
//   send_lines      stores u x w to the region `lines`      sorted by the device that needs them
//   take_lines      collects the own coefficients           [z][3 fields][own ky][kx]
//   fft             forward along z                         in place
//   advance         one stage of the step
//
// A step evaluates N twice, so it transposes the data four times, from all devices to all devices.
// Each device's part of a region is sorted by the device that reads the elements. Each other device
// therefore subscribes to one range of the part and to nothing else. The transforms are library
// calls. A library's accesses to a region are not tracked, so the send kernels copy the results
// from memory to the region.
//
// Memory limits the transforms, `cross`, `send_planes` and `take_lines`. The other kernels are
// limited by integer operations: 47 to 75 operations compute which coefficient an element is. The
// operations in the calls of `compute` were counted on a GPU. The counts for tiles come from the
// machine code, without the operations that predicates skip. For the other kernels, counting on a
// GPU and counting in the machine code give the same numbers.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/kernel/fft.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/workload/problem.hpp"
#include "interlace/workload/slabs.hpp"
#include "workload/shared/chosen.hpp"
#include "workload/shared/parts.hpp"
#include "workload/shared/plane_points.hpp"
#include "workload/shared/point_kernel.hpp"

namespace interlace::workload {

using kernel::complex_number;

// The coefficients of a device, with shape [kz][fields][own ky][kx].
struct spectral_part {
  static constexpr std::uint32_t threads = 256;

  std::uint32_t length = 0;    // n
  std::uint32_t first_ky = 0;  // index of the device's first ky, in 0 .. n - 1
  std::uint32_t own_ky = 0;

  INTERLACE_HOST_DEVICE std::uint32_t half() const { return length / 2 + 1; }
  INTERLACE_HOST_DEVICE std::uint32_t plane() const { return own_ky * half(); }

  struct mode {
    std::uint32_t kz, in_plane;  // position of an element
    std::int32_t x, y, z;        // wavenumbers
  };
  INTERLACE_HOST_DEVICE mode mode_of(std::uint32_t i) const {
    const std::uint32_t kz = i / plane();
    const std::uint32_t in_plane = i - kz * plane();
    const std::uint32_t line = in_plane / half();
    return {kz, in_plane, static_cast<std::int32_t>(in_plane - line * half()),
            wavenumber(first_ky + line), wavenumber(kz)};
  }
  // The index of a mode's element in field `field` of an array that has `fields` fields.
  INTERLACE_HOST_DEVICE std::uint32_t at(const mode& m, std::uint32_t fields,
                                         std::uint32_t field) const {
    return (m.kz * fields + field) * plane() + m.in_plane;
  }

 private:
  INTERLACE_HOST_DEVICE std::int32_t wavenumber(std::uint32_t index) const {
    return static_cast<std::int32_t>(2 * index <= length ? index : index - length);
  }
};

// Computes u and its curl. Fields 0 to 2 are u, and fields 3 to 5 are the curl.
struct rotate : spectral_part {
  local<const complex_number> velocity;
  local<complex_number> six;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = static_cast<std::uint32_t>(lane.global_index());
      if (i >= length * plane()) return;
      const mode m = mode_of(i);
      const auto kx = static_cast<float>(m.x);
      const auto ky = static_cast<float>(m.y);
      const auto kz = static_cast<float>(m.z);
      const complex_number u = lane.load(velocity, at(m, 3, 0));
      const complex_number v = lane.load(velocity, at(m, 3, 1));
      const complex_number w = lane.load(velocity, at(m, 3, 2));
      lane.store(six, at(m, 6, 0), u);
      lane.store(six, at(m, 6, 1), v);
      lane.store(six, at(m, 6, 2), w);
      lane.store(six, at(m, 6, 3), across(ky, w, kz, v));
      lane.store(six, at(m, 6, 4), across(kz, u, kx, w));
      lane.store(six, at(m, 6, 5), across(kx, v, ky, u));
      lane.compute({.fp32 = 14, .integer = 75, .special = 9});
    });
  }

 private:
  // Computes i (p a - q b).
  static INTERLACE_KERNEL complex_number across(float p, const complex_number& a, float q,
                                                const complex_number& b) {
    return {q * b.im - p * a.im, p * a.re - q * b.re};
  }
};

// Stores the device's coefficients to its part of the region, in the same order.
template <class Points>
struct send_planes {
  static constexpr std::uint32_t threads = Points::threads;

  local<const complex_number> six;
  replicated<complex_number> planes;
  std::uint32_t first = 0;  // index of the part's first element
  std::uint32_t lines = 0;  // number of lines of kx
  std::uint32_t half = 0;   // number of complex numbers in a line

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const plane_point p =
          Points::at(static_cast<std::uint32_t>(block.index()), lane.index(), lines, half);
      if (!p.inside) return;
      lane.store(planes, first + p.index, lane.load(six, p.index));
      lane.compute({.fp32 = Points::tiled ? 1U : 0U,
                    .integer = Points::tiled ? 23U : 5U,
                    .special = Points::tiled ? 3U : 0U});
    });
  }
};

// The places of the lines of one ky in a device's part of `planes`, for one z. `first` is where the
// line of field 0 begins, and `apart` is the distance from the line of one field to that of the
// next field.
struct line_place {
  std::uint32_t first, apart;
};

struct take_planes {
  static constexpr std::uint32_t threads = 256;

  replicated<complex_number> planes;
  local<const line_place> places;  // [ky]
  local<complex_number> spectrum;  // [6][own z][ky][kx]
  std::uint32_t length = 0;
  std::uint32_t first_z = 0;
  std::uint32_t own_z = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = static_cast<std::uint32_t>(lane.global_index());
      if (i >= spectrum.size) return;
      const std::uint32_t half = length / 2 + 1;
      const std::uint32_t line = i / half;
      const std::uint32_t plane = line / length;
      const std::uint32_t field = plane / own_z;
      const std::uint32_t z = first_z + plane - field * own_z;
      const line_place p = lane.load_index(places, line - plane * length);
      const std::uint32_t from = p.first + (z * 6 + field) * p.apart + (i - line * half);
      lane.store(spectrum, i, lane.load(planes, from));
      lane.compute({.fp32 = 3, .integer = 47, .special = 9});
    });
  }
};

struct cross {
  static constexpr std::uint32_t threads = 256;

  local<const float> six;  // u and w
  local<float> product;
  std::uint32_t points = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = static_cast<std::uint32_t>(lane.global_index());
      if (i >= points) return;
      const float ux = lane.load(six, i);
      const float uy = lane.load(six, i + points);
      const float uz = lane.load(six, i + 2 * points);
      const float wx = lane.load(six, i + 3 * points);
      const float wy = lane.load(six, i + 4 * points);
      const float wz = lane.load(six, i + 5 * points);
      lane.store(product, i, uy * wz - uz * wy);
      lane.store(product, i + points, uz * wx - ux * wz);
      lane.store(product, i + 2 * points, ux * wy - uy * wx);
      lane.compute({.fp32 = 6, .integer = 23});
    });
  }
};

// The device that has a ky, and the place of this ky's lines.
struct line_owner {
  std::uint32_t first, count;
};

// Stores to a device's part of the region. The part has the shape [device that reads][own z][3
// fields][ky of that device][kx].
template <class Points>
struct send_lines {
  static constexpr std::uint32_t threads = Points::threads;

  local<const complex_number> spectrum;  // [3][own z][ky][kx]
  local<const line_owner> owners;        // for each ky, the device that has it
  replicated<complex_number> lines;
  std::uint32_t first = 0;  // index of the part's first element
  std::uint32_t length = 0;
  std::uint32_t own_z = 0;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint32_t half = length / 2 + 1;
      const plane_point p = Points::at(static_cast<std::uint32_t>(block.index()), lane.index(),
                                       3 * own_z * length, half);
      if (!p.inside) return;
      const std::uint32_t line = p.row;
      // Each ky has the same number of lines, including each ky before this device's own.
      const line_owner o = lane.load_index(owners, line / (3 * own_z));
      const std::uint32_t of_device = line - 3 * own_z * o.first;
      const std::uint32_t plane = of_device / o.count;
      const std::uint32_t ky = o.first + of_device - plane * o.count;
      const std::uint32_t z = plane / 3;
      const std::uint32_t from = (((plane - 3 * z) * own_z + z) * length + ky) * half;
      lane.store(lines, first + p.index, lane.load(spectrum, from + p.column));
      lane.compute({.fp32 = 3, .integer = Points::tiled ? 56U : 48U, .special = 9});
    });
  }
};

struct take_lines : spectral_part {
  replicated<complex_number> lines;
  // For each z, the place where the coefficients of that z begin.
  local<const std::uint32_t> places;
  local<complex_number> three;  // [z][3][own ky][kx]

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = static_cast<std::uint32_t>(lane.global_index());
      if (i >= three.size) return;
      const std::uint32_t z = i / (3 * plane());
      const std::uint32_t from = lane.load_index(places, z) + i - z * 3 * plane();
      lane.store(three, i, lane.load(lines, from));
      lane.compute({.fp32 = 1, .integer = 21, .special = 3});
    });
  }
};

struct advance : spectral_part {
  local<const complex_number> product;  // coefficients of u x w, times n^3
  local<const float> decay;             // for each wavenumber, exp(-nu k^2 dt / 2)
  local<complex_number> velocity;       // u
  local<complex_number> next;           // first stage: m; second stage: u', which replaces u
  float step = 0;                       // dt / n^3; half as much in the first stage
  bool second = false;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const auto i = static_cast<std::uint32_t>(lane.global_index());
      if (i >= length * plane()) return;
      const mode m = mode_of(i);
      const auto kx = static_cast<float>(m.x);
      const auto ky = static_cast<float>(m.y);
      const auto kz = static_cast<float>(m.z);
      const float square = kx * kx + ky * ky + kz * kz;
      const std::uint32_t sizes[3] = {magnitude(m.x), magnitude(m.y), magnitude(m.z)};
      // Neither the mean nor a wavenumber of n / 3 or more gets a contribution.
      bool keep = square > 0;
      float e = 1;
      for (const std::uint32_t size : sizes) {
        keep = keep && 3 * size < length;
        e *= lane.load(decay, size);
      }
      complex_number a[3];
      for (std::uint32_t c = 0; c < 3; ++c) a[c] = lane.load(product, at(m, 3, c));
      const float inverse = 1 / (square > 0 ? square : 1.0F);
      const complex_number along{(kx * a[0].re + ky * a[1].re + kz * a[2].re) * inverse,
                                 (kx * a[0].im + ky * a[1].im + kz * a[2].im) * inverse};
      const float k[3] = {kx, ky, kz};
      const float by = keep ? e * step : 0.0F;
      const float own = second ? e * e : e;
      for (std::uint32_t c = 0; c < 3; ++c) {
        const complex_number u = lane.load(velocity, at(m, 3, c));
        lane.store(next, at(m, 3, c),
                   {own * u.re + by * (a[c].re - k[c] * along.re),
                    own * u.im + by * (a[c].im - k[c] * along.im)});
      }
      lane.compute({.fp32 = 42, .integer = 71, .special = 10});
    });
  }

 private:
  static INTERLACE_KERNEL std::uint32_t magnitude(std::int32_t k) {
    return static_cast<std::uint32_t>(k < 0 ? -k : k);
  }
};

struct turbulence_start {
  std::uint32_t length = 0;         // n, the number of points along each side
  const float* velocity = nullptr;  // shape [ky][3][kz][kx][re, im]; not scaled by n^3
  float viscosity = 0;
  float step = 0;  // dt
};

// The function that transforms on a GPU. It is empty if the CPU transforms.
using fft_on_gpu =
    std::function<std::function<void(void* stream)>(std::uint32_t device, const kernel::fft&)>;

template <class Node, class Points = point_runs>
class hit {
 public:
  // With `options.boundaries`, device d owns the elements [boundaries[d], boundaries[d + 1]) of the
  // velocity's array. A device owns all elements of each of its ky. The first ky of device d is
  // number n d / devices, rounded down. Throws usage_error if the box is invalid.
  hit(Node& node, const turbulence_start& start, const kernel::region_options& options,
      const fft_on_gpu& on_gpu)
      : node_(node),
        start_(checked(start)),
        cut_(even_cut(start, options.boundaries)),
        planes_(node.template create_region<complex_number>(planes_options(options))),
        lines_(node.template create_region<complex_number>(lines_options(options))) {
    for (std::uint32_t d = 0; d < node.devices(); ++d) parts_.push_back(make_part(d, on_gpu));
    reset();
  }

  void reset() {
    const std::uint64_t n = start_.length;
    // The initial values do not matter, because kernels store every element before any device reads
    // it.
    node_.set_front(planes_, std::vector<complex_number>(6 * n * n * half()));
    node_.set_front(lines_, std::vector<complex_number>(3 * n * n * half()));
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      std::vector<complex_number> own(parts_[d].velocity.size);
      each_number(d, [&](std::uint64_t here, std::uint64_t there) {
        own[here] = {start_.velocity[2 * there], start_.velocity[2 * there + 1]};
      });
      node_.upload(parts_[d].velocity, own);
    }
  }

  // Makes a time step. A step has no residual, so the function throws usage_error if
  // `track_residual` is set.
  void enqueue_iteration(bool track_residual) {
    if (track_residual) {
      throw usage_error("hit makes a fixed number of steps; give iterations, not a tolerance");
    }
    enqueue_stage(false);
    enqueue_stage(true);
  }

  // Returns the velocity in the shape of turbulence_start::velocity. Only the elements of the ky
  // that `device` owns are valid. All other elements are NaN.
  std::vector<float> result(std::uint32_t device) const {
    std::vector<float> all(6 * std::size_t{start_.length} * start_.length * half(), NAN);
    const auto own = node_.download(parts_[device].velocity);
    each_number(device, [&](std::uint64_t here, std::uint64_t there) {
      all[2 * there] = own[here].re;
      all[2 * there + 1] = own[here].im;
    });
    return all;
  }

  double residual() const { return 0; }

 private:
  struct part {
    spectral_part shape;
    std::uint32_t first_z = 0;
    std::uint32_t own_z = 0;
    local<complex_number> velocity, middle, six, three;  // coefficients of the device's own ky
    local<complex_number> spectrum;                      // coefficients of the device's own z
    local<float> points, product;
    local<line_place> places;
    local<line_owner> owners;
    local<std::uint32_t> line_places;
    local<float> decay;
    kernel::library_call back_along_z, back_in_planes, in_planes, along_z;
  };

  static const turbulence_start& checked(const turbulence_start& start) {
    constexpr std::uint32_t most = 640;  // the kernels count 6 n^3 elements in 32 bits
    const std::uint32_t n = start.length;
    if (n < 4 || n > most || n % 2 != 0) {
      throw usage_error("a box has " + std::to_string(n) +
                        " points on each side; even numbers from 4 to " + std::to_string(most) +
                        " are possible");
    }
    return start;
  }

  // The numbers of the ky at which the devices' parts begin. The planes of z are cut at the same
  // numbers.
  static std::vector<std::uint32_t> even_cut(const turbulence_start& start,
                                             const std::vector<std::uint64_t>& boundaries) {
    const std::uint64_t n = start.length;
    const std::uint64_t numbers = 6 * n * (n / 2 + 1);
    const std::uint64_t devices = boundaries.size() - 1;
    std::vector<std::uint32_t> cut;
    for (std::uint64_t d = 0; d <= devices; ++d) {
      cut.push_back(static_cast<std::uint32_t>(n * d / devices));
      if (boundaries[d] != cut.back() * numbers) {
        throw model_error("the box is not divided evenly: device " + std::to_string(d) +
                          " begins at number " + std::to_string(boundaries[d]));
      }
    }
    return cut;
  }

  std::uint64_t half() const { return start_.length / 2 + 1; }
  std::uint32_t count(std::uint32_t d) const { return cut_[d + 1] - cut_[d]; }
  // The first element of device d's part.
  std::uint64_t first_of_planes(std::uint32_t d) const {
    return 6 * half() * start_.length * cut_[d];
  }
  std::uint64_t first_of_lines(std::uint32_t d) const {
    return 3 * half() * start_.length * cut_[d];
  }

  // The subscribers of a region with `fields` fields. For each z or ky, device `to` reads the same
  // number of elements from the part of device `from`.
  template <class First>
  kernel::region_options transposed(kernel::region_options options, std::uint64_t fields,
                                    const First& first) const {
    const auto devices = static_cast<std::uint32_t>(cut_.size()) - 1;
    options.boundaries.clear();
    for (std::uint32_t d = 0; d <= devices; ++d) options.boundaries.push_back(first(d));
    options.subscribers.assign(devices, {});
    for (std::uint32_t from = 0; from < devices; ++from) {
      const std::uint64_t apart = fields * half() * count(from);
      for (std::uint32_t to = 0; to < devices; ++to) {
        if (to == from || count(from) == 0 || count(to) == 0) continue;
        const std::uint64_t begin = first(from) + cut_[to] * apart;
        options.subscribers[from].push_back({begin, begin + count(to) * apart, 1U << to});
      }
    }
    return options;
  }
  kernel::region_options planes_options(const kernel::region_options& options) const {
    return transposed(options, 6, [&](std::uint32_t d) { return first_of_planes(d); });
  }
  kernel::region_options lines_options(const kernel::region_options& options) const {
    return transposed(options, 3, [&](std::uint32_t d) { return first_of_lines(d); });
  }

  // Calls visit(e, c) for each of the device's elements: e is the element's index in the device's
  // velocity, and c is the number of the same complex number in the whole array.
  template <class Visit>
  void each_number(std::uint32_t d, const Visit& visit) const {
    const std::uint64_t n = start_.length;
    for (std::uint64_t y = 0; y < count(d); ++y) {
      for (std::uint64_t field = 0; field < 3; ++field) {
        for (std::uint64_t z = 0; z < n; ++z) {
          const std::uint64_t here = ((z * 3 + field) * count(d) + y) * half();
          const std::uint64_t there = (((cut_[d] + y) * 3 + field) * n + z) * half();
          for (std::uint64_t x = 0; x < half(); ++x) visit(here + x, there + x);
        }
      }
    }
  }

  part make_part(std::uint32_t d, const fft_on_gpu& on_gpu) {
    const std::uint32_t n = start_.length;
    part p;
    p.shape.length = n;
    p.shape.first_ky = cut_[d];
    p.shape.own_ky = count(d);
    p.first_z = cut_[d];
    p.own_z = count(d);
    const std::uint64_t line = half();
    const std::uint64_t modes = line * n * count(d);
    const auto numbers = [&](std::uint64_t size) {
      return node_.template allocate<complex_number>(d, size);
    };
    p.velocity = numbers(3 * modes);
    p.middle = numbers(3 * modes);
    p.six = numbers(6 * modes);
    p.three = numbers(3 * modes);
    p.spectrum = numbers(6 * modes);
    const std::uint64_t points = std::uint64_t{n} * n * count(d);
    p.points = node_.template allocate<float>(d, 6 * points);
    p.product = node_.template allocate<float>(d, 3 * points);

    std::vector<line_place> places;
    std::vector<line_owner> owners;
    std::vector<std::uint32_t> line_places;
    for (std::uint32_t from = 0; from < node_.devices(); ++from) {
      for (std::uint32_t k = 0; k < count(from); ++k) {
        places.push_back({static_cast<std::uint32_t>(first_of_planes(from) + k * line),
                          static_cast<std::uint32_t>(count(from) * line)});
        owners.push_back({cut_[from], count(from)});
        const std::uint64_t of_reader = 3 * line * count(from) * cut_[d];
        line_places.push_back(
            static_cast<std::uint32_t>(first_of_lines(from) + of_reader + 3 * line * count(d) * k));
      }
    }
    p.places = put(node_, d, places);
    p.owners = put(node_, d, owners);
    p.line_places = put(node_, d, line_places);
    std::vector<float> decay;
    for (std::uint32_t k = 0; k <= n / 2; ++k) {
      const double rate = static_cast<double>(start_.viscosity) * k * k;
      decay.push_back(static_cast<float>(std::exp(-rate * static_cast<double>(start_.step) / 2)));
    }
    p.decay = put(node_, d, decay);

    const auto call = [&](kernel::fft_kind kind, std::uint32_t size,
                          const local<complex_number>& spectrum, const local<float>& real) {
      const kernel::fft f{kind, n, size, spectrum, real};
      kernel::library_call c = kernel::fft_call(f);
      if (on_gpu && size != 0) c.on_gpu = on_gpu(d, f);
      return c;
    };
    using enum kernel::fft_kind;
    const auto width = static_cast<std::uint32_t>(line * count(d));
    p.back_along_z = call(columns_backward, 6 * width, p.six, {});
    p.back_in_planes = call(planes_backward, 6 * count(d), p.spectrum, p.points);
    p.in_planes = call(planes_forward, 3 * count(d), p.spectrum, p.product);
    p.along_z = call(columns_forward, 3 * width, p.three, {});
    return p;
  }

  template <class Kernel>
  static grid grid_of(std::uint64_t lanes) {
    return {(lanes + Kernel::threads - 1) / Kernel::threads, Kernel::threads, 0};
  }
  template <class Kernel>
  void launch(std::uint32_t d, const Kernel& kernel, std::uint64_t lanes) {
    node_.launch(d, kernel, grid_of<Kernel>(lanes));
  }
  // Launches a kernel that writes `lines` lines of kx, from number `first` on.
  template <class Kernel>
  void send(std::uint32_t d, const Kernel& kernel, std::uint64_t lines,
            const kernel::region<complex_number>& writes, std::uint64_t first) {
    const auto rows = static_cast<std::uint32_t>(lines);
    const auto columns = static_cast<std::uint32_t>(half());
    const auto writes_of = [rows, columns, first](std::uint64_t block) {
      auto ranges = Points::writes(block, rows, columns);
      for (auto& [begin, end] : ranges) begin += first, end += first;
      return ranges;
    };
    node_.launch(d, kernel, {Points::blocks(rows, columns), Points::threads, 0}, writes,
                 kernel::block_mapping::custom(writes_of));
  }

  void enqueue_stage(bool second) {
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const part& p = parts_[d];
      const std::uint64_t modes = std::uint64_t{p.shape.length} * p.shape.plane();
      if (modes != 0) {
        launch(d, rotate{p.shape, second ? p.middle : p.velocity, p.six}, modes);
        node_.call(d, p.back_along_z);
      }
      const std::uint64_t first = first_of_planes(d);
      const std::uint64_t lines = p.six.size / half();
      send(d,
           send_planes<Points>{p.six, node_.view(planes_, d), static_cast<std::uint32_t>(first),
                               static_cast<std::uint32_t>(lines),
                               static_cast<std::uint32_t>(half())},
           lines, planes_, first);
    }
    node_.exchange(planes_);
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const part& p = parts_[d];
      const local<complex_number> three{p.spectrum.data, p.spectrum.size / 2};
      if (p.own_z != 0) {
        launch(d,
               take_planes{node_.view(planes_, d), p.places, p.spectrum, p.shape.length, p.first_z,
                           p.own_z},
               p.spectrum.size);
        node_.call(d, p.back_in_planes);
        const std::uint64_t points = p.product.size / 3;
        launch(d, cross{p.points, p.product, static_cast<std::uint32_t>(points)}, points);
        node_.call(d, p.in_planes);
      }
      const std::uint64_t first = first_of_lines(d);
      send(d,
           send_lines<Points>{three, p.owners, node_.view(lines_, d),
                              static_cast<std::uint32_t>(first), p.shape.length, p.own_z},
           three.size / half(), lines_, first);
    }
    node_.exchange(lines_);
    for (std::uint32_t d = 0; d < node_.devices(); ++d) {
      const part& p = parts_[d];
      const std::uint64_t modes = std::uint64_t{p.shape.length} * p.shape.plane();
      if (modes == 0) continue;
      launch(d, take_lines{p.shape, node_.view(lines_, d), p.line_places, p.three}, p.three.size);
      node_.call(d, p.along_z);
      const double scale = std::pow(static_cast<double>(p.shape.length), 3);
      const double dt = static_cast<double>(start_.step) * (second ? 1 : 0.5);
      launch(d,
             advance{p.shape, p.three, p.decay, p.velocity, second ? p.velocity : p.middle,
                     static_cast<float>(dt / scale), second},
             modes);
    }
  }

  Node& node_;
  turbulence_start start_;
  std::vector<std::uint32_t> cut_;
  kernel::region<complex_number> planes_;
  kernel::region<complex_number> lines_;
  std::vector<part> parts_;
};

struct hit_problem {
  static constexpr const char* summary = "homogeneous isotropic turbulence";
  static constexpr std::array arguments{"velocity", "viscosity", "step", "kernel"};
  using launching_kernels = kernel_list<send_planes<point_runs>, send_planes<point_tiles>,
                                        send_lines<point_runs>, send_lines<point_tiles>>;

  turbulence_start start;
  point_kernel kernel = point_kernel::runs;

  static hit_problem make(const array_view<float, 3>& velocity, double viscosity, double step,
                          const std::string& kernel) {
    const grid_shape shape = shape_of(velocity);
    const std::uint32_t n = shape.planes;
    if (n < 2 || shape.rows != 3 * std::uint64_t{n} || shape.columns != 2 * (n / 2 + 1)) {
      throw usage_error("the velocity does not have the shape of a box's coefficients");
    }
    if (!(viscosity >= 0 && std::isfinite(viscosity) && step > 0 && std::isfinite(step))) {
      throw usage_error(
          "viscosity and step must be finite; the step must be above 0, and the viscosity at least "
          "0");
    }
    return {{n, velocity.data(), static_cast<float>(viscosity), static_cast<float>(step)},
            parse_point_kernel(kernel)};
  }

  std::uint64_t elements() const {
    return 6 * std::uint64_t{start.length} * start.length * (start.length / 2 + 1);
  }

  template <class Node>
  auto on(Node& node, const kernel::region_options& options) const {
    fft_on_gpu on_gpu;
    if constexpr (requires(const kernel::fft& f) { plan_fft(node, 0U, f); }) {
      on_gpu = [&node](std::uint32_t device, const kernel::fft& f) {
        return plan_fft(node, device, f);
      };
    }
    using by_runs = hit<Node, point_runs>;
    using by_tiles = hit<Node, point_tiles>;
    using work = chosen<by_runs, by_tiles>;
    return kernel == point_kernel::runs
               ? work(std::in_place_type<by_runs>, node, start, options, on_gpu)
               : work(std::in_place_type<by_tiles>, node, start, options, on_gpu);
  }
};

}  // namespace interlace::workload

// The registers and instructions of the kernels, as nvcc 13.0 compiles them.
namespace interlace {

template <>
inline constexpr compiled_kernel compiled_as<workload::advance>{28, 220};
template <>
inline constexpr compiled_kernel compiled_as<workload::cross>{24, 52};
template <>
inline constexpr compiled_kernel compiled_as<workload::rotate>{30, 128};
template <>
inline constexpr compiled_kernel compiled_as<workload::send_lines<workload::point_runs>>{16, 94};
template <>
inline constexpr compiled_kernel compiled_as<workload::send_lines<workload::point_tiles>>{14, 102};
template <>
inline constexpr compiled_kernel compiled_as<workload::send_planes<workload::point_runs>>{10, 21};
template <>
inline constexpr compiled_kernel compiled_as<workload::send_planes<workload::point_tiles>>{10, 47};
template <>
inline constexpr compiled_kernel compiled_as<workload::take_lines>{10, 49};
template <>
inline constexpr compiled_kernel compiled_as<workload::take_planes>{14, 90};

}  // namespace interlace
