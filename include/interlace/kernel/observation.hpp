// The observations of a simulated run besides its time: the traffic of every pair of devices, the
// use of every link over time, and the work that kept each device busy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace interlace::kernel {

// All messages from one device to another. The simulator routes a message as a whole. A message is
// a warp's stores to one line, a read request, a reply, a flag, or a segment of a copy. `packets`
// is the number of packets on the wire.
struct pair_traffic {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t messages = 0;
  std::uint64_t packets = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t protocol_bytes = 0;  // packet bytes that are neither useful nor wasted
  // mean time from the message's request for its first link until its delivery
  double mean_latency_s = 0;
  double max_latency_s = 0;
};

// The traffic of one direction of a link.
struct link_traffic {
  std::string from;  // name from the machine file
  std::string to;
  std::string protocol;
  std::uint64_t wire_bytes = 0;
  double busy = 0;            // fraction of the time in which the link carries data
  std::vector<float> by_bin;  // the fraction `busy` for each time bin
};

struct device_activity {
  double kernel = 0;  // fraction of the time in which a kernel or library call runs on the device
  double copy = 0;    // fraction of the time in which a copy that the device sends is in flight
  double idle = 0;    // fraction of the time without kernel and without copy
  double idle_while_others_compute = 0;
  double issue = 0;   // fraction of the device's issue slots that were used
  double memory = 0;  // fraction of the device's memory bandwidth that was used
};

struct observation {
  double time_s = 0;  // time of all runs of the node
  double bin_s = 0;   // width of a time bin; the end of the run can cut the last bin short
  std::vector<pair_traffic> pairs;  // the pairs that sent anything
  std::vector<link_traffic> links;  // the link directions that carried anything
  std::vector<device_activity> devices;
};

}  // namespace interlace::kernel
