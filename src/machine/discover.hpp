// The machine on which this process runs, as NVML and the CUDA driver report it.
//
// All questions to the driver go through `gpu_driver`, so that discovery can be tested without a
// GPU. No driver reports latencies, the geometry of caches or sustained rates. These figures come
// from a description of a machine with the same GPU model, or else from a description of a machine
// with GPUs of the nearest generation. The result names this description.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/machine/machine.hpp"

namespace interlace::machine {

// The distance between two GPUs on PCIe. The words and their order are the same as in `nvidia-smi
// topo -m`.
enum class pcie_relation : std::uint8_t { same_board, pix, pxb, phb, node, sys, unknown };

enum class nvlink_remote : std::uint8_t { gpu, network_switch, unknown };

// One active NVLink of a GPU.
struct nvlink_port {
  nvlink_remote remote = nvlink_remote::unknown;
  std::string remote_bus_id;   // bus id of the GPU at the other end
  std::uint32_t version = 0;   // generation of NVLink; 0 if the driver does not report it
  double raw_bytes_per_s = 0;  // rate of one direction; 0 if the driver does not report it
};

// A GPU that NVML reports. CUDA may be unable to use it.
struct installed_gpu {
  std::string bus_id;  // in lower case, such as "0000:1b:00.0"
  std::string name;
  bool mig = false;  // whether the GPU is split into instances
  std::uint32_t pcie_generation = 0;
  std::uint32_t pcie_width = 0;
  int numa_node = -1;
  std::vector<nvlink_port> nvlinks;
};

// A GPU that CUDA shows to this process. It is an installed GPU or one MIG instance.
struct usable_gpu {
  std::string bus_id;
  std::string name;
  std::uint64_t memory_bytes = 0;
  std::uint32_t compute_units = 0;
  double clock_hz = 0;
  std::uint64_t l2_bytes = 0;
  std::uint64_t shared_bytes = 0;  // shared memory of a compute unit
  std::uint32_t copy_engines = 0;
  std::uint32_t warp_width = 32;
  std::uint32_t max_threads = 0;  // most threads that a compute unit can hold
  std::uint32_t max_blocks = 0;   // most blocks that a compute unit can hold
  std::uint32_t capability_major = 0;
  std::uint32_t capability_minor = 0;
  double memory_peak_bytes_per_s = 0;
};

struct driver_versions {
  std::string driver;  // such as "580.159.03"; empty if unknown
  std::string cuda;    // such as "13.0"
};

// Thrown if a GPU has stopped answering, because it fell off the bus or was taken away.
class gpu_lost : public device_error {
 public:
  using device_error::device_error;
};

// The driver's interface for discovery. All indices must be below the counts. Calls throw
// `usage_error` if there is no driver, `gpu_lost` for a GPU that has vanished, and `device_error`
// for other failures.
class gpu_driver {
 public:
  virtual ~gpu_driver() = default;
  virtual bool present() = 0;  // whether a driver library is installed; throws nothing
  virtual driver_versions versions() = 0;
  virtual std::uint32_t installed_count() = 0;  // 0 if NVML is missing
  virtual installed_gpu installed(std::uint32_t index) = 0;
  virtual pcie_relation relation(const std::string& bus_id, const std::string& other) = 0;
  virtual std::uint32_t usable_count() = 0;
  virtual usable_gpu usable(std::uint32_t index) = 0;
  // Whether a usable GPU can access another usable GPU.
  virtual bool peer_access(std::uint32_t from, std::uint32_t to) = 0;
  virtual std::optional<std::string> visible_devices() = 0;  // value of CUDA_VISIBLE_DEVICES
  virtual std::string host_model() = 0;
};

// Opens the real driver, through libnvidia-ml.so.1 and libcuda.so.1. This function never throws,
// but the functions of the result do.
std::unique_ptr<gpu_driver> open_driver();

struct found_device {
  std::string name;
  std::string bus_id;
  std::uint64_t memory_bytes = 0;
  std::uint32_t pcie_generation = 0;
  std::uint32_t pcie_width = 0;
  int numa_node = -1;
  std::uint32_t nvlinks = 0;
};

struct discovery {
  machine found;
  std::string template_name;  // described machine that supplied the other figures; can be empty
  bool same_model = false;    // whether the described machine has the same GPU model
  // Names of the keys that the driver reported, such as "gpu.clock_MHz".
  std::vector<std::string> queried;
  std::vector<std::string> link_rates;  // for each link, where its bytes_per_s comes from
  std::vector<found_device> devices;
  // The number of GPUs that the driver manages, including hidden GPUs; 0 if the number is unknown.
  std::size_t installed = 0;
  // for each pair of GPUs, a word such as "X", "NV18", "PIX" or "SYS"
  std::vector<std::vector<std::string>> relations;
  std::vector<std::string> remarks;  // remarks for people, one sentence each
  std::string driver_version;
  std::string cuda_version;
};

// Discovers this machine. Throws `usage_error` if there is no driver or no usable GPU.
discovery discover(gpu_driver& driver, const std::vector<machine>& known);

}  // namespace interlace::machine
