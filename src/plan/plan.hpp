// A plan: messages between memories of a machine, cut over paths and chunks into copies.
//
// A path leads from one memory to another, directly or through staging places (other GPUs, the
// host). Each path carries a share of its message, in chunks that follow each other over the path's
// legs: pipelining in two dimensions, over paths and over hops (A. Sojoodi et al., Accelerating
// Intra-Node GPU-to-GPU Communication Through Multi-Path Transfers with CUDA Graphs, section 4.3).
// What comes out is a directed acyclic graph of copies that any executor can run, with a predicted
// schedule. Everything is a pure function of its arguments: the same call gives the same plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "machine/machine.hpp"
#include "plan/resources.hpp"

namespace interlace::plan {

// From the host's or a GPU's memory to another memory; at least one of both is a GPU's.
struct message {
  machine::endpoint from;
  machine::endpoint to;
  std::uint64_t bytes = 0;  // at least 1
};

// How the chunks of a message lie on its paths.
enum class dealing : std::uint8_t {
  by_share,  // each path has one contiguous part, as large as its share; a direct path's is whole
  round_robin,  // chunks of one size in turn, each to the path that is furthest behind its share
};

struct options {
  bool direct = true;                                     // whether the direct path may be used
  std::optional<std::vector<machine::endpoint>> staging;  // the places that may be; else all
  std::uint32_t chunks = 0;                               // of a path's part; 0: what is fastest
  interlace::plan::dealing dealing = interlace::plan::dealing::by_share;
  std::uint64_t staging_bytes = std::uint64_t{64}
                                << 20;            // at most, all paths of a message together
  std::vector<interlace::plan::traffic> traffic;  // under way meanwhile
};

// A way for a message, used or not.
struct path {
  std::uint32_t message = 0;
  std::vector<machine::endpoint> stops;  // source, staging places, destination
  std::vector<leg> legs;                 // between the stops; empty if there is no such way
  std::uint64_t bytes = 0;               // 0: not used
  std::uint32_t chunks = 0;
  std::string reason;  // one sentence: why it is used, or why not

  bool direct() const { return stops.size() == 2; }
};

enum class memory : std::uint8_t { source, destination, staging };

// A place in the memory of a message, or in a staging buffer of the plan.
struct location {
  plan::memory memory = plan::memory::source;
  std::uint32_t index = 0;   // of the message, or of the staging buffer
  std::uint64_t offset = 0;  // bytes
};

struct staging_buffer {
  machine::endpoint place;
  std::uint64_t bytes = 0;
  std::uint32_t path = 0;
};

// Copies of one slot run one after another, in the order of the steps: a stream of that GPU. Every
// direction in which a GPU's ports send or receive has one slot, so that no two transfers meet
// there (section 4.5, contention avoidance), unless the plan's messages run apart.
struct slot {
  std::uint32_t gpu = 0;
  std::size_t port = 0;  // the resource
};

// One copy.
struct step {
  std::uint32_t path = 0;
  std::uint32_t leg = 0;    // of the path
  std::uint32_t chunk = 0;  // of the path
  location from;
  location to;
  std::uint64_t bytes = 0;
  std::uint32_t slot = 0;
  std::vector<std::uint32_t> after;  // earlier steps of other slots that must be complete
  // predicted, in seconds from the call; begin is when an engine takes it up
  double begin_s = 0;
  double end_s = 0;
};

struct plan {
  std::vector<interlace::plan::message> messages;
  std::vector<std::uint32_t> rounds;  // of each message: those of one round share no port
  bool apart = false;                 // each message has slots of its own
  std::vector<interlace::plan::path> paths;
  std::vector<staging_buffer> buffers;
  std::vector<interlace::plan::slot> slots;
  std::vector<step> steps;  // in the order in which a host thread enqueues them
  double predicted_s = 0;   // from the call until all bytes have arrived
  double direct_s = 0;      // the same for the direct paths alone
};

// The fastest plan that the model finds; one of direct paths alone is among those compared, so
// that a plan is never predicted slower unless `direct` is false. Throws usage_error if a message,
// a restriction or the traffic makes no sense on this machine.
plan make_plan(const machine::machine& described, std::span<const message> messages,
               const options& asked = {});

// "direct", or the names of the staging places: "gpu2", "host".
std::string name(const machine::machine& described, const path& way);

}  // namespace interlace::plan
