// Runs the copies of a program on streams, with one stream for each slot. All copies start after
// the work that is on the caller's stream, and later work on the caller's stream starts after all
// of them. Events order the copies of different slots.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/transfer/contexts.hpp"
#include "cuda/transfer/copy_program.hpp"

namespace interlace::cuda {

// The known facts about the caller's stream.
struct caller_stream {
  CUstream_st* stream = nullptr;
  stream_identity identity;
  // Whether the stream is the legacy default stream or waits for that stream. True if the answer is
  // not known.
  bool blocking = true;
};

// The streams and events that one message at a time uses.
class stream_set {
 public:
  explicit stream_set(contexts& of);
  ~stream_set();
  stream_set(const stream_set&) = delete;
  stream_set& operator=(const stream_set&) = delete;

  // Enqueues all copies. If the function throws device_error, it has waited for the work that it
  // enqueued.
  void run(const copy_program& program, const addresses& where, const caller_stream& caller);
  // The stream of a GPU with this number. The streams and events of a GPU are numbered from 0. Each
  // of them is made at its first use.
  CUstream_st* stream(int gpu, std::size_t number);
  CUevent_st* event(int gpu, std::size_t number);
  // Waits for all streams of the set and for the caller's stream. `run` calls this function after a
  // failure.
  void wait(CUstream_st* caller) const noexcept;

 private:
  void enqueue(const copy_program& program, const addresses& where, const caller_stream& caller);

  contexts& contexts_;
  std::vector<std::vector<CUstream_st*>> streams_;  // one for each GPU
  std::vector<std::vector<CUevent_st*>> events_;    // one for each GPU
};

// The stream sets, which messages reuse. The number of sets is the largest number of messages that
// were in flight at the same time.
class stream_executor {
 public:
  explicit stream_executor(contexts& of) : contexts_(of) {}
  ~stream_executor();
  stream_executor(const stream_executor&) = delete;
  stream_executor& operator=(const stream_executor&) = delete;

  // Enqueues the message. Once the message's end is known, the caller must pass the returned set to
  // `keep`. Returns null if the largest allowed number of messages is in flight.
  std::unique_ptr<stream_set> run(const copy_program& program, const addresses& where,
                                  const caller_stream& caller);
  // Takes a set whose last message has ended, or will end before the next work on the stream.
  // Returns null if the largest allowed number of messages is in flight.
  std::unique_ptr<stream_set> take(const stream_identity& next);
  void keep(std::unique_ptr<stream_set> used, shared_completion end);

 private:
  struct idle {
    std::unique_ptr<stream_set> streams;
    shared_completion end;
  };

  contexts& contexts_;
  std::mutex mutex_;
  std::vector<idle> idle_;
  std::size_t made_ = 0;
};

}  // namespace interlace::cuda
