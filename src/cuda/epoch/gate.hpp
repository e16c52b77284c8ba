// What holds all devices at the start of a run until the host has enqueued it, so that its time
// contains nothing of the host's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cuda/epoch/clock.hpp"
#include "cuda/epoch/gpus.hpp"
#include "interlace/cuda/memory/memory.hpp"

namespace interlace::cuda {

class gate {
 public:
  // Operations that are enqueued on streams while the gate is shut: a stream takes about a thousand
  // before a launch waits, and nothing that waits for the host may do so while the host waits for
  // it.
  static constexpr std::uint32_t holds = 256;

  explicit gate(const node_gpus& gpus);

  // Every device's stream waits here; its clock starts when it leaves.
  void shut(const run_clock& clock);
  // From any thread; a gate that is open stays so.
  void open() noexcept;

 private:
  const node_gpus& gpus_;
  mapped_memory host_;     // the ticket that the GPUs wait for
  unsigned int* shown_;    // there
  unsigned int next_ = 0;  // of the last time that it was shut
};

// Opens the gate after a while, should enqueueing the graphs wait for what the gate holds.
class gate_keeper {
 public:
  gate_keeper(gate& kept, std::vector<std::string>& remarks);
  ~gate_keeper();
  gate_keeper(const gate_keeper&) = delete;
  gate_keeper& operator=(const gate_keeper&) = delete;
  gate_keeper(gate_keeper&&) = delete;
  gate_keeper& operator=(gate_keeper&&) = delete;

 private:
  gate& gate_;
  std::vector<std::string>& remarks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  bool early_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace interlace::cuda
