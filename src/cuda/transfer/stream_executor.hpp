// Runs a program's copies on streams: a stream a slot, which begins behind what the caller's
// stream had to do and ends before what it does next, and events between the slots.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/transfer/contexts.hpp"
#include "cuda/transfer/copy_program.hpp"

namespace interlace::cuda {

// The caller's stream.
struct caller_stream {
  CUstream_st* stream = nullptr;
  stream_identity identity;
  // It waits for the legacy default stream or is it, or that is not known.
  bool blocking = true;
};

// Streams and events of one message at a time.
class lane {
 public:
  explicit lane(contexts& of);
  ~lane();
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  // Enqueues all copies. Throws device_error; then it has waited for what it had enqueued.
  void run(const copy_program& program, const addresses& where, const caller_stream& caller);
  // Those of a GPU, numbered from 0, made when they are asked for.
  CUstream_st* stream(int gpu, std::size_t number);
  CUevent_st* event(int gpu, std::size_t number);
  // Waits for all of its streams and the caller's, after a failure.
  void wait(CUstream_st* caller) const noexcept;

 private:
  void enqueue(const copy_program& program, const addresses& where, const caller_stream& caller);

  contexts& contexts_;
  std::vector<std::vector<CUstream_st*>> streams_;  // by GPU
  std::vector<std::vector<CUevent_st*>> events_;    // by GPU
};

// Lanes that messages share in turn, as many as there were messages under way at once.
class stream_executor {
 public:
  explicit stream_executor(contexts& of) : contexts_(of) {}
  ~stream_executor();
  stream_executor(const stream_executor&) = delete;
  stream_executor& operator=(const stream_executor&) = delete;

  // Enqueues the message; what is returned belongs to `keep` once its end is known. Nothing if as
  // many messages as are allowed are under way.
  std::unique_ptr<lane> run(const copy_program& program, const addresses& where,
                            const caller_stream& caller);
  // A lane that nobody uses whom the stream's next work does not run behind; otherwise as `run`.
  std::unique_ptr<lane> take(const stream_identity& next);
  void keep(std::unique_ptr<lane> used, shared_completion end);

 private:
  struct idle {
    std::unique_ptr<lane> streams;
    shared_completion end;
  };

  contexts& contexts_;
  std::mutex mutex_;
  std::vector<idle> idle_;
  std::size_t made_ = 0;
};

}  // namespace interlace::cuda
