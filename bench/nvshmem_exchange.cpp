// Measures how long NVSHMEM takes to exchange a region. Each GPU owns a part of the region and
// needs all parts. Each GPU enqueues a put to each peer on a stream, followed by a barrier on the
// GPU's own stream. NVSHMEM needs a process for each GPU.
//
//   nvshmem_exchange [--gpus 4] [--bytes 67108864] [--epochs 20] [--repeats 5] [--json FILE]
//
// `bytes` is the size of a part. Every part changes with each repeat. After each repeat, the
// program compares every byte of every replica. Events on each GPU measure the time of an epoch,
// and the time of the slowest GPU counts. The host enqueues an epoch while earlier epochs run. The
// time of an epoch of a few microseconds therefore contains the host's calls. The multicast of the
// switches is off (NVSHMEM_DISABLE_NVLS=1).
//
// `interlace bench overlap` and `interlace study` exchange the same regions in one process, by bulk
// copies and by NCCL. Compare their times with the times of this program.
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"

namespace {

using interlace::device_error;
using interlace::usage_error;

constexpr unsigned int deadline_s = 180;  // alarm() ends a process after this time
constexpr int most_gpus = 16;
constexpr int most_repeats = 64;

struct settings {
  int gpus = 4;
  std::uint64_t bytes = 64U << 20U;
  int epochs = 20;
  int repeats = 5;
  std::string json;
};

// The figures that a process reports to the process that started it.
struct outcome {
  std::array<double, most_repeats> epoch_s{};
  std::uint64_t wrong = 0;  // number of wrong bytes
  std::array<int, 3> version{};
};

std::uint64_t number(const char* option, const char* text, std::uint64_t most) {
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (errno != 0 || *end != '\0' || end == text || value < 1 || value > most) {
    throw usage_error(std::string(option) + " " + text + ": give a number from 1 to " +
                      std::to_string(most));
  }
  return value;
}

settings read_settings(int count, char** words) {
  settings s;
  for (int i = 1; i < count; i += 2) {
    const std::string option = words[i];
    if (i + 1 == count) throw usage_error(option + " needs a value");
    const char* value = words[i + 1];
    if (option == "--gpus") {
      s.gpus = static_cast<int>(number("--gpus", value, most_gpus));
    } else if (option == "--bytes") {
      s.bytes = number("--bytes", value, std::uint64_t{4} << 30U);
    } else if (option == "--epochs") {
      s.epochs = static_cast<int>(number("--epochs", value, 100'000));
    } else if (option == "--repeats") {
      s.repeats = static_cast<int>(number("--repeats", value, most_repeats));
    } else if (option == "--json") {
      s.json = value;
    } else {
      throw usage_error("there is no option " + option +
                        "; there are --gpus, --bytes, --epochs, --repeats, --json");
    }
  }
  return s;
}

void write_all(int file, const void* data, std::size_t bytes) {
  if (write(file, data, bytes) != static_cast<ssize_t>(bytes)) {
    throw device_error("a process of this program ended early");
  }
}

void read_all(int file, void* data, std::size_t bytes) {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = read(file, to, bytes);
    if (got <= 0) throw device_error("a process of this program ended early");
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

unsigned char value_of(int repeat, int owner, std::uint64_t byte) {
  std::uint64_t z = (byte >> 3U) * 0x9E3779B97F4A7C15ULL +
                    static_cast<std::uint64_t>(repeat) * 131 + static_cast<std::uint64_t>(owner);
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<unsigned char>(z >> (8U * (byte & 7U)));
}

// Does the work of one GPU's process, after NVSHMEM has started and before it ends.
outcome measure(const settings& s, int self) {
  outcome result;
  nvshmemx_vendor_get_version_info(&result.version[0], &result.version[1], &result.version[2]);
  const std::uint64_t total = s.bytes * static_cast<std::uint64_t>(s.gpus);
  auto* replica = static_cast<unsigned char*>(nvshmem_malloc(total));
  if (replica == nullptr) throw device_error("NVSHMEM has no memory for the region");
  const std::uint64_t own = s.bytes * static_cast<std::uint64_t>(self);

  // Each peer has its own stream, as with bulk copies. The barrier goes to the GPU's own stream.
  std::vector<cudaStream_t> streams(static_cast<std::size_t>(s.gpus));
  for (cudaStream_t& stream : streams) {
    INTERLACE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  cudaStream_t main = streams[static_cast<std::size_t>(self)];
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  cudaEvent_t order = nullptr;
  INTERLACE_CUDA_CHECK(cudaEventCreate(&begin));
  INTERLACE_CUDA_CHECK(cudaEventCreate(&end));
  INTERLACE_CUDA_CHECK(cudaEventCreateWithFlags(&order, cudaEventDisableTiming));
  const auto epoch = [&] {
    INTERLACE_CUDA_CHECK(cudaEventRecord(order, main));
    for (int step = 1; step < s.gpus; ++step) {
      const int peer = (self + step) % s.gpus;
      cudaStream_t on = streams[static_cast<std::size_t>(peer)];
      INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(on, order, 0));
      nvshmemx_putmem_on_stream(replica + own, replica + own, s.bytes, peer, on);
    }
    for (int step = 1; step < s.gpus; ++step) {
      INTERLACE_CUDA_CHECK(
          cudaEventRecord(order, streams[static_cast<std::size_t>((self + step) % s.gpus)]));
      INTERLACE_CUDA_CHECK(cudaStreamWaitEvent(main, order, 0));
    }
    nvshmemx_barrier_all_on_stream(main);
  };

  std::vector<unsigned char> host(total);
  for (int repeat = -1; repeat < s.repeats; ++repeat) {  // round -1 is not measured
    std::fill(host.begin(), host.end(), static_cast<unsigned char>(0xff));
    for (std::uint64_t i = 0; i < s.bytes; ++i) host[own + i] = value_of(repeat, self, i);
    INTERLACE_CUDA_CHECK(cudaMemcpy(replica, host.data(), total, cudaMemcpyHostToDevice));
    nvshmemx_barrier_all_on_stream(main);
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(main));
    INTERLACE_CUDA_CHECK(cudaEventRecord(begin, main));
    for (int e = 0; e < s.epochs; ++e) epoch();
    INTERLACE_CUDA_CHECK(cudaEventRecord(end, main));
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(main));
    float ms = 0;
    INTERLACE_CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
    INTERLACE_CUDA_CHECK(cudaMemcpy(host.data(), replica, total, cudaMemcpyDeviceToHost));
    for (int owner = 0; owner < s.gpus; ++owner) {
      const unsigned char* part = host.data() + s.bytes * static_cast<std::uint64_t>(owner);
      for (std::uint64_t i = 0; i < s.bytes; ++i) {
        result.wrong += part[i] != value_of(repeat, owner, i) ? 1 : 0;
      }
    }
    // The barrier keeps a process from filling its replica while a peer still compares its own
    // replica or still sends.
    nvshmemx_barrier_all_on_stream(main);
    INTERLACE_CUDA_CHECK(cudaStreamSynchronize(main));
    if (repeat >= 0) {
      result.epoch_s[static_cast<std::size_t>(repeat)] = static_cast<double>(ms) * 1e-3 / s.epochs;
    }
  }
  nvshmem_free(replica);
  return result;
}

int run_process(const settings& s, int self, int from_parent, int to_parent) {
  try {
    alarm(deadline_s);
    INTERLACE_CUDA_CHECK(cudaSetDevice(self));
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    if (self == 0) {
      if (nvshmemx_get_uniqueid(&id) != 0) throw device_error("nvshmemx_get_uniqueid failed");
      write_all(to_parent, &id, sizeof(id));
    }
    read_all(from_parent, &id, sizeof(id));
    nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
    if (nvshmemx_set_attr_uniqueid_args(self, s.gpus, &id, &attributes) != 0 ||
        nvshmemx_hostlib_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) != 0) {
      throw device_error("NVSHMEM cannot be initialised");
    }
    const outcome result = measure(s, self);
    write_all(to_parent, &result, sizeof(result));
    nvshmemx_hostlib_finalize();
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nvshmem_exchange: GPU %d: %s\n", self, e.what());
    return 1;
  }
}

void print(const settings& s, const std::vector<outcome>& outcomes) {
  std::vector<double> slowest;
  std::uint64_t wrong = 0;
  for (int r = 0; r < s.repeats; ++r) {
    double most = 0;
    for (const outcome& o : outcomes) most = std::max(most, o.epoch_s[static_cast<std::size_t>(r)]);
    slowest.push_back(most);
  }
  for (const outcome& o : outcomes) wrong += o.wrong;
  if (wrong != 0) throw device_error(std::to_string(wrong) + " bytes did not arrive");
  std::vector<double> ordered = slowest;
  std::sort(ordered.begin(), ordered.end());
  const double median = (ordered[(ordered.size() - 1) / 2] + ordered[ordered.size() / 2]) / 2;
  const double sent = static_cast<double>(s.bytes) * (s.gpus - 1);
  const auto& v = outcomes.front().version;
  std::printf("NVSHMEM %d.%d.%d, puts on streams and a barrier; all bytes compared\n\n", v[0], v[1],
              v[2]);
  std::printf("%5s  %12s  %10s  %18s\n", "GPUs", "bytes a part", "epoch, us", "GB/s from each GPU");
  std::printf("%5d  %12llu  %10.1f  %18.1f\n", s.gpus, static_cast<unsigned long long>(s.bytes),
              1e6 * median, 1e-9 * sent / median);
  if (s.json.empty()) return;
  std::FILE* file = std::fopen(s.json.c_str(), "w");
  if (file == nullptr) throw usage_error("--json " + s.json + ": cannot be written");
  std::fprintf(file,
               "{\"format\": 1, \"benchmark\": \"nvshmem_exchange\", \"nvshmem\": \"%d.%d.%d\", "
               "\"gpus\": %d, \"bytes\": %llu, \"epochs\": %d, \"epoch_s\": [",
               v[0], v[1], v[2], s.gpus, static_cast<unsigned long long>(s.bytes), s.epochs);
  for (std::size_t r = 0; r < slowest.size(); ++r) {
    std::fprintf(file, "%s%.9g", r == 0 ? "" : ", ", slowest[r]);
  }
  std::fprintf(file, "], \"gb_per_s\": %.6g}\n", 1e-9 * sent / median);
  if (std::fclose(file) != 0) throw usage_error("--json " + s.json + ": cannot be written");
}

int start_all(const settings& s) {
  (void)std::signal(
      SIGPIPE,
      // A write to a process that has ended must be reported, and must not end this process.
      SIG_IGN);
  // The child processes inherit these variables. NVSHMEM reads them when a child process
  // initialises it.
  setenv("NVSHMEM_DISABLE_NVLS", "1", 1);
  setenv("NVSHMEM_REMOTE_TRANSPORT", "none", 0);
  setenv("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "lo", 0);
  struct process {
    pid_t id;
    int to;
    int from;
  };
  std::vector<process> processes;
  // No call of CUDA comes before this loop, because CUDA does not survive a fork.
  for (int r = 0; r < s.gpus; ++r) {
    std::array<int, 2> down{};
    std::array<int, 2> up{};
    if (pipe(down.data()) != 0 || pipe(up.data()) != 0) throw device_error("no pipe can be made");
    const pid_t id = fork();
    if (id < 0) throw device_error("no process can be started");
    if (id == 0) {
      for (const process& other : processes) {
        close(other.to);
        close(other.from);
      }
      close(down[1]);
      close(up[0]);
      _exit(run_process(s, r, down[0], up[1]));
    }
    close(down[0]);
    close(up[1]);
    processes.push_back({id, down[1], up[0]});
  }
  int failed = 0;
  try {
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    read_all(processes.front().from, &id, sizeof(id));
    for (const process& p : processes) write_all(p.to, &id, sizeof(id));
    std::vector<outcome> outcomes(processes.size());
    for (std::size_t r = 0; r < processes.size(); ++r) {
      read_all(processes[r].from, &outcomes[r], sizeof(outcome));
    }
    print(s, outcomes);
  } catch (const device_error& e) {
    std::fprintf(stderr, "nvshmem_exchange: %s\n", e.what());
    failed = 1;
  }
  for (const process& p : processes) {
    int status = 0;
    if (waitpid(p.id, &status, 0) == p.id && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
      failed = 1;
    }
  }
  return failed;
}

}  // namespace

int main(int count, char** words) {
  try {
    return start_all(read_settings(count, words));
  } catch (const usage_error& e) {
    std::fprintf(stderr, "nvshmem_exchange: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nvshmem_exchange: %s\n", e.what());
    return 1;
  }
}
