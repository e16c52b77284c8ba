#include "cuda/transfer/lent_gpus.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "cuda/transfer/copy_classifier.hpp"

namespace interlace::cuda {
namespace {

// The time that help takes even for a small batch: the time of the events, of the waits, and of
// another GPU's launch.
constexpr double help_us = 40;
// With help, a batch must take at most this part of its time without help, because the host spends
// more time on a batch with help.
constexpr double worth = 0.9;

// For each GPU that stages a part of the message, the part's share of all bytes.
std::map<int, double> shares_of(const copy_program& program, bool to_gpu) {
  std::map<int, double> found;
  double all = 0;
  for (const copy_program::copy& one : program.copies) {
    const plan::location& of_host = to_gpu ? one.from : one.to;
    const plan::location& other = to_gpu ? one.to : one.from;
    if (of_host.memory != (to_gpu ? plan::memory::source : plan::memory::destination)) continue;
    const auto bytes = static_cast<double>(one.bytes);
    all += bytes;
    if (other.memory == plan::memory::staging) found[program.buffers[other.index].place] += bytes;
  }
  for (auto& [gpu, share] : found) share /= all;
  return found;
}

class lent_gpus : public block_help {
 public:
  lent_gpus(const lender& by, copy_call call, std::unique_ptr<stream_set> streams)
      : by_(by),
        call_(std::move(call)),
        streams_(std::move(streams)),
        begin_ns_(by.usage.now_ns()) {}
  ~lent_gpus() override {
    if (streams_ == nullptr) return;
    streams_->wait(call_.caller.stream);
    by_.streams.keep(std::move(streams_), nullptr);
  }
  lent_gpus(const lent_gpus&) = delete;
  lent_gpus& operator=(const lent_gpus&) = delete;

  void begin(const std::map<int, double>& shares) {
    const driver_table& driver = by_.gpus.driver();
    const caller_stream& caller = call_.caller;
    CUevent_st* const begun = streams_->event(caller.identity.gpu, 0);
    check(driver, driver.event_record(begun, caller.stream), "cuEventRecord");
    for (const auto& [number, share] : shares) {
      CUstream_st* const stream = streams_->stream(number, 0);
      check(driver, driver.stream_wait(stream, begun, 0), "cuStreamWaitEvent");
      gpus_.push_back({by_.gpus.context_of(number), stream, share});
      numbers_.push_back(number);
    }
  }
  const std::vector<gpu>& gpus() const override { return gpus_; }
  void finish() override {
    const driver_table& driver = by_.gpus.driver();
    const caller_stream& caller = call_.caller;
    shared_completion end;
    try {
      for (std::size_t at = 0; at < gpus_.size(); ++at) {
        CUevent_st* const ended = streams_->event(numbers_[at], 0);
        check(driver, driver.event_record(ended, gpus_[at].stream), "cuEventRecord");
        check(driver, driver.stream_wait(caller.stream, ended, 0), "cuStreamWaitEvent");
      }
      if (caller.blocking) (void)by_.gpus.enqueue_work(caller.identity.gpu, caller.stream);
      end = std::make_shared<completion>(by_.gpus, caller.stream, caller.identity);
    } catch (...) {
      streams_->wait(caller.stream);
      by_.streams.keep(std::move(streams_), nullptr);
      throw;
    }
    by_.streams.keep(std::move(streams_), std::move(end));
    by_.usage.replace_by_plan(call_, begin_ns_);
  }

 private:
  lender by_;
  copy_call call_;
  std::unique_ptr<stream_set> streams_;  // null once the streams are given back
  std::uint64_t begin_ns_;
  std::vector<gpu> gpus_;
  std::vector<int> numbers_;  // numbers of the GPUs
};

}  // namespace

std::unique_ptr<block_help> lend_gpus(const lender& by, const block_need& need) {
  if (help_us > worth * need.best_us) return nullptr;
  const std::optional<int> gpu = by.gpus.gpu_of(need.context);
  if (!gpu) return nullptr;
  const auto here = by.routes.place_of({.type = memory_device, .gpu = *gpu});
  const auto host = by.routes.place_of({.type = memory_host});
  if (!here || !host) return nullptr;
  copy_message message{.bytes = need.bytes};
  message.from = need.to_gpu ? *host : *here;
  message.to = need.to_gpu ? *here : *host;
  copy_call call({message}, need.stream);
  call.choice = by.planner.choice_of(message);
  const auto& relays = by.routes.relays(message.from, message.to, call.choice);
  if (relays.empty() || by.planner.known_direct(message)) return nullptr;
  const std::uint64_t now_ns = by.usage.now_ns();
  call.user = by.usage.user_of(need.stream, need.context);
  by.usage.add_direct(message, call.user, now_ns);
  call.relays = by.usage.idle_relays(message, relays, now_ns);
  std::erase_if(call.relays, [](const machine::endpoint& place) {
    return place.kind != machine::endpoint_kind::gpu;
  });
  if (call.relays.empty() || !read_stream(by.gpus, call)) return nullptr;
  by.planner.plan_message(call);
  const std::map<int, double> shares = shares_of(call.plan->program, need.to_gpu);
  if (shares.empty()) return nullptr;
  double own = 1;
  double largest = 0;
  for (const auto& [number, share] : shares) {
    own -= share;
    largest = std::max(largest, share);
  }
  const double helped_us = help_us + need.kernel_us * std::max(own, largest);
  if (helped_us > worth * need.best_us) return nullptr;
  // Work of blocking streams does not wait for an event alone.
  if (call.caller.blocking && !by.gpus.enqueue_work(*gpu, need.stream)) return nullptr;
  std::unique_ptr<stream_set> streams = by.streams.take(call.caller.identity);
  if (streams == nullptr) return nullptr;
  auto made = std::make_unique<lent_gpus>(by, std::move(call), std::move(streams));
  made->begin(shares);
  return made;
}

}  // namespace interlace::cuda
