// Runs plans on a simulated machine. Every step of a plan is a copy, which an engine makes in
// segments. Segments pass the memories, links and switches of their route. A step waits for the
// previous step of its slot, and for the steps on which it depends.
//
// Host threads submit the plans, with one thread for each process. A thread makes one call after
// another. A copy is enqueued, or a graph is launched, when the call returns. Two plans of one
// thread share the streams of their slots: as in A. Sojoodi et al., section 4.5, a direction has
// one transfer at a time, and all transfers use one set of streams. Two graphs of a thread run one
// after the other on the thread's stream, unless the caller lets them overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "interlace/machine/machine.hpp"
#include "plan/plan.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/transfer/copy_resources.hpp"

namespace interlace::sim {

enum class launched_by : std::uint8_t {
  streams,
  new_graph,     // the graph is created, constructed, instantiated and launched
  cached_graph,  // the graph is launched
};

// One execution of a plan.
struct execution {
  const plan::plan* made = nullptr;  // the plan, which must live until the run is over
  // The whole memory of each message. If the list is empty, no data is copied, and only time
  // passes.
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> destinations;
  std::uint32_t thread = 0;
  launched_by how = launched_by::streams;
  // For cached graphs: if true, the addresses of all nodes are updated first.
  bool other_addresses = false;
  bool overlaps = false;  // for graphs: if true, the graph runs on a stream of its own
  // Earlier executions; the thread first waits until these have ended.
  std::vector<std::uint32_t> after;
  // time that the thread lets pass after the executions in `after` have ended
  picoseconds delay = 0;
  std::function<void()> arrived;  // called when all bytes have arrived
};

// The host thread's times for an execution, and the times of the execution's events.
struct execution_times {
  picoseconds begin = 0;  // the time of the thread's first call
  picoseconds creation = 0;
  picoseconds construction = 0;
  picoseconds instantiation = 0;
  picoseconds update = 0;
  picoseconds launch = 0;  // time of the launch call (graphs) or of all calls together (streams)
  picoseconds enqueued = 0;
  picoseconds end = 0;  // time when all bytes have arrived in their memory
};

// The traffic of one direction of a link.
struct link_count {
  std::string name;
  std::uint64_t payload = 0;
  std::uint64_t wire = 0;
  picoseconds busy = 0;
};

class plan_executor final : private message_receiver {
 public:
  // run() calls `check_interrupt` from time to time. `check_interrupt` may throw.
  plan_executor(const machine::machine& described, std::function<void()> check_interrupt);

  // Adds an execution and returns its number. Numbers start at 0. A thread handles its executions
  // in the order of their numbers. Throws usage_error if memory is missing, or if an execution
  // waits for a later one.
  std::uint32_t add(execution wanted);

  // Runs until all executions have ended, and returns the time since the start. Call this function
  // once. Throws model_error if a copy would use a part of a staging buffer that another copy is
  // using, or if data was lost.
  picoseconds run();

  const execution_times& times(std::uint32_t number) const { return executions_[number].times; }
  // The begin and the end of the time for which step `step` of an execution held its engine.
  std::pair<picoseconds, picoseconds> step_times(std::uint32_t number, std::uint32_t step) const;
  // The link directions that carried data.
  std::vector<link_count> links() const;
  // The largest number of copies that the engines of a GPU had in flight at a time.
  std::uint32_t most_engines(std::uint32_t gpu) const { return engines_[gpu].most; }

  static constexpr std::uint32_t segment_bytes = 16384;

 private:
  static constexpr std::uint32_t none = 0xffffffffU;

  struct copy_work {
    std::uint32_t execution = 0;
    std::uint32_t step = 0;
    std::uint32_t from = 0;  // number of an end: the GPUs first, then the host
    std::uint32_t to = 0;
    // number of open conditions: enqueueing, the previous copy, dependencies
    std::uint32_t waits_for = 0;
    picoseconds earliest = 0;
    std::vector<std::uint32_t> wakes;  // copies that depend on this copy
    std::uint32_t next_in_slot = none;
    std::uint64_t asked = 0;  // number of bytes read
    std::uint64_t sent = 0;
    std::uint64_t arrived = 0;
    // The number of segments that were read but are not yet on the first link.
    std::uint32_t buffered = 0;
    bool stepping = false;
    picoseconds next_step = 0;  // earliest time of the next step that the engine's own rate allows
    picoseconds written = 0;
    picoseconds begin = 0;
    picoseconds end = 0;
  };
  // The copies that use a part of a staging buffer.
  struct buffer_use {
    std::uint32_t readers = 0;
    bool written = false;  // whether a copy is writing the part
    bool filled = false;
    std::uint32_t path = 0;
    std::uint32_t chunk = 0;
  };
  struct running {
    execution wanted;
    execution_times times;
    std::uint32_t first_copy = 0;
    std::uint32_t left = 0;  // number of copies that have not ended
    bool ended = false;
    std::vector<std::uint32_t> wakes;  // the first copies of the next graph on the same stream
    std::vector<std::unique_ptr<std::byte[]>> buffers;
    // The key is a pair of buffer and offset.
    std::map<std::pair<std::uint32_t, std::uint64_t>, buffer_use> uses;
  };
  struct host_thread {
    std::vector<std::uint32_t> executions;
    std::size_t next = 0;
    bool waiting = false;
    std::uint32_t last_graph = none;  // the last graph on the thread's stream
  };
  struct engines {
    std::uint32_t busy = 0;
    std::uint32_t most = 0;
    std::deque<std::uint32_t> waiting;
  };
  // An engine keeps as many bytes in flight as it copies in this many seconds.
  static constexpr double engine_window_s = 1e-6;

  std::uint32_t number(machine::endpoint end) const;
  const plan::step& step_of(const copy_work& c) const;
  void advance(std::uint32_t thread);
  picoseconds enqueue(std::uint32_t execution, picoseconds now);
  void lay_memory(running& r);
  void one_less(std::uint32_t copy, picoseconds earliest);
  void start_copies(std::uint32_t gpu);
  void begin(std::uint32_t copy);
  void schedule_step(std::uint32_t copy);
  void read_segment(std::uint32_t copy);
  void send_segment(std::uint32_t copy);
  void finish(std::uint32_t copy);
  void hold_buffers(copy_work& c);
  void free_buffers(copy_work& c);
  std::byte* writable(running& r, const plan::location& place) const;
  const std::byte* readable(const running& r, const plan::location& place) const;
  void check() const;
  void departed(const message& m) override;
  void delivered(const message& m) override;
  void handle(const event& e);

  machine::machine machine_;
  std::function<void()> check_interrupt_;
  event_queue queue_;
  fabric fabric_;
  copy_resources resources_;
  std::uint32_t window_ = 1;  // number of a copy's segments that may be in flight
  std::vector<running> executions_;
  std::vector<host_thread> threads_;
  std::vector<copy_work> copies_;
  std::vector<engines> engines_;  // one for each GPU
  // The last copy of each stream. The key has four parts: whether the stream belongs to an
  // execution or to a thread, the number of that execution or thread, the GPU, and the port.
  std::map<std::tuple<bool, std::uint32_t, std::uint32_t, std::size_t>, std::uint32_t> last_;
  std::vector<std::uint64_t> payload_;  // for each link direction, the number of carried bytes
  bool ran_ = false;
};

}  // namespace interlace::sim
