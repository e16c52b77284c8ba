#include "cuda/region/group.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <thread>

#include "base/agreement.hpp"
#include "base/hexadecimal.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/cuda/shared_gpu.hpp"
#include "interlace/cuda/visible_gpus.hpp"

namespace interlace::cuda {

namespace {

constexpr std::chrono::microseconds between_looks{20};
constexpr std::chrono::milliseconds between_rounds{10};
constexpr std::chrono::milliseconds between_calls{50};
constexpr int rounds_until_told = 20;
// The version of the messages between processes. Increase the number when the messages change.
constexpr int protocol = 1;
constexpr char end_of_common = '\t';

// A text that is the same in all processes of this machine until the machine restarts.
std::string machine_id() {
  char id[64] = {};
  std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "r");
  if (file == nullptr) return {};
  const std::size_t read = std::fread(id, 1, sizeof(id) - 1, file);
  (void)std::fclose(file);
  return {id, read};
}

std::string uuid_of(int ordinal) {
  cudaDeviceProp properties{};
  INTERLACE_CUDA_CHECK(cudaGetDeviceProperties(&properties, ordinal));
  return hexadecimal(properties.uuid.bytes);
}

// The number that this process uses for the GPU of another rank.
int ordinal_of(const std::string& uuid, std::uint32_t own, std::uint32_t rank) {
  const int present = static_cast<int>(device_count());
  for (int k = 0; k < present; ++k) {
    if (uuid_of(k) == uuid) return k;
  }
  throw usage_error("rank " + std::to_string(own) + " does not see the GPU of rank " +
                    std::to_string(rank) +
                    "; let every process see all GPUs (CUDA_VISIBLE_DEVICES) and take another "
                    "ordinal");
}

void check_options(std::size_t devices, const group_options& o) {
  if (devices < 1 || devices > max_devices) {
    throw usage_error("a group has 1 to " + std::to_string(max_devices) + " devices, not " +
                      std::to_string(devices));
  }
  if (!(o.deadline_s > 0) || o.deadline_s > 86400) {
    throw usage_error("a deadline must be above 0 and at most 86400 seconds");
  }
}

}  // namespace

group_state::group_state(std::vector<int> ordinals, const group_options& o)
    : options_(o), ordinals_(std::move(ordinals)) {
  check_options(ordinals_.size(), o);
  for (const int gpu : ordinals_) require_gpu(gpu);
  enable_peer_access(ordinals_);
  for (std::uint32_t d = 0; d < devices(); ++d) local_.push_back(d);
  show();
}

group_state::group_state(std::uint32_t rank, std::uint32_t size, int ordinal, all_gather gather,
                         const group_options& o)
    : options_(o), rank_(rank), size_(size), gather_(std::move(gather)), local_{rank} {
  check_options(size, o);
  if (rank >= size) {
    throw usage_error("rank " + std::to_string(rank) + " of a group of " + std::to_string(size) +
                      "; ranks count from 0");
  }
  if (!gather_) throw usage_error("a group of several processes needs an all-gather");
  std::unique_ptr<meeting_point> meeting;
  std::string common;
  const std::vector<std::string> all = agree([&] {
    require_gpu(ordinal);
    if (size > 1) meeting = std::make_unique<meeting_point>();
    common = "protocol " + std::to_string(protocol) + "\nmachine " + machine_id() + "\ndeadline " +
             std::to_string(o.deadline_s) + "\n";
    return common + end_of_common + uuid_of(ordinal) + (meeting ? meeting->path() : "");
  });
  std::vector<std::string> commons;
  std::vector<std::string> uuids;
  std::vector<std::string> paths;
  for (const std::string& own : all) {
    const auto cut = own.find(end_of_common);
    commons.push_back(own.substr(0, cut));
    uuids.push_back(own.substr(cut + 1, 2 * sizeof(cudaUUID_t)));
    paths.push_back(own.substr(cut + 1 + 2 * sizeof(cudaUUID_t)));
  }
  require_same(commons, "group");
  for (const std::string& one : uuids) {
    turns_ =
        std::max(turns_, static_cast<std::uint32_t>(std::count(uuids.begin(), uuids.end(), one)));
  }
  (void)agree([&] {
    for (std::uint32_t r = 0; r < size; ++r) {
      ordinals_.push_back(r == rank ? ordinal : ordinal_of(uuids[r], rank, r));
      if (ordinals_[r] == ordinal || try_peer_access(ordinal, ordinals_[r])) continue;
      throw device_error("GPU " + std::to_string(ordinal) + " of rank " + std::to_string(rank) +
                         " cannot reach the memory of GPU " + std::to_string(ordinals_[r]) +
                         " of rank " + std::to_string(r) +
                         " (no peer access between them); use fewer GPUs");
    }
    return std::string();
  });
  if (size == 1) {
    show();
    return;
  }
  processes_ = std::make_unique<peer_processes>(rank, paths, *meeting,
                                                std::chrono::duration<double>(deadline_s()));
  // All processes must be connected before any of them removes its socket.
  (void)agree([] { return std::string(); });
  processes_->watch({.ended =
                         [this](std::uint32_t ended) {
                           fail("the process of rank " + std::to_string(ended) + " (" +
                                    device_name(ended) + ") ended before it left the group",
                                false);
                         },
                     .told =
                         [this](std::uint32_t other, const std::string& text) {
                           fail("rank " + std::to_string(other) + " reports: " + text, false);
                         },
                     // The thread that receives the messages of other processes must not block in
                     // this function.
                     .regularly =
                         [this, rounds = 0]() mutable {
                           if (look(false)) ++rounds;
                           if (rounds > rounds_until_told) (void)look(true);
                         }});
  show();
}

group_state::~group_state() = default;

bool group_state::is_local(std::uint32_t device) const {
  return std::find(local_.begin(), local_.end(), device) != local_.end();
}

std::string group_state::device_name(std::uint32_t device) const {
  const std::string gpu = "GPU " + std::to_string(ordinals_[device]);
  if (gather_) return "rank " + std::to_string(device) + " (" + gpu + ")";
  return "GPU " + std::to_string(device);
}

std::vector<std::string> group_state::agree(const std::function<std::string()>& make) const {
  if (!gather_) return {make()};
  return interlace::agree(gather_, rank_, size_, make);
}

void group_state::send(std::uint32_t device, std::uint64_t tag, const std::string& bytes,
                       const std::vector<int>& descriptors) const {
  const std::lock_guard lock(messages_);
  processes_->send(device, tag, bytes, descriptors);
}

peer_processes::message group_state::receive(std::uint32_t device, std::uint64_t tag) const {
  const std::lock_guard lock(messages_);
  return processes_->receive(device, tag);
}

void group_state::require_local(std::uint32_t device) const {
  if (is_local(device)) return;
  throw usage_error("device " + std::to_string(device) + " of " + std::to_string(devices()) +
                    (device < devices() ? " belongs to another process" : " does not exist"));
}

std::uint32_t group_state::devices_on(int gpu) const {
  return is_shared() ? 1 : cuda::devices_on(ordinals_, gpu);
}

// The caller has one stream for each device, and each region has one more.
void group_state::require_queues() const {
  if (is_shared()) return;
  const std::lock_guard lock(mutex_);
  cuda::require_queues(ordinals_, static_cast<std::uint32_t>(members_.size()) + 2);
}

// Keeps the first failure. If this process found the failure, tells the other processes. Then ends
// all waits.
void group_state::fail(const std::string& sentence, bool tells) const {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  failure_ = sentence;
  if (processes_ == nullptr) return;
  if (tells) processes_->tell(sentence);
  for (const group_member* m : members_) m->abandon();
}

// Records a failure that a member reports. Returns true if only another process knows the details
// of the failure, unless `finally` is set.
bool group_state::look(bool finally) const {
  std::string found;
  bool elsewhere = false;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return false;
    for (const group_member* m : members_) {
      found = m->failure(elsewhere);
      if (!found.empty()) break;
    }
  }
  if (elsewhere && !finally) return true;
  if (!found.empty()) fail(found, !elsewhere);
  return false;
}

void group_state::check() const {
  if (look(false)) {
    // The process that reported the failure is about to send the details. Another thread of this
    // process records the details.
    for (int k = 0; k < 2 * rounds_until_told && look(false); ++k) {
      std::this_thread::sleep_for(between_rounds);
    }
    (void)look(true);
  }
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) throw device_error(failure_);
}

std::optional<std::vector<counter>> group_state::progress() const {
  std::vector<counter> all;
  bool known = true;
  for (group_member* m : members_) {
    const auto some = m->progress();
    known = known && some.has_value();
    if (some) all.insert(all.end(), some->begin(), some->end());
  }
  if (!known) return std::nullopt;
  return all;
}

std::string group_state::late_chunk(bool expired) const {
  for (const group_member* m : members_) {
    if (const auto late = m->late_chunk()) return m->describe(*late, expired);
  }
  return {};
}

namespace {

// While this object lives, this thread can query devices without ending the captures of other
// threads.
class capture_safe {
 public:
  capture_safe() { INTERLACE_CUDA_CHECK(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~capture_safe() { INTERLACE_CUDA_LOG(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  capture_safe(const capture_safe&) = delete;
  capture_safe& operator=(const capture_safe&) = delete;
  capture_safe(capture_safe&&) = delete;
  capture_safe& operator=(capture_safe&&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

std::string group_state::waits() const {
  const capture_safe questions;
  for (int k = 0; k < rounds_until_told; ++k) {
    {
      const std::lock_guard lock(looking_);
      if (progress()) return late_chunk(false);
    }
    std::this_thread::sleep_for(between_rounds);
  }
  return {};
}

// Shows the group to `interlace ps`.
void group_state::show() {
  if (!options_.shown) return;
  std::string what =
      "a group of " + std::to_string(devices()) + " devices, of which this process has ";
  for (const std::uint32_t d : local_)
    what += (d == local_.front() ? "" : ", ") + std::to_string(d);
  shown_ = std::make_unique<shown_activity>([this, what, since = seconds_now()] {
    activity shown{.what = what, .since = since};
    {
      const std::lock_guard lock(mutex_);
      for (const group_member* m : members_) shown.note += m->calls();
    }
    try {
      shown.note += waits();
    } catch (const device_error& e) {
      shown.note += e.what();
    }
    return shown;
  });
}

void group_state::synchronize(std::uint32_t device, cudaStream_t stream,
                              const std::function<void()>& regularly) const {
  using clock = std::chrono::steady_clock;
  require_local(device);
  const current_device on(ordinal(device));
  const auto deadline =
      std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(deadline_s()));
  auto changed = clock::now();
  auto next_call = changed + between_calls;
  auto next_look = changed + deadline / 4;
  std::vector<counter> before;
  for (;;) {
    const cudaError_t error = cudaStreamQuery(stream);
    check();
    if (error == cudaSuccess) return;
    if (error != cudaErrorNotReady) {
      throw_failure(error, "cudaStreamQuery", __FILE__, __LINE__);
    }
    std::this_thread::sleep_for(between_looks);
    const auto now = clock::now();
    if (regularly && now >= next_call) {
      next_call = now + between_calls;
      regularly();
    }
    if (now < next_look) continue;
    // This thread waits neither for another thread nor for a device's operation, because the
    // operation may never end.
    next_look = now + between_rounds;
    const std::unique_lock lock(looking_, std::try_to_lock);
    if (!lock.owns_lock()) continue;
    auto seen = progress();
    if (!seen) continue;
    next_look = now + deadline / 4;
    if (*seen != before) {
      before = std::move(*seen);
      changed = now;
    } else if (now - changed >= deadline) {
      const std::string sentence = late_chunk(true);
      if (!sentence.empty()) fail(sentence, true);
    }
  }
}

void group_state::add(group_member* member) {
  const std::scoped_lock lock(looking_, mutex_);
  members_.push_back(member);
}

void group_state::remove(group_member* member) noexcept {
  const std::scoped_lock lock(looking_, mutex_);
  std::erase(members_, member);
}

}  // namespace interlace::cuda

namespace interlace {

group group::local(std::vector<int> ordinals, const group_options& o) {
  return group(std::make_shared<cuda::group_state>(std::move(ordinals), o));
}

group group::all(const group_options& o) {
  std::vector<int> ordinals(cuda::device_count());
  std::iota(ordinals.begin(), ordinals.end(), 0);
  return local(std::move(ordinals), o);
}

group group::join(std::uint32_t rank, std::uint32_t size, int ordinal, all_gather gather,
                  const group_options& o) {
  return group(std::make_shared<cuda::group_state>(rank, size, ordinal, std::move(gather), o));
}

std::uint32_t group::devices() const { return state_->devices(); }
const std::vector<std::uint32_t>& group::local_devices() const { return state_->local_devices(); }
int group::ordinal(std::uint32_t device) const {
  state_->require_local(device);
  return state_->ordinal(device);
}
void group::check() const { state_->check(); }
std::string group::waits() const { return state_->waits(); }
void group::synchronize(std::uint32_t device, CUstream_st* stream,
                        const std::function<void()>& regularly) const {
  state_->synchronize(device, stream, regularly);
}

}  // namespace interlace
