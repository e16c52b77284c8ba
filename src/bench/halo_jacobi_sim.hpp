// Jacobi with halos over planned paths, on a simulated machine. The devices form a ring. After its
// kernels, each device exchanges rows with its predecessor and then with its successor, as
// MPI_Sendrecv does.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "plan/plan.hpp"

namespace interlace::bench {

struct simulated_halo_jacobi {
  // The number of devices; a single device is its own neighbour, and nothing is exchanged.
  std::uint32_t devices = 1;
  std::uint32_t columns = 0;  // number of columns of the grid, at least 3
  std::uint32_t rows = 0;     // number of rows of each device
  std::uint32_t iterations = 1;
  // For each device, the plan that sends one row to the device's predecessor.
  std::vector<plan::plan> before;
  // For each device, the plan that sends one row to the device's successor.
  std::vector<plan::plan> behind;
  bool graphs = false;
  double handshake_s = 0;  // time that passes before each message
  std::function<void()> check_interrupt;
};

struct halo_jacobi_result {
  // The following times are averages over all iterations.
  double compute_s = 0;
  double exchange_s = 0;
  std::uint64_t wrong = 0;  // number of points that differ from the reference in any bit
};

// Simulates the iterations. Throws usage_error if the plans do not fit the ring and the grid.
halo_jacobi_result halo_jacobi_on_sim(const simulated_halo_jacobi& asked,
                                      const machine::machine& described);

}  // namespace interlace::bench
