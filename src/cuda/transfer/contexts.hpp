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

 private:
  void reach(int one, int other);
  std::size_t pair(int one, int other) const {
    return static_cast<std::size_t>(one) * contexts_.size() + static_cast<std::size_t>(other);
  }

  const driver_table& driver_;
  std::vector<CUctx_st*> contexts_;  // null: left out
  std::vector<bool> reaches_;        // by pair
  std::vector<std::string> remarks_;
  std::mutex mutex_;
  std::vector<std::vector<CUevent_st*>> events_;  // by GPU
};

// That what was enqueued on a stream until now is complete. Outlived by the contexts.
class completion {
 public:
  // Records an event on the stream, which belongs to the GPU's context. `stream_id` is unique to
  // the stream in the life of the process; 0 where it has none.
  completion(contexts& of, int gpu, CUstream_st* stream, unsigned long long stream_id);
  ~completion();
  completion(const completion&) = delete;
  completion& operator=(const completion&) = delete;

  bool done() const;
  void wait() const;
  // Whether the stream's next work runs behind it, or it is complete. Throws device_error.
  bool over_for(unsigned long long stream_id) const {
    return (stream_id != 0 && stream_id == stream_id_) || done();
  }
  unsigned long long stream_id() const { return stream_id_; }

 private:
  contexts& contexts_;
  int gpu_;
  unsigned long long stream_id_;
  CUevent_st* event_;
  mutable std::atomic<bool> done_{false};
};

using shared_completion = std::shared_ptr<const completion>;

}  // namespace interlace::cuda
