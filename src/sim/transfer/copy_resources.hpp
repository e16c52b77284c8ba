// What copies between memories pass: links at the rates of long copies, memories, and links whose
// directions hinder each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "sim/engine/event_queue.hpp"

namespace interlace::sim {

// The machine with links of such rates that the payload of a long copy moves as it was measured,
// where the machine knows that.
machine::machine with_copy_rates(machine::machine described);

// Servers of bytes: a memory, or both directions of a link.
class byte_server {
 public:
  explicit byte_server(double bytes_per_s) : bytes_per_s_(bytes_per_s) {}
  // When so many bytes, which come at that time, are through.
  picoseconds serve(picoseconds time, std::uint64_t bytes);
  picoseconds busy() const { return server_.busy(); }

 private:
  double bytes_per_s_;
  resource server_;
};

// What the bytes of a copy pass beside the links of their way. Ends are the GPUs, then the host.
class copy_resources {
 public:
  explicit copy_resources(const machine::machine& described);

  // Reads: the memory at the start, and the links on the way whose directions hinder each other.
  picoseconds read(std::uint32_t from, std::uint32_t to, picoseconds time, std::uint64_t bytes);
  picoseconds write(std::uint32_t to, picoseconds time, std::uint64_t bytes);

  // The directions of the machine's links on the way, [link * 2 + (0 forward, 1 backward)].
  const std::vector<std::uint32_t>& way(std::uint32_t from, std::uint32_t to) const {
    return ways_[from * ends_ + to];
  }
  std::uint32_t host() const { return ends_ - 1; }

 private:
  std::uint32_t ends_;
  std::vector<byte_server> memories_;  // by end
  std::optional<byte_server> host_writes_;
  std::vector<std::optional<byte_server>> both_;  // by link
  std::vector<std::vector<std::uint32_t>> ways_;  // [from * ends + to]
};

}  // namespace interlace::sim
