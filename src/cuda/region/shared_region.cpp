#include "cuda/region/shared_region.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/agreement.hpp"
#include "base/cut_text.hpp"
#include "cuda/mechanism/mechanisms.hpp"
#include "cuda/memory/pieces.hpp"
#include "cuda/region/agent.hpp"
#include "cuda/region/audit.hpp"
#include "cuda/region/failure.hpp"
#include "cuda/region/late_chunk.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "kernel/region_spec.hpp"

namespace interlace::cuda {

namespace {

constexpr std::uintptr_t alignment = 16;  // alignment of the agent's vectors

// Throws usage_error unless both buffers can hold the replica. Gives `peers` access to the buffers.
void check_memory(const region_memory& memory, std::uint64_t bytes, int ordinal,
                  const std::vector<int>& peers, const std::string& where) {
  for (const auto& [data, which] : {std::pair{memory.front, " front"}, {memory.back, " back"}}) {
    const std::string what = where + which;
    if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0) {
      throw usage_error(what + " does not begin at a multiple of " + std::to_string(alignment) +
                        " bytes");
    }
    grant_access(find_pieces(data, bytes, ordinal, what), peers);
  }
  const auto front = reinterpret_cast<std::uintptr_t>(memory.front);
  const auto back = reinterpret_cast<std::uintptr_t>(memory.back);
  if (front < back + bytes && back < front + bytes) {
    throw usage_error(where + " front and back overlap");
  }
}

constexpr std::size_t descriptors_at_once = 200;

// The region watches this many epochs. It does not know whether earlier epochs still run.
constexpr std::size_t watched_epochs = 64;

// The id of the capture in which the stream takes part, or 0 if there is no capture.
unsigned long long capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  INTERLACE_CUDA_CHECK(cudaStreamGetCaptureInfo(stream, &status, &id));
  return status == cudaStreamCaptureStatusNone ? 0 : id;
}

}  // namespace

shared_region::shared_region(std::shared_ptr<group_state> group, const region_spec& spec,
                             const std::vector<region_memory>& memory)
    : group_(std::move(group)),
      id_(group_->next_region()),
      label_(spec.name.empty() ? "region " + std::to_string(id_) : "region '" + spec.name + "'") {
  const std::vector<std::uint32_t>& mine = group_->local_devices();
  std::vector<kernel::launch_plan> plans;
  require_same(group_->agree([&] {
    group_->check();
    group_->require_queues();
    state_ = kernel::check_spec(spec, group_->devices(), label_);
    how_ = &mechanism_of_regions(state_.options.mechanism);
    for (const std::uint32_t d : mine) {
      plans.push_back(kernel::plan_launch(state_, spec, d, label_));
    }
    if (!memory.empty() && memory.size() != mine.size()) {
      throw usage_error(label_ + " gets memory for " + std::to_string(memory.size()) +
                        " devices, and this process has " + std::to_string(mine.size()));
    }
    return kernel::describe_spec(state_, spec);
  }),
               label_);

  const std::uint64_t bytes = state_.elements * state_.element_bytes;
  try {
    const std::vector<std::string> exported = group_->agree([&] {
      std::vector<int> ordinals;
      ordinals.reserve(mine.size());
      for (const std::uint32_t d : mine) ordinals.push_back(group_->ordinal(d));
      std::size_t words = 0;
      for (const auto& plan : plans) words += 1 + plan.chunks.size();
      static_assert(sizeof(wait_failure) % alignof(counter) == 0);
      host_ = std::make_unique<mapped_memory>(mine.size() * sizeof(wait_failure) +
                                              words * sizeof(counter) + sizeof(unsigned int));
      auto* seen = reinterpret_cast<counter*>(static_cast<std::byte*>(host_->data()) +
                                              mine.size() * sizeof(wait_failure));
      auto* one = reinterpret_cast<unsigned int*>(seen + words);
      *one = 1;
      one_ = one;
      for (std::size_t k = 0; k < mine.size(); ++k) {
        side& s = sides_.emplace_back();
        s.device = mine[k];
        s.ordinal = group_->ordinal(s.device);
        s.failure = static_cast<wait_failure*>(host_->data()) + k;
        s.chunks = std::move(plans[k].chunks);
        if (memory.empty()) {
          for (void*& b : state_.buffers[s.device]) b = take(s, bytes);
        } else {
          check_memory(memory[k], bytes, s.ordinal, ordinals,
                       label_ + " of device " + std::to_string(s.device) + ": the");
          state_.buffers[s.device] = {memory[k].front, memory[k].back};
        }
        s.tracking = make_tracking(memory_, s.ordinal, s.chunks, plans[k].announced, id_, state_,
                                   how_->waiter());
        if (s.tracking.table.flags != nullptr && !s.chunks.empty()) {
          s.targets.assign(plans[k].announced.targets.begin(), plans[k].announced.targets.end());
          s.seen = seen;
        }
        seen += 1 + s.chunks.size();
        make_side(s, spec);
      }
      return group_->is_shared() ? export_side(sides_.front()) : std::string();
    });
    (void)group_->agree([&] {
      for (std::uint32_t d = 0; d < group_->devices(); ++d) {
        if (!group_->is_local(d)) import_from(d, exported[d]);
      }
      for (side& s : sides_) {
        warm_up(s);
        s.barrier = barrier(s);
      }
      return std::string();
    });
    exported_.clear();
    group_->add(this);
    is_made_ = true;
  } catch (...) {
    release();
    throw;
  }
}

shared_region::~shared_region() {
  group_->remove(this);
  release();
}

// Allocates slightly more shared memory than is requested, so that the memory shares no allocation
// with other memory.
void* shared_region::take(const side& s, std::uint64_t bytes) {
  return memory_.take(s.ordinal, group_->is_shared() ? std::max(bytes, least_shared_bytes) : bytes);
}

// Exports the device's control words, front and back. The text has one line for each of them and is
// for the other processes. If memory needs descriptors, this function sends them to these
// processes. They receive the descriptors once all processes have exported.
std::string shared_region::export_side(const side& s) {
  const std::uint64_t bytes = state_.elements * state_.element_bytes;
  const std::string where = label_ + " of device " + std::to_string(s.device) + ": the ";
  std::string text;
  for (const auto& [data, size, which] :
       {std::tuple<void*, std::uint64_t, const char*>{controls_[s.device], sizeof(device_control),
                                                      "control words"},
        {state_.buffers[s.device][0], bytes, "front"},
        {state_.buffers[s.device][1], bytes, "back"}}) {
    exported_memory e =
        export_memory(find_pieces(data, size, s.ordinal, where + which), where + which);
    text += e.text + "\n";
    for (descriptor& d : e.descriptors) exported_.push_back(std::move(d));
  }
  for (std::size_t from = 0; from < exported_.size(); from += descriptors_at_once) {
    std::vector<int> some;
    const std::size_t to = std::min(exported_.size(), from + descriptors_at_once);
    for (std::size_t k = from; k < to; ++k) some.push_back(exported_[k].get());
    for (std::uint32_t d = 0; d < group_->devices(); ++d) {
      if (!group_->is_local(d)) group_->send(d, tag(about::memory), "", some);
    }
  }
  return text;
}

void shared_region::import_from(std::uint32_t device, const std::string& texts) {
  const int own = sides_.front().ordinal;
  std::string_view lines = texts;
  std::vector<descriptor> received;
  for (void** to : {static_cast<void**>(nullptr), state_.buffers[device].data(),
                    state_.buffers[device].data() + 1}) {
    const std::string line(cut_text(lines, '\n'));
    const std::size_t count = imported_memory::descriptors_of(line);
    while (received.size() < count) {
      for (descriptor& d : group_->receive(device, tag(about::memory)).descriptors) {
        received.push_back(std::move(d));
      }
    }
    std::vector<descriptor> some(
        std::make_move_iterator(received.begin()),
        std::make_move_iterator(received.begin() + static_cast<std::ptrdiff_t>(count)));
    received.erase(received.begin(), received.begin() + static_cast<std::ptrdiff_t>(count));
    void* data = imported_.import(line, some, own);
    if (to == nullptr) {
      controls_[device] = static_cast<device_control*>(data);
    } else {
      *to = data;
    }
  }
}

// A process must not free memory that another process still maps. All processes therefore close
// their mappings and report this. Processes that have ended are ignored.
void shared_region::leave() noexcept {
  imported_.clear();
  for (const bool sends : {true, false}) {
    for (std::uint32_t d = 0; d < group_->devices(); ++d) {
      if (group_->is_local(d)) continue;
      try {
        if (sends) {
          group_->send(d, tag(about::end), "", {});
        } else {
          (void)group_->receive(d, tag(about::end));
        }
        // NOLINT: the process has ended, or its deadline has passed
      } catch (const std::exception&) {
      }
    }
  }
}

// While kernels spin, only a copy engine can write to the memory of their device.
void shared_region::abandon() const noexcept {
  int before = 0;
  INTERLACE_CUDA_LOG(cudaGetDevice(&before));
  for (const side& s : sides_) {
    INTERLACE_CUDA_LOG(cudaSetDevice(s.ordinal));
    INTERLACE_CUDA_LOG(cudaMemcpyAsync(&controls_[s.device]->failed, one_, sizeof(*one_),
                                       cudaMemcpyDefault, s.rescue));
  }
  INTERLACE_CUDA_LOG(cudaSetDevice(before));
}

std::size_t shared_region::running(const side& s) {
  for (std::size_t k = 0; k < s.epochs.size(); ++k) {
    if (cudaEventQuery(s.epochs[k].begun) == cudaSuccess &&
        cudaEventQuery(s.epochs[k].ended) == cudaErrorNotReady) {
      return k + 1;
    }
  }
  return 0;
}

// This function must not block until the read is complete. On a device with few hardware queues,
// the read may be queued after a stream's wait, which may never end.
std::optional<std::vector<counter>> shared_region::progress() {
  for (side& s : sides_) {
    if (s.seen == nullptr || s.reading) continue;
    const current_device on(s.ordinal);
    INTERLACE_CUDA_CHECK(cudaMemcpyAsync(s.seen, s.tracking.table.launches, sizeof(counter),
                                         cudaMemcpyDefault, s.rescue));
    INTERLACE_CUDA_CHECK(cudaMemcpyAsync(s.seen + 1, s.tracking.table.counters,
                                         s.targets.size() * sizeof(counter), cudaMemcpyDefault,
                                         s.rescue));
    s.reading = true;
  }
  for (const side& s : sides_) {
    if (!s.reading) continue;
    const cudaError_t state = cudaStreamQuery(s.rescue);
    if (state == cudaErrorNotReady) return std::nullopt;
    INTERLACE_CUDA_CHECK(state);
  }
  std::vector<counter> all;
  for (side& s : sides_) {
    if (!s.reading) continue;
    s.reading = false;
    // The start of a launch counts as progress, too, because earlier work can have delayed the
    // launch.
    all.push_back(running(s));
    all.insert(all.end(), s.seen, s.seen + 1 + s.targets.size());
  }
  return all;
}

std::optional<wait_failure> shared_region::late_chunk() const {
  std::vector<counted_chunks> devices;
  for (const side& s : sides_) {
    counted_chunks& one = devices.emplace_back();
    if (s.seen == nullptr) continue;
    one.running = running(s) != 0;
    one.launches = s.seen[0];
    one.counters = {s.seen + 1, s.targets.size()};
    one.targets = s.targets;
  }
  const auto found = find_late_chunk(devices);
  if (!found) return std::nullopt;
  wait_failure late{};
  late.what = failed_wait::chunk;
  late.device = sides_[found->device].device;
  late.region = id_;
  late.chunk = static_cast<unsigned int>(found->chunk);
  late.seen = found->seen;
  late.target = found->target;
  return late;
}

std::string shared_region::describe(const wait_failure& late, bool expired) const {
  return expired ? describe_failure(late, words()) : describe_wait(late, words());
}

std::string shared_region::calls() const {
  std::string lines;
  for (const std::uint32_t d : group_->local_devices()) {
    const auto begun = calls_[d].begun.load();
    lines += label_ + ": device " + std::to_string(d) + " has begun " + std::to_string(begun) +
             (begun == 1 ? " epoch" : " epochs") + " and exchanged " +
             std::to_string(calls_[d].exchanged.load()) + "; its last call was " +
             duration_text(seconds_now() - calls_[d].last.load()) + " ago\n";
  }
  return lines;
}

void shared_region::release() noexcept {
  int before = 0;
  INTERLACE_CUDA_LOG(cudaGetDevice(&before));
  // The region waits for all users of the memory, including the caller's streams.
  for (const side& s : sides_) {
    INTERLACE_CUDA_LOG(cudaSetDevice(s.ordinal));
    INTERLACE_CUDA_LOG(cudaDeviceSynchronize());
  }
  if (is_made_ && group_->is_shared()) leave();
  for (side& s : sides_) {
    INTERLACE_CUDA_LOG(cudaSetDevice(s.ordinal));
    std::vector<cudaEvent_t> events{s.begun_event, s.event};
    for (const watched_epoch& e : s.epochs) events.insert(events.end(), {e.begun, e.ended});
    for (cudaEvent_t e : events) {
      if (e != nullptr) INTERLACE_CUDA_LOG(cudaEventDestroy(e));
    }
    if (group_->devices_on(s.ordinal) > 1 && !s.streams.empty()) s.streams.resize(1);
    for (cudaStream_t stream : s.streams) {
      if (stream != nullptr) INTERLACE_CUDA_LOG(cudaStreamDestroy(stream));
    }
    if (s.rescue != nullptr) INTERLACE_CUDA_LOG(cudaStreamDestroy(s.rescue));
  }
  sides_.clear();
  INTERLACE_CUDA_LOG(cudaSetDevice(before));
}

void shared_region::make_side(side& s, const region_spec& spec) {
  const current_device on(s.ordinal);
  const std::uint32_t n = group_->devices();
  if (!s.chunks.empty()) {
    how_->check(state_.options, s.ordinal, group_->devices_on(s.ordinal));
  }
  int least = 0;
  int greatest = 0;
  INTERLACE_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  s.streams.assign(std::size_t{2} * n, nullptr);
  const bool one = group_->devices_on(s.ordinal) > 1;
  if (one) {
    INTERLACE_CUDA_CHECK(
        cudaStreamCreateWithPriority(s.streams.data(), cudaStreamNonBlocking, greatest));
    s.streams.assign(s.streams.size(), s.streams[0]);
  }
  for (std::uint32_t k = 0; k < 2 * n && !one; ++k) {
    // The streams have high priority. When a block of the kernel ends, an agent therefore gets the
    // free place before another block of the kernel.
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithPriority(&s.streams[k], cudaStreamNonBlocking,
                                                      k == s.device ? greatest : least));
  }
  INTERLACE_CUDA_CHECK(cudaStreamCreateWithPriority(&s.rescue, cudaStreamNonBlocking, greatest));
  const auto make = [](cudaEvent_t& event) {
    INTERLACE_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  };
  make(s.begun_event);
  make(s.event);
  s.epochs.resize(s.seen == nullptr ? 0 : watched_epochs);
  for (watched_epoch& e : s.epochs) {
    make(e.begun);
    make(e.ended);
  }
  load_exchange_kernels();
  load_agent_kernels();
  load_audit_kernels();
  auto* control = static_cast<device_control*>(take(s, sizeof(device_control)));
  INTERLACE_CUDA_CHECK(cudaMemset(control, 0, sizeof(device_control)));
  controls_[s.device] = control;
  if (spec.checks) {
    s.audit.begin = state_.options.boundaries[s.device];
    s.audit.end = state_.options.boundaries[s.device + 1];
    const auto zeros = [&](std::uint64_t bytes) {
      void* data = memory_.take(s.ordinal, bytes);
      if (bytes != 0) INTERLACE_CUDA_CHECK(cudaMemset(data, 0, bytes));
      return data;
    };
    const std::uint64_t words = (s.audit.end - s.audit.begin) * sizeof(unsigned int);
    s.audit.stored = static_cast<unsigned int*>(zeros(words));
    s.audit.published = static_cast<unsigned int*>(zeros(words));
    s.audit.first = static_cast<region_audit::finding*>(zeros(sizeof(region_audit::finding)));
  }
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(nullptr));
}

// The first copy between two GPUs initialises resources and may wait for both GPUs. The copy must
// not happen once kernels wait for each other, so it is made here.
void shared_region::warm_up(const side& s) const {
  const current_device on(s.ordinal);
  for (std::uint32_t to = 0; to < group_->devices(); ++to) {
    if (to == s.device) continue;
    INTERLACE_CUDA_CHECK(cudaMemcpyAsync(&controls_[to]->arrived[s.device],
                                         &controls_[s.device]->entered, sizeof(counter),
                                         cudaMemcpyDefault, s.streams[to]));
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(s.streams[to]));
  }
}

std::string shared_region::failure(bool& elsewhere) const {
  for (const side& s : sides_) {
    const volatile wait_failure& seen = *s.failure;
    if (seen.what == failed_wait::none) continue;
    elsewhere = seen.what == failed_wait::elsewhere;
    return describe(*s.failure, true);
  }
  return {};
}

failure_words shared_region::words() const {
  return {.device = [this](unsigned int d) { return group_->device_name(d); },
          .region = label_,
          .exchange = "the exchange of " + label_,
          .deadline_s = group_->deadline_s(),
          .turns = group_->turns()};
}

shared_region::side& shared_region::side_of(std::uint32_t device) {
  return const_cast<side&>(std::as_const(*this).side_of(device));  // NOLINT: ours
}

const shared_region::side& shared_region::side_of(std::uint32_t device) const {
  group_->require_local(device);
  return *std::find_if(sides_.begin(), sides_.end(),
                       [device](const side& s) { return s.device == device; });
}

std::byte* shared_region::front(std::uint32_t device) const {
  return static_cast<std::byte*>(state_.buffers[device][side_of(device).parity]);
}

std::byte* shared_region::back(std::uint32_t device) const {
  return static_cast<std::byte*>(state_.buffers[device][side_of(device).parity ^ 1U]);
}

replicated<std::byte> shared_region::view(std::uint32_t device) const {
  kernel::region_state now = state_;
  now.parity = side_of(device).parity;
  replicated<std::byte> v = kernel::make_view<std::byte>(now, id_, device);
  if (!how_->stores_to_peers()) {
    v.everybody = 0;  // with this value, stores go to no other device
    v.range_count = 0;
  }
  return v;
}

// --- an epoch of a device ------------------------------------------------------------------------

barrier_arguments shared_region::barrier(const side& s) const {
  barrier_arguments b;
  b.device = s.device;
  b.devices = group_->devices();
  b.deadline_ns = static_cast<std::uint64_t>(group_->deadline_s() * 1e9);
  b.notes_failures = group_->is_shared();
  std::copy(controls_.begin(), controls_.end(), b.controls);
  b.failure = s.failure;
  return b;
}

void shared_region::begin(std::uint32_t device, cudaStream_t stream) {
  side& s = side_of(device);
  group_->check();
  calls_[device].last = seconds_now();
  if (s.begun) {
    throw model_error(label_ + " begins an epoch on device " + std::to_string(device) +
                      ", where one has begun; exchange first");
  }
  const current_device on(s.ordinal);
  s.stream = stream;
  s.capture = capture_of(stream);
  INTERLACE_CUDA_CHECK(cudaEventRecord(s.begun_event, stream));
  // The first launch of the caller's kernel may load the kernel, and loading may wait for running
  // work. This can happen only until one epoch that is not captured has been enqueued.
  const bool loaded = s.moved || s.capture != 0;
  how_->begin(state_, s, loaded);
  s.begun = true;
  calls_[device].begun.fetch_add(1, std::memory_order_relaxed);
  if (s.capture == 0 && !s.epochs.empty()) {
    INTERLACE_CUDA_CHECK(cudaEventRecord(s.epochs[s.enqueued % s.epochs.size()].begun, stream));
  }
}

void shared_region::exchange(std::uint32_t device, cudaStream_t stream) {
  side& s = side_of(device);
  group_->check();
  calls_[device].last = seconds_now();
  if (!s.begun) {
    throw model_error(label_ + " is exchanged on device " + std::to_string(device) +
                      ", where no epoch has begun; call begin before the kernel that writes it");
  }
  const current_device on(s.ordinal);
  if (stream != s.stream || capture_of(stream) != s.capture) {
    throw model_error(label_ + " is exchanged on device " + std::to_string(device) +
                      " with another stream or capture than its call of begin");
  }
  if (s.audit.first != nullptr) launch_audit(s.barrier, s.audit, s.tracking.table, stream);
  // The check is enqueued before the streams' waits. If the check finds an error, it releases these
  // waits.
  if (!s.chunks.empty()) launch_check(s.barrier, s.tracking.table, stream);
  how_->deliver(state_, s);
  exchange_arguments e;
  e.barrier = s.barrier;
  e.tracked = 1;
  e.launches[0] = s.tracking.over();
  e.launches[0].region = id_;
  e.launches[0].parity = s.parity;
  launch_exchange(e, {}, stream);
  if (s.capture == 0 && !s.epochs.empty()) {
    INTERLACE_CUDA_CHECK(cudaEventRecord(s.epochs[s.enqueued++ % s.epochs.size()].ended, stream));
  }
  s.parity ^= 1U;
  s.begun = false;
  calls_[device].exchanged.fetch_add(1, std::memory_order_relaxed);
  s.moved = s.moved || s.capture == 0;
}

}  // namespace interlace::cuda

namespace interlace {

region::region(const group& g, const region_spec& spec) : region(g, spec, {}) {}
region::region(const group& g, const region_spec& spec, const std::vector<region_memory>& memory)
    : state_(std::make_unique<cuda::shared_region>(g.state_, spec, memory)) {}
void region::refuse(const group& g, const std::string& why) {
  (void)g.state_->next_region();
  (void)g.state_->agree([&]() -> std::string { throw usage_error(why); });
  throw usage_error(why);
}
region::~region() = default;
region::region(region&&) noexcept = default;
region& region::operator=(region&&) noexcept = default;

std::uint64_t region::elements() const { return state_->state().elements; }
std::uint32_t region::element_bytes() const { return state_->state().element_bytes; }
kernel::element_range region::part(std::uint32_t device) const {
  const std::vector<std::uint64_t>& b = state_->state().options.boundaries;
  return {b.at(device), b.at(device + 1)};
}
void* region::front(std::uint32_t device) const { return state_->front(device); }
void* region::back(std::uint32_t device) const { return state_->back(device); }
std::vector<void*> region::backs(std::uint32_t device) const {
  const replicated<std::byte> seen = state_->view(device);
  return {seen.peer_back, seen.peer_back + state_->state().devices()};
}
void region::begin(std::uint32_t device, CUstream_st* stream) { state_->begin(device, stream); }
void region::exchange(std::uint32_t device, CUstream_st* stream) {
  state_->exchange(device, stream);
}
const std::vector<kernel::chunk>& region::chunks(std::uint32_t device) const {
  return state_->chunks(device);
}
const kernel::chunk_table& region::table(std::uint32_t device) const {
  return state_->table(device);
}
replicated<std::byte> region::view(std::uint32_t device) const { return state_->view(device); }
region_audit region::audit(std::uint32_t device) const { return state_->audit(device); }
void region::check_type(std::size_t bytes) const {
  if (bytes == state_->state().element_bytes) return;
  throw model_error(state_->label() + " has elements of " +
                    std::to_string(state_->state().element_bytes) +
                    " bytes, and a kernel writes elements of " + std::to_string(bytes));
}

}  // namespace interlace
