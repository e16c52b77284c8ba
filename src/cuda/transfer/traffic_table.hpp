// A table of the messages that use the links of the GPUs now. With the table, no message is relayed
// over a link that another message needs.
//
// A pair is the place from which a message comes, and the place to which the message goes. Each
// message keeps its pair in use for a part of the message's predicted time. That time begins at the
// call, or when the times of the pair's earlier messages end. The table enqueues nothing to find
// out when messages really end. Two pairs meet if a message of one pair is made while another
// stream uses the other pair. Pairs that have met avoid each other's links for a while. If the same
// messages overlap many times, only the first messages therefore slow each other down. Messages of
// one pair share all paths and do not meet.
//
// Processes share a table through a file that they map. The file contains the names of GPUs,
// because each process can number GPUs differently. The table needs no lock and no clean-up. The
// entries of a killed process expire.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "interlace/machine/machine.hpp"

namespace interlace::cuda {

// Identifies a stream among all processes. A stream runs its messages one after another.
using traffic_user = std::uint64_t;

// The table. All times are in ns of one clock, and all processes that share a table must use the
// same clock. Thread-safe.
class traffic_table {
 public:
  static constexpr std::uint32_t most_gpus = 16;
  // The time for which pairs that met avoid each other's links.
  static constexpr std::uint64_t window_ns = 500'000'000;

  struct pair {
    machine::endpoint from;
    machine::endpoint to;
  };

  // Makes a table. `gpus` are the names of the machine's GPUs, which must be the same in every
  // process. If `file` is empty, the table is not shared. If the file does not exist, it is
  // created. If the file cannot be used, the table is not shared, and `remark` says why. GPUs
  // beyond `most_gpus` never meet other GPUs.
  explicit traffic_table(const std::vector<std::string>& gpus, const std::string& file = {});
  ~traffic_table();
  traffic_table(const traffic_table&) = delete;
  traffic_table& operator=(const traffic_table&) = delete;

  bool shared() const { return shared_; }
  const std::string& remark() const { return remark_; }

  // The elements of `relays` that a message of the pair may use now, in the same order. The pairs
  // that this pair has met take away relays in four ways:
  // - A place that is an end of a met pair may not be used, because the met pair needs the place's
  //   links.
  // - No place may be used if a met pair shares a GPU with this pair, or uses the host's memory in
  //   the other direction. Both directions together are slower than each direction alone.
  // - The host may not be used if it is an end of a met pair.
  // - This pair and the met pairs of its kind share the remaining places equally. With more than
  //   its share, this pair would take the other pairs' share of the host's memory bandwidth.
  std::vector<machine::endpoint> idle_relays(const pair& asked,
                                             const std::vector<machine::endpoint>& relays,
                                             std::uint64_t now_ns) const;
  // Notes that a message of the pair is about to be made and will take `busy_ns`. The pairs that
  // are in use now become met pairs of this pair. If two threads call this function at the same
  // time, at least one of them sees the other thread's use.
  void add_use(const pair& asked, traffic_user by, std::uint64_t now_ns, std::uint64_t busy_ns);
  // Notes that a message of the pair takes `less_ns` less time than was noted before.
  void reduce_use(const pair& asked, std::uint64_t less_ns);

 private:
  static constexpr std::size_t ends = most_gpus + 1;  // the last end is the host
  static constexpr std::size_t pairs = ends * ends;

  // The shared memory. If it is full of zeros, the table is empty. Entries that are wrong by
  // accident expire.
  struct memory {
    struct in_use {
      std::atomic<std::uint64_t> until_ns;
      std::atomic<traffic_user> by;
    };
    std::atomic<std::uint64_t> format;
    // Hashes of the GPUs' names; 0 means no GPU.
    std::array<std::atomic<std::uint64_t>, most_gpus> gpus;
    std::array<in_use, pairs> uses;
    std::array<std::array<std::atomic<std::uint64_t>, pairs>, pairs> met_ns;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  struct places;

  void map_file(const std::string& file);
  bool register_gpus(const std::vector<std::string>& gpus);
  // The index of a place in the memory. There is no value for a GPU that is not registered.
  std::optional<std::size_t> place_of(machine::endpoint end) const;
  std::optional<places> places_of(const pair& asked) const;
  std::size_t registered_gpus() const;
  template <class Visit>
  void each_other(const places& own, const Visit& visit) const;
  std::vector<std::optional<std::size_t>> gpus_;  // for each GPU, its index in `memory_`
  bool shared_ = false;
  std::string remark_;
  memory* memory_ = nullptr;
};

// The path of the file through which a user's processes share a table, unless the options name
// another file.
std::string standard_traffic_file();

}  // namespace interlace::cuda
