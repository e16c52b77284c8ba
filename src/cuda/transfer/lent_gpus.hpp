// Lends the GPUs of a copy engine to batches of blocks. The engine's plans for copies say how the
// bytes are divided.
#pragma once

#include <memory>

#include "cuda/transfer/block_help.hpp"
#include "cuda/transfer/contexts.hpp"
#include "cuda/transfer/copy_planner.hpp"
#include "cuda/transfer/copy_routes.hpp"
#include "cuda/transfer/link_usage.hpp"
#include "cuda/transfer/stream_executor.hpp"

namespace interlace::cuda {

// The parts of a copy engine that lending needs. They must outlive everything that is lent.
struct lender {
  contexts& gpus;
  const copy_routes& routes;
  copy_planner& planner;
  stream_executor& streams;
  link_usage& usage;
};

// Lends GPUs for a batch. Returns null if no other GPU makes the batch faster now. The stream must
// not be under capture. Throws device_error if the driver fails.
std::unique_ptr<block_help> lend_gpus(const lender& by, const block_need& need);

}  // namespace interlace::cuda
