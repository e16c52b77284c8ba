#include "interlace/cuda/rank_node.hpp"

#include <cstddef>

#include "cuda/load_kernel.hpp"

namespace interlace::cuda {

rank_node::rank_node(const nvshmem_rank& self, int ordinal) : self_(self), ordinal_(ordinal) {
  INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal_));
  INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  to_peers_.resize(devices(), nullptr);
  for (cudaStream_t& stream : to_peers_) {
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  INTERLACE_CUDA_CHECK(cudaEventCreateWithFlags(&order_, cudaEventDisableTiming));
  INTERLACE_CUDA_CHECK(cudaEventCreate(&start_));
  INTERLACE_CUDA_CHECK(cudaEventCreate(&stop_));
}

rank_node::~rank_node() {
  for (cudaEvent_t event : {order_, start_, stop_}) INTERLACE_CUDA_LOG(cudaEventDestroy(event));
  for (cudaStream_t stream : to_peers_) INTERLACE_CUDA_LOG(cudaStreamDestroy(stream));
  INTERLACE_CUDA_LOG(cudaStreamDestroy(stream_));
}

void rank_node::write(void* to, const void* from, std::uint64_t bytes) {
  if (bytes == 0) return;
  INTERLACE_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
}

void rank_node::read_bytes(void* to, const void* from, std::uint64_t bytes) const {
  if (bytes == 0) return;
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(stream_));
  INTERLACE_CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}

void* rank_node::take_symmetric(std::uint64_t bytes) {
  void* memory = self_.allocate(bytes);
  if (memory != nullptr) {
    INTERLACE_CUDA_CHECK(cudaMemset(memory, 0xff, bytes));
    INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
  }
  return memory;
}

std::uint32_t rank_node::add_region(kernel::region_options o, std::uint32_t element_bytes) {
  auto state = kernel::make_region_state(std::move(o), element_bytes, devices());
  for (void*& buffer : state.buffers[rank()])
    buffer = take_symmetric(state.elements * element_bytes);
  states_.push_back(std::move(state));
  reductions_.emplace_back();
  folds_.emplace_back();
  return static_cast<std::uint32_t>(states_.size()) - 1;
}

std::uint32_t rank_node::add_reduction(std::uint64_t n, std::uint32_t copies,
                                       std::uint32_t element_bytes) {
  auto state = kernel::make_reduction_state(n, copies, element_bytes);
  const std::uint64_t bytes = n * element_bytes;
  state.buffers[rank()][0] = memory_.take(ordinal_, bytes);
  state.partials[rank()] = memory_.take(ordinal_, bytes * copies);
  reduction_memory memory;
  memory.own = memory_.take(ordinal_, bytes);
  for (void*& inbox : memory.inboxes) inbox = take_symmetric(bytes * devices());
  states_.push_back(std::move(state));
  reductions_.push_back(memory);
  folds_.emplace_back();
  return static_cast<std::uint32_t>(states_.size()) - 1;
}

void rank_node::enqueue_kernel(const void* entry, void* functor, grid shape) {
  const auto known = loaded_.find(entry);
  if (known == loaded_.end() || known->second < shape.shared_bytes) {
    (void)load_kernel(entry);
    if (shape.shared_bytes > 48 * 1024) {
      INTERLACE_CUDA_CHECK(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                static_cast<int>(shape.shared_bytes)));
    }
    loaded_[entry] = shape.shared_bytes;
  }
  std::array<void*, 1> arguments{functor};
  INTERLACE_CUDA_CHECK(cudaLaunchKernel(entry, dim3(static_cast<unsigned int>(shape.blocks)),
                                        dim3(shape.threads), arguments.data(), shape.shared_bytes,
                                        stream_));
}

void rank_node::call(std::uint32_t device, const kernel::library_call& c) {
  kernel::check_call(c, c.on_gpu, device, devices());
  if (device != rank()) return;
  c.on_gpu(stream_);
  INTERLACE_CUDA_CHECK(cudaGetLastError());
  INTERLACE_CUDA_CHECK(cudaSetDevice(ordinal_));
}

// No rank overwrites memory that a peer still reads. Before the previous exchange, a region's back
// buffer was the front buffer that its readers read. These readers have entered a barrier since
// that exchange. A reduction has two inboxes, which successive exchanges use in turn. A rank that
// has folded an inbox has entered a barrier after folding it.
void rank_node::enqueue_exchange(const std::vector<std::uint32_t>& ids) {
  for (const std::uint32_t id : ids) {
    kernel::region_state& s = states_.at(id);
    if (s.is_reduction) {
      folds_[id](s.partials[rank()], s.copies, true, reductions_[id].own, stream_);
    }
  }
  INTERLACE_CUDA_CHECK(cudaEventRecord(order_, stream_));
  // Each rank begins with the rank after it, so that no two senders have the same receiver.
  for (std::uint32_t step = 1; step < devices(); ++step) {
    const std::uint32_t peer = (rank() + step) % devices();
    cudaStream_t on = to_peers_[peer];
    INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(on, order_, 0));
    for (const std::uint32_t id : ids) {
      const kernel::region_state& s = states_[id];
      if (s.is_reduction) {
        const std::uint64_t bytes = s.elements * s.element_bytes;
        auto* inbox = static_cast<std::byte*>(reductions_[id].inboxes[s.parity]);
        self_.put(inbox + rank() * bytes, reductions_[id].own, bytes, peer, on);
        continue;
      }
      auto* back = static_cast<std::byte*>(s.buffers[rank()][s.parity ^ 1U]);
      for (const kernel::delivery& d : s.deliveries()) {
        if (d.from != rank() || d.to != peer) continue;
        std::byte* const at = back + d.begin * s.element_bytes;
        self_.put(at, at, (d.end - d.begin) * s.element_bytes, peer, on);
      }
    }
  }
  for (std::uint32_t step = 1; step < devices(); ++step) {
    INTERLACE_CUDA_CHECK(cudaEventRecord(order_, to_peers_[(rank() + step) % devices()]));
    INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(stream_, order_, 0));
  }
  self_.barrier(stream_);
  for (const std::uint32_t id : ids) {
    kernel::region_state& s = states_[id];
    if (s.is_reduction) {
      const std::uint64_t bytes = s.elements * s.element_bytes;
      auto* inbox = static_cast<std::byte*>(reductions_[id].inboxes[s.parity]);
      INTERLACE_CUDA_CHECK(cudaMemcpyAsync(inbox + rank() * bytes, reductions_[id].own, bytes,
                                           cudaMemcpyDeviceToDevice, stream_));
      folds_[id](inbox, devices(), false, s.buffers[rank()][0], stream_);
    }
    s.parity ^= 1U;
  }
}

void rank_node::begin_run() {
  // Waits until copies from the host have arrived, and until all ranks have reached this point.
  INTERLACE_CUDA_CHECK(cudaDeviceSynchronize());
  self_.barrier(stream_);
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(stream_));
  self_.barrier(stream_);
  INTERLACE_CUDA_CHECK(cudaEventRecord(start_, stream_));
}

kernel::run_result rank_node::end_run() {
  INTERLACE_CUDA_CHECK(cudaEventRecord(stop_, stream_));
  INTERLACE_CUDA_CHECK(cudaStreamSynchronize(stream_));
  float ms = 0;
  INTERLACE_CUDA_CHECK(cudaEventElapsedTime(&ms, start_, stop_));
  kernel::run_result result;
  result.time_s = static_cast<double>(ms) * 1e-3;
  return result;
}

}  // namespace interlace::cuda
