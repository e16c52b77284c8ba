// Finds out whether a call can take several paths now, or why it must be a plain copy. For this
// decision, it asks the driver about the memory at the call's ends and about the call's stream.
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

// Reads whether the call's stream is being captured, and into which graph. Returns false if the
// driver does not tell. Until this is known, no other function of the driver may be called with the
// stream, because such a call would end a capture.
bool read_capture(const driver_table& driver, copy_call& call);
// Reads the identity of the call's stream. Returns false if the stream's context is not the primary
// context of a GPU. Call this function after read_capture.
bool read_stream(const contexts& of, copy_call& call);

// Classifies calls. Thread-safe. Throws device_error if the driver fails.
class copy_classifier {
 public:
  // All arguments must outlive the classifier.
  copy_classifier(const contexts& of, const copy_routes& routes, copy_planner& planner,
                  link_usage& usage);

  // Whether the call's only message may take several paths. If it may, the function sets the call's
  // choice, relays and ends. If it may not, the report has the reason, and a plain copy is always
  // right. `captures` says whether a message may take several paths on a stream that is being
  // captured.
  bool classify_message(copy_call& call, bool captures, copy_report& report);
  // Whether the call's messages can be planned together. Each message must go between connected
  // places or stay inside a GPU, and the place of its memory must be known.
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
