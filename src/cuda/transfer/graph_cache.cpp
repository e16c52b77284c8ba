#include "cuda/transfer/graph_cache.hpp"

#include <algorithm>
#include <exception>
#include <iterator>
#include <utility>

namespace interlace::cuda {

graph_cache::~graph_cache() {
  for (const entry& one : kept_) {
    try {
      one.end->wait();
    } catch (const std::exception&) {  // the GPU has failed, so its work has ended
      continue;
    }
  }
}

std::unique_ptr<graph_executable> graph_cache::take(const graph_key& key,
                                                    const stream_identity& stream) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = by_key_.equal_range(key);
  // The executable of the stream's last message probably has the right addresses. This choice also
  // saves a question to the driver, because this executable ends before the stream's next work.
  const auto own =
      std::find_if(first, last, [&](const auto& one) { return one.second->end->is_of(stream); });
  const auto found = own != last ? own : std::find_if(first, last, [](const auto& one) {
    return one.second->end->done();
  });
  if (found == last) {
    ++counts_.misses;
    return nullptr;
  }
  std::unique_ptr<graph_executable> taken = std::move(found->second->executable);
  kept_.erase(found->second);
  by_key_.erase(found);
  ++counts_.hits;
  return taken;
}

void graph_cache::keep(const graph_key& key, std::unique_ptr<graph_executable> used,
                       shared_completion end) {
  entries dropped;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  kept_.push_front({key, std::move(used), std::move(end)});
  by_key_.emplace(key, kept_.begin());
  while (kept_.size() > bound_) drop_oldest(dropped);
}

// If an executable is still running, the driver frees it when it has ended.
void graph_cache::drop_oldest(entries& dropped) {
  const auto oldest = std::prev(kept_.end());
  const auto [first, last] = by_key_.equal_range(oldest->key);
  for (auto at = first; at != last; ++at) {
    if (at->second != oldest) continue;
    by_key_.erase(at);
    break;
  }
  dropped.splice(dropped.end(), kept_, oldest);
  ++counts_.evictions;
}

void graph_cache::add_times(const graph_times& spent) {
  const std::lock_guard lock(mutex_);
  counts_.times += spent;
}

graph_counts graph_cache::counts() const {
  const std::lock_guard lock(mutex_);
  graph_counts now = counts_;
  now.executables = kept_.size();
  return now;
}

}  // namespace interlace::cuda
