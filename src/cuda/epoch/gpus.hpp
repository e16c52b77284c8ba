// The resources of a node on each GPU: streams, events and control words. This class also records
// failures of the GPUs.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/early_launch.hpp"
#include "interlace/cuda/epoch/options.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/cuda/region/exchange.hpp"
#include "interlace/cuda/shared_gpu.hpp"
#include "interlace/kernel/chunk_table.hpp"

namespace interlace::cuda {

class node_gpus {
 public:
  static constexpr std::uint32_t no_exchange = 0xffffffffU;

  explicit node_gpus(const node_options& o);
  ~node_gpus();
  node_gpus(const node_gpus&) = delete;
  node_gpus& operator=(const node_gpus&) = delete;
  node_gpus(node_gpus&&) = delete;
  node_gpus& operator=(node_gpus&&) = delete;

  std::uint32_t count() const { return static_cast<std::uint32_t>(ordinals_.size()); }
  const std::vector<int>& ordinals() const { return ordinals_; }
  int ordinal(std::uint32_t device) const { return ordinals_.at(device); }
  // shares_gpu says whether any devices share a GPU. sharers(device) is the number of devices on
  // the GPU of `device`.
  bool shares_gpu() const { return shares_gpu_; }
  std::uint32_t sharers(std::uint32_t device) const {
    return devices_on(ordinals_, ordinal(device));
  }
  // The main stream of each device.
  const std::vector<cudaStream_t>& streams() const { return streams_; }
  // The copy streams of a device. Streams number `peer` and `devices + peer` have the copies to a
  // peer. The two streams get chunks in turn, so that an engine has a next chunk while a stream
  // switches chunks. Stream number `device` is for the device's agent. On a shared GPU, all copy
  // streams of a device are one stream.
  const std::vector<cudaStream_t>& copy_streams(std::uint32_t device) const {
    return copy_streams_[device];
  }
  // An event that orders the main stream of a device and its copy streams.
  cudaEvent_t event(std::uint32_t device) const { return events_[device]; }
  // The devices whose graphs may now have early launches. Bit d stands for device d.
  std::uint32_t early_devices() const { return tenant_->alone() ? early_devices_ : 0; }

  // Registers an exchange and returns its number. Errors use `name` for the exchange.
  std::uint32_t add_exchange(std::string name);
  std::uint32_t exchanges() const { return static_cast<std::uint32_t>(exchanges_.size()); }
  const std::string& exchange_name(std::uint32_t exchange) const { return exchanges_[exchange]; }
  barrier_arguments barrier(std::uint32_t device, std::uint32_t exchange) const;

  // Registers the table of a launch. Streams may wait for chunks in the table as long as the node
  // lives.
  void watch(std::uint32_t device, const kernel::chunk_table& table);
  // Sets whether streams wait for chunks in the work that was enqueued last.
  void set_streams_wait(bool wait) { streams_wait_ = wait; }
  // Sets the function that ends kernels which wait for other GPUs without a deadline. The node
  // calls this function once a GPU has failed.
  void abort_by(std::function<void()> abort) { abort_ = std::move(abort); }
  void abort() const;

  void require_usable() const;
  // Blocks until all enqueued work has ended. Throws model_error during a recording.
  void require_idle(const char* what) const;
  void set_recording(bool is) { recording_ = is; }
  bool recording() const { return recording_; }
  [[noreturn]] void fail(const std::string& sentence) const;
  // Blocks until all enqueued work has ended. Throws device_error if any of the work failed.
  void synchronize() const;
  // Blocks until the work on the main streams has ended, with or without errors. Changes the
  // current device.
  void finish() const noexcept;

 private:
  void await_waiting_streams() const;
  void await_collectives() const;
  std::string describe_failure(const wait_failure& f) const;

  std::vector<int> ordinals_;
  double deadline_s_;
  bool shares_gpu_ = false;
  device_memory memory_;                 // holds the control words
  std::unique_ptr<mapped_memory> host_;  // holds a wait_failure for each device
  wait_failure* failures_ = nullptr;
  // Devices that may have early launches; bit d stands for device d.
  std::uint32_t early_devices_ = 0;
  std::optional<gpu_tenant> tenant_;
  std::vector<cudaStream_t> streams_;
  std::vector<std::vector<cudaStream_t>> copy_streams_;
  std::vector<cudaEvent_t> events_;
  std::vector<device_control*> controls_;
  std::vector<std::string> exchanges_;                    // name of each exchange
  std::vector<std::vector<kernel::chunk_table>> tables_;  // one list for each device
  std::function<void()> abort_;
  bool recording_ = false;
  mutable bool streams_wait_ = false;
  mutable std::string failure_;  // the reason why the node can no longer be used
};

}  // namespace interlace::cuda
