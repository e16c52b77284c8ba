// A libnvidia-ml.so.1 for tests. It shows the boards of the fake driver. Each board has PCIe 5 x16,
// and 18 NVLinks to a switch.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct pci_info {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
};

long index_of(void* device) { return reinterpret_cast<long>(device) - 1; }

}  // namespace

extern "C" {

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  const char* cuda = std::getenv("FAKE_CUDA");  // 535 is the driver for CUDA 12.2
  std::snprintf(text, length, "%s", cuda == nullptr ? "999.0" : "535.0");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  const char* gpus = std::getenv("FAKE_GPUS");
  *count = gpus == nullptr ? 4 : static_cast<unsigned>(std::atoi(gpus));
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(static_cast<long>(index) + 1);
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  const char* colon = std::strchr(bus_id, ':');
  *device = reinterpret_cast<void*>(std::strtol(colon + 1, nullptr, 16));
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, pci_info* info) {
  std::memset(info, 0, sizeof *info);
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02lX:00.0", index_of(device) + 1);
  return 0;
}
int nvmlDeviceGetName(void*, char* name, unsigned length) {
  std::snprintf(name, length, "Fake H200");
  return 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* generation) {
  *generation = 5;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* width) {
  *width = 16;
  return 0;
}
int nvmlDeviceGetNvLinkState(void*, unsigned link, unsigned* active) {
  *active = link < 18;
  return 0;
}
// NVLinks end at a switch. If FAKE_MESH is set, they connect each of the four GPUs with every other
// GPU instead.
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, pci_info* info) {
  std::memset(info, 0, sizeof *info);
  const unsigned long other = (index_of(device) + 1 + link % 3) % 4;
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02lX:00.0",
                std::getenv("FAKE_MESH") == nullptr ? 0xF0 : other + 1);
  return 0;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, unsigned* type) {
  *type = std::getenv("FAKE_MESH") == nullptr ? 2 : 0;  // 2 is a switch, 0 is a GPU
  return 0;
}
int nvmlDeviceGetNvLinkVersion(void*, unsigned, unsigned* version) {
  *version = 6;  // NVML's number for generation 4
  return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void*, void*, unsigned* level) {
  *level = 40;  // the paths between the GPUs go through the processor
  return 0;
}

}  // extern "C"
