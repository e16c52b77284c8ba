#include "cuda/transfer/nccl_regions.hpp"

#include <algorithm>
#include <utility>

#include "interlace/cuda/check.hpp"

namespace interlace::cuda {

nccl_regions::nccl_regions(std::vector<int> gpus, std::vector<cudaStream_t> streams)
    : gpus_(std::move(gpus)),
      streams_(std::move(streams)),
      communicators_(nccl_library::of_process(), gpus_) {
  remarks_.push_back("NCCL " + nccl_library::of_process().version() +
                     ", without multicast in the switches (NCCL_NVLS_ENABLE=0)");
}

void nccl_regions::add(std::uint32_t id, const kernel::region_state& state) {
  planned p;
  p.plan = kernel::plan_collective(state);
  const std::uint64_t bytes = state.elements * state.element_bytes;
  for (std::uint32_t parity = 0; parity < 2; ++parity) {
    auto& buffers = p.buffers.emplace_back();
    for (std::uint32_t d = 0; d < gpus_.size(); ++d) {
      buffers.push_back(static_cast<std::byte*>(state.buffers[d][parity]));
    }
  }
  for (std::uint32_t d = 0; d < gpus_.size(); ++d) {
    const current_device on(gpus_[d]);
    std::vector<std::pair<std::byte*, std::uint64_t>> used;
    if (p.plan.scratch_bytes != 0) {
      p.scratch.push_back(static_cast<std::byte*>(memory_.take(gpus_[d], p.plan.scratch_bytes)));
      used.emplace_back(p.scratch.back(), p.plan.scratch_bytes);
    } else {
      for (const auto& buffers : p.buffers) used.emplace_back(buffers[d], bytes);
    }
    for (const auto& [data, size] : used) {
      const std::string refused = communicators_.register_buffer(d, data, size);
      if (refused.empty()) continue;
      const std::string remark = "NCCL takes unregistered buffers: " + refused;
      if (std::find(remarks_.begin(), remarks_.end(), remark) == remarks_.end()) {
        remarks_.push_back(remark);
      }
    }
  }
  regions_.insert_or_assign(id, std::move(p));
  for (std::uint32_t parity = 0; parity < 2; ++parity) enqueue({{id, parity}});
  for (std::uint32_t d = 0; d < gpus_.size(); ++d) {
    const current_device on(gpus_[d]);
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(streams_[d]));
  }
}

void nccl_regions::enqueue_copies(const planned& p, std::uint32_t parity, bool pack) const {
  const auto& copies = pack ? p.plan.pack : p.plan.unpack;
  for (std::uint32_t d = 0; d < gpus_.size(); ++d) {
    if (copies[d].empty()) continue;
    INTERLACE_CUDA_CHECK(cudaSetDevice(gpus_[d]));
    std::byte* const from = pack ? p.buffers[parity][d] : p.scratch[d];
    std::byte* const to = pack ? p.scratch[d] : p.buffers[parity][d];
    for (const kernel::part_copy& c : copies[d]) {
      INTERLACE_CUDA_CHECK(cudaMemcpyAsync(to + c.to, from + c.from, c.bytes,
                                           cudaMemcpyDeviceToDevice, streams_[d]));
    }
  }
}

void nccl_regions::enqueue(const std::vector<delivery>& deliveries) const {
  const current_device restore(gpus_.front());
  std::vector<nccl_communicators::group_member> members;
  for (const delivery& d : deliveries) {
    const planned& p = regions_.at(d.region);
    const auto& base = p.scratch.empty() ? p.buffers[d.parity] : p.scratch;
    members.push_back({&p.plan, {base.begin(), base.end()}});
    enqueue_copies(p, d.parity, true);
  }
  communicators_.enqueue(members, {streams_.begin(), streams_.end()});
  for (const delivery& d : deliveries) enqueue_copies(regions_.at(d.region), d.parity, false);
}

const char* nccl_regions::collective_of(std::uint32_t region) const {
  return kernel::collective_name(regions_.at(region).plan.how);
}

}  // namespace interlace::cuda
