// A plan: messages between the memories of a machine, cut into copies over paths and chunks.
//
// A path leads from one memory to another, directly or through staging places (other GPUs, the
// host). Each path carries a share of its message. The share is cut into chunks, which follow each
// other over the path's legs. So the copies are pipelined in two dimensions, over paths and over
// hops (A. Sojoodi et al., Accelerating Intra-Node GPU-to-GPU Communication Through Multi-Path
// Transfers with CUDA Graphs, section 4.3). A plan is a directed acyclic graph of copies, which any
// executor can run, with a predicted schedule. All functions are pure: the same call gives the same
// plan.
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

// A message from one memory to another. At least one of the two memories belongs to a GPU; the
// other may be the host's.
struct message {
  machine::endpoint from;
  machine::endpoint to;
  std::uint64_t bytes = 0;  // at least 1
};

// The way in which the chunks of a message are distributed over its paths.
enum class dealing : std::uint8_t {
  // Each path carries one contiguous part, as large as its share. The part of a direct path is one
  // chunk.
  by_share,
  // All chunks have one size. Each chunk goes to the path that has the smallest fraction of its
  // share so far.
  round_robin,
};

struct options {
  bool direct = true;  // whether the direct path may be used
  // The places that may be used; no value: all.
  std::optional<std::vector<machine::endpoint>> staging;
  std::uint32_t chunks = 0;  // chunks of a path's part; 0: the fastest number
  interlace::plan::dealing dealing = interlace::plan::dealing::by_share;
  std::uint64_t staging_bytes = std::uint64_t{64} << 20;  // the most staging memory of all paths of
                                                          // a message together
  std::vector<interlace::plan::traffic> traffic;  // transfers that are in flight at the same time
};

// A possible path of a message, used or not.
struct path {
  std::uint32_t message = 0;
  std::vector<machine::endpoint> stops;  // source, staging places, destination
  std::vector<leg> legs;                 // between the stops; empty if there is no such path
  std::uint64_t bytes = 0;               // bytes that the path carries; 0: the path is not used
  std::uint32_t chunks = 0;
  std::string reason;  // one sentence: why the path is used, or why not

  bool direct() const { return stops.size() == 2; }
};

enum class memory : std::uint8_t { source, destination, staging };

// A place in the memory of a message, or in a staging buffer of the plan.
struct location {
  plan::memory memory = plan::memory::source;
  std::uint32_t index = 0;   // the index of the message or of the staging buffer
  std::uint64_t offset = 0;  // bytes
};

struct staging_buffer {
  machine::endpoint place;
  std::uint64_t bytes = 0;
  std::uint32_t path = 0;
};

// A slot is a stream of a GPU. Its copies run one after another, in the order of the steps. There
// is one slot for each direction in which a port of a GPU sends or receives, so that no two
// transfers compete for the port (section 4.5, contention avoidance). If the plan's messages run
// apart, each message has its own slots.
struct slot {
  std::uint32_t gpu = 0;
  std::size_t port = 0;  // the resource
};

// One copy.
struct step {
  std::uint32_t path = 0;
  std::uint32_t leg = 0;    // the leg of the path
  std::uint32_t chunk = 0;  // the chunk of the path
  location from;
  location to;
  std::uint64_t bytes = 0;
  std::uint32_t slot = 0;
  std::vector<std::uint32_t> after;  // earlier steps of other slots that must be complete
  // Predicted times, in seconds from the call. The step begins when an engine starts it.
  double begin_s = 0;
  double end_s = 0;
};

struct plan {
  std::vector<interlace::plan::message> messages;
  std::vector<std::uint32_t> rounds;  // one for each message; messages of one round share no port
  bool apart = false;                 // whether each message has slots of its own
  std::vector<interlace::plan::path> paths;
  std::vector<staging_buffer> buffers;
  std::vector<interlace::plan::slot> slots;
  std::vector<step> steps;  // in the order in which a host thread enqueues them
  double predicted_s = 0;   // time from the call until all bytes have arrived
  double direct_s = 0;      // the predicted time of the direct paths alone
};

// The fastest plan that the model finds. The candidates include the direct paths alone, unless
// `direct` is false, so the plan is then never predicted to be slower than they are. Throws
// usage_error if a message, a restriction or the traffic is not possible on this machine.
plan make_plan(const machine::machine& described, std::span<const message> messages,
               const options& asked = {});

// The name of a path: "direct", or the names of its staging places, such as "gpu2" or "host".
std::string name(const machine::machine& described, const path& way);

}  // namespace interlace::plan
