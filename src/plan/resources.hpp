// The resources that copies share: each direction of a link, both directions together if they are
// not independent, the memory of the host and of GPUs, and copy engines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interlace/machine/machine.hpp"

namespace interlace::plan {

enum class resource_kind : std::uint8_t {
  link,             // one direction of a link: ports, lanes
  both_directions,  // both directions of a link that slow each other down
  host_memory,      // reads or writes of the host's memory
  host_writes,
  gpu_memory,  // reads or writes of a GPU's memory
  engines,     // copies in flight on a GPU; counted in engines, not in bytes a second
};

struct resource {
  resource_kind kind = resource_kind::link;
  std::string name;         // the name for people, such as "gpu0 -> nvswitch"
  double capacity = 0;      // payload bytes a second, or the number of engines
  double busy = 0;          // the part of the capacity that traffic in flight takes
  std::uint32_t users = 0;  // number of transfers in flight that use the resource

  // The capacity for the direct path of a message: the part that traffic in flight leaves, or an
  // equal share if that share is larger.
  double fair() const;
  // The capacity for other paths: the part that traffic in flight leaves.
  double rest() const;
};

// One copy of a path, from one memory to another, which an engine of one GPU makes.
struct leg {
  machine::endpoint from;
  machine::endpoint to;
  std::uint32_t gpu = 0;  // the GPU whose stream and engine make the copy: the sender, or the
                          // receiver if the host sends
  std::size_t port = 0;   // the resource at that GPU's end of the route
  std::vector<std::size_t> uses;  // the resources that every byte takes, except engines
  std::size_t engines = 0;        // the resource of the GPU's engines
  double bytes_per_s = 0;         // the rate if no other copy runs on the machine
  std::uint64_t latency_ps = 0;   // latency of the wire, after the last byte
};

// A transfer that is in flight while a message is planned.
struct traffic {
  std::vector<machine::endpoint> stops;  // source, staging places, destination
  double bytes_per_s = 0;                // 0: the rate of its path alone
};

class resources {
 public:
  explicit resources(const machine::machine& described);

  // The copy from one memory to another. No value if there is no route, or if neither memory
  // belongs to a GPU.
  std::optional<leg> copy(machine::endpoint from, machine::endpoint to) const;

  // Takes the capacity that the transfer needs. Returns false if one of its copies is impossible.
  bool add(const traffic& running);

  const std::vector<resource>& all() const { return all_; }
  const resource& at(std::size_t index) const { return all_[index]; }

 private:
  std::size_t of_link(std::size_t link, bool forward) const { return link * 2 + (forward ? 0 : 1); }

  const machine::machine& machine_;
  std::vector<resource> all_;                     // the first elements are two for each link
  std::vector<std::optional<std::size_t>> both_;  // one for each link
  std::size_t gpu_memory_ = 0;                    // index of the first GPU's memory
  std::size_t engines_ = 0;                       // index of the first GPU's engines
  std::size_t host_memory_ = 0;
  std::optional<std::size_t> host_writes_;
};

}  // namespace interlace::plan
