// NVIDIA's collective communication library, which the program loads at run time. The build needs
// neither the library nor its header. This file needs no CUDA header either, so tests can use a
// stand-in. Streams and communicators are opaque pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernel/collective.hpp"

namespace interlace::cuda {

struct nccl_communicator;  // NCCL's ncclComm
using opaque_stream = void*;

class nccl_library {
 public:
  // Loads the first candidate that exists. Candidates are names that dlopen accepts. Turns off
  // multicast in the switches (NVLS) for the whole process, by NCCL_NVLS_ENABLE=0. Throws
  // usage_error if no candidate exists; the error lists all candidates. Also throws usage_error if
  // the library lacks a necessary function.
  explicit nccl_library(const std::vector<std::string>& candidates);

  // The NCCL of the process. It is the file that INTERLACE_NCCL names. Without this variable, it is
  // a library that is already loaded, or else the first library that exists among `more` and the
  // usual places. Only the first successful call uses `more`.
  static const nccl_library& of_process(const std::vector<std::string>& more = {});

  // The version in NVIDIA's notation, such as 2.28.9.
  std::string version() const;

  // The binary interface, which is stable since NCCL 2.10. Functions return 0 for success.
  struct functions {
    int (*get_version)(int*);
    const char* (*get_error_string)(int);
    int (*comm_init_all)(nccl_communicator**, int, const int*);
    int (*comm_destroy)(nccl_communicator*);
    int (*comm_abort)(nccl_communicator*);
    int (*group_start)();
    int (*group_end)();
    int (*all_gather)(const void*, void*, std::size_t, int, nccl_communicator*, opaque_stream);
    int (*all_reduce)(const void*, void*, std::size_t, int, int, nccl_communicator*, opaque_stream);
    int (*broadcast)(const void*, void*, std::size_t, int, int, nccl_communicator*, opaque_stream);
    int (*send)(const void*, std::size_t, int, int, nccl_communicator*, opaque_stream);
    int (*receive)(void*, std::size_t, int, int, nccl_communicator*, opaque_stream);
    // Each of the following functions can be null. NCCL has get_last_error since 2.13, and it has
    // comm_register and comm_deregister since 2.19.
    const char* (*get_last_error)(nccl_communicator*);
    int (*comm_register)(nccl_communicator*, void*, std::size_t, void**);
    int (*comm_deregister)(nccl_communicator*, void*);
  };
  const functions& api() const { return api_; }

  // Throws device_error unless `result` is success. The error names the function.
  void check(int result, const char* function, nccl_communicator* of = nullptr) const;

 private:
  functions api_{};
};

// Communicators, one for each GPU of this process.
class nccl_communicators {
 public:
  // Makes communicators. Throws usage_error if a GPU is listed twice.
  nccl_communicators(const nccl_library& library, const std::vector<int>& gpus);
  ~nccl_communicators();
  nccl_communicators(const nccl_communicators&) = delete;
  nccl_communicators& operator=(const nccl_communicators&) = delete;
  nccl_communicators(nccl_communicators&&) = delete;
  nccl_communicators& operator=(nccl_communicators&&) = delete;

  // The memory to which a plan's calls refer. Each device has a buffer and scratch memory.
  struct group_member {
    const kernel::collective_plan* plan = nullptr;
    std::vector<void*> base;
  };
  // Enqueues the calls of all members as one group, on the members' streams. The calls of device d
  // go to streams[d]. Sends and receives between two devices are matched in order. On each stream
  // the group is ordered like a kernel.
  void enqueue(const std::vector<group_member>& members,
               const std::vector<opaque_stream>& streams) const;

  // Enqueues an all-reduce as one group. The all-reduce adds `count` elements of each device.
  void sum_float32(const std::vector<const void*>& send, const std::vector<void*>& receive,
                   std::size_t count, const std::vector<opaque_stream>& streams) const;

  // Lets NCCL use the device's memory without staging, until the communicators are destroyed.
  // Returns an empty text, or the reason why this is not possible.
  std::string register_buffer(std::uint32_t device, void* data, std::size_t bytes);

  // Ends running kernels, which may be waiting for a failed GPU. Nothing can be enqueued
  // afterwards.
  void abort() noexcept;

 private:
  struct registration {
    std::uint32_t device;
    void* handle;
  };
  const nccl_library& library_;
  std::vector<nccl_communicator*> communicators_;
  std::vector<registration> registered_;
};

}  // namespace interlace::cuda
