// The GPUs that copies use. This class has their primary contexts, knows their access to each
// other's memory, and provides events that complete when work on them is complete.
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

// The number of the host. Numbers of places are CUDA's numbers of GPUs, or this number.
inline constexpr int host_place = -1;

inline std::string gpu_text(int gpu) { return "gpu" + std::to_string(gpu); }

// Identifies a stream that a caller gave. A handle can belong to another stream later, but an
// identity cannot.
struct stream_identity {
  int gpu = 0;                   // GPU to whose primary context the stream belongs
  unsigned long long id = 0;     // driver's id of the stream; 0 if the id is not known
  unsigned long long scope = 0;  // distinguishes default streams, which have no id of their own

  bool same(const stream_identity& other) const {
    return id != 0 && id == other.id && gpu == other.gpu && scope == other.scope;
  }
};

// The identity of a stream. The caller must ensure that the stream is not being captured, and that
// it belongs to the GPU's primary context.
stream_identity identity_of(const driver_table& driver, CUstream_st* stream, int gpu);

class contexts {
 public:
  // Retains the primary context of every GPU and enables peer access between the GPUs. A GPU whose
  // context cannot be made is left out, and `remarks` says so. Throws device_error.
  explicit contexts(const driver_table& driver);
  ~contexts();
  contexts(const contexts&) = delete;
  contexts& operator=(const contexts&) = delete;

  const driver_table& driver() const { return driver_; }
  int count() const { return static_cast<int>(contexts_.size()); }
  // The primary context of a GPU, or null if the GPU was left out.
  CUctx_st* context_of(int gpu) const { return contexts_[static_cast<std::size_t>(gpu)]; }
  CUctx_st* any_context() const;  // context of the first GPU that was not left out
  std::optional<int> gpu_of(const CUctx_st* context) const;
  // Whether both GPUs can read and write each other's memory.
  bool peers(int one, int other) const;
  const std::vector<std::string>& remarks() const { return remarks_; }

  // Takes an event without timing in a GPU's context. Events are reused.
  CUevent_st* take_event(int gpu);
  void give_event(int gpu, CUevent_st* event) noexcept;

  // Enqueues work that changes nothing. The legacy default stream and blocking streams wait for
  // each other's work, but not for each other's waits. If an event directly follows a wait, with no
  // work between the two, the event may therefore complete before the wait ends. Returns false if
  // there is no memory for the work.
  bool enqueue_work(int gpu, CUstream_st* stream);

 private:
  void enable_access(int one, int other);
  std::size_t pair(int from, int to) const {
    return static_cast<std::size_t>(from) * contexts_.size() + static_cast<std::size_t>(to);
  }

  const driver_table& driver_;
  std::vector<CUctx_st*> contexts_;  // null for a GPU that was left out
  std::vector<bool> has_access_;     // one value for each pair of GPUs
  std::vector<std::string> remarks_;
  std::mutex mutex_;
  std::vector<std::vector<CUevent_st*>> events_;  // one for each GPU
  std::vector<device_address> scratch_;  // one for each GPU; 0 if the memory was not taken yet
};

// Tells when the work on a stream is complete. The contexts must outlive this object.
class completion {
 public:
  // Records an event on the stream. Throws device_error.
  completion(contexts& of, CUstream_st* stream, const stream_identity& identity);
  ~completion();
  completion(const completion&) = delete;
  completion& operator=(const completion&) = delete;

  bool done() const;
  void wait() const;
  // Whether the next work on the stream `next` runs only after this completion. Throws
  // device_error.
  bool precedes(const stream_identity& next) const { return is_of(next) || done(); }
  bool is_of(const stream_identity& other) const { return stream_.same(other); }
  const stream_identity& stream() const { return stream_; }

 private:
  contexts& contexts_;
  stream_identity stream_;
  CUevent_st* event_;
  mutable std::atomic<bool> done_{false};
};

using shared_completion = std::shared_ptr<const completion>;

}  // namespace interlace::cuda
