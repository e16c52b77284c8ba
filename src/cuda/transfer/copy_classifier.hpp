// Finds out what kind of copy a call is: whether it can take several paths now, or why it is a
// plain copy. Asks the driver for the memory at the ends and for the stream.
#pragma once

#include <optional>

#include "cuda/transfer/contexts.hpp"
#include "cuda/transfer/copy_call.hpp"
#include "cuda/transfer/copy_planner.hpp"
#include "cuda/transfer/copy_report.hpp"
#include "cuda/transfer/copy_routes.hpp"
#include "cuda/transfer/link_usage.hpp"
#include "cuda/transfer/memory_view.hpp"

namespace interlace::cuda {

// Whether the call's stream is being captured, and into which graph. False where the driver does
// not tell. Until this is known, nothing else may be asked of the stream: it would end the capture.
bool read_capture(const driver_table& driver, copy_call& call);
// Reads the identity of the call's stream. False for a stream of a context that is not a GPU's
// primary one. Call it after read_capture.
bool read_stream(const contexts& of, copy_call& call);

// Thread-safe. Throws device_error where the driver fails.
class copy_classifier {
 public:
  // All of them must outlive the classifier.
  copy_classifier(const contexts& of, const copy_routes& routes, copy_planner& planner,
                  link_usage& usage);

  // Whether the call's only message may take several paths: then its choice, its relays and its
  // ends are set. If not, the report has the reason; a plain copy is always right. `captures` says
  // whether a message on a stream that is being captured may take several paths.
  bool classify_message(copy_call& call, bool captures, copy_report& report);
  // Whether the call's messages can be planned together: each goes between connected places, or
  // stays inside a GPU, in memory whose place is known.
  bool classify_batch(copy_call& call);

 private:
  std::optional<copy_result> inspect_ends(copy_message& one, const memory_facts& source,
                                          const memory_facts& destination) const;

  const contexts& contexts_;
  const copy_routes& routes_;
  copy_planner& planner_;
  link_usage& usage_;
};

}  // namespace interlace::cuda
