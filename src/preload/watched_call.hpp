// Records the program's calls for `interlace run --report` and `--timeline`. A record says who
// makes the call, how long the driver takes, and between which memories the call copies.
//
// A call site is the first function outwards that belongs neither to this library nor to the CUDA
// runtime or the driver. To find a call site, the library must walk the stack, which takes time. It
// therefore records only a sample of the calls for small copies. Each recorded call also stands for
// the unrecorded calls before it. Every call for a large copy is recorded. Memory is bounded: the
// sites and calls have their places in the file of counters, and a process remembers a fixed number
// of stacks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/transfer/driver_table.hpp"
#include "preload/counters.hpp"
#include "preload/entries.hpp"

namespace interlace::preload {

// Whether the user asked for call sites or for a list of calls. The value is set before the program
// starts.
extern bool watching;

// Records one call of the program to the driver. The object lives as long as that call. If the user
// asked for neither call sites nor a list of calls, the constructor only tests a flag.
class watched_call {
 public:
  // Records `pieces` copies that have `bytes` bytes in all. The addresses are those of the first
  // copy.
  watched_call(entry which, cuda::device_address to, cuda::device_address from, std::size_t bytes,
               std::size_t pieces = 1) noexcept
      : which_(which) {
    if (!watching) return;
    to_ = to;
    from_ = from;
    bytes_ = bytes;
    pieces_ = pieces;
    begin();
  }
  ~watched_call() {
    if (wanted_) end();
  }
  watched_call(const watched_call&) = delete;
  watched_call& operator=(const watched_call&) = delete;

 private:
  void begin() noexcept;
  void end() noexcept;

  entry which_;
  bool wanted_ = false;
  std::uint32_t weight_ = 0;  // number of calls for which this call stands; 0 if it is not sampled
  cuda::device_address to_ = 0;
  cuda::device_address from_ = 0;
  std::size_t bytes_ = 0;
  std::size_t pieces_ = 0;
  std::uint64_t begin_ns_ = 0;
};

// Gives the child of a fork its own call sites. The child must call this function.
void watched_calls_forked() noexcept;

}  // namespace interlace::preload
