// The times at which the copies of a plan would run. Plans are compared by this model.
//
// One host thread enqueues the steps in order. A copy starts when all of these conditions hold:
// - The copy is enqueued.
// - The previous copy in the same slot is complete, and so are all copies on which this copy
//   depends.
// - An engine of the copy's GPU is free.
//
// The copy holds the engine while it sets up and moves its bytes. Its last byte arrives after the
// latency of the wires. If a copy of another slot depends on it, that copy starts later by the
// latency of an event. The message's own stream runs the slots of direct paths. The other slots
// start after that stream, and that stream waits for the other slots. Both waits have the latency
// of an event. Copies that move bytes at the same time share every resource evenly, up to the rate
// that each of them can use (max-min fairness). No resource is therefore ever used beyond its
// capacity.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"
#include "plan/resources.hpp"

namespace interlace::plan {

// A period in which a step moves bytes at one rate.
struct span_of_step {
  std::uint32_t step = 0;
  double begin_s = 0;
  double end_s = 0;
  double bytes_per_s = 0;
};

// Sets begin_s and end_s of the steps, and predicted_s of the plan. Returns the rates if `rates` is
// true, and otherwise an empty vector.
std::vector<span_of_step> predict(plan& made, const resources& shared, const machine::gpu& unit,
                                  bool rates = false);

}  // namespace interlace::plan
