// Observations of a simulated run besides its time: the traffic of every pair of devices, the use
// of every link over time, and the work that kept each device busy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace interlace::kernel {

// All messages from one device to another. The simulator routes a message as a whole. A message is
// a warp's stores to a line, a read request, a reply, a flag, or a segment of a copy. `packets` is
// the number of packets on the wire.
struct pair_traffic {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t messages = 0;
  std::uint64_t packets = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t protocol_bytes = 0;  // bytes of the packets that are neither useful nor wasted
  double mean_latency_s = 0;         // mean time from a message's request for its first link to its
                                     // delivery
  double max_latency_s = 0;
};

// One direction of a link.
struct link_traffic {
  std::string from;  // the name from the machine file
  std::string to;
  std::string protocol;
  std::uint64_t wire_bytes = 0;
  double busy = 0;            // fraction of the time in which the link carries data
  std::vector<float> by_bin;  // the same fraction for each time bin
};

struct device_activity {
  double kernel = 0;  // fraction of the time in which a kernel or library call runs
  double copy = 0;    // fraction of the time in which a copy that the device sends is in flight
  double idle = 0;    // fraction of the time without kernel and without copy
  double idle_while_others_compute = 0;
  double issue = 0;   // fraction of the device's issue slots that were used
  double memory = 0;  // fraction of the device's memory bandwidth that was used
};

struct observation {
  double time_s = 0;                // the time of all runs of the node
  double bin_s = 0;                 // the end of the run can cut the last bin short
  std::vector<pair_traffic> pairs;  // pairs that sent anything
  std::vector<link_traffic> links;  // the directions of links that carried anything
  std::vector<device_activity> devices;
};

}  // namespace interlace::kernel
