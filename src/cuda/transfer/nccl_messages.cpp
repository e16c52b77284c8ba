#include "cuda/transfer/nccl_messages.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::cuda {

std::vector<int> nccl_messages::gpus_of(const std::vector<nccl_message>& messages) {
  std::set<int> gpus;
  for (const nccl_message& one : messages) {
    if (one.from < 0 || one.to < 0 || one.from == one.to)
      throw usage_error("NCCL's messages are from one GPU to another, not from " +
                        std::to_string(one.from) + " to " + std::to_string(one.to));
    gpus.insert({one.from, one.to});
  }
  return {gpus.begin(), gpus.end()};
}

nccl_messages::nccl_messages(const nccl_communicators& communicators,
                             const std::vector<nccl_message>& messages)
    : communicators_(communicators) {
  using kernel::collective_call;
  const std::vector<int> gpus = gpus_of(messages);
  const auto rank_of = [&](int gpu) {
    return static_cast<std::uint32_t>(std::lower_bound(gpus.begin(), gpus.end(), gpu) -
                                      gpus.begin());
  };
  plans_.resize(messages.size());
  for (std::size_t at = 0; at < messages.size(); ++at) {
    const nccl_message& one = messages[at];
    const std::uint32_t from = rank_of(one.from);
    const std::uint32_t to = rank_of(one.to);
    plans_[at].calls.resize(gpus.size());
    plans_[at].calls[from].push_back(
        {.what = collective_call::kind::send, .peer = to, .bytes = one.bytes});
    plans_[at].calls[to].push_back(
        {.what = collective_call::kind::receive, .peer = from, .bytes = one.bytes});
    std::vector<void*> base(gpus.size(), nullptr);
    base[from] = one.source;
    base[to] = one.target;
    members_.push_back({&plans_[at], base});
  }
}

void nccl_messages::enqueue(const std::vector<opaque_stream>& streams) const {
  communicators_.enqueue(members_, streams);
}

}  // namespace interlace::cuda
