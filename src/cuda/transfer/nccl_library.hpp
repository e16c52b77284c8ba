// NVIDIA's collective communication library, loaded at run time: nothing links it or needs its
// header. No header of CUDA is needed either, so that it is tested with a stand-in where there is
// none; streams and communicators are opaque.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernel/collective.hpp"

namespace interlace::cuda {

struct nccl_communicator;  // ncclComm
using opaque_stream = void*;

class nccl_library {
 public:
  // Loads the first of the candidates, names as dlopen takes them, that is there. Switches
  // multicast in the switches (NVLS) off for the whole process: NCCL_NVLS_ENABLE=0. Throws
  // usage_error, which says what was tried, if there is none, and if it lacks what is needed.
  explicit nccl_library(const std::vector<std::string>& candidates);

  // The process's: what INTERLACE_NCCL names, or else the one that is loaded already, then `more`,
  // then the usual places. Only the first call that succeeds looks at `more`.
  static const nccl_library& of_process(const std::vector<std::string>& more = {});

  // As NVIDIA writes it: 2.28.9.
  std::string version() const;

  // The binary interface, which is stable since NCCL 2.10; 0 is success.
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
    // Null before 2.13 and 2.19.
    const char* (*get_last_error)(nccl_communicator*);
    int (*comm_register)(nccl_communicator*, void*, std::size_t, void**);
    int (*comm_deregister)(nccl_communicator*, void*);
  };
  const functions& api() const { return api_; }

  // Throws device_error that names the function unless `result` is success.
  void check(int result, const char* function, nccl_communicator* of = nullptr) const;

 private:
  functions api_{};
};

// One communicator for each GPU of this process.
class nccl_communicators {
 public:
  // Throws usage_error if a GPU stands twice.
  nccl_communicators(const nccl_library& library, const std::vector<int>& gpus);
  ~nccl_communicators();
  nccl_communicators(const nccl_communicators&) = delete;
  nccl_communicators& operator=(const nccl_communicators&) = delete;
  nccl_communicators(nccl_communicators&&) = delete;
  nccl_communicators& operator=(nccl_communicators&&) = delete;

  // What a plan's calls address: of each device, the buffer or the scratch memory.
  struct group_member {
    const kernel::collective_plan* plan = nullptr;
    std::vector<void*> base;
  };
  // Enqueues the calls of all members as one group, device d's on streams[d]; between two devices
  // what is sent first is received first. Ordered by the streams like a kernel on each of them.
  void enqueue(const std::vector<group_member>& members,
               const std::vector<opaque_stream>& streams) const;

  // Enqueues an all-reduce as one group: of each device `count` elements, which are added.
  void sum_float32(const std::vector<const void*>& send, const std::vector<void*>& receive,
                   std::size_t count, const std::vector<opaque_stream>& streams) const;

  // Lets NCCL use the device's memory without staging, until the communicators end. Empty, or why
  // not.
  std::string register_buffer(std::uint32_t device, void* data, std::size_t bytes);

  // Ends what runs: kernels that wait for a GPU that failed. Nothing can be enqueued after that.
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
