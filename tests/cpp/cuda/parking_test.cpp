// Pools that park their memory, on a stand-in driver that uses host memory in place of GPU memory.
#include "cuda/park/parking.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda/fake_driver.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::parking_tests {
namespace {

using cuda::device_address;
using cuda::park_nowhere;
using cuda::park_on_host;

constexpr std::uint64_t slab_bytes = 16'384;
constexpr int gpus = 3;

struct block {
  device_address address = 0;
  std::uint64_t bytes = 0;
  int gpu = 0;
  std::uint64_t seed = 0;  // seed of the contents
};

struct world {
  fake::driver driver;
  std::optional<std::uint64_t> available;  // the number of available bytes that the host reports
  cuda::parking parking;
  std::mt19937_64 random;

  explicit world(std::uint64_t seed, unsigned threads = 2)
      : driver(gpus, seed),
        parking(
            driver.table(),
            [this](device_address to, device_address from, std::uint64_t bytes, CUstream_st* on) {
              cuda::check(driver.table(), driver.table().copy(to, from, bytes, on), "copy");
            },
            {.slab_bytes = slab_bytes,
             .threads = threads,
             .available_bytes = [this] { return available; }}),
        random(seed) {}

  void fill(block& one) {
    one.seed = random();
    std::mt19937_64 bytes(one.seed);
    auto* at = reinterpret_cast<std::uint64_t*>(one.address);
    for (std::uint64_t k = 0; k < one.bytes / 8; ++k) at[k] = bytes();
  }
  static bool intact(const block& one) {
    std::mt19937_64 bytes(one.seed);
    const auto* at = reinterpret_cast<const std::uint64_t*>(one.address);
    for (std::uint64_t k = 0; k < one.bytes / 8; ++k)
      if (at[k] != bytes()) return false;
    return true;
  }
  block allocate(const std::string& pool, int gpu, std::uint64_t bytes) {
    block made{parking.allocate(pool, gpu, bytes), bytes, gpu};
    fill(made);
    return made;
  }
  std::size_t used() {
    std::size_t sum = 0;
    for (int gpu = 0; gpu < gpus; ++gpu) sum += driver.virtual_memory().used(gpu);
    return sum;
  }
  void expect_nothing_left() {
    EXPECT_EQ(driver.virtual_memory().reservations(), 0U);
    EXPECT_EQ(driver.virtual_memory().physical(), 0U);
    EXPECT_EQ(driver.virtual_memory().mappings(), 0U);
    EXPECT_EQ(driver.registrations(), 0U);
  }
  world(const world&) = delete;
  world& operator=(const world&) = delete;
  ~world() { EXPECT_EQ(driver.errors(), std::vector<std::string>{}); }
};

std::string message(const std::function<void()>& call) {
  try {
    call();
  } catch (const usage_error& error) {
    return std::string("usage: ") + error.what();
  } catch (const device_error& error) {
    return error.what();
  }
  return "no error";
}

TEST(parking, contents_go_to_the_host_and_come_back_to_the_same_addresses) {
  world w(1);
  w.parking.make_pool("weights");
  std::vector<block> all;
  for (const std::uint64_t bytes : {4'096, 40'960, 8, 100'000, 16'384})
    all.push_back(w.allocate("weights", 0, bytes));
  const auto before = w.used();
  EXPECT_EQ(before, 4'096U + 40'960 + 4'096 + 102'400 + 16'384);

  for (int cycle = 0; cycle < 3; ++cycle) {
    const auto parked = w.parking.park("weights", {});
    EXPECT_EQ(w.used(), 0U);
    EXPECT_EQ(parked.bytes, before);
    EXPECT_EQ(parked.gpu_bytes, before);
    const std::uint64_t slabs = (before + slab_bytes - 1) / slab_bytes * slab_bytes;
    EXPECT_EQ(parked.locked_bytes, cycle == 0 ? slabs : 0);
    EXPECT_EQ(w.parking.facts("weights").host_bytes, slabs);
    EXPECT_TRUE(w.parking.facts("weights").parked);
    const auto back = w.parking.resume("weights");
    EXPECT_EQ(back.bytes, before);
    EXPECT_EQ(w.used(), before);
    EXPECT_EQ(w.parking.idle_host_bytes(), slabs);
    for (block& one : all) {
      EXPECT_TRUE(world::intact(one));
      w.fill(one);
    }
  }
  for (const block& one : all) w.parking.free(one.address);
  w.parking.free_idle_host_memory();
  w.expect_nothing_left();
}

TEST(parking, memory_that_is_not_kept_goes_back_to_the_system) {
  world w(2);
  w.parking.make_pool("a");
  const block one = w.allocate("a", 1, 50'000);
  (void)w.parking.park("a", {.keep_pool = false});
  EXPECT_EQ(w.driver.registrations(), 4U);
  (void)w.parking.resume("a");
  EXPECT_TRUE(world::intact(one));
  EXPECT_EQ(w.driver.registrations(), 0U);
  EXPECT_EQ(w.parking.idle_host_bytes(), 0U);
}

TEST(parking, memory_prepared_for_a_pool_without_allocations_serves_the_next_pool) {
  world w(14);
  for (const char* name : {"first", "second"}) {
    w.parking.make_pool(name);
    const block one = w.allocate(name, 0, 50'000);
    EXPECT_EQ(w.parking.prepare(name), name == std::string("first") ? 4 * slab_bytes : 0);
    EXPECT_EQ(w.parking.idle_host_bytes(), 4 * slab_bytes);
    w.parking.free(one.address);
  }
  w.parking.free_idle_host_memory();
  w.expect_nothing_left();
}

TEST(parking, memory_is_made_without_rdma_where_that_is_refused) {
  world w(13);
  w.parking.make_pool("a");
  w.driver.fail("physical_create", 1, 1);
  const block one = w.allocate("a", 0, 10'000);
  (void)w.parking.park("a", {});
  (void)w.parking.resume("a");
  EXPECT_TRUE(world::intact(one));
}

TEST(parking, a_failed_question_for_peers_is_asked_again) {
  world w(14);
  w.parking.make_pool("a");
  const block one = w.allocate("a", 0, 10'000);
  w.driver.fail("can_access_peer", 1, 1);
  EXPECT_EQ(message([&] { (void)w.parking.park("a", {.to = 1}); }),
            "cuDeviceCanAccessPeer failed: FAKE");
  EXPECT_TRUE(world::intact(one));
  (void)w.parking.park("a", {.to = 1});
  (void)w.parking.resume("a");
  EXPECT_TRUE(world::intact(one));
}

TEST(parking, contents_go_to_another_gpu) {
  world w(3);
  w.parking.make_pool("a");
  const block one = w.allocate("a", 0, 50'000);
  const block other = w.allocate("a", 1, 4'096);
  const auto report = w.parking.park("a", {.to = 2});
  EXPECT_EQ(report.locked_bytes, 0U);
  EXPECT_EQ(w.driver.virtual_memory().used(0) + w.driver.virtual_memory().used(1), 0U);
  EXPECT_EQ(w.driver.virtual_memory().used(2), 53'248U + 4'096);
  EXPECT_EQ(w.parking.facts("a").place, 2);
  (void)w.parking.resume("a");
  EXPECT_EQ(w.driver.virtual_memory().used(2), 0U);
  EXPECT_TRUE(world::intact(one) && world::intact(other));
  EXPECT_EQ(message([&] { (void)w.parking.park("a", {.to = 1}); }),
            "usage: pool 'a' has memory on GPU 1 itself; park it elsewhere");
  EXPECT_EQ(message([&] { (void)w.parking.park("a", {.to = 7}); }),
            "usage: there is no GPU 7; this process sees 3 GPUs, numbered from 0");
  EXPECT_TRUE(world::intact(one) && world::intact(other));
}

TEST(parking, contents_can_be_dropped_all_or_some) {
  world w(4);
  w.parking.make_pool("a");
  const block one = w.allocate("a", 0, 50'000);
  const block other = w.allocate("a", 0, 20'480);
  EXPECT_EQ(w.parking.park("a", {.to = park_nowhere}).bytes, 0U);
  EXPECT_EQ(w.used(), 0U);
  EXPECT_EQ(w.parking.resume("a").bytes, 0U);
  EXPECT_EQ(w.used(), 53'248U + 20'480);
  block again = one;
  w.fill(again);
  const std::vector<device_address> without{other.address};
  EXPECT_EQ(w.parking.park("a", {.without_contents = without}).bytes, 53'248U);
  (void)w.parking.resume("a");
  EXPECT_TRUE(world::intact(again));
  EXPECT_FALSE(world::intact(other));
}

TEST(parking, page_locked_memory_goes_from_pool_to_pool) {
  world w(5);
  w.parking.make_pool("a");
  w.parking.make_pool("b");
  const block one = w.allocate("a", 0, 65'536);
  const block other = w.allocate("b", 0, 32'768);
  (void)w.parking.park("a", {});
  EXPECT_EQ(w.parking.park("b", {}).locked_bytes, 32'768U);
  (void)w.parking.resume("a");
  (void)w.parking.resume("b");
  EXPECT_EQ(w.parking.park("a", {}).locked_bytes, 0U);
  EXPECT_EQ(w.parking.park("b", {}).locked_bytes, 0U);
  (void)w.parking.resume("b");
  (void)w.parking.resume("a");
  EXPECT_TRUE(world::intact(one) && world::intact(other));
}

TEST(parking, prepared_memory_makes_the_next_park_lock_none) {
  world w(31);
  w.parking.make_pool("a");
  w.parking.make_pool("b");
  EXPECT_EQ(w.parking.prepare("a"), 0U);  // an empty pool needs no host memory
  const block one = w.allocate("a", 0, 50'000);
  const block other = w.allocate("b", 1, 40'960);
  EXPECT_EQ(w.parking.prepare("a"), 4 * slab_bytes);
  EXPECT_EQ(w.parking.prepare("a"), 0U);
  EXPECT_EQ(w.parking.prepare("b"), 3 * slab_bytes);  // both pools can be parked at the same time
  EXPECT_EQ(w.parking.idle_host_bytes(), 7 * slab_bytes);
  EXPECT_EQ(w.parking.park("a", {}).locked_bytes, 0U);
  EXPECT_EQ(message([&] { (void)w.parking.prepare("a"); }), "usage: pool 'a' is parked already");
  EXPECT_EQ(w.parking.park("b", {}).locked_bytes, 0U);
  EXPECT_EQ(w.driver.registrations(), 7U);
  (void)w.parking.resume("a");
  (void)w.parking.resume("b");
  EXPECT_TRUE(world::intact(one) && world::intact(other));
  EXPECT_EQ(w.parking.prepare("b"), 0U);  // the memory of earlier parks is still there
  w.parking.free_idle_host_memory();
  EXPECT_EQ(w.parking.prepare("b"), 3 * slab_bytes);
  EXPECT_EQ(w.driver.registrations(), 3U);
}

TEST(parking, a_preparation_that_fails_leaves_what_it_has_for_the_next_park) {
  world w(32);
  w.parking.make_pool("a");
  const block one = w.allocate("a", 0, 160'000);
  w.available = 100'000;
  EXPECT_EQ(message([&] { (void)w.parking.prepare("a"); }),
            "parking pool 'a' needs 163840 bytes of host memory, and 100000 are available");
  EXPECT_EQ(w.driver.registrations(), 0U);
  w.available.reset();
  w.driver.fail("host_register", 3, 1'000);
  w.driver.fail("allocate_host", 1, 1'000);
  EXPECT_EQ(message([&] { (void)w.parking.prepare("a"); }), "cuMemHostAlloc failed: FAKE");
  EXPECT_EQ(w.parking.idle_host_bytes(), 2 * slab_bytes);
  w.driver.fail("host_register", 1, 0);
  w.driver.fail("allocate_host", 1, 0);
  EXPECT_EQ(w.parking.park("a", {}).locked_bytes, 8 * slab_bytes);
  (void)w.parking.resume("a");
  EXPECT_TRUE(world::intact(one));
}

// A park that begins during a preparation takes the memory that is ready, and locks only the rest.
TEST(parking, a_park_ends_a_preparation) {
  for (std::uint64_t seed = 33; seed < 73; ++seed) {
    world w(seed);
    w.parking.make_pool("a");
    const block one = w.allocate("a", 0, 40 * slab_bytes);
    std::uint64_t prepared = 0;
    std::thread preparing([&] {
      try {
        prepared = w.parking.prepare("a");
      } catch (const usage_error&) {  // the park came before the call
      }
    });
    while (seed % 2 == 0 && w.parking.idle_host_bytes() == 0) std::this_thread::yield();
    const auto parked = w.parking.park("a", {});
    (void)w.parking.resume("a");
    EXPECT_TRUE(world::intact(one));
    preparing.join();
    // A preparation that begins after the pool has resumed finds the memory of this park.
    EXPECT_EQ(prepared + parked.locked_bytes, 40 * slab_bytes);
    EXPECT_EQ(w.driver.registrations(), 40U);
  }
}

TEST(parking, bad_use_is_refused_and_changes_nothing) {
  world w(6);
  EXPECT_EQ(message([&] { (void)w.parking.park("a", {}); }),
            "usage: there is no pool 'a'; this process has made no pool yet");
  w.parking.make_pool("a");
  w.parking.make_pool("a");
  EXPECT_EQ(message([&] { (void)w.parking.resume("b"); }),
            "usage: there is no pool 'b'; give one of: a");
  EXPECT_EQ(message([&] { (void)w.parking.resume("a"); }), "usage: pool 'a' is not parked");
  EXPECT_EQ(message([&] { (void)w.parking.allocate("a", 3, 1); }),
            "usage: there is no GPU 3; this process sees 3 GPUs, numbered from 0");
  EXPECT_EQ(message([&] { (void)w.parking.allocate("a", 0, 0); }),
            "usage: an allocation of 0 bytes in pool 'a'");
  const block one = w.allocate("a", 0, 10'000);
  EXPECT_EQ(message([&] { w.parking.free(one.address + 4'096); }),
            "usage: no pool has an allocation that begins at this address");
  EXPECT_EQ(w.parking.pool_of(one.address + 9'999), "a");
  EXPECT_EQ(w.parking.pool_of(one.address + 20'000), std::nullopt);
  (void)w.parking.park("a", {});
  EXPECT_EQ(message([&] { (void)w.parking.park("a", {}); }), "usage: pool 'a' is parked already");
  EXPECT_EQ(message([&] { (void)w.parking.allocate("a", 0, 1); }),
            "usage: pool 'a' is parked; resume it before it gets memory");
  (void)w.parking.resume("a");
  EXPECT_TRUE(world::intact(one));
  w.parking.free(one.address);
  EXPECT_EQ(message([&] { w.parking.free(one.address); }),
            "usage: no pool has an allocation that begins at this address");
}

TEST(parking, parked_memory_can_be_freed) {
  world w(7);
  w.parking.make_pool("a");
  const block one = w.allocate("a", 0, 40'960);
  const block other = w.allocate("a", 0, 40'960);
  (void)w.parking.park("a", {});
  w.parking.free(one.address);
  EXPECT_TRUE(w.parking.facts("a").parked);
  (void)w.parking.resume("a");
  EXPECT_TRUE(world::intact(other));
  EXPECT_EQ(w.used(), 40'960U);
  (void)w.parking.park("a", {.keep_pool = false});
  w.parking.free(other.address);
  EXPECT_FALSE(w.parking.facts("a").parked);
  w.parking.free_idle_host_memory();
  w.expect_nothing_left();
}

TEST(parking, work_before_a_park_counts) {
  world w(8);
  w.driver.run_nothing_unasked();
  w.parking.make_pool("a");
  const block one = w.allocate("a", 0, 40'960);
  CUstream_st* const stream = w.driver.stream(0, false);
  std::uint8_t* const source = w.driver.memory(fake::kind::gpu, 0, 40'960);
  std::memset(source, 7, 40'960);
  {
    const cuda::in_context on(w.driver.table(), w.driver.context(0));
    ASSERT_EQ(w.driver.table().copy(one.address, reinterpret_cast<device_address>(source), 40'960,
                                    stream),
              0);
  }
  (void)w.parking.park("a", {});
  (void)w.parking.resume("a");
  EXPECT_EQ(std::memcmp(reinterpret_cast<void*>(one.address), source, 40'960), 0);
}

TEST(parking, too_little_memory_of_the_host_leaves_everything_on_the_gpu) {
  world w(9);
  w.parking.make_pool("a");
  const block one = w.allocate("a", 0, 160'000);
  w.available = 100'000;
  EXPECT_EQ(message([&] { (void)w.parking.park("a", {}); }),
            "parking pool 'a' needs 163840 bytes of host memory, and 100000 are available");
  w.available.reset();
  // In the middle of parking, page-locking the third slab fails.
  w.driver.fail("host_register", 3, 1'000);
  w.driver.fail("allocate_host", 1, 1'000);
  EXPECT_EQ(message([&] { (void)w.parking.park("a", {}); }), "cuMemHostAlloc failed: FAKE");
  EXPECT_FALSE(w.parking.facts("a").parked);
  EXPECT_EQ(w.used(), 163'840U);
  EXPECT_EQ(w.driver.registrations(), 0U);
  EXPECT_TRUE(world::intact(one));
  w.driver.fail("host_register", 1, 0);
  w.driver.fail("allocate_host", 1, 0);
  (void)w.parking.park("a", {});
  (void)w.parking.resume("a");
  EXPECT_TRUE(world::intact(one));
}

TEST(parking, too_little_memory_of_the_gpu_leaves_everything_parked) {
  world w(10);
  w.parking.make_pool("a");
  w.parking.make_pool("b");
  const block one = w.allocate("a", 0, 40'960);
  const block other = w.allocate("a", 0, 40'960);
  (void)w.parking.park("a", {});
  w.driver.virtual_memory().capacity = 100'000;
  const block in_the_way = w.allocate("b", 0, 40'960);
  EXPECT_EQ(message([&] { (void)w.parking.resume("a"); }),
            "pool 'a' stays parked: GPU 0 has 18080 of 100000 bytes free, and 40960 more are "
            "needed");
  EXPECT_TRUE(w.parking.facts("a").parked);
  EXPECT_EQ(w.used(), 40'960U);
  w.parking.free(in_the_way.address);
  (void)w.parking.resume("a");
  EXPECT_TRUE(world::intact(one) && world::intact(other));
}

TEST(parking, memory_that_cannot_be_unmapped_is_mapped_again) {
  world w(11);
  w.parking.make_pool("a");
  std::vector<block> all;
  all.reserve(4);
  for (int k = 0; k < 4; ++k) all.push_back(w.allocate("a", 0, 20'000));
  w.driver.fail("unmap", 3, 1);
  EXPECT_EQ(message([&] { (void)w.parking.park("a", {}); }), "cuMemUnmap failed: FAKE");
  EXPECT_FALSE(w.parking.facts("a").parked);
  for (const block& one : all) EXPECT_TRUE(world::intact(one));

  w.driver.fail("unmap", 3, 1);
  w.driver.fail("map", 1, 1);
  EXPECT_EQ(message([&] { (void)w.parking.park("a", {}); }),
            "cuMemUnmap failed: FAKE; 2 of 4 allocations of pool 'a' are still parked; resume the "
            "pool");
  EXPECT_TRUE(w.parking.facts("a").parked);
  (void)w.parking.resume("a");
  for (const block& one : all) EXPECT_TRUE(world::intact(one));
}

TEST(parking, contents_of_other_memory_are_kept) {
  world w(12);
  w.parking.make_pool("a");
  std::vector<block> all;
  std::vector<cuda::gpu_range> ranges;
  for (const std::uint64_t bytes : {20'000, 8'000, 50'000}) {
    const block& one = all.emplace_back(w.allocate("a", static_cast<int>(all.size()) % 2, bytes));
    ranges.push_back({one.address, one.bytes, one.gpu});
  }
  cuda::park_report report;
  const auto kept = w.parking.keep_contents(ranges, report);
  EXPECT_EQ(report.bytes, 78'000U);
  EXPECT_EQ(report.locked_bytes, 5 * slab_bytes);
  (void)w.parking.park("a", {.to = park_nowhere});
  (void)w.parking.resume("a");
  const std::vector<device_address> first{all[2].address, all[0].address};
  EXPECT_EQ(w.parking.restore_contents(*kept, first).bytes, 70'000U);
  EXPECT_TRUE(world::intact(all[0]) && world::intact(all[2]));
  EXPECT_FALSE(world::intact(all[1]));
  const std::vector<device_address> rest{all[1].address};
  (void)w.parking.restore_contents(*kept, rest);
  EXPECT_TRUE(world::intact(all[1]));
  const std::vector<device_address> wrong{all[1].address + 1};
  EXPECT_EQ(message([&] { (void)w.parking.restore_contents(*kept, wrong); }),
            "usage: these contents were not kept, or are restored twice");
  w.parking.drop_contents(*kept);
  EXPECT_EQ(w.parking.idle_host_bytes(), 5 * slab_bytes);

  w.driver.fail("copy", 2, 1);
  cuda::park_report failed;
  EXPECT_EQ(message([&] { (void)w.parking.keep_contents(ranges, failed); }), "copy failed: FAKE");
  EXPECT_EQ(w.parking.idle_host_bytes(), 5 * slab_bytes);
  const std::vector<cuda::gpu_range> nothing{{all[0].address, 0, 0}};
  EXPECT_EQ(message([&] { (void)w.parking.keep_contents(nothing, failed); }),
            "usage: a range of 0 bytes cannot be kept");
}

// Tests random pools, sizes and places. Every call that can fail does so from time to time.
// Whichever call fails, the contents of a pool that is not parked must be right, and nothing may
// leak.
struct tortured {
  int resumed = 0;   // number of pools that were resumed
  int failures = 0;  // number of calls that failed
};

tortured torture(std::uint64_t seed, int cycles) {
  world w(seed, 1 + static_cast<unsigned>(seed % 3));
  struct model {
    std::string name;
    std::vector<block> blocks;
    bool dropped = false;
  };
  std::vector<model> pools;
  for (const char* name : {"a", "b", "c"}) {
    pools.push_back({name, {}, false});
    w.parking.make_pool(name);
  }
  auto& random = w.random;
  tortured found;
  for (int cycle = 0; cycle < cycles; ++cycle) {
    const bool unreliable = random() % 2 == 0;
    w.driver.fail_at_random(
        {"reserve", "physical_create", "map", "unmap", "set_access", "host_register",
         "allocate_host", "copy", "stream_synchronize", "context_synchronize", "memory_info"},
        unreliable ? 0.05 : 0);
    w.available.reset();
    if (random() % 8 == 0) w.available = random() % 100'000;
    w.driver.virtual_memory().capacity = random() % 8 == 0 ? random() % 400'000 : 1'000'000;
    model& one = pools[random() % pools.size()];
    try {
      if (one.blocks.size() < 4 && random() % 2 == 0 && !w.parking.facts(one.name).parked) {
        const auto gpu = static_cast<int>(random() % 2);
        one.blocks.push_back(w.allocate(one.name, gpu, 8 * (1 + random() % 5'000)));
      }
      if (!one.blocks.empty() && random() % 4 == 0) {
        const std::size_t at = random() % one.blocks.size();
        w.parking.free(one.blocks[at].address);
        one.blocks.erase(one.blocks.begin() + static_cast<std::ptrdiff_t>(at));
      }
      if (random() % 4 == 0 && !w.parking.facts(one.name).parked) (void)w.parking.prepare(one.name);
      if (!w.parking.facts(one.name).parked) {
        one.dropped = false;
        const int to = random() % 3 == 0 ? 2 : random() % 6 == 0 ? park_nowhere : park_on_host;
        one.dropped = to == park_nowhere;
        (void)w.parking.park(one.name, {.to = to, .keep_pool = random() % 2 == 0});
      }
      if (random() % 2 == 0 && w.parking.facts(one.name).parked) {
        (void)w.parking.resume(one.name);
        ++found.resumed;
      }
    } catch (const device_error&) {
      ++found.failures;
    }
    for (model& each : pools) {
      if (w.parking.facts(each.name).parked) continue;
      for (block& of : each.blocks) {
        if (each.dropped) w.fill(of);
        if (world::intact(of)) continue;
        ADD_FAILURE() << "seed " << seed << ", cycle " << cycle;
        return found;
      }
      each.dropped = false;
    }
  }
  EXPECT_GT(found.failures, cycles / 50);
  w.driver.fail_at_random({}, 0);
  w.driver.virtual_memory().capacity = 1'000'000'000;
  w.available.reset();
  for (model& each : pools) {
    if (w.parking.facts(each.name).parked) (void)w.parking.resume(each.name);
    for (const block& of : each.blocks) {
      EXPECT_TRUE(each.dropped || world::intact(of));
      w.parking.free(of.address);
    }
  }
  w.parking.free_idle_host_memory();
  w.expect_nothing_left();
  return found;
}

// `./check --long` runs 10^4 cycles.
TEST(parking, random_failures_lose_and_leak_nothing) {
  const char* const all =
      std::getenv("INTERLACE_TEST_PARKING");  // NOLINT: no thread sets variables
  const int cycles = all != nullptr ? 10'000 : 500;
  tortured all_found;
  for (std::uint64_t seed = 1; all_found.resumed < cycles && !testing::Test::HasFailure(); ++seed) {
    const tortured found = torture(seed, 200);
    all_found.resumed += found.resumed;
    all_found.failures += found.failures;
  }
  std::printf("[ PARKING  ] %d pools came back, %d calls failed\n", all_found.resumed,
              all_found.failures);
}

}  // namespace
}  // namespace interlace::parking_tests
