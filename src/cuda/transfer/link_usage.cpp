#include "cuda/transfer/link_usage.hpp"

#include <sys/random.h>

#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>

namespace interlace::cuda {
namespace {

// Uses getrandom, which glibc has since 2.25. std::random_device may need glibc 2.36.
traffic_user random_user() {
  traffic_user user = 0;
  if (getrandom(&user, sizeof(user), 0) != sizeof(user)) {
    throw std::runtime_error("the system gives no random numbers (getrandom)");
  }
  return user;
}

}  // namespace

link_usage::link_usage(const copy_routes& routes, const std::vector<std::string>& gpus,
                       const std::string& file, std::function<std::uint64_t()> clock)
    : routes_(routes),
      traffic_(gpus, file),
      clock_(std::move(clock)),
      own_streams_(random_user()) {}

traffic_user link_usage::user_of(CUstream_st* stream, CUctx_st* context) const {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  constexpr std::uint64_t spread = 0x9E3779B97F4A7C15U;
  if (handle > per_thread_stream) return (handle * spread) ^ own_streams_;
  // Each context has its own default streams. The handles 0 and 1 both mean the legacy default
  // stream.
  const auto of_context = reinterpret_cast<std::uintptr_t>(context) * spread;
  if (handle != per_thread_stream) return (of_context + 1) ^ own_streams_;
  const std::size_t thread = std::hash<std::thread::id>()(std::this_thread::get_id());
  return (of_context + thread * 2) ^ own_streams_;
}

void link_usage::add_direct(const copy_message& one, traffic_user user, std::uint64_t now_ns) {
  traffic_.add_use(one.pair(), user, now_ns, routes_.direct_ns(one.from, one.to, one.bytes));
}

std::vector<machine::endpoint> link_usage::idle_relays(const copy_message& one,
                                                       const std::vector<machine::endpoint>& relays,
                                                       std::uint64_t now_ns) const {
  return traffic_.idle_relays(one.pair(), relays, now_ns);
}

void link_usage::replace_by_plan(const copy_call& call, std::uint64_t begin_ns) {
  const auto busy_ns = static_cast<std::uint64_t>(call.plan->program.predicted_s * 1e9);
  const auto messages = call.between_places();
  for (const copy_message& one : messages) {
    const std::uint64_t direct_ns = routes_.direct_ns(one.from, one.to, one.bytes);
    if (busy_ns < direct_ns)
      traffic_.reduce_use(one.pair(), direct_ns - busy_ns);
    else if (messages.size() > 1)  // the messages of a batch wait for each other
      traffic_.add_use(one.pair(), call.user, begin_ns, busy_ns - direct_ns);
  }
  // To make the first message, the host creates streams, graphs and staging memory. This work takes
  // longer than the message itself, so the message begins at about the current time.
  if (const std::uint64_t end_ns = clock_(); end_ns > begin_ns + busy_ns)
    for (const copy_message& one : messages)
      traffic_.add_use(one.pair(), call.user, end_ns, busy_ns);
}

}  // namespace interlace::cuda
