// What this process has under way, so that messages between other memories keep off its paths.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "cuda/transfer/contexts.hpp"
#include "machine/machine.hpp"
#include "plan/resources.hpp"

namespace interlace::cuda {

class traffic_table {
 public:
  // Until `end` is over, transfers of a message from one memory to another use these paths.
  void add(machine::endpoint from, machine::endpoint to, const std::vector<plan::traffic>& paths,
           shared_completion end);

  // What is under way beside a message on the stream, each path once, in a fixed order. Without
  // what the stream's own work waits for anyway. Messages between the same memories do not count:
  // they share all paths alike, and another plan would only be slower. Throws device_error.
  std::vector<plan::traffic> beside(machine::endpoint from, machine::endpoint to,
                                    const stream_identity& stream);

 private:
  struct entry {
    machine::endpoint from;
    machine::endpoint to;
    std::vector<plan::traffic> paths;
    shared_completion end;
  };
  std::mutex mutex_;
  std::vector<entry> entries_;
};

}  // namespace interlace::cuda
