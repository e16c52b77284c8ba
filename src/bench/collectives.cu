#include <memory>
#include <numeric>

#include "bench/all_reduces.hpp"
#include "bench/collectives.hpp"
#include "bench/sample_bytes.hpp"
#include "bench/take_turns.hpp"
#include "cuda/library.hpp"
#include "cuda/transfer/nccl_library.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "kernel/collective.hpp"

namespace interlace::bench {

namespace {

using kernel::collective_call;

bool gathers(const collective_request& request) {
  return request.pattern == collective_pattern::all_gather;
}

// The buffers of a collective, one for each GPU. For an all-gather, which is in place, a buffer has
// the blocks of all GPUs. For an all-to-all, a buffer has the blocks that the GPU sends, followed
// by the blocks that the GPU receives.
class arena {
 public:
  explicit arena(const collective_request& request)
      : request_(request), gathers_(gathers(request)) {
    const std::uint64_t all = request.gpus * request.bytes;
    for (std::uint32_t gpu = 0; gpu < request.gpus; ++gpu) {
      const auto number = static_cast<int>(gpu);
      const cuda::current_device on(number);
      buffers_.push_back(
          static_cast<std::uint8_t*>(memory_.take(number, gathers(request) ? all : 2 * all)));
      counts_.push_back(
          static_cast<unsigned long long*>(memory_.take(number, sizeof(unsigned long long))));
      load_sample_kernels(number);
    }
  }

  std::uint8_t* base(std::size_t gpu) const { return buffers_[gpu]; }
  // The block that GPU `from` sends to GPU `to`.
  std::uint8_t* sent(std::uint32_t from, std::uint32_t to) const {
    return buffers_[from] + (gathers_ ? from : to) * request_.bytes;
  }
  // The place where the block from GPU `from` arrives at GPU `to`.
  std::uint8_t* received(std::uint32_t from, std::uint32_t to) const {
    return buffers_[to] + (gathers_ ? from : request_.gpus + from) * request_.bytes;
  }

  void prepare(std::uint64_t seed) const {
    each([&](std::uint32_t from, std::uint32_t to) {
      const auto gpu = static_cast<int>(to);
      if (received(from, to) != sent(from, to))
        fill_with_poison(gpu, received(from, to), request_.bytes);
    });
    each([&](std::uint32_t from, std::uint32_t to) {
      if (gathers_ && to != from) return;
      fill_with_samples(static_cast<int>(from), sent(from, to), request_.bytes,
                        seed_of(seed, from, to));
    });
  }
  std::uint64_t wrong(std::uint64_t seed) const {
    std::uint64_t sum = 0;
    each([&](std::uint32_t from, std::uint32_t to) {
      sum += count_wrong_samples(static_cast<int>(to), received(from, to), request_.bytes,
                                 seed_of(seed, from, to), counts_[to]);
    });
    return sum;
  }

  // Visits each pair of GPUs. Pairs with the same distance are visited one after another. No two
  // pairs with the same distance have the same receiver.
  template <class Visit>
  void each(const Visit& visit) const {
    for (std::uint32_t distance = 0; distance < request_.gpus; ++distance)
      for (std::uint32_t from = 0; from < request_.gpus; ++from)
        visit(from, (from + distance) % request_.gpus);
  }

 private:
  std::uint64_t seed_of(std::uint64_t seed, std::uint32_t from, std::uint32_t to) const {
    return seed + 7919 * (from * request_.gpus + (gathers_ ? from : to));
  }

  const collective_request& request_;
  bool gathers_;
  cuda::device_memory memory_;
  std::vector<std::uint8_t*> buffers_;
  std::vector<unsigned long long*> counts_;
};

class plain_copies : public timed_method {
 public:
  plain_copies(const arena& on, std::uint64_t bytes) : bytes_(bytes) {
    on.each([&](std::uint32_t from, std::uint32_t to) {
      if (on.received(from, to) == on.sent(from, to)) return;
      copies_.push_back({.to = on.received(from, to),
                         .from = on.sent(from, to),
                         .on = add_stream(static_cast<int>(from))});
    });
  }
  void enqueue() override {
    for (const copy& one : copies_)
      INTERLACE_CUDA_CHECK(cudaMemcpyAsync(one.to, one.from, bytes_, cudaMemcpyDefault, one.on));
  }

 private:
  struct copy {
    void* to;
    const void* from;
    cudaStream_t on;
  };
  std::uint64_t bytes_;
  std::vector<copy> copies_;
};

class batch : public timed_method {
 public:
  batch(const arena& on, const collective_request& request, const std::string& by)
      : by_(copier_of(by)),
        gather_(gathers(request)),
        bytes_(request.bytes),
        stream_(add_stream(0)) {
    for (std::uint32_t gpu = 0; gpu < request.gpus; ++gpu) {
      send_.push_back(gather_ ? on.sent(gpu, gpu) : on.sent(gpu, 0));
      receive_.push_back(on.received(0, gpu));
    }
  }
  void enqueue() override {
    if (gather_)
      by_.all_gather_async(send_, receive_, bytes_, stream_);
    else
      by_.all_to_all_async(send_, receive_, bytes_, stream_);
  }

 private:
  copier& by_;
  bool gather_;
  std::uint64_t bytes_;
  cudaStream_t stream_;
  std::vector<const void*> send_;
  std::vector<void*> receive_;
};

class nccl : public timed_method {
 public:
  nccl(const arena& on, const std::vector<int>& gpus, const collective_request& request)
      : communicators_(communicators_of(gpus)) {
    for (std::uint32_t gpu = 0; gpu < request.gpus; ++gpu) {
      add_stream(static_cast<int>(gpu));
      base_.push_back(on.base(gpu));
      plan_.calls.emplace_back();
      if (gathers(request)) {
        plan_.calls.back().push_back(
            {.what = collective_call::kind::all_gather, .bytes = request.bytes});
        continue;
      }
      for (std::uint32_t turn = 0; turn < request.gpus; ++turn) {
        const std::uint32_t to = (gpu + turn) % request.gpus;
        const std::uint32_t from = (gpu + request.gpus - turn) % request.gpus;
        const auto place = [&](const std::uint8_t* at) {
          return static_cast<std::uint64_t>(at - on.base(gpu));
        };
        plan_.calls.back().push_back({.what = collective_call::kind::send,
                                      .peer = to,
                                      .at = place(on.sent(gpu, to)),
                                      .bytes = request.bytes});
        plan_.calls.back().push_back({.what = collective_call::kind::receive,
                                      .peer = from,
                                      .at = place(on.received(from, gpu)),
                                      .bytes = request.bytes});
      }
    }
  }
  void enqueue() override {
    communicators_.enqueue({{&plan_, base_}}, {streams().begin(), streams().end()});
  }

 private:
  const cuda::nccl_communicators& communicators_;
  kernel::collective_plan plan_;
  std::vector<void*> base_;
};

}  // namespace

std::vector<copy_times> measure_collective(const collective_request& request) {
  if (request.gpus < 2 || request.bytes == 0 || request.repeats == 0)
    throw usage_error("a measurement of collectives needs two GPUs, bytes and repeats");
  std::vector<int> gpus(request.gpus);
  std::iota(gpus.begin(), gpus.end(), 0);
  cuda::enable_peer_access(gpus);
  const cuda::current_device restore(0);
  if (request.pattern == collective_pattern::all_reduce) return measure_all_reduce(request);
  const arena memory(request);
  timed_methods by;
  for (const std::string& name : request.methods) {
    if (name == "memcpy")
      by.push_back(std::make_unique<plain_copies>(memory, request.bytes));
    else if (name == "nccl")
      by.push_back(std::make_unique<nccl>(memory, gpus, request));
    else
      by.push_back(std::make_unique<batch>(memory, request, name));
  }
  return take_turns(
      request, by, [&](std::uint64_t seed) { memory.prepare(seed); },
      [&](std::uint64_t seed) { return memory.wrong(seed); });
}

}  // namespace interlace::bench
