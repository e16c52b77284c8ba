// A plan: messages between the memories of a machine, cut into copies over paths and chunks.
//
// A path leads from one memory to another, directly or through staging places (other GPUs, the
// host). Each path carries a share of its message. The share is cut into chunks, which travel one
// after another over the legs of the path. The copies are therefore pipelined in two dimensions,
// over paths and over hops (A. Sojoodi et al., Accelerating Intra-Node GPU-to-GPU Communication
// Through Multi-Path Transfers with CUDA Graphs, section 4.3). A plan is a directed acyclic graph
// of copies with a predicted schedule. Any executor can run a plan. All functions are pure: the
// same call gives the same plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "plan/resources.hpp"

namespace interlace::plan {

// A message from one memory to another. At least one of the two memories belongs to a GPU. The
// other memory can be the host's memory.
struct message {
  machine::endpoint from;
  machine::endpoint to;
  std::uint64_t bytes = 0;  // at least 1
};

// The way in which the chunks of a message are distributed over its paths.
enum class dealing : std::uint8_t {
  // Each path carries one contiguous part, whose size is the path's share. The part of a direct
  // path is one chunk.
  by_share,
  // All chunks have the same size. Each chunk goes to the path that has received the smallest
  // fraction of its share so far.
  round_robin,
};

struct options {
  bool direct = true;  // whether the direct path may be used
  // The places that may relay. No value means all places.
  std::optional<std::vector<machine::endpoint>> staging;
  std::uint32_t chunks = 0;  // number of chunks of a path's part; 0 means the fastest number
  interlace::plan::dealing dealing = interlace::plan::dealing::by_share;
  // most staging memory for all paths of a message together
  std::uint64_t staging_bytes = std::uint64_t{64} << 20;
  std::vector<interlace::plan::traffic> traffic;  // transfers that are in flight at the same time
};

// A path that a message can take, whether the plan uses the path or not.
struct path {
  std::uint32_t message = 0;
  std::vector<machine::endpoint> stops;  // source, staging places and destination
  std::vector<leg> legs;    // the legs between the stops; empty if the path does not exist
  std::uint64_t bytes = 0;  // number of bytes that the path carries; 0 if the path is not used
  std::uint32_t chunks = 0;
  std::string reason;  // one sentence that says why the path is used or not used

  bool direct() const { return stops.size() == 2; }
};

enum class memory : std::uint8_t { source, destination, staging };

// A place in the memory of a message, or in a staging buffer of the plan.
struct location {
  plan::memory memory = plan::memory::source;
  std::uint32_t index = 0;   // index of the message or of the staging buffer
  std::uint64_t offset = 0;  // in bytes
};

struct staging_buffer {
  machine::endpoint place;
  std::uint64_t bytes = 0;
  std::uint32_t path = 0;
};

// A slot is a stream of a GPU. Its copies run one after another, in the order of the steps. For
// each port of a GPU, there is one slot for sends and one slot for receives, so that no two
// transfers compete for the port (section 4.5, contention avoidance). If the plan's messages run
// apart, each message has its own slots.
struct slot {
  std::uint32_t gpu = 0;
  std::size_t port = 0;  // index of the port's resource
};

// A step of a plan, which is one copy.
struct step {
  std::uint32_t path = 0;
  std::uint32_t leg = 0;    // index of the leg in the path
  std::uint32_t chunk = 0;  // number of the chunk in the path
  location from;
  location to;
  std::uint64_t bytes = 0;
  std::uint32_t slot = 0;
  // Earlier steps of other slots that must be complete before this step.
  std::vector<std::uint32_t> after;
  // The predicted times, in seconds after the call. The step begins when an engine starts it.
  double begin_s = 0;
  double end_s = 0;
};

struct plan {
  std::vector<interlace::plan::message> messages;
  // The round of each message; messages of one round share no port.
  std::vector<std::uint32_t> rounds;
  bool apart = false;  // whether each message has its own slots
  std::vector<interlace::plan::path> paths;
  std::vector<staging_buffer> buffers;
  std::vector<interlace::plan::slot> slots;
  std::vector<step> steps;  // in the order in which a host thread enqueues them
  double predicted_s = 0;   // time from the call until all bytes have arrived
  double direct_s = 0;      // predicted time of the direct paths alone
};

// Makes the fastest plan that the model finds. If `direct` is true, the candidates include the
// direct paths alone, and the predicted time of the plan is never longer than the time of the
// direct paths. Throws usage_error if a message, a restriction or the traffic is not possible on
// this machine.
plan make_plan(const machine::machine& described, std::span<const message> messages,
               const options& asked = {});

// The name of a path. It is "direct", or the names of the staging places, such as "gpu2" or "host".
std::string name(const machine::machine& described, const path& way);

}  // namespace interlace::plan
