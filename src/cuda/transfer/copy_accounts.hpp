// The counts and messages of an engine: its share of `copy_statistics`, and its sentences for
// people.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "interlace/copy.hpp"

namespace interlace::cuda {

// Counts and reports for one engine. Thread-safe.
class copy_accounts {
 public:
  // `report` gets each sentence once. If `report` is empty, each sentence becomes one line in the
  // log of the process, even if several engines report it.
  explicit copy_accounts(std::function<void(const std::string&)> report);

  void add_bytes(std::uint64_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  // Counts a message that was one plain copy.
  void add_direct() { direct_.fetch_add(1, std::memory_order_relaxed); }
  // Each of the next three functions counts a message over several paths, or a batch.
  // `add_by_streams` counts one that ran on streams, `add_by_graph` one that ran as a graph, and
  // `add_captured` one that was added to the caller's graph.
  void add_by_streams() { streams_.fetch_add(1, std::memory_order_relaxed); }
  void add_by_graph() { graphs_.fetch_add(1, std::memory_order_relaxed); }
  void add_captured() { captured_.fetch_add(1, std::memory_order_relaxed); }
  // The counts of the functions above. All other members of the result are 0.
  copy_statistics counted() const;

  void report(const std::string& sentence);

 private:
  std::function<void(const std::string&)> report_;
  std::mutex reports_mutex_;
  std::set<std::string> reported_;
  std::atomic<std::uint64_t> direct_{0}, streams_{0}, graphs_{0}, captured_{0}, bytes_{0};
};

}  // namespace interlace::cuda
