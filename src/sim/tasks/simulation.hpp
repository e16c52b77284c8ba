// One simulated machine: its GPUs and fabric, and the tasks that streams give to them. A task names
// other tasks, and starts when these have ended. The caller that adds tasks decides their order on
// a device.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "interlace/kernel/chunk_table.hpp"
#include "interlace/kernel/library_call.hpp"
#include "interlace/kernel/observation.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/machine/machine.hpp"
#include "sim/engine/crew.hpp"
#include "sim/engine/early_work.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/fabric.hpp"
#include "sim/gpu/gpu.hpp"
#include "sim/remote/egress.hpp"
#include "sim/remote/iommu.hpp"
#include "sim/remote/load_mechanism.hpp"
#include "sim/remote/queued_stores.hpp"
#include "sim/tasks/activity.hpp"
#include "sim/trace/instruction.hpp"

namespace interlace::sim {

using task_id = std::uint32_t;

struct traffic {
  std::uint64_t payload = 0;
  std::uint64_t wire = 0;
};

class simulation : private message_receiver {
 public:
  // run() calls `check_interrupt` from time to time while it handles events. `check_interrupt` may
  // throw.
  simulation(const machine::machine& described, address_map addresses,
             std::function<void()> check_interrupt);

  const machine::machine& described() const { return machine_; }
  address_map& addresses() { return addresses_; }
  const address_map& addresses() const { return addresses_; }

  // A tracked launch. It has the launch's chunks, the number of elements of each chunk that its
  // blocks announce, and the copies that start when a chunk is complete.
  struct tracked_launch {
    std::vector<kernel::chunk> chunks;
    // For each chunk, the number of elements that blocks have not announced yet.
    std::vector<std::uint64_t> left;
    std::vector<std::vector<task_id>> copies;
    std::uint32_t agent_warps = 0;      // number of warps that an agent takes from the kernel
    std::uint32_t threads_a_block = 0;  // number of threads in a block of the kernel
  };

  // Each add function adds a task and returns it. The task starts after the tasks in `after` have
  // ended.
  task_id add_kernel(std::uint32_t device, grid shape, recorder::settings record,
                     block_function block, const std::vector<task_id>& after,
                     std::shared_ptr<tracked_launch> tracked = nullptr,
                     store_path path = store_path::packets);
  // Adds a library call. The call runs on the CPU when its task starts. Its traffic is spread over
  // its time, and waits while copies or other devices keep the memory busy. `swept` has the device
  // addresses of the call's sweeps, which go through the L2. A call without sweeps leaves the L2 as
  // it is.
  task_id add_call(std::uint32_t device, kernel::library_call call,
                   std::vector<std::uint64_t> swept, const std::vector<task_id>& after);
  // The mover of a copy.
  enum class mover : std::uint8_t {
    engine,   // a copy engine of the sender
    host,     // an engine that the host starts once it knows that the previous work has ended
    waiting,  // an engine whose stream waits for a flag
    agent,    // the threads of the sender's polling agent
    child,    // the threads of a kernel that the chunk's last block launches
    // A hardware unit that fetches a descriptor of the copy; nothing else has to start the copy.
    descriptors,
  };
  struct destination {
    std::uint32_t to = 0;
    std::uint64_t address = 0;
  };
  struct copy_request {
    mover by = mover::engine;
    std::uint32_t threads = 0;  // threads of the agent or of the launched kernel
    // The number of chunks on which the agent's threads work at a time. Each chunk gets an equal
    // part of the threads.
    std::uint32_t at_once = 1;
    bool held = false;  // true: the copy waits until its chunk is complete
    // If false, only the fixed cost of the copy takes time, and the transfer takes none.
    bool moves = true;
    std::uint32_t from = 0;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    // An engine has one destination. Any other mover reads the data once and sends it to all
    // destinations.
    std::vector<destination> to;
    std::function<void()> arrived;  // function to call when the last byte has arrived
  };
  task_id add_copy(copy_request request, const std::vector<task_id>& after);
  // Adds an exchange among all devices. Device d arrives after the tasks after[d]. The device's
  // task ends when every device's flag has reached it. Each flag carries `payload` bytes.
  // `all_arrived` runs when the last device has arrived, before any of the tasks ends. If `instant`
  // is true, flags take no time, and the stretches in `appears` change in the devices' memory
  // without taking time.
  std::vector<task_id> add_exchange(const std::vector<std::vector<task_id>>& after,
                                    std::uint32_t payload, bool instant,
                                    std::vector<trace::stretch> appears,
                                    std::function<void()> all_arrived);

  // Ends an iteration. An iteration consists of the tasks that were added since the previous
  // iteration ended. When the tasks in `after` of a device have ended, `ended` runs for this
  // device, with the time since the run began.
  void end_iteration(const std::vector<std::vector<task_id>>& after,
                     const std::function<void(std::uint32_t device, picoseconds time)>& ended);
  // The work of an iteration on each device: the accesses of its kernels (recorder::work) and the
  // bytes of its library calls. `back` is 0 for the iteration that ended last, 1 for the iteration
  // before it, and so on. Call this function after run().
  const std::vector<std::uint64_t>& work_of_ended(std::size_t back) const {
    return iteration_work_[iteration_work_.size() - 2 - back];
  }

  // Passes all tasks that are added from now on, and all actions of their kernels, to `log`. A call
  // with null ends the recording. While a log is set, tracked launches are refused. Copies are
  // refused too, unless copy engines make them.
  void record(trace::sink* log) { log_ = log; }

  // Returns the parts of the hardware to which a mechanism of remote loads connects. Then call
  // treat_loads with the mechanism, or with null for no mechanism, before you add any task.
  hardware parts();
  void treat_loads(std::unique_ptr<load_mechanism> how) { loads_ = std::move(how); }
  // Counts of remote loads so far.
  load_mechanism::outcome treated_loads() const {
    return loads_ ? loads_->found(ended_) : load_mechanism::outcome{};
  }
  // Counts of the messages that the host's translation of addresses takes.
  iommu::counts walked() const { return iommu_ ? iommu_->counted() : iommu::counts{}; }

  // The number of threads that run() uses, at least one. Results are the same for every number.
  void use_threads(std::uint32_t threads) { threads_ = threads; }

  bool idle() const { return unfinished_ == 0; }
  // Runs until every task has ended and no event is left. Returns the time since the first task
  // could start. Throws model_error if a message, an entry or a byte was lost or duplicated. If a
  // run throws, no other run is possible.
  picoseconds run();

  gpu_counters counters() const;
  gpu_counters counters_of(std::uint32_t device) const { return gpus_[device]->counters(); }
  // Makes every packed store go through encode and decode from now on. The result is compared with
  // the devices' memory, which begins at `memory`. This function is for tests, because it makes
  // runs much slower.
  void check_deliveries(const std::byte* memory);
  const delivery_check* deliveries() const { return check_.get(); }
  traffic copies() const;
  traffic flags() const;
  // The number of packets that agents and device-launched kernels stored to other devices.
  std::uint64_t copy_stores() const;
  // The data that a device sent, apart from the accesses of its kernels.
  struct alignas(64) sent_counts {
    traffic copies;
    traffic flags;
    std::uint64_t copy_stores = 0;
  };
  const sent_counts& sent_by(std::uint32_t device) const { return sent_[device]; }
  // Counts over all runs so far.
  kernel::observation observe() const;
  // Starts recording kernels, copies and exchanges. At most `limit` of them are recorded.
  void record_timeline(std::size_t limit) { timeline_limit_ = limit; }
  std::vector<kernel::timeline_event> take_timeline();

 private:
  enum class task_kind : std::uint8_t { kernel, copy, exchange, call, mark };
  struct task {
    task_kind kind = task_kind::kernel;
    std::uint32_t device = 0;
    std::uint32_t work = 0;  // index into kernels_, copies_, exchanges_, calls_ or marks_
    std::uint32_t waits_for = 0;
    bool ended = false;
    picoseconds started = 0;
    std::vector<task_id> next;
  };
  struct kernel_work {
    grid shape;
    recorder::settings record;
    block_function block;
    std::shared_ptr<tracked_launch> tracked;
    store_path path = store_path::packets;
    std::size_t iteration = 0;
  };
  // A queue of copies that start one after another. A device has such a queue for its copy engines,
  // for its agent and for its descriptor unit.
  struct lane {
    std::deque<std::uint32_t> waiting;
    std::uint32_t busy = 0;
    std::uint32_t at_once = 1;
  };
  struct copy_work {
    copy_request what;
    std::uint32_t lane = none;  // the copy's lane, or none for a copy by a device-launched kernel
    picoseconds notice = 0;     // time until the mover notices that the copy can start
    picoseconds setup = 0;      // time from the copy's turn to its first read
    double bytes_per_s = 0;     // rate of the engine or of the threads that copy
    double window = 0;          // number of segments that may be in flight
    bool stores = false;  // true: the mover's threads store lines; false: an engine sends packets
    // If true, the mover begins its next copy as soon as the links have taken all bytes of this
    // copy. If false, the mover waits until all bytes have arrived.
    bool posted = false;
    std::uint64_t asked = 0;  // number of read requests that were made
    std::uint64_t sent = 0;
    std::vector<std::uint64_t> arrived_bytes;  // number of bytes that arrived at each destination
    std::uint32_t arriving = 0;  // number of destinations that the last byte has not reached yet
    // number of segments that were requested but are not yet on the link
    std::uint32_t buffered = 0;
    std::uint32_t ready = 0;  // number of segments that were read and now wait for the link
    // Whether the copying kernel is launched but not all of its blocks are placed.
    bool pending = false;
    // The number of destinations whose first link has not taken the current segment.
    std::uint32_t sending = 0;
    bool stepping = false;      // whether an event for the next step is pending
    picoseconds next_step = 0;  // earliest time of the next step that the engine's own rate allows
    task_id task = 0;
  };
  // The kernels that a device's kernels launch.
  struct launcher {
    resource starts;            // starts the launched kernels, one after another
    std::uint32_t pending = 0;  // number of kernels that are launched but not completely placed
  };
  struct call_work {
    kernel::library_call call;
    std::vector<std::uint64_t> swept;
    std::size_t iteration = 0;
    bool offered = false;            // whether other threads may compute the call's results
    std::uint64_t first_kernel = 0;  // number of its first kernel among those of the device's calls
    picoseconds begin = 0;           // time when the running kernel of the call began
    picoseconds late = 0;            // latency of the running kernel's data beyond that of the L2
  };
  struct exchange_work {
    std::uint32_t payload = 0;
    bool instant = false;
    std::uint32_t arrived = 0;
    // For each device, the number of flags that have reached it, including its own flag.
    std::vector<std::uint32_t> flags;
    std::vector<task_id> tasks;
    std::vector<trace::stretch> appears;
    std::function<void()> all_arrived;
  };
  // Adds a task, which also waits until `holds` further conditions are met.
  task_id add_task(task_kind kind, std::uint32_t device, std::uint32_t work,
                   const std::vector<task_id>& after, std::uint32_t holds = 0);
  void start(task_id id);
  void end(task_id id);
  void start_copies(std::uint32_t which);  // starts copies of lane number `which`
  void enter_lane(std::uint32_t copy);
  void leave_lane(std::uint32_t copy);  // frees the copy's mover for the next copy
  void begin_copy(std::uint32_t copy);
  void end_copy(std::uint32_t copy);
  void begin_kernel(task_id id);
  void end_kernel(std::uint32_t device);
  void launch_child(std::uint32_t copy);
  void announced(std::uint32_t device, const kernel::element_range& range);
  void check_announcements() const;
  void check_conservation() const;
  void copy_step(std::uint32_t copy);
  void schedule_step(std::uint32_t copy);
  std::uint32_t copy_wire_bytes(const copy_work& c, std::uint32_t to, std::uint32_t payload) const;
  void send_segment(std::uint32_t copy);
  void segment_departed(std::uint32_t copy);
  void segment_delivered(const message& m);
  picoseconds operation_time(const kernel::operation_counts& n) const;
  void call_step(task_id id, std::uint64_t step);
  picoseconds move_slice(call_work& c, std::uint32_t device, std::uint64_t which,
                         std::uint64_t slice);
  void signal(std::uint32_t exchange, std::uint32_t device);
  void flag_arrived(std::uint32_t exchange, std::uint32_t device);
  void note(const task& t);
  void log_copy(const copy_request& request, const std::vector<task_id>& after) const;
  void packet_arrived(const message& m);
  void departed(const message& m) override;
  void delivered(const message& m) override;
  void will_arrive(std::uint32_t at, picoseconds time, const message& m) override;
  void prefetch(const std::vector<event>& events) const;
  void handle(const event& e);

  // The queues have numbers. The GPUs' queues come first, then the host's queue, then the queue of
  // meetings.
  std::uint32_t host() const { return machine_.gpu_count; }
  std::uint32_t meeting() const { return machine_.gpu_count + 1; }
  std::vector<event_queue*> each_queue();
  void push(picoseconds time, event_kind kind, std::uint32_t device, std::uint32_t a,
            std::uint64_t b = 0) {
    queues_[device].push(time, kind, static_cast<std::uint16_t>(device), a, b);
  }
  // run_events, run_in_order and run_apart return the time when the run ends.
  picoseconds run_events();
  picoseconds run_in_order();
  picoseconds run_apart();
  bool can_run_apart() const;
  // The length of the stretch of time in which devices can run apart. 0 means that they cannot run
  // apart.
  picoseconds stretch() const;
  void run_stretch(picoseconds end);
  bool run_next_device();
  void run_device(std::uint32_t device);
  void meet(picoseconds time);
  bool help(std::uint32_t helper);

  // A stretch with at most this many events does not wake sleeping threads.
  static constexpr std::uint64_t few_events = 2000;
  static constexpr std::uint32_t segment_bytes = 4096;
  // An engine keeps as many bytes in flight as it copies in this many seconds. This amount covers
  // the latency of a busy memory.
  static constexpr double engine_window_s = 1e-6;
  // The number of chunks that a descriptor unit has in flight at a time.
  static constexpr std::uint32_t descriptors_at_once = 4;
  // The traffic of each kernel of a call is cut into this many slices, so that other users of the
  // memory can get in between.
  static constexpr std::uint64_t call_slices = 64;

  machine::machine machine_;
  address_map addresses_;
  std::function<void()> check_interrupt_;
  // One queue for each device and for the host, followed by a queue for meetings. A meeting is an
  // event that concerns all devices.
  std::deque<event_queue> queues_;
  fabric fabric_;
  std::vector<std::unique_ptr<gpu>> gpus_;
  std::unique_ptr<delivery_check> check_;
  std::vector<std::unique_ptr<queued_stores>> queued_stores_;  // one for each device
  std::unique_ptr<iommu> iommu_;  // null if addresses are not translated
  std::unique_ptr<load_mechanism> loads_;
  std::vector<task> tasks_;
  std::vector<task_id> startable_;
  std::vector<kernel_work> kernels_;
  std::vector<copy_work> copies_;
  std::vector<exchange_work> exchanges_;
  std::vector<call_work> calls_;
  // For each device, the computation of the results of a call that runs there. The results are not
  // needed before the call ends.
  std::deque<early_work> early_;
  std::vector<std::uint64_t> library_kernels_;  // for each device, kernels of its calls so far
  std::vector<std::function<void(std::uint32_t, picoseconds)>> marks_;
  std::vector<task_id> running_kernel_;           // for each device, the task of its running kernel
  std::vector<tracked_launch*> running_tracked_;  // the last tracked launch on each device
  std::vector<std::vector<std::uint64_t>> iteration_work_;  // [iteration][device]
  // The value of each device's gpu::work() when the device's last kernel ended.
  std::vector<std::uint64_t> worked_;
  // the index is kind * GPUs + device; the kinds are engines, agents and descriptor units
  std::vector<lane> lanes_;
  std::vector<launcher> launchers_;  // one for each device
  std::atomic<std::uint64_t> unfinished_ = 0;
  std::uint32_t threads_ = 1;
  crew* helpers_ = nullptr;  // the other threads of the current run, if there are any
  trace::sink* log_ = nullptr;
  std::uint32_t logged_launches_ = 0;
  bool failed_ = false;
  activity activity_;
  picoseconds ended_ = 0;          // the time when the last run ended
  std::vector<sent_counts> sent_;  // for each device, the data that it sent
  std::size_t timeline_limit_ = 0;
  std::vector<std::vector<kernel::timeline_event>> timelines_;  // for each device, its events
  picoseconds timeline_start_ = 0;

  // Whether a task of the next run follows a task of another device, or writes another device's
  // memory.
  bool crossing_ = false;
  bool apart_ = false;  // whether threads may handle events of different devices
  // A device's state in a stretch of time in which devices run apart.
  struct alignas(64) device_run {
    std::uint64_t handled = 0;  // number of events that were handled in the stretch
    picoseconds ended = 0;      // time of the last event that counts for the length of the run
    std::exception_ptr failed;
  };
  std::vector<device_run> ended_at_;   // for each device, its state in the current stretch
  std::vector<std::uint32_t> active_;  // devices with events in the stretch
  picoseconds stretch_end_ = 0;
  std::uint64_t handled_ = 0;  // number of events of all devices in the last stretch
  // Three numbers in one word: stretch << 32 | devices << 16 | devices that threads have claimed.
  std::atomic<std::uint64_t> claims_ = 0;
  // The number of devices that have not reached the end of the stretch.
  std::atomic<std::uint32_t> left_ = 0;
};

}  // namespace interlace::sim
