// Traces of accesses: functions that compute statistics, convert the traces of other tools, and
// replay traces.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "interlace/machine/machine.hpp"

namespace interlace::run {

struct trace_range {  // has the fields of `range` in sim/trace/instruction.hpp
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t gpu = 0;
  std::uint64_t page_bytes = 0;
};

struct trace_head {
  std::uint32_t gpus = 1;
  std::uint32_t warp_width = 32;
  std::vector<trace_range> ranges;
  std::string source;
};

struct trace_statistics {
  trace_head head;
  std::uint64_t file_bytes = 0;  // the size of the file; 0 if it is not in Interlace's format
  struct gpu {
    std::uint64_t launches = 0;
    std::uint64_t blocks = 0;
    std::array<std::uint64_t, 3> own{}, remote{}, own_bytes{}, remote_bytes{};  // one for each kind
  };
  std::vector<gpu> gpus;
  std::vector<std::uint64_t> matrix;  // numbers of bytes; the index is gpu * GPUs + home
  std::uint64_t copies = 0, exchanges = 0, calls = 0, host_copies = 0, copied_bytes = 0;
  std::array<std::uint64_t, 9> instructions{};  // the index is the action: load, store, atomic,
                                                // release, compute, shared, shuffle, wait, barrier
  std::array<std::uint64_t, 3> lanes{}, bytes{};
  // Maps a pair (kind, bytes) to a count.
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> widths;
  std::array<std::uint64_t, 3> distinct_bytes{};
  // The first index is the kind. The second index is the size of units: 32, 64 or 128 bytes.
  std::array<std::array<std::uint64_t, 3>, 3> touched{};
  std::array<std::uint64_t, 8> remote_runs{};  // runs of up to 1, 2, 4 ... 128 bytes
  std::vector<std::string> names;              // different names of kernels in order, at most 100
};

bool is_trace_file(const std::string& beginning);

// Reads a whole trace file and checks it. Calls `progress` from time to time with the number of
// bytes that were read.
trace_statistics read_statistics(const std::string& path,
                                 const std::function<void(std::uint64_t)>& progress);

struct listed_step {  // a step of Accel-Sim's kernelslist.g
  bool is_copy = false;
  bool to_gpu = false;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::string file;
  std::uint64_t line = 0;
};
std::vector<listed_step> read_kernels_list(std::string_view text, const std::string& file);

// Converts another tool's trace, piece by piece, to a trace file or only to statistics. All
// functions throw usage_error. The message names the file and the line.
class trace_conversion {
 public:
  virtual ~trace_conversion() = default;
  // For accel-sim only: `copy` takes a step that is a copy. `begin_file` begins the file of a
  // kernel.
  virtual void copy(const listed_step& step, const std::string& list) = 0;
  virtual void begin_file(const std::string& name, std::uint32_t gpu) = 0;
  virtual void feed(std::string_view text) = 0;
  virtual void end_file() = 0;
  virtual std::uint64_t lines() const = 0;
  // Ends the conversion. The output file then appears under its name. Returns the statistics of the
  // trace.
  virtual trace_statistics finish() = 0;
};

struct trace_source {
  std::string format;                               // accel-sim, nvbit or mgpusim
  std::string name;                                 // the name of the file in errors
  trace_head head;                                  // for mgpusim, the head has no ranges
  std::map<std::uint64_t, std::uint32_t> contexts;  // for nvbit: the GPU of each context
  std::string component;  // for mgpusim: a text that the names of wanted components contain
};
// Makes a conversion that writes the trace to the file `path`. If `path` is empty, the conversion
// only computes statistics.
std::unique_ptr<trace_conversion> convert_trace(const trace_source& from, const std::string& path);

struct trace_replay {
  double time_s = 0;
  std::uint64_t instructions = 0;  // the number of accesses of warps in the file
  std::uint64_t lanes = 0;
  std::uint64_t accesses = 0;  // the number of pairs (instruction of a warp, line)
  std::uint64_t remote_transactions = 0;
  std::uint64_t l1_hits = 0, l1_misses = 0;
  // Pairs (payload, all bytes on the wire).
  std::array<std::uint64_t, 2> stores{}, reads{}, copies{}, exchanges{};
  std::uint64_t host_copies = 0;  // copies from or to the host; the replay leaves them out
};
trace_replay replay_trace(const std::string& path, const machine::machine& described,
                          const std::string& mechanism,
                          const std::function<void()>& check_interrupt);

}  // namespace interlace::run
