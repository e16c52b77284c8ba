// Keeps streams waiting until the host has enqueued everything, so that what the host takes is in
// no figure.
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

  // Loads what waits, on the current device; for each device, before anything is held.
  static void load();
  // What is enqueued from here on waits.
  void close() noexcept { ++ticket_; }
  // Nothing behind this runs on the stream, which is of the current device, until release() or for
  // 10 s.
  void enqueue(cudaStream_t stream);
  void release() noexcept;
  // Throws device_error if a stream went on before it was released. Behind the streams' end.
  void check() const;

 private:
  struct words {
    unsigned int ticket;   // the host's
    unsigned int expired;  // a device's
  };
  words* shared() const { return static_cast<words*>(memory_.data()); }

  mapped_memory memory_;
  unsigned int ticket_ = 0;
};

}  // namespace interlace::cuda
