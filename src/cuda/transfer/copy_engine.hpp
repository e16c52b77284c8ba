// The copy engine, which does the work of `interlace::copier`. The engine classifies a message or a
// batch. It then plans and runs the message or batch over several paths, or makes a plain copy.
//
// | job                                         | files                                         |
// |---------------------------------------------|-----------------------------------------------|
// | which machine, which places and routes      | copy_machine, copy_routes                     |
// | what kind of copy a call is                 | copy_classifier                               |
// | its plan                                    | copy_planner, engine_profile, plan_cache      |
// | its execution                               | copy_runner, stream_executor, graph_executor  |
// | counts, sentences, who uses which link      | copy_accounts, link_usage, traffic_table      |
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "cuda/transfer/all_reduce.hpp"
#include "cuda/transfer/block_copier.hpp"
#include "cuda/transfer/copy_accounts.hpp"
#include "cuda/transfer/copy_batch.hpp"
#include "cuda/transfer/copy_call.hpp"
#include "cuda/transfer/copy_machine.hpp"
#include "cuda/transfer/copy_report.hpp"
#include "cuda/transfer/reduction_image.hpp"
#include "interlace/copy.hpp"

namespace interlace::cuda {

// The copy engine. Thread-safe.
class copy_engine {
 public:
  // Makes an engine. `find_machine` is called once, when the engine first needs the machine.
  // `report` gets sentences for people, each sentence once. `clock` returns ns. If `find_machine`
  // is empty, the engine plans for this process's machine. If `report` is empty, sentences become
  // lines in the log. If `clock` is empty, the engine uses the monotonic clock. `image` has the
  // kernels of all-reduces and must outlive the engine.
  copy_engine(const driver_table& driver, const copy_options& options,
              std::function<copy_machine()> find_machine = {},
              std::function<void(const std::string&)> report = {},
              std::function<std::uint64_t()> clock = {}, kernel_image image = reduction_image());
  ~copy_engine();
  copy_engine(const copy_engine&) = delete;
  copy_engine& operator=(const copy_engine&) = delete;

  // Keeps the promises of `copier::copy_async`.
  void copy(device_address to, device_address from, std::uint64_t bytes, CUstream_st* stream);
  // Keeps the promises of `copier::copy_batch_async`. `copy_call` says what the role is.
  void copy_batch(std::span<const batch_part> copies, CUstream_st* stream, std::uint32_t role = 0);
  // Keeps the promises of `copier::copy_blocks_async`.
  blocks_way copy_blocks(const block_batch& batch, CUstream_st* stream);
  // Keeps the promises of `copier::all_reduce_async`.
  void all_reduce(const all_reduce_call& what, CUstream_st* stream);
  // Does the same as `copy`, for callers that can make plain copies themselves. The engine leaves
  // two kinds of copies to the caller, and the report says so: plain copies, and all copies on
  // streams that are being captured. Throws device_error if the driver fails. After this error, no
  // part of the copy is in flight.
  copy_report try_copy(device_address to, device_address from, std::uint64_t bytes,
                       CUstream_st* stream);
  void prepare();
  // Whether the engine has anything to do in this process: a message can take several paths, or the
  // messages of other processes must avoid this process's paths. Does the work of `prepare` first.
  bool usable();
  copy_statistics statistics() const;

 private:
  // The objects that messages over several paths need. The first such message makes these objects.
  struct multi_path;

  static std::vector<std::unique_ptr<multi_path>>& owned_by_graphs();
  multi_path* started();
  void start();
  bool reaches_threshold(std::uint64_t bytes) const;
  void plain_copy(device_address to, device_address from, std::uint64_t bytes, CUstream_st* stream);
  bool copy_over_paths(multi_path& on, copy_call& call, copy_report& report);
  bool copy_batch_over_paths(multi_path& on, copy_call& call);
  static bool run(multi_path& on, copy_call& call, copy_result& result);

  const driver_table& driver_;
  copy_options options_;
  copy_accounts accounts_;
  block_copier blocks_;
  std::function<copy_machine()> find_machine_;
  std::atomic<std::uint64_t> threshold_bytes_;
  std::function<std::uint64_t()> clock_;
  kernel_image image_;
  std::once_flag start_once_;
  std::unique_ptr<multi_path> multi_path_;
  // The pointer is null if the engine has not started or cannot take several paths.
  std::atomic<multi_path*> started_{nullptr};
};

}  // namespace interlace::cuda
