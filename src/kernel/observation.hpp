// What a simulated run shows of itself besides its time: traffic of every pair of devices, use of
// every link over time, and what kept each device busy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace interlace::kernel {

// All messages from one device to another. A message is what is routed as a whole: the stores of a
// warp to a line, a read request, a reply, a flag, a segment of a copy; `packets` is how many
// packets those are on the wire.
struct pair_traffic {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t messages = 0;
  std::uint64_t packets = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t protocol_bytes = 0;  // all other bytes of the packets
  double mean_latency_s = 0;         // from when a message wants the first link to its delivery
  double max_latency_s = 0;
};

// One direction of a link.
struct link_traffic {
  std::string from;  // as in a machine file
  std::string to;
  std::string protocol;
  std::uint64_t wire_bytes = 0;
  double busy = 0;            // part of the time
  std::vector<float> by_bin;  // the same of each time bin
};

struct device_activity {
  double kernel = 0;  // part of the time in which a kernel or library call runs
  double copy = 0;    // in which a copy that it sends is under way
  double idle = 0;    // in which there is neither
  double idle_while_others_compute = 0;
  double issue = 0;   // part of its issue slots that were used
  double memory = 0;  // part of its memory bandwidth that was used
};

struct observation {
  double time_s = 0;                // of all runs of the node
  double bin_s = 0;                 // the last bin may be cut by the end
  std::vector<pair_traffic> pairs;  // that sent anything
  std::vector<link_traffic> links;  // that carried anything
  std::vector<device_activity> devices;
};

}  // namespace interlace::kernel
