// Jacobi with halos over planned paths, on a simulated machine: kernels, then an exchange of rows
// with the device before and the device behind in a ring, one after the other, as MPI_Sendrecv
// makes them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "machine/machine.hpp"
#include "plan/plan.hpp"

namespace interlace::bench {

struct simulated_halo_jacobi {
  std::uint32_t devices = 1;  // 1: its own neighbour; nothing is exchanged
  std::uint32_t columns = 0;  // at least 3
  std::uint32_t rows = 0;     // of each device
  std::uint32_t iterations = 1;
  // Of each device one message of a row: to the device before it, and to the one behind it.
  std::vector<plan::plan> before;
  std::vector<plan::plan> behind;
  bool graphs = false;
  double handshake_s = 0;  // ahead of a message
  std::function<void()> check_interrupt;
};

struct halo_jacobi_result {
  // of an iteration, on average
  double compute_s = 0;
  double exchange_s = 0;
  std::uint64_t wrong = 0;  // points that differ from those of the reference, bit for bit
};

// Throws usage_error where the plans do not fit the ring and the grid.
halo_jacobi_result halo_jacobi_on_sim(const simulated_halo_jacobi& asked,
                                      const machine::machine& described);

}  // namespace interlace::bench
