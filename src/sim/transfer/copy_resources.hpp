// The resources that copies between memories share. These are links (with the rates of long
// copies), memories, and links whose two directions interfere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

// Returns the machine with other link rates. With these rates, the payload of a long copy moves at
// the measured rate, if the machine states a measured rate.
machine::machine with_copy_rates(machine::machine described);

// A server of bytes. It stands for a memory, or for both directions of a link together.
class byte_server {
 public:
  explicit byte_server(double bytes_per_s) : bytes_per_s_(bytes_per_s) {}
  // Returns the time when `bytes` bytes that arrive at `time` have passed.
  picoseconds serve(picoseconds time, std::uint64_t bytes);
  picoseconds busy() const { return server_.busy(); }

 private:
  double bytes_per_s_;
  resource server_;
};

// The resources that a copy uses besides the links of its route. Ends are numbered: first the GPUs,
// then the host.
class copy_resources {
 public:
  explicit copy_resources(const machine::machine& described);

  // Reads from the memory at the start of the route. The read also passes those links of the route
  // whose two directions interfere.
  picoseconds read(std::uint32_t from, std::uint32_t to, picoseconds time, std::uint64_t bytes);
  picoseconds write(std::uint32_t to, picoseconds time, std::uint64_t bytes);

  // The link directions of the route. A direction is link * 2, plus 1 for the backward direction.
  const std::vector<std::uint32_t>& way(std::uint32_t from, std::uint32_t to) const {
    return ways_[from * ends_ + to];
  }
  std::uint32_t host() const { return ends_ - 1; }

 private:
  std::uint32_t ends_;
  std::vector<byte_server> memories_;  // for each end, the server of its memory
  std::optional<byte_server> host_writes_;
  // for each link whose two directions interfere, the server that the directions share
  std::vector<std::optional<byte_server>> both_;
  // The link directions of each route. The index is from * ends + to.
  std::vector<std::vector<std::uint32_t>> ways_;
};

}  // namespace interlace::sim
