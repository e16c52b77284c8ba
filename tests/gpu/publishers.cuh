// Kernels that the tests of tracked chunks run.
#pragma once

#include <cstdint>

#include "delay.cuh"
#include "interlace/kernel_device.cuh"
#include "random_at.hpp"

namespace interlace::gpu_test {

constexpr std::uint32_t lanes = 64;

INTERLACE_HOST_DEVICE std::uint32_t value_of(std::uint64_t epoch, std::uint64_t element) {
  return static_cast<std::uint32_t>(random_at(epoch, element));
}

enum class fault { none, skips, repeats, stalls };

// A few long-lived blocks. Each block writes and publishes one tile after another, in the part that
// its device owns.
struct publisher {
  static constexpr std::uint32_t threads = lanes;
  replicated<std::uint32_t> data;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t tile = 0;
  std::uint64_t epoch = 0;
  fault wrong = fault::none;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    for (std::uint64_t at = begin + block.index() * tile; at < end; at += block.count() * tile) {
      const std::uint64_t last = at + tile < end ? at + tile : end;
      block.each([&](auto lane) {
        // The kernel stalls before every tile, so that no other device reaches the end of the epoch
        // before the deadline.
        if (wrong == fault::stalls) wait_ns(150'000'000);
        if (random_at(epoch, at) % 8 == 0) wait_ns(random_at(epoch, at + 1) % 20'000);
        for (auto i : lane.range(at + lane.index(), last, std::uint64_t{lanes})) {
          lane.store(data, i, value_of(epoch, i));
        }
      });
      const bool chosen = at == begin + tile;
      if (chosen && wrong == fault::skips) continue;
      block.publish(data, at, last);
      if (chosen && wrong == fault::repeats) block.publish(data, at, last);
    }
  }
};

// Each block writes a column of a matrix, so all blocks write to every chunk.
struct column_writer {
  static constexpr std::uint32_t threads = lanes;
  replicated<std::uint64_t> data;
  std::uint64_t first;
  std::uint64_t pitch;
  std::uint64_t rows;
  std::uint64_t epoch;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto r : lane.range(std::uint64_t{lane.index()}, rows, std::uint64_t{lanes})) {
        const std::uint64_t i = first + r * pitch + block.index();
        lane.store(data, i, random_at(epoch, i));
      }
    });
  }
};

// The first kernel of a graph. It counts the runs of the graph.
struct count_run {
  static constexpr std::uint32_t threads = 32;
  local<std::uint32_t> runs;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      if (lane.index() == 0) lane.store(runs, 0, lane.load(runs, 0) + 1);
    });
  }
};

// A litmus test of message passing. Every element of the front must have the value that was stored
// in the last epoch, whichever device stored it. The kernel then increments all elements of its
// device's part, one tile after another at random times, and publishes each tile. In a graph, each
// run has different delays.
struct relay {
  static constexpr std::uint32_t threads = lanes;
  replicated<std::uint32_t> data;
  local<unsigned long long> wrong;
  local<std::uint32_t> runs;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t tile = 0;
  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      const std::uint32_t now = lane.load(data, begin);
      std::uint32_t differ = 0;
      for (auto i : lane.range(std::uint64_t{lane.index()}, data.size, std::uint64_t{lanes})) {
        if (lane.load(data, i) != now) ++differ;
      }
      if (differ != 0) atomicAdd(wrong.data, static_cast<unsigned long long>(differ));
    });
    for (std::uint64_t at = begin + block.index() * tile; at < end; at += block.count() * tile) {
      const std::uint64_t last = at + tile < end ? at + tile : end;
      block.each([&](auto lane) {
        const std::uint32_t next = lane.load(data, begin) + 1;
        const std::uint64_t random =
            random_at(next, std::uint64_t{lane.load(runs, 0)} << 32U | (at + lane.index() / 32));
        if (random % 4 == 0) wait_ns(random / 4 % 2000);
        for (auto i : lane.range(at + lane.index(), last, std::uint64_t{lanes})) {
          lane.store(data, i, next);
        }
      });
      block.publish(data, at, last);
    }
  }
};

}  // namespace interlace::gpu_test
