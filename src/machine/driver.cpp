// The real `gpu_driver`, on NVML and the CUDA driver API. Both libraries are loaded with dlopen, so
// that this file builds and runs without them. The declarations below cover only the functions that
// this file calls. They follow the vendor's public documentation.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "base/cut_text.hpp"
#include "base/driver_needs.hpp"
#include "base/read_file.hpp"
#include "machine/discover.hpp"

namespace interlace::machine {
namespace {

// --- NVML ---

using nvml_result = int;
using nvml_device = struct nvml_device_opaque*;

constexpr nvml_result nvml_success = 0;
constexpr nvml_result nvml_driver_not_loaded = 9;
constexpr nvml_result nvml_lost = 15;
constexpr nvml_result nvml_reset_required = 16;
constexpr nvml_result nvml_version_mismatch = 18;
constexpr unsigned nvml_max_links = 36;
constexpr unsigned nvml_field_link_speed = 90;  // rate of every link in MB/s, for GPUs up to Ampere
// The rate of the link in `scope` in MB/s, for GPUs from Hopper on.
constexpr unsigned nvml_field_one_link_speed = 164;
constexpr unsigned nvml_value_unsigned = 1;

struct nvml_pci_info {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

struct nvml_field_value {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency_us;
  unsigned value_type;
  nvml_result result;
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long as_unsigned_long;
    unsigned long long as_unsigned_long_long;
  } value;
};

// --- CUDA driver ---

using cuda_result = int;
using cuda_device = int;

constexpr cuda_result cuda_success = 0;
constexpr cuda_result cuda_no_device = 100;

enum cuda_attribute : int {
  attribute_warp_width = 10,
  attribute_clock_khz = 13,
  attribute_compute_units = 16,
  attribute_memory_clock_khz = 36,
  attribute_memory_bus_bits = 37,
  attribute_l2_bytes = 38,
  attribute_threads_per_unit = 39,
  attribute_copy_engines = 40,
  attribute_capability_major = 75,
  attribute_capability_minor = 76,
  attribute_shared_per_unit = 81,
  attribute_blocks_per_unit = 106,
};

class library {
 public:
  explicit library(const char* file) : handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {}
  library(const library&) = delete;
  library& operator=(const library&) = delete;
  ~library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  bool loaded() const { return handle_ != nullptr; }

  // Looks up a function. Returns null if the library is too old to have the function.
  template <class Function>
  Function* find(const char* symbol) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle_, symbol));
  }

 private:
  void* handle_;
};

std::string bus_id_text(const char* text) {
  std::string id(text);
  std::transform(id.begin(), id.end(), id.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  // NVML writes the domain with eight digits. CUDA and sysfs write it with four.
  const auto colon = id.find(':');
  if (colon != std::string::npos && colon > 4) id.erase(0, colon - 4);
  return id;
}

int numa_node_of(const std::string& bus_id) {
  const auto text = read_file("/sys/bus/pci/devices/" + bus_id + "/numa_node");
  int node = -1;
  if (text) (void)std::from_chars(text->data(), text->data() + text->size(), node);
  return node;
}

class nvidia_driver final : public gpu_driver {
 public:
  nvidia_driver() : nvml_("libnvidia-ml.so.1"), cuda_("libcuda.so.1") {}
  nvidia_driver(const nvidia_driver&) = delete;
  nvidia_driver& operator=(const nvidia_driver&) = delete;

  ~nvidia_driver() override {
    if (!nvml_ready_) return;
    if (auto* shutdown = nvml_.find<nvml_result()>("nvmlShutdown")) shutdown();
  }

  bool present() override { return nvml_.loaded() || cuda_.loaded(); }

  driver_versions versions() override {
    start();
    driver_versions found;
    if (nvml_ready_) {
      std::array<char, 96> text{};
      if (auto* get = nvml_.find<nvml_result(char*, unsigned)>("nvmlSystemGetDriverVersion"))
        if (get(text.data(), static_cast<unsigned>(text.size() - 1)) == nvml_success)
          found.driver = text.data();
    }
    int version = 0;
    if (auto* get = cuda_.find<cuda_result(int*)>("cuDriverGetVersion"))
      if (get(&version) == cuda_success) found.cuda = cuda_text(version);
    return found;
  }

  std::uint32_t installed_count() override {
    start();
    unsigned count = 0;
    if (!nvml_ready_) return 0;
    nvml_check("nvmlDeviceGetCount_v2",
               nvml<nvml_result(unsigned*)>("nvmlDeviceGetCount_v2")(&count));
    return count;
  }

  installed_gpu installed(std::uint32_t index) override {
    nvml_device device = nvml_handle(index);
    installed_gpu found;
    nvml_pci_info pci{};
    nvml_check("nvmlDeviceGetPciInfo_v3", nvml<nvml_result(nvml_device, nvml_pci_info*)>(
                                              "nvmlDeviceGetPciInfo_v3")(device, &pci));
    found.bus_id = bus_id_text(pci.bus_id);
    std::array<char, 96> name{};
    nvml_check("nvmlDeviceGetName",
               nvml<nvml_result(nvml_device, char*, unsigned)>("nvmlDeviceGetName")(
                   device, name.data(), static_cast<unsigned>(name.size() - 1)));
    found.name = name.data();
    found.pcie_generation = optional_value(device, "nvmlDeviceGetMaxPcieLinkGeneration");
    found.pcie_width = optional_value(device, "nvmlDeviceGetMaxPcieLinkWidth");
    found.numa_node = numa_node_of(found.bus_id);
    if (auto* get =
            nvml_.find<nvml_result(nvml_device, unsigned*, unsigned*)>("nvmlDeviceGetMigMode")) {
      unsigned now = 0;
      unsigned pending = 0;
      found.mig = get(device, &now, &pending) == nvml_success && now == 1;
    }
    find_links(device, found);
    return found;
  }

  pcie_relation relation(const std::string& bus_id, const std::string& other) override {
    start();
    auto* find =
        nvml_.find<nvml_result(const char*, nvml_device*)>("nvmlDeviceGetHandleByPciBusId_v2");
    auto* get = nvml_.find<nvml_result(nvml_device, nvml_device, unsigned*)>(
        "nvmlDeviceGetTopologyCommonAncestor");
    if (!nvml_ready_ || find == nullptr || get == nullptr) return pcie_relation::unknown;
    nvml_device left = nullptr;
    nvml_device right = nullptr;
    unsigned level = 0;
    if (find(bus_id.c_str(), &left) != nvml_success ||
        find(other.c_str(), &right) != nvml_success || get(left, right, &level) != nvml_success)
      return pcie_relation::unknown;
    switch (level) {
      case 0:
        return pcie_relation::same_board;
      case 10:
        return pcie_relation::pix;
      case 20:
        return pcie_relation::pxb;
      case 30:
        return pcie_relation::phb;
      case 40:
        return pcie_relation::node;
      case 50:
        return pcie_relation::sys;
      default:
        return pcie_relation::unknown;
    }
  }

  std::uint32_t usable_count() override {
    start();
    if (!cuda_ready_) return 0;
    int count = 0;
    cuda_check("cuDeviceGetCount", cuda<cuda_result(int*)>("cuDeviceGetCount")(&count));
    return static_cast<std::uint32_t>(count);
  }

  usable_gpu usable(std::uint32_t index) override {
    const cuda_device device = cuda_handle(index);
    usable_gpu found;
    std::array<char, 256> name{};
    cuda_check("cuDeviceGetName", cuda<cuda_result(char*, int, cuda_device)>("cuDeviceGetName")(
                                      name.data(), static_cast<int>(name.size() - 1), device));
    found.name = name.data();
    std::array<char, 64> bus{};
    cuda_check("cuDeviceGetPCIBusId",
               cuda<cuda_result(char*, int, cuda_device)>("cuDeviceGetPCIBusId")(
                   bus.data(), static_cast<int>(bus.size() - 1), device));
    found.bus_id = bus_id_text(bus.data());
    std::size_t memory = 0;
    cuda_check("cuDeviceTotalMem_v2", cuda<cuda_result(std::size_t*, cuda_device)>(
                                          "cuDeviceTotalMem_v2")(&memory, device));
    found.memory_bytes = memory;
    found.compute_units = attribute(device, attribute_compute_units);
    found.clock_hz = 1e3 * attribute(device, attribute_clock_khz);
    found.l2_bytes = attribute(device, attribute_l2_bytes);
    found.shared_bytes = attribute(device, attribute_shared_per_unit);
    found.copy_engines = attribute(device, attribute_copy_engines);
    found.warp_width = attribute(device, attribute_warp_width);
    found.max_threads = attribute(device, attribute_threads_per_unit);
    found.max_blocks = attribute(device, attribute_blocks_per_unit);
    found.capability_major = attribute(device, attribute_capability_major);
    found.capability_minor = attribute(device, attribute_capability_minor);
    found.memory_peak_bytes_per_s = 2e3 * attribute(device, attribute_memory_clock_khz) *
                                    attribute(device, attribute_memory_bus_bits) / 8;
    return found;
  }

  bool peer_access(std::uint32_t from, std::uint32_t to) override {
    int yes = 0;
    auto* get = cuda<cuda_result(int*, cuda_device, cuda_device)>("cuDeviceCanAccessPeer");
    return get(&yes, cuda_handle(from), cuda_handle(to)) == cuda_success && yes != 0;
  }

  std::optional<std::string> visible_devices() override {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
    const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  }

  std::string host_model() override {
    const std::string text = read_file("/proc/cpuinfo").value_or("");
    for (std::string_view rest = text; !rest.empty();) {
      std::string_view line = cut_text(rest, '\n');
      if (line.rfind("model name", 0) != 0) continue;
      cut_text(line, ": ");
      if (!line.empty()) return std::string(line);
    }
    return "unknown processor";
  }

 private:
  // Loads and initialises both libraries once. Both are needed, because NVML alone cannot use a
  // GPU.
  void start() {
    std::call_once(started_, [this] {
      start_nvml();
      start_cuda();
    });
    if (!failure_.empty()) throw usage_error(failure_);
  }

  void start_nvml() {
    auto* init = nvml_.find<nvml_result()>("nvmlInit_v2");
    if (init == nullptr) return;
    const nvml_result result = init();
    nvml_ready_ = result == nvml_success;
    if (result == nvml_driver_not_loaded)
      failure_ = "NVML is installed, but the NVIDIA driver is not loaded";
    else if (result == nvml_version_mismatch)
      failure_ = "NVML and the loaded NVIDIA driver have different versions; restart the machine";
  }

  void start_cuda() {
    if (!failure_.empty()) return;
    auto* init = cuda_.find<cuda_result(unsigned)>("cuInit");
    if (init == nullptr) {
      failure_ = no_driver(nvml_.loaded());
      return;
    }
    const cuda_result result = init(0);
    cuda_ready_ = result == cuda_success;
    if (!cuda_ready_ && result != cuda_no_device) failure_ = no_start(result, cuda_name(result));
  }

  template <class Function>
  Function* nvml(const char* symbol) const {
    auto* found = nvml_.find<Function>(symbol);
    if (found == nullptr) throw device_error(std::string("NVML has no ") + symbol);
    return found;
  }

  template <class Function>
  Function* cuda(const char* symbol) const {
    auto* found = cuda_.find<Function>(symbol);
    if (found == nullptr) throw device_error(std::string("libcuda has no ") + symbol);
    return found;
  }

  void nvml_check(const char* call, nvml_result result) const {
    if (result == nvml_success) return;
    std::string message = "error " + std::to_string(result);
    if (auto* text = nvml_.find<const char*(nvml_result)>("nvmlErrorString"))
      message = text(result);
    message = std::string(call) + ": " + message;
    if (result == nvml_lost || result == nvml_reset_required) throw gpu_lost(message);
    throw device_error(message);
  }

  std::string cuda_name(cuda_result result) const {
    const char* name = nullptr;
    if (auto* get = cuda_.find<cuda_result(cuda_result, const char**)>("cuGetErrorName"))
      if (get(result, &name) == cuda_success && name != nullptr) return name;
    return "error " + std::to_string(result);
  }

  std::string cuda_sentence(cuda_result result) const {
    const char* text = nullptr;
    if (auto* get = cuda_.find<cuda_result(cuda_result, const char**)>("cuGetErrorString"))
      if (get(result, &text) == cuda_success && text != nullptr) return text;
    return "error " + std::to_string(result);
  }

  void cuda_check(const char* call, cuda_result result) const {
    if (result == cuda_success) return;
    throw gpu_lost(std::string(call) + ": " + cuda_sentence(result));
  }

  nvml_device nvml_handle(std::uint32_t index) {
    start();
    nvml_device device = nullptr;
    nvml_check(
        "nvmlDeviceGetHandleByIndex_v2",
        nvml<nvml_result(unsigned, nvml_device*)>("nvmlDeviceGetHandleByIndex_v2")(index, &device));
    return device;
  }

  cuda_device cuda_handle(std::uint32_t index) {
    start();
    cuda_device device = 0;
    cuda_check("cuDeviceGet", cuda<cuda_result(cuda_device*, int)>("cuDeviceGet")(
                                  &device, static_cast<int>(index)));
    return device;
  }

  std::uint32_t attribute(cuda_device device, cuda_attribute which) const {
    int value = 0;
    auto* get = cuda<cuda_result(int*, int, cuda_device)>("cuDeviceGetAttribute");
    return get(&value, which, device) == cuda_success && value > 0
               ? static_cast<std::uint32_t>(value)
               : 0;
  }

  std::uint32_t optional_value(nvml_device device, const char* symbol) const {
    unsigned value = 0;
    auto* get = nvml_.find<nvml_result(nvml_device, unsigned*)>(symbol);
    return get != nullptr && get(device, &value) == nvml_success ? value : 0;
  }

  void find_links(nvml_device device, installed_gpu& found) const {
    auto* state =
        nvml_.find<nvml_result(nvml_device, unsigned, unsigned*)>("nvmlDeviceGetNvLinkState");
    auto* remote = nvml_.find<nvml_result(nvml_device, unsigned, nvml_pci_info*)>(
        "nvmlDeviceGetNvLinkRemotePciInfo_v2");
    auto* type = nvml_.find<nvml_result(nvml_device, unsigned, unsigned*)>(
        "nvmlDeviceGetNvLinkRemoteDeviceType");
    auto* version =
        nvml_.find<nvml_result(nvml_device, unsigned, unsigned*)>("nvmlDeviceGetNvLinkVersion");
    if (state == nullptr) return;
    for (unsigned index = 0; index < nvml_max_links; ++index) {
      unsigned active = 0;
      if (state(device, index, &active) != nvml_success || active == 0) continue;
      nvlink_port port;
      port.raw_bytes_per_s = link_rate(device, index);
      unsigned kind = 255;
      if (type != nullptr && type(device, index, &kind) == nvml_success) {
        if (kind == 0) port.remote = nvlink_remote::gpu;
        if (kind == 2) port.remote = nvlink_remote::network_switch;
      }
      nvml_pci_info pci{};
      if (remote != nullptr && remote(device, index, &pci) == nvml_success)
        port.remote_bus_id = bus_id_text(pci.bus_id);
      unsigned generation = 0;
      if (version != nullptr && version(device, index, &generation) == nvml_success)
        port.version = nvlink_version(generation);
      found.nvlinks.push_back(std::move(port));
    }
  }

  // Converts NVML's number of a version into the generation. NVML has separate numbers for 2.0 and
  // 2.2, and for 3.0 and 3.1.
  static std::uint32_t nvlink_version(unsigned counted) {
    static constexpr std::array<std::uint32_t, 8> generations{0, 1, 2, 2, 3, 3, 4, 5};
    return counted < generations.size() ? generations[counted] : 5;
  }

  // The raw rate of one link in bytes per second, or 0 if the driver does not report it.
  double link_rate(nvml_device device, unsigned index) const {
    auto* get =
        nvml_.find<nvml_result(nvml_device, int, nvml_field_value*)>("nvmlDeviceGetFieldValues");
    if (get == nullptr) return 0;
    for (const unsigned number : {nvml_field_one_link_speed, nvml_field_link_speed}) {
      nvml_field_value field{};
      field.field = number;
      if (number == nvml_field_one_link_speed) field.scope = index;
      if (get(device, 1, &field) != nvml_success || field.result != nvml_success) continue;
      if (field.value_type == nvml_value_unsigned && field.value.as_unsigned > 0)
        return 1e6 * field.value.as_unsigned;
    }
    return 0;
  }

  library nvml_;
  library cuda_;
  std::once_flag started_;
  bool nvml_ready_ = false;
  bool cuda_ready_ = false;
  std::string failure_;
};

}  // namespace

std::unique_ptr<gpu_driver> open_driver() { return std::make_unique<nvidia_driver>(); }

}  // namespace interlace::machine
