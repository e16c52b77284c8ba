// Tests that run in the same way on both nodes that need no GPU: the host node and a simulated
// node.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "interlace/host/node.hpp"
#include "interlace/sim/node.hpp"
#include "sim/described.hpp"

namespace interlace::test {

// Runs `body` on a host node with all checks, and on a simulated machine.
template <class Body>
void on_each_node(std::uint32_t devices, std::uint32_t width, Body body) {
  {
    SCOPED_TRACE("host");
    host::node node({.devices = devices, .warp_width = width, .checks = true});
    body(node);
  }
  {
    SCOPED_TRACE("sim");
    auto machine = meshed(devices, machine::protocol_kind::nvlink2);
    machine.gpu.warp_width = width;
    sim::node node(machine, devices, [] {});
    body(node);
  }
}

// Calls body(node, devices, width, mechanism) in these configurations:
//
// - one GPU, with bulk copies;
// - three GPUs, with each simulated mechanism that moves regions;
// - two and four GPUs with warps of 64 lanes, with inline stores.
template <class Body>
void on_every_node(Body body) {
  const auto run = [&](std::uint32_t devices, std::uint32_t width, kernel::mechanism how) {
    SCOPED_TRACE(std::string(kernel::mechanism_name(how)) + ", " + std::to_string(devices) +
                 " devices, width " + std::to_string(width));
    on_each_node(devices, width, [&](auto& node) { body(node, devices, width, how); });
  };
  run(1, 32, kernel::mechanism::bulk_copy);  // with one GPU there is nothing to move
  for (const kernel::mechanism_row& row : kernel::mechanism_rows) {
    if (row.not_on_sim == nullptr && !row.packs_updates) run(3, 32, row.value);
  }
  for (const std::uint32_t devices : {2U, 4U}) run(devices, 64, kernel::mechanism::inline_stores);
}

}  // namespace interlace::test
