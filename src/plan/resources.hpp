// The resources that copies share. They are each direction of a link, both directions together if
// they are not independent, the memory of the host and of GPUs, and copy engines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interlace/machine/machine.hpp"

namespace interlace::plan {

enum class resource_kind : std::uint8_t {
  link,             // one direction of a link, with its ports and lanes
  both_directions,  // both directions of a link, if they slow each other down
  host_memory,      // reads or writes of the host's memory
  host_writes,
  gpu_memory,  // reads or writes of a GPU's memory
  engines,     // copies in flight on a GPU; the unit is engines and not bytes per second
};

struct resource {
  resource_kind kind = resource_kind::link;
  std::string name;         // name for people, such as "gpu0 -> nvswitch"
  double capacity = 0;      // payload rate in bytes per second, or number of engines
  double busy = 0;          // part of the capacity that traffic in flight takes
  std::uint32_t users = 0;  // number of transfers in flight that use the resource

  // The capacity for the direct path of a message. It is the part that traffic in flight leaves, or
  // an equal share if that share is larger.
  double fair() const;
  // The capacity for other paths. It is the part that traffic in flight leaves.
  double rest() const;
};

// One copy of a path, from one memory to another. An engine of one GPU makes the copy.
struct leg {
  machine::endpoint from;
  machine::endpoint to;
  // GPU whose stream and engine make the copy: the sender, or the receiver if the host sends
  std::uint32_t gpu = 0;
  std::size_t port = 0;           // resource at this GPU's end of the route
  std::vector<std::size_t> uses;  // resources that every byte uses, except engines
  std::size_t engines = 0;        // resource that stands for the GPU's engines
  double bytes_per_s = 0;         // rate if no other copy runs on the machine
  std::uint64_t latency_ps = 0;   // latency of the wire, after the last byte
};

// A transfer that is in flight while a message is planned.
struct traffic {
  std::vector<machine::endpoint> stops;  // source, staging places and destination
  double bytes_per_s = 0;                // 0 means the rate that the path has alone
};

class resources {
 public:
  explicit resources(const machine::machine& described);

  // The copy from one memory to another. There is no value if there is no route, or if neither
  // memory belongs to a GPU.
  std::optional<leg> copy(machine::endpoint from, machine::endpoint to) const;

  // Takes the capacity that the transfer `running` needs. Returns false if one of the transfer's
  // copies is impossible.
  bool add(const traffic& running);

  const std::vector<resource>& all() const { return all_; }
  const resource& at(std::size_t index) const { return all_[index]; }

 private:
  std::size_t of_link(std::size_t link, bool forward) const { return link * 2 + (forward ? 0 : 1); }

  const machine::machine& machine_;
  std::vector<resource> all_;  // the list begins with two resources for each link
  // For each link, the index of the resource `both_directions`.
  std::vector<std::optional<std::size_t>> both_;
  std::size_t gpu_memory_ = 0;  // index of the first GPU's memory
  std::size_t engines_ = 0;     // index of the first GPU's engines
  std::size_t host_memory_ = 0;
  std::optional<std::size_t> host_writes_;
};

}  // namespace interlace::plan
