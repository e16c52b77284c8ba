// What stands behind `interlace::copier`: looks at a message's memories, has it planned, and hands
// it to the executor that fits; or copies it plainly.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cuda/transfer/contexts.hpp"
#include "cuda/transfer/graph_cache.hpp"
#include "cuda/transfer/memory_view.hpp"
#include "cuda/transfer/plan_cache.hpp"
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
};

class copy_engine {
 public:
  // `find_machine` is called once, when it is needed; `report` gets sentences for people, each
  // once. Both may be empty: then this process's machine, and lines in the log.
  copy_engine(const driver_table& driver, const copy_options& options,
              std::function<copy_machine()> find_machine = {},
              std::function<void(const std::string&)> report = {});
  ~copy_engine();
  copy_engine(const copy_engine&) = delete;
  copy_engine& operator=(const copy_engine&) = delete;

  // As `copier` promises.
  void copy(device_address to, device_address from, std::uint64_t bytes, CUstream_st* stream);
  void prepare();
  copy_statistics statistics() const;

 private:
  // All that a message over several paths needs, made by the first one.
  struct parts;
  struct message;

  parts* ready();
  void make_parts();
  void plainly(device_address to, device_address from, std::uint64_t bytes, CUstream_st* stream);
  std::optional<message> examine(parts& have, device_address to, device_address from,
                                 std::uint64_t bytes, CUstream_st* stream);
  bool over_paths(parts& have, message& one);
  bool capture(parts& have, message& one);
  bool run(parts& have, message& one);
  bool reach(parts& have, const message& one);
  bool stage(parts& have, message& one, unsigned long long stream_id);
  void unstage(parts& have, message& one, const shared_completion& end);
  void report(const std::string& sentence);

  const driver_table& driver_;
  copy_options options_;
  std::function<copy_machine()> find_machine_;
  std::function<void(const std::string&)> report_;
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
