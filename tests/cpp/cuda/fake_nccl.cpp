// A stand-in for libnccl.so.2 that uses host memory in place of the devices' memory. The stand-in
// carries out a group when the group ends. If the calls of the devices do not match, NCCL would
// hang. The stand-in refuses such a group (result 5, invalid usage).
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct communicator {
  int device;
  int devices;
};

struct call {
  enum class kind { all_gather, all_reduce, broadcast, send, receive };
  kind what;
  const communicator* on;
  const char* from;
  char* to;
  std::size_t bytes;
  int peer;
};

int depth = 0;  // NOLINT: state of the library, as in NCCL
std::vector<call> calls;
std::string log;      // the name of the called function, for each call
std::string failing;  // the name of the function that fails
constexpr int invalid_usage = 5;
constexpr int unsigned_bytes = 1;
constexpr int float32 = 7;
constexpr int sum = 0;

int noted(const char* name) {
  log += std::string(log.empty() ? "" : " ") + name;
  return failing == name ? 1 : 0;
}

int add(const char* name, const call& c, int type, void* stream) {
  if (const int result = noted(name); result != 0) return result;
  // In this test, the stream of a device is the number of the device plus 1.
  const bool own =
      reinterpret_cast<std::size_t>(stream) == static_cast<std::size_t>(c.on->device) + 1;
  if (depth == 0 || type != unsigned_bytes || !own) return invalid_usage;
  calls.push_back(c);
  return 0;
}

// Carries out the group. The k-th collectives of all devices are one operation. The k-th send from
// one device to another matches the k-th receive.
int carry_out() {
  if (calls.empty()) return 0;
  const int devices = calls.front().on->devices;
  const auto of = [&](int device, auto&& wanted) {
    std::vector<call> found;
    for (const call& c : calls) {
      if (c.on->device == device && wanted(c)) found.push_back(c);
    }
    return found;
  };
  const auto collective = [](const call& c) {
    return c.what == call::kind::all_gather || c.what == call::kind::all_reduce ||
           c.what == call::kind::broadcast;
  };
  const std::size_t count = of(0, collective).size();
  for (int d = 0; d < devices; ++d) {
    if (of(d, collective).size() != count) return invalid_usage;
  }
  for (std::size_t k = 0; k < count; ++k) {
    const call first = of(0, collective)[k];
    for (int d = 0; d < devices; ++d) {
      const call c = of(d, collective)[k];
      if (c.what != first.what || c.bytes != first.bytes || c.peer != first.peer) {
        return invalid_usage;
      }
      if (c.what == call::kind::broadcast) {
        const call root = of(c.peer, collective)[k];
        std::memmove(c.to, root.from, c.bytes);
        continue;
      }
      if (c.what == call::kind::all_reduce) {
        for (std::size_t at = 0; at < c.bytes; at += sizeof(float)) {
          float all = 0;
          for (int p = 0; p < devices; ++p) {
            float one = 0;
            std::memcpy(&one, of(p, collective)[k].from + at, sizeof(one));
            all += one;
          }
          std::memcpy(c.to + at, &all, sizeof(all));
        }
        continue;
      }
      for (int p = 0; p < devices; ++p) {
        const call sender = of(p, collective)[k];
        std::memmove(c.to + static_cast<std::size_t>(p) * c.bytes, sender.from, c.bytes);
      }
    }
  }
  for (int from = 0; from < devices; ++from) {
    for (int to = 0; to < devices; ++to) {
      const auto sends =
          of(from, [&](const call& c) { return c.what == call::kind::send && c.peer == to; });
      const auto receives =
          of(to, [&](const call& c) { return c.what == call::kind::receive && c.peer == from; });
      if (sends.size() != receives.size()) return invalid_usage;
      for (std::size_t k = 0; k < sends.size(); ++k) {
        if (sends[k].bytes != receives[k].bytes) return invalid_usage;
        std::memmove(receives[k].to, sends[k].from, sends[k].bytes);
      }
    }
  }
  return 0;
}

}  // namespace

extern "C" {
#define EXPORTED __attribute__((visibility("default")))

EXPORTED const char* fake_log() { return log.c_str(); }
EXPORTED void fake_reset(const char* fails) {
  log.clear();
  failing = fails;
}
EXPORTED const char* fake_nvls() {
  const char* value = std::getenv("NCCL_NVLS_ENABLE");
  return value == nullptr ? "" : value;
}

EXPORTED int ncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}
EXPORTED const char* ncclGetErrorString(int result) {
  return result == invalid_usage ? "invalid usage" : "unhandled cuda error";
}
EXPORTED const char* ncclGetLastError(communicator* /*of*/) { return "the last words"; }
EXPORTED int ncclCommInitAll(communicator** made, int devices, const int* /*gpus*/) {
  if (const int result = noted("init"); result != 0) return result;
  for (int d = 0; d < devices; ++d) made[d] = new communicator{d, devices};
  return 0;
}
EXPORTED int ncclCommDestroy(communicator* c) {
  delete c;
  return noted("destroy");
}
EXPORTED int ncclCommAbort(communicator* c) {
  delete c;
  return noted("abort");
}
EXPORTED int ncclCommRegister(communicator* /*c*/, void* data, std::size_t /*bytes*/,
                              void** handle) {
  *handle = data;
  return noted("register");
}
EXPORTED int ncclCommDeregister(communicator* /*c*/, void* /*handle*/) {
  return noted("deregister");
}
EXPORTED int ncclGroupStart() {
  ++depth;
  return noted("start");
}
EXPORTED int ncclGroupEnd() {
  --depth;
  int result = noted("end");
  if (result == 0) result = carry_out();
  calls.clear();
  return result;
}
EXPORTED int ncclAllGather(const char* from, char* to, std::size_t bytes, int type,
                           communicator* on, void* stream) {
  return add("all-gather", {call::kind::all_gather, on, from, to, bytes, 0}, type, stream);
}
EXPORTED int ncclAllReduce(const char* from, char* to, std::size_t count, int type, int operation,
                           communicator* on, void* stream) {
  if (type != float32 || operation != sum) return invalid_usage;
  return add("all-reduce", {call::kind::all_reduce, on, from, to, count * sizeof(float), 0},
             unsigned_bytes, stream);
}
EXPORTED int ncclBroadcast(const char* from, char* to, std::size_t bytes, int type, int root,
                           communicator* on, void* stream) {
  return add("broadcast", {call::kind::broadcast, on, from, to, bytes, root}, type, stream);
}
#if !defined(WITHOUT_SEND)
EXPORTED int ncclSend(const char* from, std::size_t bytes, int type, int peer, communicator* on,
                      void* stream) {
  return add("send", {call::kind::send, on, from, nullptr, bytes, peer}, type, stream);
}
#endif
EXPORTED int ncclRecv(char* to, std::size_t bytes, int type, int peer, communicator* on,
                      void* stream) {
  return add("receive", {call::kind::receive, on, nullptr, to, bytes, peer}, type, stream);
}
}
