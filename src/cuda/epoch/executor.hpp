// Runs a recording as often as requested and measures its time. The recording runs as one graph for
// each device or on plain streams.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/epoch/clock.hpp"
#include "cuda/epoch/gate.hpp"
#include "cuda/epoch/graphs.hpp"
#include "cuda/epoch/recorder.hpp"
#include "interlace/cuda/epoch/options.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::cuda {

class executor {
 public:
  executor(node_gpus& gpus, const node_arrays& arrays, const node_regions& regions,
           loaded_kernels& kernels, issuer& issues, recorder& records,
           std::vector<std::string>& remarks)
      : gpus_(gpus),
        arrays_(arrays),
        regions_(regions),
        kernels_(kernels),
        issues_(issues),
        records_(records),
        remarks_(remarks),
        clock_(gpus),
        gate_(gpus) {}

  // Ends the recording and runs it.
  kernel::run_result execute(const run_options& o);
  void open_gate() noexcept { gate_.open(); }

 private:
  using captured_graphs = std::vector<std::unique_ptr<graphs>>;
  captured_graphs capture(const std::vector<operation>& operations);
  double launch_timed(const std::vector<operation>& operations, const captured_graphs& captured,
                      stopwatch* watch);
  void launch_graphs(const graphs& captured);
  void launch_in_turn(const captured_graphs& captured);

  node_gpus& gpus_;
  const node_arrays& arrays_;
  const node_regions& regions_;
  loaded_kernels& kernels_;
  issuer& issues_;
  recorder& records_;
  std::vector<std::string>& remarks_;
  run_clock clock_;
  gate gate_;
};

}  // namespace interlace::cuda
