// A cache of executable graphs. The key is the shape of the program and the role of the call,
// together with the contexts and origins of the memory at the ends of the messages. Addresses are
// not part of the key. An executable never runs twice at the same time, so a shape has several
// executables if its messages overlap. The cache keeps a bounded number of executables. When it
// needs room, it drops the least recently used executable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/transfer/graph_executor.hpp"
#include "cuda/transfer/memory_view.hpp"

namespace interlace::cuda {

struct graph_key {
  // The context and origin of an end. An executable can be changed only to addresses with the same
  // contexts and origins.
  struct end {
    CUctx_st* context = nullptr;
    memory_origin origin = memory_origin::plain;

    friend bool operator==(const end&, const end&) = default;
  };
  std::shared_ptr<const std::string> shape;
  std::size_t shape_hash = 0;
  std::vector<end> ends;  // source and destination of each message
  std::uint32_t role = 0;

  friend bool operator==(const graph_key& one, const graph_key& other) {
    return one.shape_hash == other.shape_hash && one.role == other.role && one.ends == other.ends &&
           (one.shape == other.shape || *one.shape == *other.shape);
  }
};

struct graph_counts {
  std::uint64_t hits = 0;       // number of times that an idle executable was found
  std::uint64_t misses = 0;     // number of times that no idle executable was found
  std::uint64_t evictions = 0;  // number of executables that were dropped to make room
  std::uint64_t executables = 0;
  graph_times times;
};

class graph_cache {
 public:
  // Makes a cache that keeps at most `bound` executables. `bound` must be at least 1.
  explicit graph_cache(std::size_t bound) : bound_(bound) {}
  ~graph_cache();
  graph_cache(const graph_cache&) = delete;
  graph_cache& operator=(const graph_cache&) = delete;

  // Takes an executable that is idle, or that ends before the next work of the stream. Returns null
  // if there is none.
  std::unique_ptr<graph_executable> take(const graph_key& key, const stream_identity& stream);
  // Keeps the executable for other messages, which can use it once `end` is complete. A caller must
  // not keep an executable that failed.
  void keep(const graph_key& key, std::unique_ptr<graph_executable> used, shared_completion end);

  void add_times(const graph_times& spent);
  graph_counts counts() const;

 private:
  struct entry {
    graph_key key;
    std::unique_ptr<graph_executable> executable;
    shared_completion end;
  };
  using entries = std::list<entry>;
  struct hash {
    std::size_t operator()(const graph_key& key) const { return key.shape_hash; }
  };

  void drop_oldest(entries& dropped);

  std::size_t bound_;
  mutable std::mutex mutex_;
  entries kept_;  // most recently used executable first
  std::unordered_multimap<graph_key, entries::iterator, hash> by_key_;
  graph_counts counts_;
};

}  // namespace interlace::cuda
