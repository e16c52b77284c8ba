// A block that runs lane by lane on one CPU thread. The host node and the simulated node pass this
// block to kernels. The block tells its observer about every access. An observer that is not active
// costs nothing.
// An observer provides
//   template <class I> using index           load_index's result type (I, or I with a dependence)
//   static constexpr bool active             false: none of the calls below is made
//   bool stores_inline() const               stores to a replicated view go to the subscribers, too
//   void begin_segment()                     start of an each or a warp.each; after a barrier
//   void begin_lane(std::uint32_t lane)      the lane (in the block) whose accesses follow
//   std::uint32_t on_access(const access&)   returns the instruction to which the access belongs
//   void on_compute(operations, site)
//   std::uint64_t enter_loop(site)           leave_loop of the same loop gets this value back
//   void next_iteration(), leave_loop(std::uint64_t)
//   void on_iteration_end()                  optional: the previous operations end an iteration of
//                                            an L.carrying loop
//   void on_uniform()                        the whole warp makes the previous load, and its value
//                                            decides which instructions follow
//   void on_acquire_release()                the previous atomic acquires for the block's later
//                                            accesses and releases the block's earlier accesses;
//                                            the warp waits for the atomic
//   void on_barrier(bool whole_block)        after each (true) or warp.each (false)
//   void on_shuffle(std::uint32_t warp, n, operation, m)
//                                            n warp-wide register exchanges, with m operations of
//                                            each lane between them
//   void on_vote(std::uint32_t warp)         optional: a ballot; without this function, a ballot
//                                            is an on_shuffle
//   void on_reduction(warp, n, operation)    optional: a reduction of 32-bit integers, for which a
//                                            GPU may have an instruction; without this function, a
//                                            reduction is an on_shuffle with n exchanges and n
//                                            operations
//   void on_publish(region, begin, end)
//   bool begin_repeated(warp, lanes, place, key)
//                                            start of a warp.repeated; true if the observer knows
//                                            what its lanes do
//   watch_repeated()                         after true: another observer, which watches the lanes
//   void end_repeated(watched)               after true: the end of the use of that observer
//   void end_repeated()                      after false: the end of the warp.repeated
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel.hpp"
#include "interlace/kernel/access.hpp"
#include "interlace/kernel/trace.hpp"
#include "interlace/kernel/update_packer.hpp"

// The place of a call in the source, which is the same for all lanes.
#if defined(__GNUC__) && !defined(__clang__)
#define INTERLACE_SITE                       \
  static_cast<::interlace::kernel::site_id>( \
      reinterpret_cast<std::uintptr_t>(__builtin_source_location()))
#else
#define INTERLACE_SITE \
  static_cast<::interlace::kernel::site_id>(__builtin_LINE() * 4096 + __builtin_COLUMN())
#endif

namespace interlace::kernel {

// An observer that sees nothing.
struct silent_observer {
  template <class I>
  using index = I;
  static constexpr bool active = false;
};

// An index together with the instruction that loaded it. If a plain number is added to an index,
// subtracted from it or multiplied by it, the result keeps the instruction.
template <class I>
struct dependent_index {
  I value{};
  std::uint32_t instruction = no_instruction;

  // NOLINTNEXTLINE(google-explicit-constructor): kernels use it as a plain index
  operator I() const { return value; }
  dependent_index& operator++() {
    ++value;
    return *this;
  }
  template <class J>
  requires std::is_integral_v<J>
  friend auto operator+(const dependent_index& a, J b) {
    return dependent_index<decltype(a.value + b)>{a.value + b, a.instruction};
  }
  template <class J>
  requires std::is_integral_v<J>
  friend auto operator-(const dependent_index& a, J b) {
    return dependent_index<decltype(a.value - b)>{a.value - b, a.instruction};
  }
};

template <class I>
constexpr std::uint64_t index_value(const I& i) {
  return static_cast<std::uint64_t>(i);
}
template <class I>
constexpr std::uint64_t index_value(const dependent_index<I>& i) {
  return static_cast<std::uint64_t>(i.value);
}
template <class I>
constexpr std::uint32_t index_instruction(const I&) {
  return no_instruction;
}
template <class I>
constexpr std::uint32_t index_instruction(const dependent_index<I>& i) {
  return i.instruction;
}

template <class I>
struct is_dependent : std::false_type {};
template <class I>
struct is_dependent<dependent_index<I>> : std::true_type {};

[[noreturn]] inline void throw_out_of_range(const char* what, std::uint64_t index,
                                            std::uint64_t size) {
  throw model_error("a kernel reaches element " + std::to_string(index) + " of a " + what +
                    " array of " + std::to_string(size));
}

inline void check_index(const char* what, std::uint64_t index, std::uint64_t size) {
  if (index >= size) [[unlikely]] {
    throw_out_of_range(what, index, size);
  }
}

template <class T>
struct shared_span {
  T* data = nullptr;
  std::uint32_t size = 0;
};

// One value for each lane of a block, or of a warp.
template <class T>
class lane_values {
 public:
  lane_values(T* values, std::uint32_t first) : values_(values), first_(first) {}
  template <class Lane>
  T& operator[](const Lane& lane) const {
    return values_[lane.index() - first_];
  }
  T* data() const { return values_; }

 private:
  T* values_;
  std::uint32_t first_;
};

template <class T>
class warp_values {
 public:
  template <class Lane>
  T operator[](const Lane& lane) const {
    return values[lane.in_warp()];
  }
  std::array<T, 64> values{};
};

// The same value for each lane of a warp.
template <class T>
struct same_value {
  template <class Lane>
  T operator[](const Lane&) const {
    return value;
  }
  T value{};
};

// Iterates from begin to end by step. Tells the observer where iterations start and where the loop
// ends, even if `break` ends the loop early.
template <class Observer, class I>
class lane_range {
 public:
  lane_range(Observer& observer, I begin, I end, I step, std::uint32_t instruction, site_id site)
      : observer_(observer), begin_(begin), end_(end), step_(step), instruction_(instruction) {
    if constexpr (Observer::active) outside_ = observer_.enter_loop(site);
  }
  ~lane_range() {
    if constexpr (Observer::active) observer_.leave_loop(outside_);
  }
  lane_range(const lane_range&) = delete;
  lane_range& operator=(const lane_range&) = delete;

  struct sentinel {};
  class iterator {
   public:
    explicit iterator(const lane_range& range) : range_(range), value_(range.begin_) {}
    auto operator*() const {
      if constexpr (Observer::active) {
        return dependent_index<I>{value_, range_.instruction_};
      } else {
        return value_;
      }
    }
    iterator& operator++() {
      value_ = static_cast<I>(value_ + range_.step_);
      if constexpr (Observer::active) range_.observer_.next_iteration();
      return *this;
    }
    bool operator!=(sentinel) const { return value_ < range_.end_; }

   private:
    const lane_range& range_;
    I value_;
  };
  iterator begin() const { return iterator(*this); }
  sentinel end() const { return {}; }

 private:
  Observer& observer_;
  I begin_, end_, step_;
  std::uint32_t instruction_;
  std::uint64_t outside_ = 0;
};

// A range in which each iteration needs the result of the previous iteration. The compiler unrolls
// the loop `unroll` times, so the loads of `unroll` iterations are in flight together. The
// operations of these iterations come before the loads of the next iterations.
struct carried_work {
  std::uint32_t unroll = 1;
  operations each;  // operations of each iteration

  operations of(std::uint32_t iterations) const {
    return {each.fp32 * iterations, each.fp64 * iterations, each.integer * iterations,
            each.special * iterations, each.minimum * iterations};
  }
};

template <class Observer, class I>
class carrying_range {
 public:
  carrying_range(Observer& observer, I begin, I end, I step, std::uint32_t instruction,
                 const carried_work& work, site_id site)
      : observer_(observer),
        begin_(begin),
        end_(end),
        step_(step),
        instruction_(instruction),
        work_(work),
        site_(site) {
    if constexpr (Observer::active) outside_ = observer_.enter_loop(site);
  }
  ~carrying_range() {
    if constexpr (Observer::active) {
      observer_.leave_loop(outside_);
      if (taken_ != 0) execute();
    }
  }
  carrying_range(const carrying_range&) = delete;
  carrying_range& operator=(const carrying_range&) = delete;
  carrying_range(carrying_range&&) = delete;
  carrying_range& operator=(carrying_range&&) = delete;

  struct sentinel {};
  class iterator {
   public:
    explicit iterator(carrying_range& range) : range_(range), value_(range.begin_) {}
    auto operator*() const {
      if constexpr (Observer::active) {
        return dependent_index<I>{value_, range_.instruction_};
      } else {
        return value_;
      }
    }
    iterator& operator++() {
      value_ = static_cast<I>(value_ + range_.step_);
      if constexpr (Observer::active) {
        range_.observer_.next_iteration();
        range_.took(value_ < range_.end_);
      }
      return *this;
    }
    bool operator!=(sentinel) const { return value_ < range_.end_; }

   private:
    carrying_range& range_;
    I value_;
  };
  iterator begin() { return iterator(*this); }
  sentinel end() const { return {}; }

 private:
  // Counts an iteration. A full group of `unroll` iterations executes its operations before the
  // next group begins. The last group executes them after the loop, where all lanes meet.
  void took(bool more) {
    if (++taken_ == work_.unroll && more) execute();
  }
  void execute() {
    observer_.on_compute(work_.of(taken_), site_);
    if constexpr (requires { observer_.on_iteration_end(); }) observer_.on_iteration_end();
    taken_ = 0;
  }

  Observer& observer_;
  I begin_, end_, step_;
  std::uint32_t instruction_;
  carried_work work_;
  site_id site_;
  std::uint32_t taken_ = 0;
  std::uint64_t outside_ = 0;
};

// Loads and stores of views. Either one lane makes the access, or, if `uniform` is set, a whole
// warp or block makes it together.
template <class Observer>
class accessor {
 public:
  explicit accessor(Observer& observer, std::uint64_t block)
      : observer_(&observer), block_(block) {}

  template <class View, class I>
  auto load(const View& view, const I& i, site_id site = INTERLACE_SITE) const {
    return read(view, i, access_kind::load, site).first;
  }
  template <class View, class I>
  auto load_index(const View& view, const I& i, site_id site = INTERLACE_SITE) const {
    const auto [value, instruction] = read(view, i, access_kind::load_index, site);
    using value_type = std::remove_const_t<decltype(value)>;
    if constexpr (Observer::active) {
      return dependent_index<value_type>{value, instruction};
    } else {
      (void)instruction;
      return value;
    }
  }

 protected:
  template <class T, class I>
  auto read(const local<T>& view, const I& i, access_kind kind, site_id site) const {
    check_index("local", index_value(i), view.size);
    return fetch(view.data, i, kind, memory_space::local, 0, site);
  }
  template <class T, class I>
  auto read(const replicated<T>& view, const I& i, access_kind kind, site_id site) const {
    check_index("replicated", index_value(i), view.size);
    return fetch(view.front, i, kind, memory_space::replicated, view.region, site);
  }
  template <class T, class I>
  auto read(const unified<T>& view, const I& i, access_kind kind, site_id site) const {
    check_index("unified", index_value(i), view.size);
    return fetch(view.data, i, kind, memory_space::unified, 0, site);
  }
  template <class T, combine Op, class I>
  auto read(const reduced<T, Op>& view, const I& i, access_kind kind, site_id site) const {
    check_index("reduced", index_value(i), view.size);
    return fetch(view.front, i, kind, memory_space::reduced, 0, site);
  }
  template <class T, combine Op, class I>
  auto read(const partitioned<T, Op>& view, const I& i, access_kind kind, site_id site) const {
    return fetch(own_element(view, index_value(i)) - index_value(i), i, kind, memory_space::local,
                 0, site);
  }
  template <class T, class I>
  auto read(const shared_span<T>& view, const I& i, access_kind kind, site_id site) const {
    check_index("shared", index_value(i), view.size);
    return fetch(view.data, i, kind, memory_space::shared, 0, site);
  }

  // The address of an element that the device owns.
  template <class T, combine Op>
  static T* own_element(const partitioned<T, Op>& view, std::uint64_t n) {
    const std::uint64_t first = view.boundaries[view.device];
    if (n < first || n >= view.boundaries[view.device + 1]) [[unlikely]] {
      throw model_error("a kernel of device " + std::to_string(view.device) + " reaches element " +
                        std::to_string(n) +
                        " of a partitioned array; the device owns the elements from " +
                        std::to_string(first) + " (included) to " +
                        std::to_string(view.boundaries[view.device + 1]) + " (excluded)");
    }
    return view.parts[view.device] + (n - first);
  }

  // The function is always inlined, so that the compiler can combine the observer's work with the
  // constants of the access.
  template <class T, class I>
  [[gnu::always_inline]] auto fetch(T* data, const I& i, access_kind kind, memory_space space,
                                    std::uint32_t region, site_id site) const {
    const std::uint64_t n = index_value(i);
    std::uint32_t instruction = no_instruction;
    if constexpr (Observer::active) {
      instruction = observer_->on_access(
          {kind, space, sizeof(T), data + n, site, index_instruction(i), region, n, true});
    }
    return std::pair<std::remove_const_t<T>, std::uint32_t>(data[n], instruction);
  }

  template <class T, class I>
  [[gnu::always_inline]] void note(access_kind kind, memory_space space, T* address, const I& i,
                                   std::uint32_t region, site_id site, bool primary = true) const {
    if constexpr (Observer::active) {
      observer_->on_access({kind, space, sizeof(T), address, site, index_instruction(i), region,
                            index_value(i), primary});
    }
  }

  Observer* observer_;
  std::uint64_t block_;
};

template <class Observer>
class serial_lane : public accessor<Observer> {
  using base = accessor<Observer>;
  using base::note;
  using base::observer_;

 public:
  serial_lane(const block_place& block, Observer& observer, update_packer& packer,
              std::uint32_t lane)
      : base(observer, block.index),
        packer_(&packer),
        lane_(lane),
        threads_(block.threads),
        warp_width_(block.warp_width),
        blocks_(block.blocks) {}

  std::uint32_t index() const { return lane_; }
  std::uint32_t in_warp() const { return lane_ & (warp_width_ - 1); }
  std::uint64_t global_index() const { return base::block_ * threads_ + lane_; }
  std::uint64_t global_count() const { return blocks_ * threads_; }

  template <class B, class E>
  auto range(const B& begin, const E& end, site_id site = INTERLACE_SITE) const {
    return make_range(begin, end, 1U, site);
  }
  template <class B, class E, class S>
  auto range(const B& begin, const E& end, const S& step, site_id site = INTERLACE_SITE) const {
    return make_range(begin, end, step, site);
  }

  template <class B, class E, class S>
  auto carrying(std::uint32_t unroll, const operations& each, const B& begin, const E& end,
                const S& step, site_id site = INTERLACE_SITE) const {
    using plain = common_index<B, E>;
    return carrying_range<Observer, plain>(
        *observer_, static_cast<plain>(plain_of(begin)), static_cast<plain>(plain_of(end)),
        static_cast<plain>(step), loaded_by(begin, end), {unroll, each}, site);
  }
  template <class B, class E>
  auto carrying(std::uint32_t unroll, const operations& each, const B& begin, const E& end,
                site_id site = INTERLACE_SITE) const {
    return carrying(unroll, each, begin, end, 1U, site);
  }

  // Whether the number of iterations that the compiler unrolls limits the loads that a loop has in
  // flight. Without this limit, the loads of all iterations may be in flight, unless an iteration
  // needs the result of the previous iteration.
  bool unrolls() const {
    if constexpr (requires { observer_->unrolls(); }) return observer_->unrolls();
    return false;
  }

  template <class T, class I>
  void store(const local<T>& view, const I& i, std::type_identity_t<T> value,
             site_id site = INTERLACE_SITE) const {
    check_index("local", index_value(i), view.size);
    note(access_kind::store, memory_space::local, view.data + index_value(i), i, 0, site);
    view.data[index_value(i)] = value;
  }
  template <class T, class I>
  void store(const replicated<T>& view, const I& i, std::type_identity_t<T> value,
             site_id site = INTERLACE_SITE) const {
    const std::uint64_t n = index_value(i);
    check_index("replicated", n, view.size);
    note(access_kind::store, memory_space::replicated, view.back + n, i, view.region, site);
    view.back[n] = value;
    if constexpr (Observer::active) {
      if (!observer_->stores_inline()) return;
      if (view.readers != nullptr) {
        note(access_kind::load, memory_space::local, view.readers + (n >> view.reader_shift), i, 0,
             static_cast<site_id>(static_cast<std::uintptr_t>(site) + max_devices + 1), false);
      }
      view.each_subscriber(n, [&](std::uint32_t peer) {
        // As in the loop on a real GPU, each subscriber gets a store instruction of its own.
        note(access_kind::store, memory_space::replicated, view.peer_back[peer] + n, i, view.region,
             static_cast<site_id>(static_cast<std::uintptr_t>(site) + peer + 1), false);
        view.peer_back[peer][n] = value;
      });
    }
  }
  template <class T, combine Op, class I>
  void store(const partitioned<T, Op>& view, const I& i, std::type_identity_t<T> value,
             site_id site = INTERLACE_SITE) const {
    T* element = base::own_element(view, index_value(i));
    note(access_kind::store, memory_space::local, element, i, 0, site);
    *element = value;
  }
  template <class T, class I>
  void store(const unified<T>& view, const I& i, std::type_identity_t<T> value,
             site_id site = INTERLACE_SITE) const {
    check_index("unified", index_value(i), view.size);
    note(access_kind::store, memory_space::unified, view.data + index_value(i), i, 0, site);
    view.data[index_value(i)] = value;
  }
  template <class T, class I>
  void store(const shared_span<T>& view, const I& i, std::type_identity_t<T> value,
             site_id site = INTERLACE_SITE) const {
    check_index("shared", index_value(i), view.size);
    note(access_kind::store, memory_space::shared, view.data + index_value(i), i, 0, site);
    view.data[index_value(i)] = value;
  }

  template <class T, class I>
  T atomic_add(const local<T>& view, const I& i, std::type_identity_t<T> value,
               site_id site = INTERLACE_SITE) const {
    check_index("local", index_value(i), view.size);
    return combine_at<combine::add>(view.data + index_value(i), i, value, access_kind::atomic,
                                    memory_space::local, site);
  }
  template <class T, class I>
  T atomic_min(const local<T>& view, const I& i, std::type_identity_t<T> value,
               site_id site = INTERLACE_SITE) const {
    check_index("local", index_value(i), view.size);
    return combine_at<combine::min>(view.data + index_value(i), i, value, access_kind::atomic,
                                    memory_space::local, site);
  }
  template <class T, class I>
  T atomic_add(const shared_span<T>& view, const I& i, std::type_identity_t<T> value,
               site_id site = INTERLACE_SITE) const {
    check_index("shared", index_value(i), view.size);
    return combine_at<combine::add>(view.data + index_value(i), i, value, access_kind::atomic,
                                    memory_space::shared, site);
  }
  template <class T, class I>
  T atomic_min(const shared_span<T>& view, const I& i, std::type_identity_t<T> value,
               site_id site = INTERLACE_SITE) const {
    check_index("shared", index_value(i), view.size);
    return combine_at<combine::min>(view.data + index_value(i), i, value, access_kind::atomic,
                                    memory_space::shared, site);
  }
  template <class T, combine Op, class I>
  void reduce(const reduced<T, Op>& view, const I& i, std::type_identity_t<T> value,
              site_id site = INTERLACE_SITE) const {
    check_index("reduced", index_value(i), view.size);
    T* slot = view.partial + (base::block_ % view.copies) * view.size + index_value(i);
    combine_at<Op>(slot, i, value, access_kind::reduce, memory_space::reduced, site);
  }

  // Updates an element, if `really`.
  template <class T, combine Op, class I>
  void update_if(bool really, const partitioned<T, Op>& view, const I& i,
                 std::type_identity_t<T> value, site_id site = INTERLACE_SITE) const {
    if (really) update(view, i, value, site);
  }

  // Kernels must not call this function inside of warp.repeated.
  template <class T, combine Op, class I>
  void update(const partitioned<T, Op>& view, const I& i, std::type_identity_t<T> value,
              site_id site = INTERLACE_SITE) const {
    const std::uint64_t n = index_value(i);
    if (n >= view.size) [[unlikely]] {
      throw model_error("lane " + std::to_string(lane_) + " of block " +
                        std::to_string(base::block_) + " of device " + std::to_string(view.device) +
                        " updates element " + std::to_string(n) + " of a partitioned array of " +
                        std::to_string(view.size));
    }
    const std::uint32_t owner = view.owner(n);
    const std::uint64_t place = n - view.boundaries[owner];
    if (owner != view.device && view.counts != nullptr) ++view.counts->remote;
    if (view.queues.packs(view.device, owner)) {
      packer_->add(view, lane_, owner, static_cast<std::uint32_t>(place), value);
      return;
    }
    combine_at<Op>(view.parts[owner] + place, i, value,
                   Op == combine::store ? access_kind::store : access_kind::atomic,
                   memory_space::local, site);
  }

  [[gnu::always_inline]] void compute(operation kind, std::uint32_t n,
                                      site_id site = INTERLACE_SITE) const {
    operations work;
    if (kind == operation::fp32) work.fp32 = n;
    if (kind == operation::fp64) work.fp64 = n;
    if (kind == operation::integer) work.integer = n;
    if (kind == operation::special) work.special = n;
    compute(work, site);
  }
  [[gnu::always_inline]] void compute(const operations& work, site_id site = INTERLACE_SITE) const {
    if constexpr (Observer::active) {
      observer_->on_compute(work, site);
    } else {
      (void)work, (void)site;
    }
  }

 private:
  template <combine Op, class T, class I>
  T combine_at(T* slot, const I& i, T value, access_kind kind, memory_space space,
               site_id site) const {
    note(kind, space, slot, i, 0, site);
    const T old = *slot;
    *slot = combine_values<T, Op>(old, value);
    return old;
  }

  // Returns the instruction that loaded a bound of a range.
  template <class B, class E>
  static std::uint32_t loaded_by(const B& begin, const E& end) {
    const std::uint32_t instruction = index_instruction(end);
    return instruction == no_instruction ? index_instruction(begin) : instruction;
  }
  template <class B, class E, class S>
  auto make_range(const B& begin, const E& end, const S& step, site_id site) const {
    using plain = common_index<B, E>;
    return lane_range<Observer, plain>(*observer_, static_cast<plain>(plain_of(begin)),
                                       static_cast<plain>(plain_of(end)), static_cast<plain>(step),
                                       loaded_by(begin, end), site);
  }
  template <class I>
  static I plain_of(const I& i) {
    return i;
  }
  template <class I>
  static I plain_of(const dependent_index<I>& i) {
    return i.value;
  }
  template <class B, class E>
  using common_index = std::common_type_t<decltype(plain_of(std::declval<B>())),
                                          decltype(plain_of(std::declval<E>()))>;

  update_packer* packer_;
  std::uint32_t lane_;
  std::uint32_t threads_;
  std::uint32_t warp_width_;
  std::uint64_t blocks_;
};

template <class Observer>
class serial_warp : public accessor<Observer> {
  using base = accessor<Observer>;
  using base::observer_;

 public:
  serial_warp(const block_place& block, Observer& observer, update_packer& packer,
              std::uint32_t warp)
      : base(observer, block.index), place_(block), packer_(packer), warp_(warp) {}

  std::uint32_t index() const { return warp_; }
  std::uint32_t count() const {
    return (place_.threads + place_.warp_width - 1) / place_.warp_width;
  }

  template <class F>
  void each(F&& f) const {
    if constexpr (Observer::active) observer_->begin_segment();
    for (std::uint32_t lane = first(), end = last(); lane < end; ++lane) {
      if constexpr (Observer::active) observer_->begin_lane(lane);
      f(serial_lane<Observer>(place_, *observer_, packer_, lane));
    }
    if (packer_.waits()) [[unlikely]]
      packer_.pack(*observer_, place_, warp_);
    if constexpr (Observer::active) observer_->on_barrier(false);
  }

  // One load serves the whole warp.
  template <class View, class I>
  auto load(const View& view, const I& i, site_id site = INTERLACE_SITE) const {
    if constexpr (Observer::active) {
      observer_->begin_segment();
      observer_->begin_lane(first());
      const auto value = base::load(view, i, site);
      observer_->on_uniform();
      return value;
    } else {
      return base::load(view, i, site);
    }
  }

  // Calls f(warp). If the observer has already seen f with this key, the observer knows the
  // instructions of f and does not watch the call.
  template <class F>
  void repeated(std::uint32_t key, F&& f) const {
    if constexpr (Observer::active) {
      static constexpr char place{};  // each F has its own variable, whose address identifies F
      if (observer_->begin_repeated(warp_, last() - first(), &place, key)) {
        auto watched = observer_->watch_repeated();
        f(serial_warp<decltype(watched)>(place_, watched, packer_, warp_));
        observer_->end_repeated(watched);
      } else {
        f(*this);
        observer_->end_repeated();
      }
    } else {
      (void)key;
      f(*this);
    }
  }

  // The sum is a butterfly. Every node adds in the same order, so every node gets the same bits.
  template <class T>
  T sum(const lane_values<T>& state) const {
    return butterfly(
        state, [](T a, T b) { return a + b; }, T{});
  }
  template <class T>
  T min(const lane_values<T>& state) const {
    return butterfly(
        state, [](T a, T b) { return b < a ? b : a; }, state.data()[first()]);
  }
  std::uint64_t ballot(const lane_values<bool>& state) const {
    note_vote();
    std::uint64_t mask = 0;
    for (std::uint32_t lane = first(); lane < last(); ++lane) {
      if (state.data()[lane]) mask |= std::uint64_t{1} << (lane - first());
    }
    return mask;
  }
  template <class T>
  warp_values<T> shuffle_xor(const lane_values<T>& state, std::uint32_t mask) const {
    note_shuffle(1);
    warp_values<T> result;
    for (std::uint32_t k = 0; k < place_.warp_width; ++k) {
      const std::uint32_t from = first() + (k ^ mask);
      if (from < last() && first() + k < last()) result.values[k] = state.data()[from];
    }
    return result;
  }
  template <class T>
  same_value<T> shuffle(const lane_values<T>& state, std::uint32_t lane) const {
    note_shuffle(1);
    return {state.data()[first() + lane]};
  }

 private:
  std::uint32_t first() const { return warp_ * place_.warp_width; }
  std::uint32_t last() const { return std::min(place_.threads, first() + place_.warp_width); }
  void note_shuffle(std::uint32_t n, operation kind = operation::integer,
                    std::uint32_t operations = 0) const {
    if constexpr (Observer::active) {
      observer_->on_shuffle(warp_, n, kind, operations);
    } else {
      (void)n, (void)kind, (void)operations;
    }
  }
  void note_vote() const {
    if constexpr (requires(Observer & o) { o.on_vote(0U); }) {
      observer_->on_vote(warp_);
    } else {
      note_shuffle(1);
    }
  }
  void note_reduction(std::uint32_t steps, operation kind) const {
    if constexpr (requires(Observer & o) { o.on_reduction(0U, 0U, operation::integer); }) {
      observer_->on_reduction(warp_, steps, kind);
    } else {
      note_shuffle(steps, kind, steps);
    }
  }
  template <class T, class Op>
  T butterfly(const lane_values<T>& state, Op op, T fill) const {
    std::array<T, 64> v{};
    v.fill(fill);
    std::copy(state.data() + first(), state.data() + last(), v.begin());
    std::uint32_t steps = 0;
    for (std::uint32_t mask = place_.warp_width / 2; mask != 0; mask /= 2, ++steps) {
      for (std::uint32_t k = 0; k < mask; ++k) v[k] = op(v[k], v[k + mask]);
    }
    constexpr operation kind = std::is_integral_v<T> ? operation::integer
                               : sizeof(T) == 8      ? operation::fp64
                                                     : operation::fp32;
    if constexpr (std::is_integral_v<T> && sizeof(T) == 4) {
      note_reduction(steps, kind);
    } else {
      note_shuffle(steps, kind, steps);
    }
    return v[0];
  }

  const block_place& place_;
  update_packer& packer_;
  std::uint32_t warp_;
};

// Scratch memory that the blocks of one CPU thread use in turn. It holds shared memory, lane states
// and packets of updates.
class block_memory {
 public:
  update_packer packer;

  void* take(std::size_t bytes, std::size_t alignment) {
    used_ = (used_ + alignment - 1) / alignment * alignment;
    if (used_ + bytes > page_bytes || pages_.empty()) return take_page(bytes);
    void* p = pages_[page_].get() + used_;
    used_ += bytes;
    return p;
  }
  void reset() {
    packer.reset();
    used_ = 0;
    page_ = 0;
    shared_used = 0;
  }
  std::size_t shared_used = 0;

 private:
  static constexpr std::size_t page_bytes = std::size_t{1} << 20;
  struct deleter {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  using page = std::unique_ptr<std::byte[], deleter>;

  void* take_page(std::size_t bytes) {
    if (bytes > page_bytes) throw model_error("a block asks for more than 1 MiB of shared memory");
    if (!pages_.empty()) ++page_;
    if (page_ == pages_.size()) {
      pages_.emplace_back(
          static_cast<std::byte*>(::operator new[](page_bytes, std::align_val_t{64})));
    }
    used_ = bytes;
    return pages_[page_].get();
  }

  std::vector<page> pages_;
  std::size_t page_ = 0;
  std::size_t used_ = 0;
};

template <class Observer>
class serial_block : public accessor<Observer> {
  using base = accessor<Observer>;
  using base::observer_;

 public:
  serial_block(Observer& observer, block_memory& memory, std::uint64_t index, grid shape,
               std::uint32_t warp_width)
      : base(observer, index),
        memory_(memory),
        shared_bytes_(shape.shared_bytes),
        place_{index, shape.blocks, shape.threads, warp_width} {
    memory_.reset();
  }

  std::uint64_t index() const { return base::block_; }
  std::uint64_t count() const { return place_.blocks; }
  std::uint32_t threads() const { return place_.threads; }
  std::uint32_t warp_width() const { return place_.warp_width; }

  template <class F>
  void each(F&& f) {
    if constexpr (Observer::active) observer_->begin_segment();
    for (std::uint32_t lane = 0; lane < place_.threads; ++lane) {
      if constexpr (Observer::active) observer_->begin_lane(lane);
      f(serial_lane<Observer>(place_, *observer_, memory_.packer, lane));
    }
    if (memory_.packer.waits()) [[unlikely]] {
      for (std::uint32_t warp = 0; warp * place_.warp_width < place_.threads; ++warp) {
        memory_.packer.pack(*observer_, place_, warp);
      }
    }
    if constexpr (Observer::active) observer_->on_barrier(true);
  }
  template <class F>
  void each_warp(F&& f) {
    for (std::uint32_t warp = 0; warp * place_.warp_width < place_.threads; ++warp) {
      f(serial_warp<Observer>(place_, *observer_, memory_.packer, warp));
    }
    if constexpr (Observer::active) observer_->on_barrier(true);
  }

  // Sends the packets that are not full. A node calls this function after the kernel's operator().
  void finish() {
    if (memory_.packer.used()) memory_.packer.finish(*observer_, place_);
  }

  // One load serves the whole block. Each warp issues this load.
  template <class View, class I>
  auto load(const View& view, const I& i, site_id site = INTERLACE_SITE) const {
    if constexpr (Observer::active) {
      observer_->begin_segment();
      for (std::uint32_t lane = place_.warp_width; lane < place_.threads;
           lane += place_.warp_width) {
        observer_->begin_lane(lane);
        base::load(view, i, site);
        observer_->on_uniform();
      }
      observer_->begin_lane(0);
      const auto value = base::load(view, i, site);
      observer_->on_uniform();
      return value;
    } else {
      return base::load(view, i, site);
    }
  }

  template <class T>
  shared_span<T> shared_array(std::uint32_t elements) {
    const std::size_t bytes = elements * sizeof(T);
    memory_.shared_used = (memory_.shared_used + alignof(T) - 1) / alignof(T) * alignof(T) + bytes;
    if (memory_.shared_used > shared_bytes_) {
      throw model_error("a block takes " + std::to_string(memory_.shared_used) +
                        " bytes of shared memory but was launched with " +
                        std::to_string(shared_bytes_));
    }
    auto* data = static_cast<T*>(memory_.take(bytes, std::max(alignof(T), std::size_t{16})));
    // Fills the memory with poison, so that a kernel that reads a value before writing it gets a
    // result that looks wrong.
    std::memset(static_cast<void*>(data), 0xff, bytes);
    return {data, elements};
  }
  template <class T>
  lane_values<T> make_lane_state(T initial) {
    auto* data = static_cast<T*>(memory_.take(place_.threads * sizeof(T), 16));
    std::fill_n(data, place_.threads, initial);
    return lane_values<T>(data, 0);
  }

  template <class I>
  bool last_to_arrive(const local<std::uint32_t>& counters, const I& i, std::uint32_t n,
                      site_id site = INTERLACE_SITE) {
    check_index("local", index_value(i), counters.size);
    std::uint32_t& counter = counters.data[index_value(i)];
    if constexpr (Observer::active) {
      observer_->begin_segment();
      observer_->begin_lane(0);
      base::note(access_kind::atomic, memory_space::local, &counter, i, 0, site);
      observer_->on_acquire_release();
      observer_->on_barrier(true);
    } else {
      (void)site;
    }
    const std::uint32_t before = counter;
    counter = before >= n - 1 ? 0 : before + 1;
    return before == n - 1;
  }

  template <class T>
  void publish(const replicated<T>& view, std::uint64_t begin, std::uint64_t end) const {
    if constexpr (Observer::active) {
      observer_->on_publish(view.region, begin, end);
    } else {
      (void)view, (void)begin, (void)end;
    }
  }

 private:
  block_memory& memory_;
  std::uint32_t shared_bytes_;
  block_place place_;
};

}  // namespace interlace::kernel
