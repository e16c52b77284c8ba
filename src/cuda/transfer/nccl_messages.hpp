// Messages between GPUs of this process, made by sends and receives of NCCL.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/transfer/nccl_library.hpp"
#include "kernel/collective.hpp"

namespace interlace::cuda {

struct nccl_message {
  int from = 0;  // CUDA's number of a GPU
  int to = 0;
  void* source = nullptr;
  void* target = nullptr;
  std::uint64_t bytes = 0;
};

// A set of messages that forms one group of NCCL calls. Several messages may have the same two
// GPUs. There is one communicator and one stream for each GPU that sends or receives a message.
// NCCL decides which messages run at the same time. If several messages have the same sender and
// receiver, they are received in the order in which they are sent.
class nccl_messages {
 public:
  // The GPUs that send or receive a message, in ascending order. Communicators and streams must be
  // in the order of this list.
  static std::vector<int> gpus_of(const std::vector<nccl_message>& messages);

  // `communicators` must be for the GPUs of `gpus_of`, and must outlive this object. Throws
  // usage_error if a message does not go from one GPU to another GPU.
  nccl_messages(const nccl_communicators& communicators, const std::vector<nccl_message>& messages);

  // Enqueues all messages, on one stream for each GPU. Throws device_error if NCCL reports an
  // error.
  void enqueue(const std::vector<opaque_stream>& streams) const;

 private:
  const nccl_communicators& communicators_;
  std::vector<kernel::collective_plan> plans_;  // for each message, its send and its receive
  std::vector<nccl_communicators::group_member> members_;
};

}  // namespace interlace::cuda
