// Checkpoints that go to and from GPUs over several paths, on a driver whose GPUs are host memory.
#include "cuda/transfer/checkpoint_carrier.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/transfer.hpp"
#include "cuda/fake_driver.hpp"
#include "cuda/transfer/copy_engine.hpp"
#include "interlace/base/errors.hpp"
#include "machine/sample.hpp"

namespace interlace::checkpoint_carrier_tests {
namespace {

using checkpoint::segment;
using fake::kind;

constexpr std::uint64_t slot_bytes = 40'000;

// Three GPUs with links to each other and to the host. The links are so slow that several paths pay
// off even for a few bytes.
machine::machine mesh() {
  machine::machine made = machine::make_machine(3);
  made.gpu.copy_engines = 8;
  made.gpu.copy_setup_ps = made.gpu.copy_launch_ps = made.gpu.copy_event_ps = 0;
  made.gpu.copy_bytes_per_s = 1e9;
  made.gpu.dram.bytes_per_s = 1e9;
  made.host.memory_bytes_per_s = 1e9;
  for (std::uint32_t one = 0; one < 3; ++one) {
    for (std::uint32_t other = one + 1; other < 3; ++other)
      made.links.push_back(
          machine::make_link(machine::gpu_end(one), machine::gpu_end(other), 50e6));
    made.links.push_back(machine::pcie_link(machine::gpu_end(one), machine::host_end(), 50e6));
  }
  for (machine::link& edge : made.links) edge.latency_ps = 0;
  return made;
}

struct world {
  fake::driver driver;
  // The clock runs so fast that no two messages are in flight at the same time.
  std::atomic<std::uint64_t> time_ns{0};
  cuda::copy_engine engine;
  cuda::checkpoint_carrier carrier;
  std::vector<segment> segments;
  std::string contents;  // the contents of the file
  std::atomic<bool> ended{false};
  std::thread time;  // lets time pass, so that enqueued work runs

  explicit world(std::uint64_t seed)
      : driver(3, seed),
        engine(
            driver.table(), options(),
            [] {
              return cuda::copy_machine{mesh(), {0, 1, 2}, {"gpu0", "gpu1", "gpu2"}};
            },
            [](const std::string&) {}, [this] { return time_ns += 100'000'000'000; }),
        carrier(
            driver.table(),
            [this](cuda::device_address to, cuda::device_address from, std::uint64_t bytes,
                   CUstream_st* on) { engine.copy(to, from, bytes, on); },
            2, 3, slot_bytes) {
    std::mt19937_64 random(seed);
    for (std::uint64_t offset = 8; offset < 250'000;) {
      segment s;
      s.offset = offset;
      s.bytes = 1 + random() % (random() % 3 == 0 ? 90'000 : 3'000);
      s.gpu = static_cast<int>(random() % 3) - (random() % 5 == 0 ? 1 : 0);
      s.tensor = static_cast<std::uint32_t>(segments.size());
      s.address = reinterpret_cast<std::uintptr_t>(
          driver.memory(s.gpu < 0 ? kind::pageable : kind::gpu, std::max(s.gpu, 0), s.bytes));
      offset += s.bytes;
      segments.push_back(s);
    }
    contents.resize(segments.back().offset + segments.back().bytes);
    for (char& c : contents) c = static_cast<char>(random());
    time = std::thread([this] {
      while (!ended) {
        driver.synchronize();
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    });
  }
  ~world() {
    ended = true;
    time.join();
  }
  world(const world&) = delete;
  world& operator=(const world&) = delete;

  static copy_options options() {
    copy_options made;
    made.executor = copy_executor::streams;
    made.threshold_bytes = 8192;
    made.staging_bytes = std::uint64_t{1} << 20U;
    made.traffic_file = "";
    return made;
  }
  std::string_view in_file(const segment& s) const {
    return std::string_view(contents).substr(s.offset, s.bytes);
  }
  static char* in_memory(const segment& s) { return reinterpret_cast<char*>(s.address); }
};

class memory_file {
 public:
  explicit memory_file(const std::string& bytes) : descriptor_(memfd_create("test", 0)) {
    EXPECT_EQ(pwrite(descriptor_, bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }
  ~memory_file() { close(descriptor_); }
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  checkpoint::file get() const { return {descriptor_, "m.safetensors"}; }

 private:
  int descriptor_;
};

checkpoint::transfer_options options_of(std::uint32_t threads) {
  checkpoint::transfer_options made;
  made.threads = threads;
  made.piece_bytes = 7'000;
  return made;
}

TEST(checkpoint_carrier, reads_over_several_paths) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    world w(seed);
    const memory_file file(w.contents);
    checkpoint::read_segments({file.get()}, w.segments, &w.carrier, options_of(1 + seed % 4));
    for (const segment& s : w.segments) {
      ASSERT_EQ(std::string_view(world::in_memory(s), s.bytes), w.in_file(s)) << seed;
    }
    for (const std::string& text : w.driver.errors()) ADD_FAILURE() << text;
    EXPECT_GT(w.engine.statistics().streams, 0U);
  }
}

TEST(checkpoint_carrier, writes_over_several_paths) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    world w(seed);
    for (const segment& s : w.segments) {
      std::memcpy(world::in_memory(s), w.in_file(s).data(), s.bytes);
    }
    const memory_file file(w.contents.substr(0, 8));
    checkpoint::write_segments({file.get()}, w.segments, &w.carrier, options_of(1 + seed % 4));
    std::string written(w.contents.size(), '\0');
    ASSERT_EQ(pread(file.get().descriptor, written.data(), written.size(), 0),
              static_cast<ssize_t>(written.size()));
    ASSERT_EQ(written, w.contents) << seed;
    for (const std::string& text : w.driver.errors()) ADD_FAILURE() << text;
  }
}

TEST(checkpoint_carrier, copies_at_once_what_follows_in_memory) {
  fake::driver driver(1, 1);
  std::vector<std::uint64_t> copied;
  cuda::checkpoint_carrier carrier(
      driver.table(),
      [&](cuda::device_address to, cuda::device_address from, std::uint64_t bytes,
          CUstream_st* on) {
        copied.push_back(bytes);
        cuda::check(driver.table(), driver.table().copy(to, from, bytes, on), "cuMemcpyAsync");
      },
      1, 1, slot_bytes);
  std::uint8_t* const memory = driver.memory(kind::gpu, 0, 4096);
  const auto at = [&](std::uint64_t offset, std::uint64_t bytes, std::uint64_t in_slot) {
    checkpoint::part made;
    made.address = reinterpret_cast<std::uintptr_t>(memory) + offset;
    made.bytes = bytes;
    made.gpu = 0;
    made.slot_offset = in_slot;
    return made;
  };
  // The last part follows the previous part in memory, but not in the slot.
  const std::vector<checkpoint::part> parts{at(0, 100, 0), at(100, 50, 100), at(150, 6, 150),
                                            at(200, 56, 156), at(256, 10, 256)};
  char* const slot = carrier.slot(0, 0);
  for (int k = 0; k < 300; ++k) slot[k] = static_cast<char>(k % 127);
  carrier.send(0, parts);
  while (!carrier.done(0)) driver.synchronize();
  EXPECT_EQ(copied, (std::vector<std::uint64_t>{156, 56, 10}));
  for (const checkpoint::part& p : parts) {
    EXPECT_EQ(std::memcmp(reinterpret_cast<char*>(p.address), slot + p.slot_offset, p.bytes), 0);
  }
}

// If a copy fails and no event tells when the remaining copies end, the slots are lost, because
// these copies may still use the slots.
TEST(checkpoint_carrier, is_abandoned_where_copies_may_be_in_flight) {
  world w(1);
  const memory_file file(w.contents);
  w.driver.fail("event_record", 20, 1000);
  EXPECT_THROW(checkpoint::read_segments({file.get()}, w.segments, &w.carrier, options_of(3)),
               device_error);
  EXPECT_TRUE(w.carrier.abandoned());
}

TEST(checkpoint_carrier, is_kept_where_one_call_fails) {
  world w(1);
  const memory_file file(w.contents);
  for (const char* call : {"stream_create", "event_record", "copy"}) {
    w.driver.fail(call, 1, 1);
    EXPECT_THROW(checkpoint::read_segments({file.get()}, w.segments, &w.carrier, options_of(3)),
                 device_error)
        << call;
    EXPECT_FALSE(w.carrier.abandoned()) << call;
  }
  checkpoint::read_segments({file.get()}, w.segments, &w.carrier, options_of(3));
  for (const segment& s : w.segments)
    EXPECT_EQ(std::string_view(world::in_memory(s), s.bytes), w.in_file(s));
}

TEST(checkpoint_carrier, says_that_no_memory_is_left) {
  world w(1);
  const memory_file file(w.contents);
  w.driver.fail("host_register", 1, 1000);
  w.driver.fail("allocate_host", 1, 1000);
  EXPECT_THROW(checkpoint::read_segments({file.get()}, w.segments, &w.carrier, options_of(3)),
               device_error);
  EXPECT_FALSE(w.carrier.abandoned());
}

}  // namespace
}  // namespace interlace::checkpoint_carrier_tests
