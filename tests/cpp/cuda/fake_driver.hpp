// A CUDA driver on host memory, for the tests of the copy engine.
//
// Enqueued work becomes a graph of operations. An operation runs only after the operations that
// CUDA promises to run before it: the previous operation of its stream, and each event for which
// its stream waits. Work on the legacy stream and work on blocking streams also wait for each
// other. Here, only copies, memsets and kernels count as work, because a wait alone did not delay
// other streams on real drivers.
//
// Operations run in a seeded order. The order is legal but adversarial: for example, nothing runs
// until a call waits, or the latest operation runs first. A copy takes time: half of it happens
// when it starts and half when it ends, and other operations can run in between. The driver reports
// an error if two unordered copies touch the same bytes and one of them writes, even if the bytes
// are right at the end. It also reports calls that CUDA would refuse, and calls that would be slow.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/fake_blocks.hpp"
#include "cuda/fake_reduction.hpp"
#include "cuda/transfer/driver_table.hpp"
#include "fake_pages.hpp"

namespace interlace::fake {

inline constexpr int injected_failure = 999;
inline constexpr int refused = cuda::driver_result::invalid_value;
inline constexpr int capture_unsupported = 900;

enum class kind : std::uint8_t { gpu, pinned, pageable, managed, virtual_gpu, pool_gpu };

class driver {
 public:
  // Only one driver can exist at a time.
  driver(int gpus, std::uint64_t seed) : random_(seed), gpus_(static_cast<std::size_t>(gpus)) {
    current_ = this;
    mode_ = static_cast<int>(random_() % 4);
    for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      gpus_[gpu].number = static_cast<int>(gpu);
      gpus_[gpu].peers.resize(gpus_.size(), false);
      gpus_[gpu].legacy = new_stream(gpus_[gpu], true);
    }
    make_table();
    stack().clear();
  }
  ~driver() { current_ = nullptr; }
  driver(const driver&) = delete;
  driver& operator=(const driver&) = delete;

  const cuda::driver_table& table() const { return table_; }
  CUctx_st* context(int gpu) { return handle<CUctx_st>(&gpus_.at(static_cast<std::size_t>(gpu))); }

  // Returns memory that is filled with a pattern that no test writes.
  std::uint8_t* memory(kind what, int gpu, std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    return reinterpret_cast<std::uint8_t*>(new_block(what, gpu, bytes));
  }
  // Frees the memory and allocates the same size again. The new memory gets the same address. No
  // operation may use the memory at this time.
  void allocate_again(const void* memory) {
    const std::lock_guard lock(mutex_);
    block* at = block_at(reinterpret_cast<cuda::device_address>(memory));
    std::memset(reinterpret_cast<void*>(at->base), 0xCD, at->bytes);
    at->id = ++ids_;
  }
  // Makes the driver refuse each executable until all nodes of the executable have been set again.
  void make_stale() {
    const std::lock_guard lock(mutex_);
    for (auto& one : executables_)
      for (node& each : one->nodes) each.from_id = 0;
  }
  // Gives another GPU access to memory. Virtual memory and pools need this call.
  void give_access(const void* memory, int gpu) {
    const std::lock_guard lock(mutex_);
    block_at(reinterpret_cast<cuda::device_address>(memory))->access.insert(gpu);
  }
  CUstream_st* stream(int gpu, bool blocking) {
    const std::lock_guard lock(mutex_);
    return handle<CUstream_st>(new_stream(gpus_.at(static_cast<std::size_t>(gpu)), blocking));
  }

  void begin_capture(CUstream_st* on) {
    const std::lock_guard lock(mutex_);
    stream_of(on)->invalidated = false;
    stream_of(on)->capturing = graphs_.emplace_back(std::make_unique<graph>()).get();
    stream_of(on)->front.clear();
    ++captures_;
  }
  CUgraph_st* end_capture(CUstream_st* on) {
    const std::lock_guard lock(mutex_);
    --captures_;
    return handle<CUgraph_st>(std::exchange(stream_of(on)->capturing, nullptr));
  }

  // Runs all operations.
  void synchronize() {
    const std::lock_guard lock(mutex_);
    while (step()) {
    }
  }
  // Makes calls of `function` fail: the `from`-th call from now (1 is the next call), and the
  // `times` - 1 calls after it.
  void fail(const std::string& function, int from, int times) {
    const std::lock_guard lock(mutex_);
    failing_[function] = {from, times};
  }
  void forbid_memory(bool forbidden) { no_memory_ = forbidden; }
  // Makes every call of these functions fail with this probability.
  void fail_at_random(std::set<std::string> functions, double probability) {
    const std::lock_guard lock(mutex_);
    unreliable_ = std::move(functions);
    failure_rate_ = probability;
  }
  // Returns the physical memory and its mappings to reserved addresses. No other thread may call
  // the driver at the same time.
  pages& virtual_memory() { return pages_; }
  // Returns how many ranges of host memory are registered now.
  std::size_t registrations() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(
        blocks_.begin(), blocks_.end(),
        [](const auto& one) { return one.second.what == kind::pinned && !one.second.storage; }));
  }
  // Makes the driver act as if the images were compiled for other GPUs, or by a version of CUDA
  // later than `version`.
  void refuse_kernels(int version) {
    foreign_kernels_ = true;
    table_.version = version;
  }

  std::vector<std::string> errors() {
    const std::lock_guard lock(mutex_);
    return errors_;
  }
  // Returns how many kernels for blocks were launched on a GPU.
  int block_kernels(int gpu) {
    const std::lock_guard lock(mutex_);
    return block_kernels_[gpu];
  }
  std::uint64_t calls(const std::string& function) {
    const std::lock_guard lock(mutex_);
    return calls_[function];
  }
  std::uint64_t all_calls() {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (const auto& [name, count] : calls_) sum += count;
    return sum;
  }
  void run_nothing_unasked() { mode_ = 3; }
  std::size_t live_user_objects() const { return user_objects_; }
  int live_modules() const { return modules_; }

 private:
  struct op;
  using op_ptr = std::shared_ptr<op>;
  struct range {
    cuda::device_address begin = 0;
    std::uint64_t bytes = 0;
    bool written = false;
  };
  struct op {
    bool is_copy = false;
    cuda::device_address to = 0, from = 0;
    std::uint64_t bytes = 0;
    std::shared_ptr<reduction> kernel;  // null if the operation is not a kernel
    std::vector<std::uint8_t> result;   // copied to the kernel's output at the end of the kernel
    // Null if the operation is not a kernel that copies blocks.
    std::shared_ptr<block_kernel> blocks;
    std::vector<op_ptr> behind;
    bool begun = false, done = false;
    std::uint64_t rank = 0;
  };
  struct device;
  struct node {
    cuda::memcpy_3d run;
    std::shared_ptr<reduction> kernel;  // the node runs this kernel instead of a copy
    std::shared_ptr<block_kernel> blocks;
    std::vector<node*> behind;
    CUctx_st* context = nullptr;
    // The ids of the source and destination memory at the time when the node was set.
    std::uint64_t from_id = 0, to_id = 0;
  };
  struct user_object {
    void* data = nullptr;
    void (*destroy)(void*) = nullptr;
    std::size_t references = 0;
  };
  struct graph {
    std::vector<std::unique_ptr<node>> nodes;
    std::vector<user_object*> owned;
  };
  struct executable {
    std::vector<node> nodes;  // copies of the graph's nodes
    std::vector<const node*> origin;
    std::vector<user_object*> owned;
    op_ptr last;
  };
  struct stream_state {
    device* of = nullptr;
    bool blocking = false;
    std::uint64_t id = 0;
    op_ptr last;
    op_ptr last_work;
    graph* capturing = nullptr;
    bool invalidated = false;  // the capture is invalid
    std::vector<node*> front;
    std::uint64_t rank = 0;
  };
  struct device {
    int number = 0;
    std::vector<bool> peers;
    stream_state* legacy = nullptr;
  };
  struct event {
    device* of = nullptr;
    op_ptr at;
  };
  struct block {
    cuda::device_address base = 0;
    std::uint64_t bytes = 0;
    kind what = kind::gpu;
    int gpu = 0;
    std::uint64_t id = 0;
    std::set<int> access;
    bool own = false;  // whether the engine registered the memory
    std::unique_ptr<std::uint8_t[]> storage;
  };

  template <class Handle, class Object>
  static Handle* handle(Object* object) {
    return reinterpret_cast<Handle*>(object);
  }
  static std::vector<CUctx_st*>& stack() {
    thread_local std::vector<CUctx_st*> contexts;
    return contexts;
  }
  static bool& in_callback() {
    thread_local bool inside = false;
    return inside;
  }
  static int& capture_mode() {
    thread_local int mode = 0;
    return mode;
  }

  void error(const std::string& text) {
    if (errors_.size() < 20) errors_.push_back(text);
  }
  static device* gpu_of(CUctx_st* context) { return reinterpret_cast<device*>(context); }
  device* current_gpu() { return stack().empty() ? nullptr : gpu_of(stack().back()); }
  stream_state* stream_of(CUstream_st* asked) {
    const auto number = reinterpret_cast<std::uintptr_t>(asked);
    if (number > 2) return reinterpret_cast<stream_state*>(asked);
    device* on = current_gpu();
    if (on == nullptr) return nullptr;
    if (number != cuda::per_thread_stream) return on->legacy;
    stream_state*& own = per_thread_[{std::this_thread::get_id(), on->number}];
    if (own == nullptr) own = new_stream(*on, true);
    return own;
  }
  void set(node& changed, const cuda::memcpy_3d& run) {
    changed.run = run;
    const block* from = block_at(run.from_device);
    const block* to = block_at(run.to_device);
    changed.from_id = from == nullptr ? 0 : from->id;
    changed.to_id = to == nullptr ? 0 : to->id;
  }
  bool stale(const node& one) {
    if (one.kernel || one.blocks) return false;
    const block* from = block_at(one.run.from_device);
    const block* to = block_at(one.run.to_device);
    return from == nullptr || to == nullptr || from->id != one.from_id || to->id != one.to_id;
  }
  // Whether the call ends a capture of the stream. A call ends a capture if real drivers do not
  // support the call during a capture.
  bool ends_capture(CUstream_st* on, const char* function) {
    stream_state* stream = stream_of(on);
    if (stream == nullptr || stream->capturing == nullptr) return false;
    stream->invalidated = true;
    error(std::string(function) + " ends the capture of its stream");
    return true;
  }
  stream_state* new_stream(device& of, bool blocking) {
    auto made = std::make_unique<stream_state>();
    made->of = &of;
    made->blocking = blocking;
    made->id = ++ids_;
    made->rank = random_() % 4;
    return streams_.emplace_back(std::move(made)).get();
  }
  cuda::device_address new_block(kind what, int gpu, std::uint64_t bytes) {
    block made;
    made.storage = std::make_unique<std::uint8_t[]>(bytes + 512);
    std::memset(made.storage.get(), 0xCD, bytes + 512);
    made.base = (reinterpret_cast<cuda::device_address>(made.storage.get()) + 255) / 256 * 256;
    made.bytes = bytes;
    made.what = what;
    made.gpu = gpu;
    made.id = ++ids_;
    made.access.insert(gpu);
    const auto base = made.base;
    blocks_.emplace(base, std::move(made));
    return base;
  }
  block* block_at(cuda::device_address address) {
    auto found = blocks_.upper_bound(address);
    if (found == blocks_.begin()) return nullptr;
    --found;
    return address < found->second.base + found->second.bytes ? &found->second : nullptr;
  }

  // --- running ---

  static bool overlap(const range& one, const range& other) {
    return one.begin < other.begin + other.bytes && other.begin < one.begin + one.bytes;
  }
  static std::vector<range> touched(const op& one) {
    if (one.blocks) {
      std::vector<range> all;
      for (const block_kernel::copy& each : one.blocks->copies()) {
        all.push_back({each.to, each.bytes, true});
        all.push_back({each.from, each.bytes, false});
      }
      return all;
    }
    if (one.kernel) {
      std::vector<range> all{{one.kernel->what.out, one.kernel->bytes(), true}};
      for (std::uint32_t at = 0; at < one.kernel->what.inputs; ++at)
        all.push_back({one.kernel->what.in[at], one.kernel->bytes(), false});
      return all;
    }
    if (!one.is_copy) return {};
    return {{one.to, one.bytes, true}, {one.from, one.bytes, false}};
  }
  static bool conflict(const op& one, const op& other) {
    const auto moves = [](const op& each) { return each.kernel || each.is_copy || each.blocks; };
    if (!moves(one) || !moves(other)) return false;
    const auto theirs_all = touched(other);
    for (const range& mine : touched(one))
      for (const range& theirs : theirs_all)
        if ((mine.written || theirs.written) && overlap(mine, theirs)) return true;
    return false;
  }
  static bool runs_behind(const op_ptr& later, const op* earlier, std::set<const op*>& seen) {
    for (const op_ptr& one : later->behind) {
      if (one.get() == earlier) return true;
      if (!one->done && seen.insert(one.get()).second && runs_behind(one, earlier, seen))
        return true;
    }
    return false;
  }
  static bool ready(const op& one) {
    return std::all_of(one.behind.begin(), one.behind.end(),
                       [](const op_ptr& on) { return on->done; });
  }
  static void move(const op& one, bool second) {
    const std::uint64_t half = one.bytes / 2;
    auto* to = reinterpret_cast<std::uint8_t*>(one.to);
    const auto* from = reinterpret_cast<const std::uint8_t*>(one.from);
    if (second)
      std::memcpy(to + half, from + half, one.bytes - half);
    else
      std::memcpy(to, from, half);
  }
  // The kernel moves the second half of its blocks when it ends.
  void move(const block_kernel& kernel, bool second) {
    const auto all = kernel.copies();
    const std::size_t half = all.size() / 2;
    for (std::size_t at = second ? half : 0; at < (second ? all.size() : half); ++at) {
      const block_kernel::copy& one = all[at];
      if (block_at(one.to) != nullptr && block_at(one.from) != nullptr)
        std::memcpy(reinterpret_cast<void*>(one.to), reinterpret_cast<const void*>(one.from),
                    one.bytes);
    }
  }
  void begin(const op_ptr& one) {
    for (const op_ptr& other : pending_) {
      if (other == one || !conflict(*one, *other)) continue;
      std::set<const op*> seen;
      if (other->begun || !runs_behind(other, one.get(), seen))
        error("two copies touch the same bytes, and neither runs after the other");
    }
    const auto all = touched(*one);
    if (std::any_of(all.begin(), all.end(),
                    [&](const range& each) { return block_at(each.begin) == nullptr; }))
      error("a copy runs on memory that was freed");
    else if (one->blocks)
      move(*one->blocks, false);
    else if (one->kernel)
      one->result = one->kernel->computed();
    else
      move(*one, false);
    one->begun = true;
  }
  void end(const op_ptr& one) {
    if (one->kernel && block_at(one->kernel->what.out) != nullptr)
      std::memcpy(reinterpret_cast<void*>(one->kernel->what.out), one->result.data(),
                  one->result.size());
    if (one->blocks) move(*one->blocks, true);
    if (one->is_copy && block_at(one->to) != nullptr && block_at(one->from) != nullptr)
      move(*one, true);
    one->done = true;
    one->behind.clear();
    std::erase(pending_, one);
  }
  // Starts or ends one operation. Returns false if nothing is left.
  bool step() {
    if (pending_.empty()) return false;
    std::vector<op_ptr> able;
    for (const op_ptr& one : pending_)
      if (one->begun || ready(*one)) able.push_back(one);
    if (able.empty()) {
      error("pending operations wait for each other in a cycle");
      pending_.clear();
      return false;
    }
    op_ptr chosen = able[random_() % able.size()];
    if (mode_ == 1) chosen = able.back();
    if (mode_ == 2)
      chosen = *std::max_element(able.begin(), able.end(), [](const auto& one, const auto& other) {
        return one->rank < other->rank;
      });
    if ((chosen->is_copy || chosen->kernel || chosen->blocks) && !chosen->begun)
      begin(chosen);
    else
      end(chosen);
    return true;
  }
  void finish(const op_ptr& one) {
    while (one && !one->done && step()) {
    }
  }
  // Lets time pass. Every call lets time pass, except in the mode in which nothing runs until a
  // call waits.
  void pass() {
    if (mode_ == 3) return;
    for (std::uint64_t steps = random_() % 4; steps > 0; --steps) step();
  }

  op_ptr enqueue(stream_state& on, op made, bool work) {
    auto one = std::make_shared<op>(std::move(made));
    if (on.last) one->behind.push_back(on.last);
    if (work && on.blocking)
      for (const auto& other : streams_) {
        const bool legacy = other.get() == other->of->legacy || &on == on.of->legacy;
        if (other.get() != &on && other->of == on.of && other->blocking && legacy &&
            other->last_work)
          one->behind.push_back(other->last_work);
      }
    one->rank = on.rank;
    on.last = one;
    if (work) on.last_work = one;
    pending_.push_back(one);
    return one;
  }
  // Checks that a stream of this GPU can copy to or from the address without a detour through the
  // host.
  void check_reach(const device& on, cuda::device_address address, std::uint64_t bytes) {
    const block* at = block_at(address);
    if (at == nullptr || address + bytes > at->base + at->bytes) {
      error("a copy reaches outside of its memory");
      return;
    }
    if (at->what == kind::gpu && at->gpu != on.number &&
        !on.peers[static_cast<std::size_t>(at->gpu)])
      error("a copy between GPUs without peer access");
    if ((at->what == kind::virtual_gpu || at->what == kind::pool_gpu) &&
        !at->access.contains(on.number))
      error("a copy of memory to which its GPU has no access");
  }

  static std::shared_ptr<reduction> kernel_of(CUfunc_st* function, void** parameters) {
    const auto& [gpu, name] = *reinterpret_cast<std::pair<device*, std::string>*>(function);
    return std::make_shared<reduction>(
        gpu->number, name, *static_cast<const cuda::reduction_arguments*>(parameters[0]));
  }
  static bool kernels_reach(const device& on, const block& memory) {
    switch (memory.what) {
      case kind::pinned:
        return true;
      case kind::gpu:
        return memory.gpu == on.number || on.peers[static_cast<std::size_t>(memory.gpu)];
      case kind::virtual_gpu:
      case kind::pool_gpu:
        return memory.gpu == on.number || memory.access.contains(on.number);
      case kind::pageable:
      case kind::managed:
        break;
    }
    return false;
  }
  // Returns the block kernel that a launch or a node names, or null if the launch or node names
  // another kernel.
  std::shared_ptr<block_kernel> blocks_of(CUfunc_st* function, void** parameters, unsigned grid,
                                          unsigned threads, unsigned shared_bytes) {
    const auto& [gpu, name] = *reinterpret_cast<std::pair<device*, std::string>*>(function);
    if (!block_kernel::is(name)) return nullptr;
    auto made = std::make_shared<block_kernel>(
        gpu->number, name, *static_cast<const cuda::block_arguments*>(parameters[0]));
    if (const std::string text = made->mistake(grid, threads, shared_bytes); !text.empty())
      error(text);
    for (const block_kernel::copy& one : made->copies())
      for (const cuda::device_address begin : {one.to, one.from}) {
        const block* of = block_at(begin);
        if (one.bytes == 0) continue;
        if (of == nullptr || begin + one.bytes > of->base + of->bytes)
          error("a block reaches outside of its memory");
        else if (!kernels_reach(*gpu, *of))
          error("a block lies in memory that the kernel's GPU cannot use");
      }
    ++block_kernels_[gpu->number];
    return made;
  }
  // Checks that a kernel runs on its GPU and uses only memory of that GPU.
  void check_kernel(const reduction& one) {
    const cuda::reduction_arguments& what = one.what;
    for (std::uint32_t at = 0; at <= what.inputs; ++at) {
      const cuda::device_address begin = at == what.inputs ? what.out : what.in[at];
      const block* of = block_at(begin);
      if (of == nullptr || begin + one.bytes() > of->base + of->bytes)
        error("a kernel reaches outside of its memory");
      else if (of->what == kind::pageable || of->what == kind::pinned || of->gpu != one.gpu)
        error("a kernel uses memory of another device");
      if (begin % (what.vectors == 0 ? one.width : 16) != 0)
        error("a kernel's address is not aligned");
    }
  }

  // --- the calls ---

  template <class Function>
  static int call(const char* name, Function&& body, bool unsafe = false) {
    driver* self = current_;
    if (self == nullptr) return cuda::driver_result::deinitialized;
    const std::lock_guard lock(self->mutex_);
    if (in_callback())
      self->error(std::string(name) + " is called inside a callback of the driver");
    ++self->calls_[name];
    if (unsafe && self->captures_ > 0 && capture_mode() != cuda::capture_mode_relaxed)
      self->error(std::string(name) + " would end a capture");
    if (const auto found = self->failing_.find(name); found != self->failing_.end()) {
      auto& [from, times] = found->second;
      if (--from <= 0 && times-- > 0) return injected_failure;
    }
    if (self->failure_rate_ > 0 && self->unreliable_.contains(name) &&
        std::uniform_real_distribution<double>(0, 1)(self->random_) < self->failure_rate_)
      return injected_failure;
    self->pass();
    return body(*self);
  }
  bool used_by_pending(cuda::device_address begin, std::uint64_t bytes) const {
    for (const op_ptr& one : pending_)
      for (const range& each : touched(*one))
        if (overlap(each, {begin, bytes, true})) return true;
    return false;
  }
  // Adds an allocation of memory that the driver does not own.
  void add_block(kind what, int gpu, cuda::device_address base, std::uint64_t bytes) {
    block made;
    made.base = base;
    made.bytes = bytes;
    made.what = what;
    made.gpu = gpu;
    made.id = ++ids_;
    made.own = true;
    blocks_.emplace(base, std::move(made));
  }

  void make_table();
  void make_memory_table();
  int attribute(int which, void* into, cuda::device_address address);
  void release(user_object* object) {
    if (--object->references > 0) return;
    in_callback() = true;
    object->destroy(object->data);
    in_callback() = false;
    --user_objects_;
    delete object;
  }

  static inline driver* current_ = nullptr;
  std::recursive_mutex mutex_;
  std::mt19937_64 random_;
  int mode_ = 0;
  cuda::driver_table table_;
  std::vector<device> gpus_;
  std::vector<std::unique_ptr<stream_state>> streams_;
  std::map<std::pair<std::thread::id, int>, stream_state*> per_thread_;
  std::vector<std::unique_ptr<event>> events_;
  std::vector<std::unique_ptr<graph>> graphs_;
  std::vector<std::unique_ptr<executable>> executables_;
  std::map<cuda::device_address, block> blocks_;
  std::vector<op_ptr> pending_;
  std::uint64_t ids_ = 0;
  int captures_ = 0;
  bool no_memory_ = false;
  bool foreign_kernels_ = false;
  std::size_t user_objects_ = 0;
  int modules_ = 0;
  std::vector<std::unique_ptr<std::pair<device*, std::string>>> functions_;
  std::vector<std::string> errors_;
  std::map<std::string, std::uint64_t> calls_;
  std::map<int, int> block_kernels_;  // the key is the GPU
  std::map<std::string, std::pair<int, int>> failing_;
  std::set<std::string> unreliable_;
  double failure_rate_ = 0;
  pages pages_;
};

inline int driver::attribute(int which, void* into, cuda::device_address address) {
  const block* at = block_at(address);
  const bool known = at != nullptr && at->what != kind::pageable;
  const bool on_gpu = known && at->what != kind::pinned;
  const auto put = [&](auto value) { std::memcpy(into, &value, sizeof(value)); };
  switch (which) {
    case cuda::pointer_context:
      put(known && at->what != kind::virtual_gpu
              ? reinterpret_cast<void*>(&gpus_[static_cast<std::size_t>(at->gpu)])
              : nullptr);
      return 0;
    case cuda::pointer_memory_type:
      put(!known ? 0U : on_gpu ? 2U : 1U);
      return 0;
    case cuda::pointer_buffer_id:
      put(known ? std::uint64_t{at->id} : std::uint64_t{0});
      return 0;
    case cuda::pointer_is_managed:
      put(known && at->what == kind::managed ? 1U : 0U);
      return 0;
    case cuda::pointer_device:
      put(known ? at->gpu : -2);
      return 0;
    case cuda::pointer_is_plain:
      put(known && at->what == kind::gpu ? 1U : 0U);
      return 0;
    case cuda::pointer_pool:
      put(known && at->what == kind::pool_gpu ? static_cast<const void*>(at) : nullptr);
      return 0;
    case cuda::pointer_on_device:
      put(known ? address : cuda::device_address{0});
      return 0;
    case cuda::pointer_range_begin:
    case cuda::pointer_mapping_base:
      put(known ? at->base : cuda::device_address{0});
      return 0;
    case cuda::pointer_range_bytes:
    case cuda::pointer_mapping_bytes:
      put(known ? std::size_t{at->bytes} : std::size_t{0});
      return 0;
    default:
      return refused;
  }
}

inline void driver::make_memory_table() {
  using cuda::device_address;
  cuda::driver_table& t = table_;
  t.device_attribute = [](int* value, int, int) {
    *value = 1;
    return 0;
  };
  t.memory_info = [](std::size_t* free, std::size_t* total) {
    return call("memory_info", [&](driver& d) {
      *total = d.pages_.capacity;
      *free = *total - d.pages_.used(d.current_gpu()->number);
      return 0;
    });
  };
  t.context_synchronize = [] {
    return call(
        "context_synchronize",
        [](driver& d) {
          if (d.current_gpu() == nullptr) return cuda::driver_result::invalid_context;
          for (const auto& one : d.streams_)
            if (one->of == d.current_gpu()) d.finish(one->last);
          return 0;
        },
        true);
  };
  t.host_register = [](void* memory, std::size_t bytes, unsigned flags) {
    return call("host_register", [&](driver& d) {
      if (flags != cuda::host_memory_portable)
        d.error("host memory is page-locked for one context only");
      if (d.no_memory_) return cuda::driver_result::out_of_memory;
      if (d.current_gpu() == nullptr) return cuda::driver_result::invalid_context;
      d.add_block(kind::pinned, d.current_gpu()->number, reinterpret_cast<device_address>(memory),
                  bytes);
      return 0;
    });
  };
  t.host_unregister = [](void* memory) {
    return call("host_unregister", [&](driver& d) {
      const auto at = reinterpret_cast<device_address>(memory);
      if (d.current_gpu() == nullptr) return cuda::driver_result::invalid_context;
      if (d.blocks_.contains(at) && d.used_by_pending(at, d.blocks_.at(at).bytes))
        d.error("memory that a copy uses is unregistered");
      return d.blocks_.erase(at) == 0 ? refused : 0;
    });
  };
  t.granularity = [](std::size_t* bytes, const cuda::physical_properties*, int) {
    *bytes = pages::granularity;
    return 0;
  };
  t.reserve = [](device_address* made, std::size_t bytes, std::size_t, device_address,
                 unsigned long long) {
    return call("reserve", [&](driver& d) { return d.pages_.reserve(made, bytes); });
  };
  t.free_reserved = [](device_address at, std::size_t bytes) {
    return call("free_reserved", [&](driver& d) { return d.pages_.free_reserved(at, bytes); });
  };
  t.physical_create = [](cuda::physical_memory* made, std::size_t bytes,
                         const cuda::physical_properties* how, unsigned long long) {
    return call("physical_create",
                [&](driver& d) { return d.pages_.create(made, bytes, how->location.id); });
  };
  t.physical_release = [](cuda::physical_memory handle) {
    return call("physical_release", [&](driver& d) { return d.pages_.release(handle); });
  };
  t.map = [](device_address at, std::size_t bytes, std::size_t, cuda::physical_memory handle,
             unsigned long long) {
    return call("map", [&](driver& d) {
      const int result = d.pages_.map(at, bytes, handle);
      if (result == 0) d.add_block(kind::virtual_gpu, d.pages_.find(at)->gpu, at, bytes);
      return result;
    });
  };
  t.unmap = [](device_address at, std::size_t bytes) {
    return call("unmap", [&](driver& d) {
      if (d.used_by_pending(at, bytes)) d.error("memory that a copy uses is unmapped");
      d.blocks_.erase(at);
      return d.pages_.unmap(at, bytes);
    });
  };
  t.set_access = [](device_address at, std::size_t bytes, const cuda::access_description* users,
                    std::size_t count) {
    return call("set_access", [&](driver& d) {
      for (std::size_t k = 0; k < count; ++k) d.blocks_.at(at).access.insert(users[k].location.id);
      return d.pages_.set_access(at, bytes);
    });
  };
}

inline void driver::make_table() {
  using cuda::device_address;
  make_memory_table();
  cuda::driver_table& t = table_;
  t.error_name = [](int, const char** name) {
    *name = "FAKE";
    return 0;
  };
  t.device_name = [](char* name, int length, int) {
    std::snprintf(name, static_cast<std::size_t>(length), "GPU of tests");
    return 0;
  };
  t.device_count = [](int* count) {
    return call("device_count", [&](driver& d) {
      *count = static_cast<int>(d.gpus_.size());
      return 0;
    });
  };
  t.can_access_peer = [](int* can, int, int) {
    return call("can_access_peer", [&](driver&) {
      *can = 1;
      return 0;
    });
  };
  t.primary_retain = [](CUctx_st** made, int gpu) {
    return call("primary_retain", [&](driver& d) {
      *made = d.context(gpu);
      return 0;
    });
  };
  t.primary_release = [](int) { return 0; };
  t.primary_state = [](int, unsigned* flags, int* active) {
    *flags = 0;
    *active = 1;
    return 0;
  };
  t.push = [](CUctx_st* context) {
    return call("push", [&](driver& d) {
      if (context == nullptr) d.error("a null context is pushed");
      stack().push_back(context);
      return 0;
    });
  };
  t.pop = [](CUctx_st** context) {
    return call("pop", [&](driver& d) {
      if (stack().empty()) {
        d.error("a context is popped from an empty stack");
        return refused;
      }
      *context = stack().back();
      stack().pop_back();
      return 0;
    });
  };
  t.current = [](CUctx_st** context) {
    *context = stack().empty() ? nullptr : stack().back();
    return 0;
  };
  t.current_gpu = [](int* gpu) {
    return call("current_gpu", [&](driver& d) {
      if (d.current_gpu() == nullptr) return cuda::driver_result::invalid_context;
      *gpu = d.current_gpu()->number;
      return 0;
    });
  };
  t.enable_peer = [](CUctx_st* other, unsigned) {
    return call("enable_peer", [&](driver& d) {
      device* on = d.current_gpu();
      auto peer = on->peers.begin() + gpu_of(other)->number;
      const bool had = *peer;
      *peer = true;
      return had ? cuda::driver_result::peer_access_already_enabled : 0;
    });
  };
  t.pointer_attributes = [](unsigned count, int* which, void** into, device_address address) {
    return call("pointer_attributes", [&](driver& d) {
      for (unsigned at = 0; at < count; ++at)
        if (const int result = d.attribute(which[at], into[at], address); result != 0)
          return result;
      return 0;
    });
  };
  t.allocate = [](device_address* made, std::size_t bytes) {
    return call(
        "allocate",
        [&](driver& d) {
          if (d.no_memory_) return cuda::driver_result::out_of_memory;
          *made = d.new_block(kind::gpu, d.current_gpu()->number, bytes);
          d.block_at(*made)->own = true;
          return 0;
        },
        true);
  };
  t.allocate_host = [](void** made, std::size_t bytes, unsigned flags) {
    return call(
        "allocate_host",
        [&](driver& d) {
          if (d.no_memory_) return cuda::driver_result::out_of_memory;
          if (flags != cuda::host_memory_portable)
            d.error("host memory is page-locked for one context only");
          *made =
              reinterpret_cast<void*>(d.new_block(kind::pinned, d.current_gpu()->number, bytes));
          d.block_at(reinterpret_cast<device_address>(*made))->own = true;
          return 0;
        },
        true);
  };
  t.free = [](device_address freed) {
    return call("free", [&](driver& d) {
      if (d.blocks_.contains(freed) && d.used_by_pending(freed, d.blocks_.at(freed).bytes))
        d.error("memory that a copy uses is freed");
      if (d.blocks_.erase(freed) == 0) d.error("memory that was not allocated is freed");
      return 0;
    });
  };
  t.free_host = [](void* freed) {
    return current_->table_.free(reinterpret_cast<device_address>(freed));
  };
  t.pool_access = [](int* flags, CUmemPoolHandle_st* pool, cuda::memory_location* place) {
    return call("pool_access", [&](driver&) {
      *flags = reinterpret_cast<const block*>(pool)->access.contains(place->id) ? 3 : 0;
      return 0;
    });
  };
  t.memory_access = [](unsigned long long* flags, const cuda::memory_location* place,
                       device_address address) {
    return call("memory_access", [&](driver& d) {
      const block* at = d.block_at(address);
      if (at == nullptr || at->what != kind::virtual_gpu) return refused;
      *flags = at->access.contains(place->id) ? 3 : 0;
      return 0;
    });
  };
  t.copy_batch = [](device_address* to, device_address* from, std::size_t* bytes, std::size_t count,
                    cuda::batch_attributes* how, std::size_t* first, std::size_t attributes,
                    std::size_t*, CUstream_st* on) {
    return call("copy_batch", [&](driver& d) {
      stream_state* stream = d.stream_of(on);
      if (stream == nullptr) return cuda::driver_result::invalid_context;
      // Real drivers refuse this call for captured streams and for the legacy default stream.
      if (stream->capturing != nullptr) stream->invalidated = true;
      if (stream->capturing != nullptr || stream == stream->of->legacy) return refused;
      if (count == 0 || attributes != 1 || first[0] != 0 || how->source_order != 1) return refused;
      op last;
      std::vector<op_ptr> all;
      const op_ptr before = stream->last;
      for (std::size_t at = 0; at < count; ++at) {
        if (bytes[at] == 0 || d.block_at(to[at]) == nullptr || d.block_at(from[at]) == nullptr)
          return refused;
        op made;
        made.is_copy = true;
        made.to = to[at];
        made.from = from[at];
        made.bytes = bytes[at];
        stream->last = before;  // the copies of a batch run in any order
        all.push_back(d.enqueue(*stream, std::move(made), true));
      }
      last.behind = all;
      d.enqueue(*stream, std::move(last), true);
      return 0;
    });
  };
  t.set_bytes = [](device_address to, unsigned char, std::size_t bytes, CUstream_st* on) {
    return call("set_bytes", [&](driver& d) {
      stream_state* stream = d.stream_of(on);
      if (stream == nullptr || stream->capturing != nullptr) return refused;
      d.check_reach(*stream->of, to, bytes);
      d.enqueue(*stream, {}, true);
      return 0;
    });
  };
  t.copy = [](device_address to, device_address from, std::size_t bytes, CUstream_st* on) {
    return call("copy", [&](driver& d) {
      stream_state* stream = d.stream_of(on);
      if (stream == nullptr) return cuda::driver_result::invalid_context;
      if (stream->invalidated) return capture_unsupported;
      if (stream->capturing != nullptr) {
        auto made = std::make_unique<node>();
        d.set(*made, cuda::contiguous_copy(to, from, bytes));
        made->behind = stream->front;
        made->context = handle<CUctx_st>(stream->of);
        stream->front.assign(1, made.get());
        stream->capturing->nodes.push_back(std::move(made));
        return 0;
      }
      const block* source = d.block_at(from);
      const block* target = d.block_at(to);
      if (source == nullptr || target == nullptr) return refused;
      if (source->own || target->own) {
        d.check_reach(*stream->of, to, bytes);
        d.check_reach(*stream->of, from, bytes);
      }
      op made;
      made.is_copy = true;
      made.to = to;
      made.from = from;
      made.bytes = bytes;
      const op_ptr one = d.enqueue(*stream, std::move(made), true);
      if (source->what == kind::pageable || target->what == kind::pageable) d.finish(one);
      return 0;
    });
  };
  t.module_load = [](CUmod_st** made, const void* image) {
    return call(
        "module_load",
        [&](driver& d) {
          if (image == nullptr) d.error("a module is loaded from a null image");
          if (d.foreign_kernels_) return cuda::driver_result::no_binary_for_gpu;
          ++d.modules_;
          *made = handle<CUmod_st>(d.current_gpu());
          return 0;
        },
        true);
  };
  t.module_unload = [](CUmod_st*) {
    return call("module_unload", [&](driver& d) {
      for (const op_ptr& one : d.pending_)
        if (one->kernel || one->blocks) d.error("a module is unloaded while its kernels run");
      --d.modules_;
      return 0;
    });
  };
  t.module_function = [](CUfunc_st** made, CUmod_st* of, const char* name) {
    return call("module_function", [&](driver& d) {
      auto* const gpu = reinterpret_cast<device*>(of);
      d.functions_.push_back(std::make_unique<std::pair<device*, std::string>>(gpu, name));
      *made = handle<CUfunc_st>(d.functions_.back().get());
      return 0;
    });
  };
  t.launch = [](CUfunc_st* function, unsigned grid, unsigned, unsigned, unsigned threads, unsigned,
                unsigned, unsigned shared_bytes, CUstream_st* on, void** parameters, void**) {
    return call("launch", [&](driver& d) {
      stream_state* stream = d.stream_of(on);
      if (stream == nullptr) return cuda::driver_result::invalid_context;
      op made;
      made.blocks = d.blocks_of(function, parameters, grid, threads, shared_bytes);
      if (made.blocks) {
        if (stream->invalidated) return capture_unsupported;
        if (made.blocks->gpu != stream->of->number)
          d.error("a kernel is launched on a stream of another GPU");
        if (stream->capturing != nullptr) {
          auto captured = std::make_unique<node>();
          captured->blocks = made.blocks;
          captured->behind = stream->front;
          stream->front.assign(1, captured.get());
          stream->capturing->nodes.push_back(std::move(captured));
          return 0;
        }
        d.enqueue(*stream, std::move(made), true);
        return 0;
      }
      if (stream->capturing != nullptr) return refused;
      made.kernel = kernel_of(function, parameters);
      if (made.kernel->gpu != stream->of->number)
        d.error("a kernel is launched on a stream of another GPU");
      d.check_kernel(*made.kernel);
      d.enqueue(*stream, std::move(made), true);
      return 0;
    });
  };
  t.graph_add_kernel = [](CUgraphNode_st** into, CUgraph_st* to, CUgraphNode_st* const* behind,
                          std::size_t count, const cuda::kernel_node* what) {
    return call("graph_add_kernel", [&](driver& d) {
      auto made = std::make_unique<node>();
      made->kernel = kernel_of(what->function, what->parameters);
      d.check_kernel(*made->kernel);
      auto* const* nodes = reinterpret_cast<node* const*>(behind);
      made->behind.assign(nodes, nodes + count);
      *into = handle<CUgraphNode_st>(made.get());
      reinterpret_cast<graph*>(to)->nodes.push_back(std::move(made));
      return 0;
    });
  };
  t.stream_create = [](CUstream_st** made, unsigned flags) {
    return call("stream_create", [&](driver& d) {
      if (flags != cuda::stream_non_blocking) d.error("the engine makes a blocking stream");
      *made = handle<CUstream_st>(d.new_stream(*d.current_gpu(), false));
      return 0;
    });
  };
  t.stream_destroy = [](CUstream_st*) { return call("stream_destroy", [](driver&) { return 0; }); };
  t.stream_synchronize = [](CUstream_st* on) {
    return call(
        "stream_synchronize",
        [&](driver& d) {
          d.finish(d.stream_of(on)->last);
          return 0;
        },
        true);
  };
  t.stream_wait = [](CUstream_st* on, CUevent_st* asked, unsigned) {
    return call("stream_wait", [&](driver& d) {
      const auto* found = reinterpret_cast<event*>(asked);
      if (d.stream_of(on)->capturing != nullptr) return refused;
      op made;
      if (found->at)
        made.behind.push_back(found->at);
      else
        d.error("a stream waits for an event that was never recorded");
      d.enqueue(*d.stream_of(on), std::move(made), false);
      return 0;
    });
  };
  t.stream_context = [](CUstream_st* on, CUctx_st** context) {
    return call("stream_context", [&](driver& d) {
      const stream_state* stream = d.stream_of(on);
      if (stream == nullptr) return cuda::driver_result::invalid_context;
      *context = handle<CUctx_st>(stream->of);
      return 0;
    });
  };
  t.stream_id = [](CUstream_st* on, unsigned long long* id) {
    return call("stream_id", [&](driver& d) {
      if (d.ends_capture(on, "stream_id")) return capture_unsupported;
      const auto number = reinterpret_cast<std::uintptr_t>(on);
      *id = number <= 2 ? std::max<std::uintptr_t>(number, 1) : d.stream_of(on)->id;
      return 0;
    });
  };
  t.stream_flags = [](CUstream_st* on, unsigned* flags) {
    return call("stream_flags", [&](driver& d) {
      if (d.ends_capture(on, "stream_flags")) return capture_unsupported;
      *flags = d.stream_of(on)->blocking ? 0 : cuda::stream_non_blocking;
      return 0;
    });
  };
  t.capture_info = [](CUstream_st* on, int* status, unsigned long long* id, CUgraph_st** into,
                      CUgraphNode_st* const** front, std::size_t* count) {
    return call("capture_info", [&](driver& d) {
      stream_state* stream = d.stream_of(on);
      if (stream == nullptr) return cuda::driver_result::invalid_context;
      *status = stream->capturing != nullptr ? cuda::capture_active : cuda::capture_none;
      *id = 1;
      *into = handle<CUgraph_st>(stream->capturing);
      *front = reinterpret_cast<CUgraphNode_st* const*>(stream->front.data());
      *count = stream->front.size();
      return 0;
    });
  };
  t.capture_depend = [](CUstream_st* on, CUgraphNode_st** front, std::size_t count,
                        unsigned flags) {
    return call("capture_depend", [&](driver& d) {
      if (flags != cuda::capture_set_dependencies)
        d.error("dependencies of the capture are added, but must be set");
      auto** nodes = reinterpret_cast<node**>(front);
      d.stream_of(on)->front.assign(nodes, nodes + count);
      return 0;
    });
  };
  t.exchange_capture_mode = [](int* mode) {
    std::swap(*mode, capture_mode());
    return 0;
  };
  t.event_create = [](CUevent_st** made, unsigned) {
    return call("event_create", [&](driver& d) {
      auto& one = d.events_.emplace_back(std::make_unique<event>());
      one->of = d.current_gpu();
      *made = handle<CUevent_st>(one.get());
      return 0;
    });
  };
  t.event_destroy = [](CUevent_st*) { return call("event_destroy", [](driver&) { return 0; }); };
  t.event_record = [](CUevent_st* asked, CUstream_st* on) {
    return call("event_record", [&](driver& d) {
      auto* one = reinterpret_cast<event*>(asked);
      stream_state* stream = d.stream_of(on);
      if (stream->capturing != nullptr) return refused;
      if (one->of != stream->of)
        d.error("an event of one GPU is recorded on a stream of another GPU");
      one->at = d.enqueue(*stream, {}, false);
      return 0;
    });
  };
  t.event_query = [](CUevent_st* asked) {
    return call(
        "event_query",
        [&](driver&) {
          const auto* one = reinterpret_cast<event*>(asked);
          return !one->at || one->at->done ? 0 : cuda::driver_result::not_ready;
        },
        true);
  };
  t.event_synchronize = [](CUevent_st* asked) {
    return call(
        "event_synchronize",
        [&](driver& d) {
          d.finish(reinterpret_cast<event*>(asked)->at);
          return 0;
        },
        true);
  };
  t.graph_create = [](CUgraph_st** made, unsigned) {
    return call("graph_create", [&](driver& d) {
      *made = handle<CUgraph_st>(d.graphs_.emplace_back(std::make_unique<graph>()).get());
      return 0;
    });
  };
  t.graph_destroy = [](CUgraph_st* ended) {
    return call("graph_destroy", [&](driver& d) {
      auto* one = reinterpret_cast<graph*>(ended);
      for (user_object* object : one->owned) d.release(object);
      one->owned.clear();
      return 0;
    });
  };
  t.graph_add_copy = [](CUgraphNode_st** into, CUgraph_st* to, CUgraphNode_st* const* behind,
                        std::size_t count, const cuda::memcpy_3d* run, CUctx_st* context) {
    return call("graph_add_copy", [&](driver& d) {
      if (run->height != 1 || run->depth != 1 || run->width_bytes == 0 ||
          run->width_bytes >= (std::size_t{1} << 31U))
        d.error("a node copies more than one contiguous range of bytes");
      d.check_reach(*gpu_of(context), run->to_device, run->width_bytes);
      d.check_reach(*gpu_of(context), run->from_device, run->width_bytes);
      auto made = std::make_unique<node>();
      d.set(*made, *run);
      auto* const* nodes = reinterpret_cast<node* const*>(behind);
      made->behind.assign(nodes, nodes + count);
      made->context = context;
      *into = handle<CUgraphNode_st>(made.get());
      reinterpret_cast<graph*>(to)->nodes.push_back(std::move(made));
      return 0;
    });
  };
  t.graph_instantiate = [](CUgraphExec_st** made, CUgraph_st* of, unsigned long long) {
    return call("graph_instantiate", [&](driver& d) {
      const auto* from = reinterpret_cast<graph*>(of);
      auto& one = d.executables_.emplace_back(std::make_unique<executable>());
      for (const auto& each : from->nodes) {
        one->nodes.push_back(*each);
        one->origin.push_back(each.get());
      }
      one->owned = from->owned;
      for (user_object* object : one->owned) ++object->references;
      *made = handle<CUgraphExec_st>(one.get());
      return 0;
    });
  };
  t.graph_exec_destroy = [](CUgraphExec_st* ended) {
    return call("graph_exec_destroy", [&](driver& d) {
      auto* one = reinterpret_cast<executable*>(ended);
      d.finish(one->last);
      for (user_object* object : one->owned) d.release(object);
      one->owned.clear();
      one->nodes.clear();
      return 0;
    });
  };
  t.graph_exec_set_copy = [](CUgraphExec_st* of, CUgraphNode_st* which, const cuda::memcpy_3d* run,
                             CUctx_st* context) {
    return call("graph_exec_set_copy", [&](driver& d) {
      auto* one = reinterpret_cast<executable*>(of);
      const auto found =
          std::find(one->origin.begin(), one->origin.end(), reinterpret_cast<const node*>(which));
      if (found == one->origin.end()) return refused;
      node& changed = one->nodes[static_cast<std::size_t>(found - one->origin.begin())];
      const auto place = [&](device_address address) {
        const block* at = d.block_at(address);
        return at == nullptr ? std::pair(kind::pageable, -1) : std::pair(at->what, at->gpu);
      };
      if (place(run->to_device) != place(changed.run.to_device) ||
          place(run->from_device) != place(changed.run.from_device) || context != changed.context)
        return refused;
      d.set(changed, *run);
      return 0;
    });
  };
  t.graph_launch = [](CUgraphExec_st* of, CUstream_st* on) {
    return call("graph_launch", [&](driver& d) {
      auto* one = reinterpret_cast<executable*>(of);
      stream_state* stream = d.stream_of(on);
      if (stream->capturing != nullptr) return refused;
      // Real drivers accept a graph of one node here.
      if (one->nodes.size() > 1 && std::any_of(one->nodes.begin(), one->nodes.end(),
                                               [&](const node& each) { return d.stale(each); }))
        return refused;
      std::set<const op*> seen;
      if (one->last && !one->last->done && one->last != stream->last &&
          (!stream->last || !runs_behind(stream->last, one->last.get(), seen)))
        d.error("an executable is launched while it may run for another stream");
      op made;
      if (one->last) made.behind.push_back(one->last);
      const op_ptr start = d.enqueue(*stream, std::move(made), false);
      std::map<const node*, op_ptr> run;
      op end_of;
      for (std::size_t at = 0; at < one->nodes.size(); ++at) {
        auto copy = std::make_shared<op>();
        copy->kernel = one->nodes[at].kernel;
        copy->blocks = one->nodes[at].blocks;
        copy->is_copy = !copy->kernel && !copy->blocks;
        copy->to = one->nodes[at].run.to_device;
        copy->from = one->nodes[at].run.from_device;
        copy->bytes = one->nodes[at].run.width_bytes;
        copy->behind.push_back(start);
        copy->rank = d.random_() % 4;
        for (const node* behind : one->nodes[at].behind) copy->behind.push_back(run.at(behind));
        run.emplace(one->origin[at], copy);
        d.pending_.push_back(copy);
        end_of.behind.push_back(copy);
      }
      one->last = d.enqueue(*stream, std::move(end_of), false);
      return 0;
    });
  };
  t.user_object_create = [](CUuserObject_st** made, void* data, void (*destroy)(void*),
                            unsigned references, unsigned) {
    return call("user_object_create", [&](driver& d) {
      auto* one = new user_object{data, destroy, references};
      ++d.user_objects_;
      *made = handle<CUuserObject_st>(one);
      return 0;
    });
  };
  t.user_object_release = [](CUuserObject_st* object, unsigned) {
    return call("user_object_release", [&](driver& d) {
      d.release(reinterpret_cast<user_object*>(object));
      return 0;
    });
  };
  t.graph_retain_user_object = [](CUgraph_st* by, CUuserObject_st* object, unsigned, unsigned) {
    return call("graph_retain_user_object", [&](driver&) {
      reinterpret_cast<graph*>(by)->owned.push_back(reinterpret_cast<user_object*>(object));
      return 0;
    });
  };
}

}  // namespace interlace::fake
