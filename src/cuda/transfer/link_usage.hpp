// How long the messages of an engine use the links of the GPUs, told to all engines and processes
// by a traffic table, and which relays this leaves to a message.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda/transfer/copy_call.hpp"
#include "cuda/transfer/copy_routes.hpp"
#include "cuda/transfer/traffic_table.hpp"

namespace interlace::cuda {

// Thread-safe. All times are in ns of the engine's clock.
class link_usage {
 public:
  // `routes` must outlive this. GPUs and file as for a traffic_table.
  link_usage(const copy_routes& routes, const std::vector<std::string>& gpus,
             const std::string& file, std::function<std::uint64_t()> clock);

  const traffic_table& table() const { return traffic_; }
  std::uint64_t now_ns() const { return clock_(); }

  // The user that stands for a stream in the table. Asks nothing of the driver. A handle can belong
  // to another stream later; the effect of that is short-lived.
  traffic_user user_of(CUstream_st* stream, CUctx_st* context) const;
  // The message is about to be made and will take its direct path.
  void add_direct(const copy_message& one, traffic_user user, std::uint64_t now_ns);
  // The `relays` that the message may use now.
  std::vector<machine::endpoint> idle_relays(const copy_message& one,
                                             const std::vector<machine::endpoint>& relays,
                                             std::uint64_t now_ns) const;
  // The call's messages were enqueued by their plan, from `begin_ns` on: replaces the time of their
  // direct paths by the plan's.
  void replace_by_plan(const copy_call& call, std::uint64_t begin_ns);

 private:
  const copy_routes& routes_;
  traffic_table traffic_;
  std::function<std::uint64_t()> clock_;
  traffic_user own_streams_;  // random: tells this engine's streams from other engines'
};

}  // namespace interlace::cuda
