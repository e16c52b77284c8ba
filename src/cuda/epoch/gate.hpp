// Holds all devices at the start of a run until the host has enqueued the run, so that the measured
// time contains no host time.
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
  // The most operations that can be enqueued on a stream while the gate is shut. A stream takes
  // about a thousand operations. After that, a launch blocks the host. No work that waits for the
  // host may be in the stream ahead of such a launch.
  static constexpr std::uint32_t holds = 256;

  explicit gate(const node_gpus& gpus);

  // Makes every device's stream wait for the gate. A device's clock starts when its stream
  // continues.
  void shut(const run_clock& clock);
  // Opens the gate. Any thread may call this function. An open gate stays open.
  void open() noexcept;

 private:
  const node_gpus& gpus_;
  mapped_memory host_;     // memory of the ticket that the GPUs read
  unsigned int* shown_;    // ticket in that memory, which the host sets
  unsigned int next_ = 0;  // ticket of the last shut()
};

// Opens the gate after some time. While the host enqueues graphs, the host may wait for work that
// the shut gate holds back. Without the keeper, that would be a deadlock.
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
  std::thread thread_;  // declared last, because the thread uses the other members
};

}  // namespace interlace::cuda
