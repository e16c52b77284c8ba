#include "cuda/park/parking.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include "interlace/base/errors.hpp"

namespace interlace::cuda {

namespace {

// With this many threads, page-locking is as fast as the link. More threads do not help.
constexpr unsigned most_threads = 16;
// Memory is prepared while the program works, so only one in this many threads prepares memory.
constexpr unsigned prepare_share = 4;
// The driver's results from `capture_errors` to `last_capture_error` are errors of a capture.
constexpr int capture_errors = 900;
constexpr int last_capture_error = 908;

// An error after which failed copies may still be in flight.
class still_in_flight : public device_error {
 public:
  using device_error::device_error;
};

std::string quoted(const std::string& name) { return "pool '" + name + "'"; }

}  // namespace

struct parking::gpu_state {
  int number = 0;
  CUctx_st* context = nullptr;
  // two streams, so that one copy starts while the other copy ends
  std::array<CUstream_st*, 2> streams{};
  elastic_place place;
};

// A range of bytes on a GPU, and its place in the pool's slabs. The bytes of all slabs are numbered
// as one sequence.
struct parking::content {
  device_address address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t begin = 0;
  const gpu_state* gpu = nullptr;

  std::uint64_t end() const { return begin + bytes; }
};

struct parking::allocation {
  gpu_state* gpu = nullptr;
  std::unique_ptr<elastic_memory> memory;
  bool away = false;         // whether the contents are not in `memory`
  bool has_contents = true;  // whether the contents of a parked allocation are kept
  // position in the pool's slabs at which the contents begin
  std::uint64_t begin = 0;
  std::unique_ptr<elastic_memory> on_gpu;  // the contents on another GPU

  content in_slabs() const { return {memory->address(), memory->bytes(), begin, gpu}; }
};

struct parking::pool {
  explicit pool(std::string of) : name(std::move(of)) {}

  const std::string name;
  std::mutex mutex;  // guards the members below
  std::map<device_address, allocation> allocations;
  bool parked = false;
  int place = park_on_host;
  bool keep_pool = true;
  std::vector<page_locked> slabs;
};

struct parking::kept_contents {
  std::mutex mutex;  // guards the following members
  std::vector<content> contents;
  std::vector<page_locked> slabs;
};

// Copies between GPUs and slabs.
class parking::transfer {
 public:
  transfer(parking& of, bool to_host) : of_(of), to_host_(to_host) {}
  ~transfer() {
    for (const ending& one : endings_)
      log_failure(of_.driver_, of_.driver_.event_destroy(one.event), "cuEventDestroy");
  }
  transfer(const transfer&) = delete;
  transfer& operator=(const transfer&) = delete;

  // Adds contents. The contents must be added in the order of `begin`.
  void add(const content& one) {
    contents_.push_back(one);
    gpus_.insert(one.gpu);
  }
  bool empty() const { return contents_.empty(); }
  // The number of bytes in slabs that all contents need.
  std::uint64_t bytes() const { return contents_.back().end(); }
  CUctx_st* any_context() const { return contents_.front().gpu->context; }

  // Enqueues the copies between a slab and the memory whose bytes the slab holds.
  void enqueue(std::size_t slab, const char* memory) {
    const std::uint64_t slab_bytes = of_.options_.slab_bytes;
    const std::uint64_t begin = slab * slab_bytes;
    const auto ends_before = [](const content& one, std::uint64_t offset) {
      return one.end() <= offset;
    };
    const gpu_state* on = nullptr;
    for (auto at = std::lower_bound(contents_.begin(), contents_.end(), begin, ends_before);
         at != contents_.end() && at->begin < begin + slab_bytes; ++at) {
      const content& one = *at;
      const std::uint64_t first = std::max(begin, one.begin);
      const std::uint64_t end = std::min(begin + slab_bytes, one.end());
      const auto in_slab = reinterpret_cast<device_address>(memory) + (first - begin);
      const device_address on_gpu = one.address + (first - one.begin);
      if (on != nullptr && on != one.gpu) note_end(*on, slab);
      on = one.gpu;
      copy(*on, to_host_ ? in_slab : on_gpu, to_host_ ? on_gpu : in_slab, end - first, slab);
    }
    if (on != nullptr) note_end(*on, slab);
  }

  void copy(const gpu_state& gpu, device_address to, device_address from, std::uint64_t bytes,
            std::size_t turn) {
    const in_context on(of_.driver_, gpu.context);
    const relaxed_capture_mode undisturbed(of_.driver_);
    of_.copy_(to, from, bytes, gpu.streams[turn % gpu.streams.size()]);
  }

  // Waits until the copies of this slab and of all slabs before it have ended. Slabs must be
  // enqueued in order.
  void wait_for(std::size_t slab) {
    for (; waited_ < endings_.size() && endings_[waited_].slab <= slab; ++waited_) {
      const in_context on(of_.driver_, endings_[waited_].gpu->context);
      const relaxed_capture_mode undisturbed(of_.driver_);
      check(of_.driver_, of_.driver_.event_synchronize(endings_[waited_].event),
            "cuEventSynchronize");
    }
  }

  // Waits for all copies. Throws device_error if a copy failed or if `error` is given. Throws
  // still_in_flight if it is not certain that all copies have ended.
  void finish(std::exception_ptr error) {
    bool certain = true;
    for (const gpu_state* gpu : gpus_) {
      try {
        const in_context on(of_.driver_, gpu->context);
        const relaxed_capture_mode undisturbed(of_.driver_);
        for (CUstream_st* stream : gpu->streams) certain = wait(stream, error) && certain;
      } catch (const device_error&) {
        if (!error) error = std::current_exception();
        certain = false;
      }
    }
    if (!error) return;
    if (certain) std::rethrow_exception(error);
    throw still_in_flight("a GPU did not say whether copies of parked memory are complete");
  }

 private:
  struct ending {
    const gpu_state* gpu = nullptr;
    CUevent_st* event = nullptr;
    std::size_t slab = 0;
  };

  // Records an event on the GPU after the slab's copies so far. wait_for waits for this event.
  void note_end(const gpu_state& gpu, std::size_t slab) {
    if (!to_host_) return;
    const in_context on(of_.driver_, gpu.context);
    ending made{&gpu, nullptr, slab};
    check(of_.driver_, of_.driver_.event_create(&made.event, event_without_timing),
          "cuEventCreate");
    endings_.push_back(made);
    check(of_.driver_, of_.driver_.event_record(made.event, gpu.streams[slab % gpu.streams.size()]),
          "cuEventRecord");
  }

  // Waits for the stream. Returns whether all copies of the stream have ended. Keeps the first
  // error in `error`.
  bool wait(CUstream_st* stream, std::exception_ptr& error) const {
    const int result = of_.driver_.stream_synchronize(stream);
    if (result == driver_result::success) return true;
    try {
      check(of_.driver_, result, "cuStreamSynchronize");
    } catch (const device_error&) {
      if (!error) error = std::current_exception();
    }
    return of_.driver_.stream_synchronize(stream) == driver_result::success;
  }

  parking& of_;
  bool to_host_;
  std::vector<content> contents_;
  std::set<const gpu_state*> gpus_;
  std::vector<ending> endings_;  // events after copies, in the order of their slabs
  std::size_t waited_ = 0;       // number of elements of endings_ for which a wait has ended
};

parking::parking(const driver_table& driver, copy_function copy, parking_options options)
    : driver_(driver), copy_(std::move(copy)), options_(std::move(options)) {
  if (options_.threads == 0)
    options_.threads = std::clamp(std::thread::hardware_concurrency(), 1U, most_threads);
}

parking::~parking() {
  for (auto& [name, of] : pools_) {
    of->allocations.clear();
    clear(of->slabs);
  }
  clear(idle_);
  for (auto& [number, gpu] : gpus_) {
    {
      const in_context on(driver_, gpu->context, std::nothrow);
      for (CUstream_st* stream : gpu->streams)
        log_failure(driver_, driver_.stream_destroy(stream), "cuStreamDestroy");
    }
    log_failure(driver_, driver_.primary_release(number), "cuDevicePrimaryCtxRelease");
  }
}

// --- pools and allocations -----------------------------------------------------------------------

void parking::make_pool(const std::string& name) {
  const std::lock_guard lock(mutex_);
  auto& place = pools_[name];
  if (place == nullptr) place = std::make_shared<pool>(name);
}

std::shared_ptr<parking::pool> parking::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = pools_.find(name);
  if (found != pools_.end()) return found->second;
  std::string names;
  for (const auto& [known, of] : pools_) names += (names.empty() ? "" : ", ") + known;
  throw usage_error(
      "there is no " + quoted(name) + "; " +
      (names.empty() ? "this process has made no pool yet" : "give one of: " + names));
}

parking::gpu_state& parking::gpu_of(int number) {
  const std::lock_guard lock(mutex_);
  if (const auto found = gpus_.find(number); found != gpus_.end()) return *found->second;
  int count = 0;
  check(driver_, driver_.device_count(&count), "cuDeviceGetCount");
  if (number < 0 || number >= count)
    throw usage_error("there is no GPU " + std::to_string(number) + "; this process sees " +
                      std::to_string(count) + (count == 1 ? " GPU" : " GPUs") +
                      ", numbered from 0");
  std::vector<int> peers;
  for (int other = 0; other < count; ++other) {
    if (other == number) continue;
    int can = 0;
    // The answer is kept, so a failed call must not be taken for "no access".
    check(driver_, driver_.can_access_peer(&can, other, number), "cuDeviceCanAccessPeer");
    if (can != 0) peers.push_back(other);
  }
  auto made = std::make_unique<gpu_state>();
  made->number = number;
  check(driver_, driver_.primary_retain(&made->context, number), "cuDevicePrimaryCtxRetain");
  try {
    const in_context on(driver_, made->context);
    made->place = elastic_place_of(driver_, number, std::move(peers));
    for (CUstream_st*& stream : made->streams)
      check(driver_, driver_.stream_create(&stream, stream_non_blocking), "cuStreamCreate");
  } catch (...) {
    for (CUstream_st* stream : made->streams)
      if (stream != nullptr)
        log_failure(driver_, driver_.stream_destroy(stream), "cuStreamDestroy");
    log_failure(driver_, driver_.primary_release(number), "cuDevicePrimaryCtxRelease");
    throw;
  }
  return *gpus_.emplace(number, std::move(made)).first->second;
}

device_address parking::allocate(const std::string& name, int gpu, std::uint64_t bytes) {
  const auto of = find(name);
  if (bytes == 0) throw usage_error("an allocation of 0 bytes in " + quoted(name));
  gpu_state& on = gpu_of(gpu);
  const std::lock_guard lock(of->mutex);
  if (of->parked) throw usage_error(quoted(name) + " is parked; resume it before it gets memory");
  const in_context current(driver_, on.context);
  allocation made;
  made.gpu = &on;
  made.memory = std::make_unique<elastic_memory>(driver_, on.place, bytes, gpu);
  try {
    made.memory->attach();
  } catch (...) {
    give_back(std::move(made.memory));
    throw;
  }
  const device_address address = made.memory->address();
  const std::uint64_t whole = made.memory->bytes();
  of->allocations.emplace(address, std::move(made));
  const std::lock_guard all(mutex_);
  owners_[address] = {of, whole};
  return address;
}

void parking::synchronize(const gpu_state& gpu) {
  const in_context on(driver_, gpu.context);
  const relaxed_capture_mode undisturbed(driver_);
  const int result = driver_.context_synchronize();
  if (result >= capture_errors && result <= last_capture_error)
    throw usage_error("a stream of GPU " + std::to_string(gpu.number) +
                      " is being captured; wait until the capture has ended");
  check(driver_, result, "cuCtxSynchronize");
}

void parking::free(device_address address) {
  std::shared_ptr<pool> of;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = owners_.find(address); found != owners_.end()) of = found->second.of;
  }
  if (of == nullptr) throw usage_error("no pool has an allocation that begins at this address");
  const std::lock_guard lock(of->mutex);
  const auto found = of->allocations.find(address);
  if (found == of->allocations.end())
    throw usage_error("no pool has an allocation that begins at this address");
  allocation& one = found->second;
  CUctx_st* current = nullptr;
  if (driver_.current(&current) == driver_result::deinitialized) return;  // the process is ending
  if (!one.away) synchronize(*one.gpu);
  {
    const in_context on(driver_, one.gpu->context);
    one.memory->detach();
    give_back(std::move(one.on_gpu));
    of->allocations.erase(found);
  }
  if (of->allocations
          .empty()) {  // memory that was prepared for this pool can now serve other pools
    const std::lock_guard lock_idle(idle_mutex_);
    prepared_.erase(of->name);
  }
  {
    const std::lock_guard all(mutex_);
    owners_.erase(address);
  }
  if (of->parked && std::none_of(of->allocations.begin(), of->allocations.end(),
                                 [](const auto& each) { return each.second.away; }))
    end_parking(*of);
}

pool_facts parking::facts(const std::string& name) {
  const auto of = find(name);
  const std::lock_guard lock(of->mutex);
  pool_facts found;
  found.allocations = of->allocations.size();
  for (const auto& [address, one] : of->allocations) found.bytes += one.memory->bytes();
  found.parked = of->parked;
  found.place = of->place;
  for (const page_locked& slab : of->slabs) found.host_bytes += slab.bytes();
  return found;
}

std::optional<std::string> parking::pool_of(device_address address) {
  const std::lock_guard lock(mutex_);
  auto next = owners_.upper_bound(address);
  if (next == owners_.begin()) return std::nullopt;
  --next;
  if (address - next->first >= next->second.bytes) return std::nullopt;
  return next->second.of->name;
}

// --- page-locked memory --------------------------------------------------------------------------

std::vector<page_locked> parking::take_idle(std::size_t most) {
  const std::lock_guard lock(idle_mutex_);
  std::vector<page_locked> taken;
  taken.reserve(most);  // leaves room for slabs that are made later
  while (taken.size() < most && !idle_.empty()) {
    taken.push_back(std::move(idle_.back()));
    idle_.pop_back();
  }
  return taken;
}

void parking::keep(std::vector<page_locked>& slabs) {
  const std::lock_guard lock(idle_mutex_);
  idle_.reserve(idle_.size() + slabs.size());
  for (page_locked& slab : slabs)
    if (slab.data() != nullptr) idle_.push_back(std::move(slab));
  slabs.clear();
}

void parking::clear(std::vector<page_locked>& slabs) noexcept {
  if (slabs.empty()) return;
  CUctx_st* context = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!gpus_.empty()) context = gpus_.begin()->second->context;
  }
  const in_context on(driver_, context, std::nothrow);
  slabs.clear();
}

std::uint64_t parking::idle_host_bytes() {
  const std::lock_guard lock(idle_mutex_);
  std::uint64_t sum = 0;
  for (const page_locked& slab : idle_) sum += slab.bytes();
  return sum;
}

// Makes a preparation end after its current slab. No preparation can begin while the caller holds
// the lock.
std::unique_lock<std::mutex> parking::end_preparing() {
  ++wait_for_preparing_;
  std::unique_lock lock(preparing_mutex_);
  --wait_for_preparing_;
  return lock;
}

void parking::check_available(const std::string& what, std::uint64_t missing) const {
  if (!options_.available_bytes || missing == 0) return;
  const auto available = options_.available_bytes();
  if (available && missing > *available)
    throw out_of_host_memory("parking " + what + " needs " + std::to_string(missing) +
                             " bytes of host memory, and " + std::to_string(*available) +
                             " are available");
}

std::uint64_t parking::prepare(const std::string& name) {
  const auto of = find(name);
  std::uint64_t bytes = 0;
  CUctx_st* context = nullptr;
  {
    const std::lock_guard lock(of->mutex);
    if (of->parked) throw usage_error(quoted(name) + " is parked already");
    for (const auto& [address, one] : of->allocations) {
      bytes += one.memory->bytes();
      context = one.gpu->context;
    }
  }
  if (bytes == 0) return 0;
  const std::lock_guard one_at_a_time(preparing_mutex_);
  std::size_t missing = 0;
  {
    const std::lock_guard lock(idle_mutex_);
    prepared_[name] = (bytes + options_.slab_bytes - 1) / options_.slab_bytes;
    for (const auto& [pool_name, slabs] : prepared_) missing += slabs;
    missing -= std::min(missing, idle_.size());
  }
  check_available(quoted(name), missing * options_.slab_bytes);
  if (missing == 0) return 0;
  const unsigned threads = std::max(options_.threads / prepare_share, 1U);
  page_locker locker(driver_, options_.slab_bytes, missing, threads);
  const in_context on(driver_, context);
  std::size_t made = 0;
  for (; made < missing && wait_for_preparing_ == 0; ++made) {
    page_locked slab = locker.next();
    const std::lock_guard lock(idle_mutex_);
    idle_.push_back(std::move(slab));
  }
  return made * options_.slab_bytes;
}

void parking::free_idle_host_memory() {
  sweep();
  const auto none_is_made = end_preparing();
  std::vector<page_locked> taken;
  {
    const std::lock_guard lock(idle_mutex_);
    taken.swap(idle_);
    prepared_.clear();
  }
  clear(taken);
}

// --- memory that could not be given back yet -----------------------------------------------------

void parking::give_back(std::unique_ptr<elastic_memory> memory) {
  if (memory == nullptr) return;
  try {
    memory->detach();
  } catch (const device_error&) {
    leave(std::move(memory));
  }
}

void parking::leave(std::vector<page_locked>& slabs) {
  const std::lock_guard lock(idle_mutex_);
  for (page_locked& slab : slabs) left_slabs_.push_back(std::move(slab));
  slabs.clear();
}

void parking::leave(std::unique_ptr<elastic_memory> memory) {
  if (memory == nullptr) return;
  const std::lock_guard lock(idle_mutex_);
  left_memory_.push_back(std::move(memory));
}

// Gives back the memory that could not be given back before, if no GPU has work left.
void parking::sweep() {
  std::vector<page_locked> slabs;
  std::vector<std::unique_ptr<elastic_memory>> memory;
  {
    const std::lock_guard lock(idle_mutex_);
    slabs.swap(left_slabs_);
    memory.swap(left_memory_);
  }
  if (slabs.empty() && memory.empty()) return;
  try {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, gpu] : gpus_) synchronize(*gpu);
  } catch (const std::runtime_error&) {
    leave(slabs);
    for (auto& one : memory) leave(std::move(one));
    return;
  }
  clear(slabs);
  for (auto& one : memory) give_back(std::move(one));
}

// --- there and back ------------------------------------------------------------------------------

// Makes the missing slabs, and enqueues all copies. The first `ready` slabs already exist.
void parking::fill(std::vector<page_locked>& slabs, std::size_t ready, transfer& copies) {
  std::optional<page_locker> locker;
  if (ready < slabs.size())
    locker.emplace(driver_, options_.slab_bytes, slabs.size() - ready, options_.threads - 1);
  const in_context on(driver_, copies.any_context());
  for (std::size_t k = 0; k < slabs.size(); ++k) {
    if (k >= ready) slabs[k] = locker->next();
    copies.enqueue(k, slabs[k].data());
  }
}

// Copies contents to slabs. Calls `release` once all copies are enqueued. Returns the number of
// bytes in new slabs. If the function throws, the slabs become idle slabs again, unless `needed`
// returns true.
std::uint64_t parking::store(const std::string& what, transfer& copies,
                             std::vector<page_locked>& slabs, const std::function<void()>& release,
                             const std::function<bool()>& needed) {
  if (copies.empty()) return 0;
  const std::size_t count = (copies.bytes() + options_.slab_bytes - 1) / options_.slab_bytes;
  {
    const auto none_is_made = end_preparing();
    slabs = take_idle(count);
  }
  const std::size_t ready = slabs.size();
  const std::uint64_t missing = (count - ready) * options_.slab_bytes;
  try {
    check_available(what, missing);
    slabs.resize(count);
    std::exception_ptr error;
    try {
      fill(slabs, ready, copies);
      release();
    } catch (...) {
      error = std::current_exception();
    }
    copies.finish(error);
  } catch (const still_in_flight&) {
    if (!needed()) leave(slabs);
    throw;
  } catch (...) {
    if (needed()) throw;
    std::vector<page_locked> made;
    while (slabs.size() > ready) {
      made.push_back(std::move(slabs.back()));
      slabs.pop_back();
    }
    clear(made);
    keep(slabs);
    throw;
  }
  return missing;
}

// Parks a pool on slabs. Takes the physical memory from each allocation as soon as the allocation's
// contents have arrived.
std::uint64_t parking::park_on_slabs(pool& of) {
  transfer copies(*this, true);
  std::uint64_t bytes = 0;
  for (auto& [address, one] : of.allocations) {
    if (!one.has_contents) continue;
    one.begin = bytes;
    copies.add(one.in_slabs());
    bytes += one.memory->bytes();
  }
  return store(
      quoted(of.name), copies, of.slabs,
      [&] {  // from here on, lack of host memory cannot make any step fail
        for (auto& [address, one] : of.allocations) {
          if (!one.has_contents) continue;
          copies.wait_for((one.in_slabs().end() - 1) / options_.slab_bytes);
          detach(one);
          one.memory->release();
        }
      },
      [&] { return any_away(of); });
}

void parking::store_on_gpu(pool& of, int number) {
  gpu_state& target = gpu_of(number);
  for (const auto& [address, one] : of.allocations) {
    if (one.gpu == &target)
      throw usage_error(quoted(of.name) + " has memory on GPU " + std::to_string(number) +
                        " itself; park it elsewhere");
    const auto& peers = target.place.peers;
    if (one.has_contents && std::find(peers.begin(), peers.end(), one.gpu->number) == peers.end())
      throw usage_error("GPU " + std::to_string(one.gpu->number) +
                        " cannot reach the memory of GPU " + std::to_string(number) + "; park " +
                        quoted(of.name) + " elsewhere");
  }
  transfer copies(*this, true);
  std::exception_ptr error;
  try {
    const in_context on(driver_, target.context);
    for (auto& [address, one] : of.allocations) {
      if (!one.has_contents) continue;
      one.on_gpu = std::make_unique<elastic_memory>(driver_, target.place, one.memory->bytes(),
                                                    one.gpu->number);
      one.on_gpu->attach();
    }
    std::size_t turn = 0;
    for (auto& [address, one] : of.allocations) {
      if (!one.has_contents) continue;
      copies.add(one.in_slabs());
      copies.copy(*one.gpu, one.on_gpu->address(), address, one.memory->bytes(), turn++);
    }
  } catch (...) {
    error = std::current_exception();
  }
  try {
    copies.finish(error);
  } catch (const still_in_flight&) {
    for (auto& [address, one] : of.allocations) leave(std::move(one.on_gpu));
    throw;
  } catch (...) {
    for (auto& [address, one] : of.allocations) give_back(std::move(one.on_gpu));
    throw;
  }
}

void parking::detach(allocation& one) {
  const in_context on(driver_, one.gpu->context);
  one.memory->detach();
  one.away = true;
}

bool parking::any_away(const pool& of) {
  return std::any_of(of.allocations.begin(), of.allocations.end(),
                     [](const auto& one) { return one.second.away; });
}

park_report parking::park(const std::string& name, const park_request& how) {
  const auto began = std::chrono::steady_clock::now();
  const auto of = find(name);
  const std::lock_guard lock(of->mutex);
  if (of->parked) throw usage_error(quoted(name) + " is parked already");
  if (how.to < park_nowhere) throw usage_error("there is no GPU " + std::to_string(how.to));
  std::set<const gpu_state*> gpus;
  park_report report;
  for (auto& [address, one] : of->allocations) {
    gpus.insert(one.gpu);
    one.has_contents = how.to != park_nowhere &&
                       std::find(how.without_contents.begin(), how.without_contents.end(),
                                 address) == how.without_contents.end();
    report.gpu_bytes += one.memory->bytes();
    if (one.has_contents) report.bytes += one.memory->bytes();
  }
  for (const gpu_state* gpu : gpus) synchronize(*gpu);
  sweep();
  of->place = how.to;
  of->keep_pool = how.keep_pool;
  try {
    if (how.to == park_on_host)
      report.locked_bytes = park_on_slabs(*of);
    else if (how.to != park_nowhere)
      store_on_gpu(*of, how.to);
    // The allocations whose contents are dropped are detached last. Until then, a failed park can
    // be undone without loss.
    for (auto& [address, one] : of->allocations)
      if (!one.away) detach(one);
  } catch (const device_error& error) {
    undo(*of, error.what());
    throw;
  }
  for (auto& [address, one] : of->allocations) one.memory->release();
  of->parked = true;
  {
    const std::lock_guard all(idle_mutex_);
    prepared_.erase(name);
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return report;
}

// Brings back what has been taken from a pool that could not be parked. `reason` says why.
void parking::undo(pool& of, const std::string& reason) {
  try {
    (void)restore(of);
  } catch (const device_error&) {
    std::size_t away = 0;
    for (const auto& [address, one] : of.allocations) away += one.away ? 1 : 0;
    of.parked = true;
    throw device_error(reason + "; " + std::to_string(away) + " of " +
                       std::to_string(of.allocations.size()) + " allocations of " +
                       quoted(of.name) + " are still parked; resume the pool");
  }
  end_parking(of);
}

// Creates the physical memory of all allocations whose contents are not on their GPU, and brings
// the contents back. Returns the number of bytes of the contents. If the function throws, the
// contents are still not on their GPU.
std::uint64_t parking::restore(pool& of) {
  transfer copies(*this, false);
  std::vector<allocation*> attached;
  std::uint64_t bytes = 0;
  try {
    std::exception_ptr error;
    try {
      for (auto& [address, one] : of.allocations)
        if (one.away && one.has_contents) copies.add(one.in_slabs());
      std::size_t slab = 0;
      std::size_t turn = 0;
      for (auto& [address, one] : of.allocations) {
        if (!one.away) continue;
        const in_context on(driver_, one.gpu->context);
        attached.push_back(&one);
        one.memory->attach();
        if (!one.has_contents) continue;
        bytes += one.memory->bytes();
        if (one.on_gpu)
          copies.copy(*one.gpu, address, one.on_gpu->address(), one.memory->bytes(), turn++);
        // Complete slabs are enqueued now. They move while this loop creates physical memory for
        // later allocations.
        const std::uint64_t end = one.in_slabs().end();
        for (; (slab + 1) * options_.slab_bytes <= end && slab < of.slabs.size(); ++slab)
          copies.enqueue(slab, of.slabs[slab].data());
      }
      for (; slab < of.slabs.size(); ++slab) copies.enqueue(slab, of.slabs[slab].data());
    } catch (...) {
      error = std::current_exception();
    }
    copies.finish(error);
  } catch (const still_in_flight&) {
    // The memory stays mapped, because copies may still write to it; the next call uses this
    // memory.
    throw;
  } catch (...) {
    for (allocation* one : attached) {
      try {
        const in_context on(driver_, one->gpu->context);
        one->memory->detach();
        one->memory->release();
      } catch (const device_error&) {  // the memory stays mapped, and the next call uses it
      }
    }
    throw;
  }
  return bytes;
}

park_report parking::resume(const std::string& name) {
  const auto began = std::chrono::steady_clock::now();
  const auto of = find(name);
  const std::lock_guard lock(of->mutex);
  if (!of->parked) throw usage_error(quoted(name) + " is not parked");
  park_report report;
  for (const auto& [address, one] : of->allocations)
    if (one.away) report.gpu_bytes += one.memory->bytes();
  try {
    report.bytes = restore(*of);
  } catch (const device_error& error) {
    throw device_error(quoted(name) + " stays parked: " + error.what());
  }
  end_parking(*of);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return report;
}

void parking::end_parking(pool& of) {
  for (auto& [address, one] : of.allocations) {
    one.away = false;
    give_back(std::move(one.on_gpu));
  }
  of.parked = false;
  if (of.keep_pool)
    keep(of.slabs);
  else
    clear(of.slabs);
}

// --- contents of memory outside of pools -----------------------------------------------------

std::shared_ptr<parking::kept_contents> parking::keep_contents(std::span<const gpu_range> ranges,
                                                               park_report& report) {
  const auto began = std::chrono::steady_clock::now();
  auto made = std::make_shared<kept_contents>();
  transfer copies(*this, true);
  std::set<const gpu_state*> gpus;
  for (const gpu_range& one : ranges) {
    if (one.bytes == 0) throw usage_error("a range of 0 bytes cannot be kept");
    const gpu_state& gpu = gpu_of(one.gpu);
    made->contents.push_back({one.address, one.bytes, report.bytes, &gpu});
    copies.add(made->contents.back());
    gpus.insert(&gpu);
    report.bytes += one.bytes;
  }
  for (const gpu_state* gpu : gpus) synchronize(*gpu);
  sweep();
  report.locked_bytes = store(
      std::to_string(ranges.size()) + " ranges", copies, made->slabs, [] {}, [] { return false; });
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return made;
}

park_report parking::restore_contents(kept_contents& kept,
                                      std::span<const device_address> addresses) {
  const auto began = std::chrono::steady_clock::now();
  const std::lock_guard lock(kept.mutex);
  park_report report;
  transfer copies(*this, false);
  std::size_t found = 0;
  for (const content& one : kept.contents) {
    if (std::find(addresses.begin(), addresses.end(), one.address) == addresses.end()) continue;
    ++found;
    copies.add(one);
    report.bytes += one.bytes;
  }
  if (found != addresses.size())
    throw usage_error("these contents were not kept, or are restored twice");
  std::exception_ptr error;
  try {
    for (std::size_t k = 0; k < kept.slabs.size(); ++k) copies.enqueue(k, kept.slabs[k].data());
  } catch (...) {
    error = std::current_exception();
  }
  copies.finish(error);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return report;
}

void parking::drop_contents(kept_contents& kept) {
  const std::lock_guard lock(kept.mutex);
  kept.contents.clear();
  keep(kept.slabs);
}

}  // namespace interlace::cuda
