// The outcome of a message, for callers that can make the plain copy themselves.
#pragma once

#include <cstdint>

#include "cuda/transfer/memory_view.hpp"

namespace interlace::cuda {

enum class copy_result : std::uint8_t {
  // The following results mean that the message takes several paths.
  streams,   // enqueued on streams
  graph,     // enqueued as a launch of a graph
  captured,  // added to the graph that the caller captures
  // The following results mean that the message is one plain copy. Each name gives the reason.
  below_threshold,  // the message has fewer bytes than the threshold
  one_path,         // no other path makes it faster, or other messages use the other paths
  same_place,       // both ends are in one GPU or both are in the host
  // An end is host memory that is not page-locked, or memory that the driver does not know.
  pageable,
  managed,        // an end is memory that the driver moves
  mixed,          // the memory of one end lies in several places
  unreachable,    // a GPU that would relay the message has no access to the memory
  no_staging,     // all staging memory, or all streams, are in use
  other_context,  // the stream or the memory belongs to a context that is not a primary context
  capturing,      // the stream is being captured, or the driver does not tell
  no_engine,      // there is one GPU, or the engine could not start
};

struct copy_report {
  copy_result result = copy_result::no_engine;
  bool enqueued = false;    // if false, the caller must make the plain copy
  memory_view source;       // source, as far as the engine inspected it
  memory_view destination;  // destination, as far as the engine inspected it
  double predicted_s = 0;   // predicted time over several paths
  double direct_s = 0;      // predicted time as one plain copy
};

}  // namespace interlace::cuda
