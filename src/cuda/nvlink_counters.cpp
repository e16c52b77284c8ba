#include "interlace/cuda/nvlink_counters.hpp"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <array>
#include <cstdio>

namespace interlace::cuda {

namespace {

// The part of NVML's interface that this file uses. Its binary interface is stable.
struct nvml_device;
constexpr unsigned int all_links = 0xffffffffU;
constexpr std::array<unsigned int, 4> fields{138, 139, 140, 141};  // NVLINK_THROUGHPUT_*

struct nvml_field {
  unsigned int field;
  unsigned int scope;
  long long timestamp;
  long long latency;
  int value_type;
  int result;
  union {
    double as_double;
    unsigned int as_unsigned_int;
    unsigned long as_unsigned_long;
    unsigned long long as_unsigned_long_long;
    long long as_signed_long_long;
  } value;
};
static_assert(sizeof(nvml_field) == 40);

std::optional<std::uint64_t> kibibytes(const nvml_field& f) {
  if (f.result != 0) return std::nullopt;
  switch (f.value_type) {
    case 0:
      return static_cast<std::uint64_t>(f.value.as_double);
    case 1:
      return f.value.as_unsigned_int;
    case 2:
      return f.value.as_unsigned_long;
    case 3:
      return f.value.as_unsigned_long_long;
    case 4:
      return static_cast<std::uint64_t>(f.value.as_signed_long_long);
    default:
      return std::nullopt;
  }
}

// NVML, which stays loaded and initialised until the process ends.
class nvml {
 public:
  nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    by_uuid_ = reinterpret_cast<int (*)(const char*, nvml_device**)>(
        dlsym(library, "nvmlDeviceGetHandleByUUID"));
    fields_ = reinterpret_cast<int (*)(nvml_device*, int, nvml_field*)>(
        dlsym(library, "nvmlDeviceGetFieldValues"));
    usable_ = init != nullptr && by_uuid_ != nullptr && fields_ != nullptr && init() == 0;
  }

  std::optional<nvlink_bytes> read(int ordinal) const {
    if (!usable_) return std::nullopt;
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess) {
      (void)cudaGetLastError();
      return std::nullopt;
    }
    std::array<char, 48> uuid{"GPU-"};
    std::size_t at = 4;
    for (std::size_t i = 0; i < 16; ++i) {
      if (i == 4 || i == 6 || i == 8 || i == 10) uuid.at(at++) = '-';
      const auto byte = static_cast<unsigned char>(properties.uuid.bytes[i]);
      std::snprintf(&uuid.at(at), 3, "%02x", byte);  // NOLINT: fits
      at += 2;
    }
    nvml_device* device = nullptr;
    if (by_uuid_(uuid.data(), &device) != 0) return std::nullopt;
    std::array<nvml_field, fields.size()> request{};
    for (std::size_t i = 0; i < fields.size(); ++i) {
      request[i].field = fields[i];
      request[i].scope = all_links;
    }
    if (fields_(device, static_cast<int>(request.size()), request.data()) != 0) {
      return std::nullopt;
    }
    std::array<std::uint64_t, fields.size()> bytes{};
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const auto kib = kibibytes(request[i]);
      if (!kib) return std::nullopt;
      bytes[i] = *kib * 1024;
    }
    return nvlink_bytes{.data_sent = bytes[0],
                        .data_received = bytes[1],
                        .raw_sent = bytes[2],
                        .raw_received = bytes[3]};
  }

 private:
  int (*by_uuid_)(const char*, nvml_device**) = nullptr;
  int (*fields_)(nvml_device*, int, nvml_field*) = nullptr;
  bool usable_ = false;
};

}  // namespace

std::optional<nvlink_bytes> read_nvlink_counters(int ordinal) noexcept {
  static const nvml library;
  return library.read(ordinal);
}

}  // namespace interlace::cuda
