// Which messages use the links of the GPUs at the same time, so that none is relayed over a link
// that another message is there for.
//
// A message's pair is the memory that it comes from and the one that it goes to. A pair is in use
// from a message's call on, for a part of the time that the message is predicted to take behind
// those of its pair before it: nothing is put into anybody's stream to find out. Two pairs meet
// when a message of one is made while the other is in use by another stream. Pairs that met keep
// off each other's links for a while, so that of messages that come again and again together only
// the first ones get in each other's way. Messages of one pair share all paths, and do not meet.
//
// Processes share a table by a file that they map. GPUs are known by names there, since each
// process may see other GPUs by other numbers. Nothing is ever locked or taken back: what a process
// that was killed has left there ages.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace interlace::cuda {

// One for each stream, which runs its messages one after another; of all processes.
using traffic_user = std::uint64_t;

// All times are in ns of one clock, which processes that share a table have in common. Threads may
// use a table at the same time.
class traffic_table {
 public:
  static constexpr std::uint32_t most_gpus = 16;
  // How long pairs that met keep off each other.
  static constexpr std::uint64_t window_ns = 500'000'000;

  struct pair {
    machine::endpoint from;
    machine::endpoint to;
  };

  // Of a machine's GPUs, by names that every process has for them. An empty `file` is a table of
  // its own; any other is made where there is none. Where the file cannot be used the table is one
  // of its own too, and `remark` says why. Of more GPUs than `most_gpus` the last ones meet nobody.
  explicit traffic_table(const std::vector<std::string>& gpus, const std::string& file = {});
  ~traffic_table();
  traffic_table(const traffic_table&) = delete;
  traffic_table& operator=(const traffic_table&) = delete;

  bool shared() const { return shared_; }
  const std::string& remark() const { return remark_; }

  // Of `relays`, in their order, those that a message of the pair may take now:
  // - none that is an end of a pair it met, which may need its own links;
  // - none at all where a pair that it met shares a GPU with it, or uses the host's memory in the
  //   other direction: both directions together are slower than each alone;
  // - not the host where a pair that it met has the host as an end;
  // - of the places that this leaves to it and to pairs of its kind that it met, as many as each of
  //   these has: one that had more would take the others' part of the host's memory.
  std::vector<machine::endpoint> idle_relays(const pair& asked,
                                             const std::vector<machine::endpoint>& relays,
                                             std::uint64_t now_ns) const;
  // A message of the pair is about to be made, and will take `busy_ns`. It meets what is in use
  // now; of two threads that do this at the same time one sees the other.
  void add_use(const pair& asked, traffic_user by, std::uint64_t now_ns, std::uint64_t busy_ns);
  // It will take that much less.
  void reduce_use(const pair& asked, std::uint64_t less_ns);

 private:
  static constexpr std::size_t ends = most_gpus + 1;  // the host is the last
  static constexpr std::size_t pairs = ends * ends;

  // Zeros are an empty one. Whatever is there by accident ages.
  struct memory {
    struct in_use {
      std::atomic<std::uint64_t> until_ns;
      std::atomic<traffic_user> by;
    };
    std::atomic<std::uint64_t> format;
    std::array<std::atomic<std::uint64_t>, most_gpus> gpus;  // of their names; 0: none
    std::array<in_use, pairs> uses;
    std::array<std::array<std::atomic<std::uint64_t>, pairs>, pairs> met_ns;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  struct places;

  void map_file(const std::string& file);
  bool register_gpus(const std::vector<std::string>& gpus);
  // In the memory; nothing for a GPU that has no place there.
  std::optional<std::size_t> place_of(machine::endpoint end) const;
  std::optional<places> places_of(const pair& asked) const;
  std::size_t registered_gpus() const;
  template <class Visit>
  void each_other(const places& own, const Visit& visit) const;
  std::vector<std::optional<std::size_t>> gpus_;  // their places
  bool shared_ = false;
  std::string remark_;
  memory* memory_ = nullptr;
};

// The file by which a user's processes share a table unless they are told another.
std::string standard_traffic_file();

}  // namespace interlace::cuda
