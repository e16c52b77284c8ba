// The times in which an engine's messages use the links of the GPUs. A traffic table shows these
// times to all engines and processes. The table also tells each message which relays it may use.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda/transfer/copy_call.hpp"
#include "cuda/transfer/copy_routes.hpp"
#include "cuda/transfer/traffic_table.hpp"

namespace interlace::cuda {

// Records the use of links. Thread-safe. All times are in ns of the engine's clock.
class link_usage {
 public:
  // `routes` must outlive this object. `gpus` and `file` are the arguments of a traffic_table.
  link_usage(const copy_routes& routes, const std::vector<std::string>& gpus,
             const std::string& file, std::function<std::uint64_t()> clock);

  const traffic_table& table() const { return traffic_; }
  std::uint64_t now_ns() const { return clock_(); }

  // The user that stands for a stream in the table. Does not call the driver. A later stream can
  // have the same handle. The table confuses two such streams, but only for a short time.
  traffic_user user_of(CUstream_st* stream, CUctx_st* context) const;
  // Notes that a message is about to be made and will take its direct path.
  void add_direct(const copy_message& one, traffic_user user, std::uint64_t now_ns);
  // The elements of `relays` that the message may use now.
  std::vector<machine::endpoint> idle_relays(const copy_message& one,
                                             const std::vector<machine::endpoint>& relays,
                                             std::uint64_t now_ns) const;
  // Notes that the call's messages were enqueued according to their plan, from `begin_ns` on. The
  // plan's times replace the times of the direct paths.
  void replace_by_plan(const copy_call& call, std::uint64_t begin_ns);

 private:
  const copy_routes& routes_;
  traffic_table traffic_;
  std::function<std::uint64_t()> clock_;
  // A random number that distinguishes this engine's streams from the streams of other engines.
  traffic_user own_streams_;
};

}  // namespace interlace::cuda
