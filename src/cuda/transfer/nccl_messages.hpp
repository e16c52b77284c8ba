// Messages between GPUs of this process, as sends and receives of NCCL.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/transfer/nccl_library.hpp"
#include "kernel/collective.hpp"

namespace interlace::cuda {

struct nccl_message {
  int from = 0;  // CUDA's numbers of GPUs
  int to = 0;
  void* source = nullptr;
  void* target = nullptr;
  std::uint64_t bytes = 0;
};

// All messages are one group, those of a pair of GPUs too: there is one communicator and one stream
// for each GPU that has a message, and which of them run at the same time is up to NCCL. What a
// pair sends first is received first.
class nccl_messages {
 public:
  // The GPUs that have a message, ascending: those of the communicators and of the streams.
  static std::vector<int> gpus_of(const std::vector<nccl_message>& messages);

  // The communicators are those of `gpus_of`, and outlive this. Throws usage_error unless every
  // message is from one GPU to another.
  nccl_messages(const nccl_communicators& communicators, const std::vector<nccl_message>& messages);

  // Enqueues all of them, on a stream of each GPU. Throws device_error if NCCL refuses.
  void enqueue(const std::vector<opaque_stream>& streams) const;

 private:
  const nccl_communicators& communicators_;
  std::vector<kernel::collective_plan> plans_;  // of each message
  std::vector<nccl_communicators::group_member> members_;
};

}  // namespace interlace::cuda
