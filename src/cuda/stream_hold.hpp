// Holds streams until the host has enqueued all work, so that measurements contain no host time.
#pragma once

#include <cuda_runtime.h>

#include "interlace/cuda/memory/memory.hpp"

namespace interlace::cuda {

class stream_hold {
 public:
  stream_hold();
  ~stream_hold() { release(); }
  stream_hold(const stream_hold&) = delete;
  stream_hold& operator=(const stream_hold&) = delete;
  stream_hold(stream_hold&&) = delete;
  stream_hold& operator=(stream_hold&&) = delete;

  // Loads the waiting kernel on the current device. Call this function for each device before a
  // stream is held.
  static void load();
  // Makes all work that is enqueued after this call wait until `release`.
  void close() noexcept { ++ticket_; }
  // Holds a stream of the current device. Later work on the stream starts only after release(), or
  // after 10 s.
  void enqueue(cudaStream_t stream);
  void release() noexcept;
  // Throws device_error if a stream continued before its release. Call this function after the
  // streams have ended.
  void check() const;

 private:
  struct words {
    unsigned int ticket;   // the host stores this word
    unsigned int expired;  // a device stores 1 when a wait passes the deadline
  };
  words* shared() const { return static_cast<words*>(memory_.data()); }

  mapped_memory memory_;
  unsigned int ticket_ = 0;
};

}  // namespace interlace::cuda
