#include "cuda/epoch/gate.hpp"

#include <atomic>
#include <chrono>

#include "interlace/cuda/check.hpp"
#include "interlace/cuda/region/exchange.hpp"

namespace interlace::cuda {

namespace {

// The longest time for which the gate stays shut while graphs are enqueued.
constexpr std::chrono::seconds patience{1};

}  // namespace

gate::gate(const node_gpus& gpus)
    : gpus_(gpus), host_(sizeof(unsigned int)), shown_(static_cast<unsigned int*>(host_.data())) {}

void gate::shut(const run_clock& clock) {
  ++next_;
  try {
    for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
      INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_.ordinal(d)));
      launch_gate(gpus_.barrier(d, node_gpus::no_exchange), shown_, next_, gpus_.streams()[d]);
      clock.start(d);
    }
  } catch (...) {
    open();
    throw;
  }
}

// Two threads may store the same ticket while GPUs read it. Relaxed order is enough, because the
// ticket publishes no other data. Work after the gate needs only data that the host wrote before it
// launched this work. The launch makes that data visible.
void gate::open() noexcept { std::atomic_ref(*shown_).store(next_, std::memory_order_relaxed); }

gate_keeper::gate_keeper(gate& kept, std::vector<std::string>& remarks)
    : gate_(kept), remarks_(remarks), thread_([this] {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, patience, [this] { return over_; })) {
          early_ = true;
          gate_.open();
        }
      }) {}

gate_keeper::~gate_keeper() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
  if (early_) {
    remarks_.emplace_back(
        "enqueueing the graphs took too long, so the first graphs started before the last graphs "
        "were enqueued; the time may include host time");
  }
}

}  // namespace interlace::cuda
