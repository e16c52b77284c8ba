#include "cuda/epoch/executor.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <memory>
#include <span>
#include <thread>

#include "cuda/epoch/snapshot.hpp"
#include "cuda/epoch/stopwatch.hpp"
#include "cuda/mechanism/tracked.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/base/statistics.hpp"
#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

namespace {

// The number of calls by which an operation is enqueued on one device. An exchange has up to eight
// launches, its copies, and waits for the copy streams. A library call can have several launches.
std::uint32_t gate_weight(const operation& o) {
  const auto copies = [](const auto& of) { return static_cast<std::uint32_t>(2 * of.size()); };
  if (o.what == operation::kind::exchange) {
    std::uint32_t most = 0;
    for (const auto& of : o.exchange.copies) most = std::max(most, copies(of));
    for (const auto& of : o.exchange.prefetches) {
      // When a prefetch is enqueued, the driver may wait until the pages are no longer in use.
      if (!of.empty()) return gate::holds;
    }
    std::uint32_t joint = 0;
    for (const auto& j : o.exchange.joint) joint += j->weight();
    return 8 + 2 * max_devices + joint + most;
  }
  if (o.what == operation::kind::copies) return copies(o.copies);
  if (o.what == operation::kind::call) return 16;
  if (o.kernel.tracked == nullptr) return 1;
  std::uint32_t weight = 8;
  if (o.kernel.tracked->table.flags != nullptr) {
    for (const kernel::chunk& chunk : o.kernel.tracked->chunks) {
      weight += 2 * static_cast<std::uint32_t>(std::popcount(chunk.peers));
    }
  }
  return weight;
}

}  // namespace

kernel::run_result executor::execute(const run_options& o) {
  const std::vector<operation> operations = records_.end();
  const current_device restore(gpus_.ordinal(0));
  for (const operation& op : operations) {
    if (op.what == operation::kind::kernel) kernels_.load(op.kernel);
  }

  bool may_be_graphs = true;
  for (const operation& op : operations) {
    for (const auto& j : op.exchange.joint) {
      const char* why_not = j->why_on_streams();
      if (why_not == nullptr) continue;
      may_be_graphs = false;
      if (std::find(remarks_.begin(), remarks_.end(), why_not) == remarks_.end()) {
        remarks_.emplace_back(why_not);
      }
    }
  }
  issues_.reset_early_launches();
  captured_graphs captured;
  if (o.graph && !o.detail && may_be_graphs) {
    try {
      captured = capture(operations);
    } catch (const device_error& e) {
      gpus_.require_usable();
      issues_.reset_early_launches();
      remarks_.push_back(std::string("the run was not captured in graphs and uses streams: ") +
                         e.what());
    }
  }

  // If the run uses graphs, the capture has already loaded the kernels that library calls launch.
  for (const operation& op : operations) {
    if (captured.empty() && op.what == operation::kind::call) issues_.load_call(op);
  }

  const std::uint32_t repetitions = std::max(1U, o.repetitions);
  std::unique_ptr<snapshot> before;
  if (o.warm_ups + repetitions > 1) before = std::make_unique<snapshot>(gpus_, arrays_, regions_);
  std::vector<double> times;
  kernel::run_result result;
  for (std::uint32_t k = 0; k < o.warm_ups + repetitions; ++k) {
    if (k > 0) {
      before->restore();
      records_.set_launched_since(false);
    }
    const bool last = k + 1 == o.warm_ups + repetitions;
    std::unique_ptr<stopwatch> watch;
    if (o.detail && last) watch = std::make_unique<stopwatch>(gpus_, clock_, o.timeline_epochs);
    const double time_s = launch_timed(operations, captured, watch.get());
    if (k >= o.warm_ups) times.push_back(time_s);
    if (watch != nullptr) watch->fill(result);
  }
  result.time_s = median(std::move(times));
  return result;
}

// Captures one graph for each device. If devices share a GPU, captures one graph for each device
// and each part between two meetings.
executor::captured_graphs executor::capture(const std::vector<operation>& operations) {
  captured_graphs captured;
  std::span<const operation> rest = operations;
  do {
    auto end = rest.end();
    if (gpus_.shares_gpu()) {
      end = std::find_if(rest.begin(), rest.end(),
                         [](const operation& o) { return o.what == operation::kind::exchange; });
      if (end != rest.end()) ++end;
    }
    const auto count = static_cast<std::size_t>(end - rest.begin());
    captured.push_back(std::make_unique<graphs>(gpus_.count()));
    captured.back()->capture(gpus_, issues_, rest.first(count));
    rest = rest.subspan(count);
  } while (!rest.empty());
  return captured;
}

// Launches the operations and measures their time. A device's clock starts when the device leaves
// the gate's barrier. All devices leave the barrier within the latency of a flag (about 1 us). The
// clock stops after the device's last operation. The slowest device determines the run's time.
double executor::launch_timed(const std::vector<operation>& operations,
                              const captured_graphs& captured, stopwatch* watch) {
  gate_.shut(clock_);
  records_.set_launched_since(true);
  gpus_.set_streams_wait(std::any_of(operations.begin(), operations.end(), [](const operation& o) {
    return o.what == operation::kind::kernel && o.kernel.tracked != nullptr;
  }));
  try {
    if (!captured.empty() && gpus_.shares_gpu()) {
      launch_in_turn(captured);
    } else if (!captured.empty()) {
      launch_graphs(*captured.front());
    } else {
      std::uint32_t held = 0;
      for (const operation& o : operations) {
        held += gate_weight(o);
        if (held >= gate::holds) gate_.open();
        issues_.issue(o, watch);
      }
    }
    for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
      INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(d)));
      clock_.stop(d);
    }
  } catch (const std::exception& e) {
    // The enqueueing failed. The work of some devices is enqueued, and other devices wait for this
    // work. The deadline ends these waits, but NCCL's kernels have no deadline.
    gate_.open();
    gpus_.abort();
    try {
      gpus_.synchronize();
    } catch (const device_error&) {  // NOLINT: the first error is the one to report
    }
    gpus_.fail(e.what());
  }
  gate_.open();
  gpus_.synchronize();
  return clock_.longest_s();
}

// Uses one thread for each device. One device's launch can wait for room in a queue. In this case,
// the other devices must still get the work for which this device's exchanges wait.
void executor::launch_graphs(const graphs& captured) {
  const gate_keeper keeper(gate_, remarks_);
  std::vector<std::exception_ptr> errors(gpus_.count());
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
      threads.emplace_back([this, d, &captured, &errors] {
        try {
          INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(d)));
          captured.launch(d, gpus_.streams()[d]);
        } catch (...) {
          errors[d] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error != nullptr) std::rethrow_exception(error);
  }
}

// Launches from one thread, in an order that cannot deadlock. A launch that finds no room in a
// queue of the GPU waits, and this launch blocks all other launches to that GPU. In this order, the
// work that must end to make room has already been launched (interlace/cuda/shared_gpu.hpp).
void executor::launch_in_turn(const captured_graphs& captured) {
  const gate_keeper keeper(gate_, remarks_);
  std::uint32_t held = 0;
  for (const auto& part : captured) {
    for (const operation& o : part->operations()) held += gate_weight(o);
    if (held >= gate::holds) gate_.open();
    for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
      INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(d)));
      part->launch(d, gpus_.streams()[d]);
    }
    if (part->operations().empty()) continue;
    const operation& last = part->operations().back();
    if (last.what != operation::kind::exchange) continue;
    for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
      issues_.issue_meeting(d, last.exchange, nullptr, nullptr);
    }
  }
}

}  // namespace interlace::cuda
