// What stands behind `interlace::copier`: looks at the memories of a message, or of several, has
// them planned, and hands them to the executor that fits; or copies them plainly.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cuda/transfer/contexts.hpp"
#include "cuda/transfer/graph_cache.hpp"
#include "cuda/transfer/memory_view.hpp"
#include "cuda/transfer/plan_cache.hpp"
#include "cuda/transfer/reduction_image.hpp"
#include "cuda/transfer/staging_pool.hpp"
#include "cuda/transfer/stream_executor.hpp"
#include "cuda/transfer/traffic_table.hpp"
#include "interlace/copy.hpp"
#include "machine/machine.hpp"

namespace interlace::cuda {

// A machine with figures for copies, and CUDA's numbers of its GPUs.
struct copy_machine {
  machine::machine described;
  std::vector<int> gpus;
  std::vector<std::string> names = {};  // by which other processes know them too
  bool hides_gpus = false;              // there are more, which this process cannot use
  // What a profile belongs to.
  std::string model = {};
  std::string driver = {};
  std::vector<std::string> remarks = {};  // sentences for people
};

// What became of a message.
enum class copy_result : std::uint8_t {
  streams,   // over several paths
  graph,     // the same
  captured,  // the same, in the caller's graph
  // The others are one plain copy, because ...
  small,          // it has fewer bytes than the threshold, or the options say so
  one_path,       // no other path makes it faster, or other messages are there for their links
  one_place,      // both ends are in one GPU, or in the host
  pageable,       // host memory is not page-locked, or the driver does not know the memory
  managed,        // the driver moves the memory
  mixed,          // the memory is in several places
  unreachable,    // a GPU that would relay it has no access to the memory
  no_staging,     // staging memory, or streams, are all in use
  other_context,  // its stream or memory is of a context that is not a primary one
  capturing,      // its stream is being captured, or the driver does not tell
  useless,        // there is one GPU, or the engine could not start
};

struct copy_report {
  copy_result result = copy_result::useless;
  bool enqueued = false;  // if not, the plain copy is left to the caller
  memory_view source;     // as far as they were looked at
  memory_view destination;
  double predicted_s = 0;  // over several paths
  double direct_s = 0;     // as one plain copy
};

struct batch_part {
  device_address to = 0;
  device_address from = 0;
  std::uint64_t bytes = 0;
};

struct all_reduce_call {
  std::vector<device_address> send;  // by participant
  std::vector<device_address> receive;
  std::uint64_t count = 0;  // elements
  reduced_type type = reduced_type::float32;
  reduce_by by = reduce_by::sum;
};

class copy_engine {
 public:
  // `find_machine` is called once, when it is needed; `report` gets sentences for people, each
  // once; `clock` tells ns. They may be empty: then this process's machine, lines in the log, and
  // the monotonic clock. `image` has the kernels of all-reduces and outlives the engine.
  copy_engine(const driver_table& driver, const copy_options& options,
              std::function<copy_machine()> find_machine = {},
              std::function<void(const std::string&)> report = {},
              std::function<std::uint64_t()> clock = {},
              std::span<const std::byte> image = reduction_image());
  ~copy_engine();
  copy_engine(const copy_engine&) = delete;
  copy_engine& operator=(const copy_engine&) = delete;

  // As `copier` promises.
  void copy(device_address to, device_address from, std::uint64_t bytes, CUstream_st* stream);
  // As `copier::copy_batch_async` promises.
  void copy_batch(std::span<const batch_part> copies, CUstream_st* stream);
  // As `copier::all_reduce_async` promises.
  void all_reduce(const all_reduce_call& what, CUstream_st* stream);
  // As `copy` for callers with a plain copy of their own: what would be one, and all that goes to a
  // stream that is being captured, is left to them, unless it is reported as enqueued. Throws
  // device_error where the driver fails; then nothing of it is under way.
  copy_report carry(device_address to, device_address from, std::uint64_t bytes,
                    CUstream_st* stream);
  void prepare();
  // Whether any message can go over several paths, or those of other processes have to keep off its
  // path; does what `prepare` does.
  bool useful();
  copy_statistics statistics() const;

 private:
  // All that a message over several paths needs, made by the first one.
  struct parts;
  static std::vector<std::unique_ptr<parts>>& outlived();
  struct message;
  struct transfer;

  parts* ready();
  void make_parts();
  void take_profile(parts& have);
  void plainly(device_address to, device_address from, std::uint64_t bytes, CUstream_st* stream);
  static memory_view coarsely(const memory_facts& seen);
  bool ask_capture(transfer& call) const;
  bool ask_stream(const parts& have, transfer& call) const;
  std::optional<copy_result> look(const parts& have, message& one, const memory_facts& source,
                                  const memory_facts& destination) const;
  bool examine(parts& have, transfer& call, bool captures, copy_report& told);
  bool examine_batch(parts& have, transfer& call);
  bool over_paths(parts& have, transfer& call, copy_report& told);
  bool together(parts& have, transfer& call);
  std::vector<int> gpus_of(const parts& have, const all_reduce_call& what) const;
  void give_to(parts& have, CUgraph_st* graph, std::vector<placed_block> blocks);
  bool capture(parts& have, transfer& call);
  bool run_seen(parts& have, transfer& call, copy_result& by);
  bool run(parts& have, transfer& call, copy_result& by);
  bool reach(const transfer& call);
  bool stage(parts& have, transfer& call);
  void unstage(parts& have, transfer& call, const shared_completion& end);
  void report(const std::string& sentence);

  const driver_table& driver_;
  copy_options options_;
  std::function<copy_machine()> find_machine_;
  std::function<void(const std::string&)> report_;
  std::atomic<std::uint64_t> threshold_bytes_;
  std::function<std::uint64_t()> clock_;
  std::span<const std::byte> image_;
  std::once_flag made_;
  std::atomic<parts*> ready_{nullptr};
  std::unique_ptr<parts> parts_;
  std::mutex reports_mutex_;
  std::set<std::string> reported_;
  std::atomic<std::uint64_t> direct_{0}, streams_{0}, graphs_{0}, captured_{0}, bytes_{0};
};

// The machine that this process runs on.
copy_machine this_machine(const driver_table& driver);

}  // namespace interlace::cuda
