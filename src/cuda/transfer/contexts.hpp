// The GPUs that copies use: their primary contexts, which of them reach each other's memory, and
// events to tell when something on them is complete.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cuda/transfer/driver_table.hpp"

namespace interlace::cuda {

// Numbers of GPUs are CUDA's; this is no GPU.
inline constexpr int host_place = -1;

// A stream that a caller gave. Its handle may be another stream's later, the identity never is.
struct stream_identity {
  int gpu = 0;                   // whose primary context it belongs to
  unsigned long long id = 0;     // of the driver; 0: not known
  unsigned long long scope = 0;  // tells apart what has no id of its own: default streams

  bool same(const stream_identity& other) const {
    return id != 0 && id == other.id && gpu == other.gpu && scope == other.scope;
  }
};

// The stream is not being captured, and belongs to the GPU's primary context.
stream_identity identity_of(const driver_table& driver, CUstream_st* stream, int gpu);

class contexts {
 public:
  // Retains the primary context of every GPU and lets them reach each other's memory. Throws
  // device_error. A GPU whose context cannot be made is left out, with a sentence in `remarks`.
  explicit contexts(const driver_table& driver);
  ~contexts();
  contexts(const contexts&) = delete;
  contexts& operator=(const contexts&) = delete;

  const driver_table& driver() const { return driver_; }
  int count() const { return static_cast<int>(contexts_.size()); }
  CUctx_st* of(int gpu) const { return contexts_[static_cast<std::size_t>(gpu)]; }  // or null
  CUctx_st* any() const;  // of the first GPU that has one
  std::optional<int> gpu_of(CUctx_st* context) const;
  // Whether the GPUs can read and write each other's memory.
  bool peers(int one, int other) const;
  const std::vector<std::string>& remarks() const { return remarks_; }

  // Events without timing of a GPU's context, used again and again.
  CUevent_st* take_event(int gpu);
  void give_event(int gpu, CUevent_st* event) noexcept;

  // Enqueues work that changes nothing: the waits of a stream are none that the legacy default
  // stream and blocking streams wait for, and an event may be recorded before what they wait for
  // themselves. Only work counts. False if there is no memory for it.
  bool enqueue_work(int gpu, CUstream_st* stream);

 private:
  void reach(int one, int other);
  std::size_t pair(int from, int to) const {
    return static_cast<std::size_t>(from) * contexts_.size() + static_cast<std::size_t>(to);
  }

  const driver_table& driver_;
  std::vector<CUctx_st*> contexts_;  // null: left out
  std::vector<bool> reaches_;        // by pair
  std::vector<std::string> remarks_;
  std::mutex mutex_;
  std::vector<std::vector<CUevent_st*>> events_;  // by GPU
  std::vector<device_address> scratch_;           // by GPU; 0: not taken yet
};

// That what was enqueued on a stream until now is complete. Outlived by the contexts.
class completion {
 public:
  // Records an event on the stream.
  completion(contexts& of, CUstream_st* stream, const stream_identity& identity);
  ~completion();
  completion(const completion&) = delete;
  completion& operator=(const completion&) = delete;

  bool done() const;
  void wait() const;
  // Whether the stream's next work runs behind it, or it is complete. Throws device_error.
  bool over_for(const stream_identity& next) const { return of(next) || done(); }
  bool of(const stream_identity& other) const { return stream_.same(other); }
  const stream_identity& stream() const { return stream_; }

 private:
  contexts& contexts_;
  stream_identity stream_;
  CUevent_st* event_;
  mutable std::atomic<bool> done_{false};
};

using shared_completion = std::shared_ptr<const completion>;

}  // namespace interlace::cuda
