// NCCL through a stand-in library. The calls follow the plans for regions of every pattern, and
// deliver exactly the bytes to which devices subscribe. If the library is missing or a call fails,
// there is an error.
#include "cuda/transfer/nccl_library.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "kernel/collective.hpp"

namespace interlace::nccl_library_tests {
namespace {

using cuda::nccl_communicators;
using cuda::nccl_library;
using kernel::collective;

template <class Function>
Function stand_in(const char* name) {
  void* library = dlopen(FAKE_NCCL, RTLD_NOW);
  return reinterpret_cast<Function>(dlsym(library, name));
}
std::string log() { return stand_in<const char* (*)()>("fake_log")(); }
void start_log(const char* failing = "") { stand_in<void (*)(const char*)>("fake_reset")(failing); }

template <class Error>
std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}

struct pattern {
  std::vector<std::uint64_t> boundaries;
  std::vector<std::vector<subscriber_range>> subscribers;
};

kernel::region_state region_of(const pattern& p, std::uint32_t element_bytes, collective how) {
  kernel::region_options o;
  o.boundaries = p.boundaries;
  o.subscribers = p.subscribers;
  o.mechanism = kernel::mechanism::nccl;
  o.collective = how;
  const auto devices = static_cast<std::uint32_t>(p.boundaries.size() - 1);
  return kernel::make_region_state(std::move(o), element_bytes, devices);
}

// Delivers a region whose replicas have random contents, and returns the log of the calls. Bytes to
// which no device subscribes must not change. The scratch memory starts with random contents, too.
std::string deliver(const kernel::region_state& state, std::uint64_t seed) {
  const nccl_library library({FAKE_NCCL});
  const std::uint32_t devices = state.devices();
  const std::uint64_t bytes = state.elements * state.element_bytes;
  std::vector<int> gpus;
  std::vector<cuda::opaque_stream> streams;
  std::mt19937_64 random(seed);
  std::vector<std::vector<unsigned char>> replicas(devices);
  for (std::uint32_t d = 0; d < devices; ++d) {
    gpus.push_back(static_cast<int>(d));
    streams.push_back(reinterpret_cast<void*>(std::size_t{d} + 1));  // NOLINT: only a number
    replicas[d].resize(bytes + 1);
    for (unsigned char& byte : replicas[d]) byte = static_cast<unsigned char>(random());
  }
  auto expected = replicas;
  for (const kernel::delivery& k : state.deliveries()) {
    std::memcpy(expected[k.to].data() + k.begin * state.element_bytes,
                replicas[k.from].data() + k.begin * state.element_bytes,
                (k.end - k.begin) * state.element_bytes);
  }

  const auto plan = kernel::plan_collective(state);
  std::vector<std::vector<unsigned char>> scratch(
      devices, std::vector<unsigned char>(plan.scratch_bytes, 0xee));
  nccl_communicators::group_member member{&plan, {}};
  for (std::uint32_t d = 0; d < devices; ++d) {
    member.base.push_back(plan.scratch_bytes != 0 ? scratch[d].data() : replicas[d].data());
    for (const kernel::part_copy& c : plan.pack[d]) {
      EXPECT_LE(c.to + c.bytes, plan.scratch_bytes);
      std::memcpy(scratch[d].data() + c.to, replicas[d].data() + c.from, c.bytes);
    }
  }
  const nccl_communicators communicators(library, gpus);
  start_log();
  communicators.enqueue({member}, streams);
  const std::string called = log();
  for (std::uint32_t d = 0; d < devices; ++d) {
    for (const kernel::part_copy& c : plan.unpack[d]) {
      std::memcpy(replicas[d].data() + c.to, scratch[d].data() + c.from, c.bytes);
    }
    EXPECT_EQ(replicas[d], expected[d]) << "device " << d;
  }
  return called;
}

std::set<std::string> words(const std::string& text) {
  std::set<std::string> found;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    found.insert(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

TEST(nccl, delivers_every_subscribed_byte_of_random_regions) {
  std::mt19937_64 random(11);
  const auto pick = [&](std::uint64_t low, std::uint64_t high) {
    return std::uniform_int_distribution<std::uint64_t>(low, high)(random);
  };
  for (std::uint64_t round = 0; round < 100; ++round) {
    const std::uint64_t devices = pick(1, 8);
    const bool equal = pick(0, 2) == 0;
    const std::uint64_t part = pick(0, 400);
    pattern p{{0}, {}};
    for (std::uint64_t d = 0; d < devices; ++d) {
      p.boundaries.push_back(p.boundaries.back() + (equal ? part : pick(0, 400)));
    }
    const bool ranges = pick(0, 1) == 1;
    if (ranges) {
      p.subscribers.resize(devices);
      for (std::uint64_t d = 0; d < devices; ++d) {
        for (std::uint64_t k = pick(0, 3); k > 0; --k) {
          const std::uint64_t begin = pick(p.boundaries[d], p.boundaries[d + 1]);
          const auto peers = static_cast<std::uint32_t>(pick(0, (1U << devices) - 1));
          p.subscribers[d].push_back({begin, pick(begin, p.boundaries[d + 1]), peers & ~(1U << d)});
        }
      }
    }
    constexpr std::uint32_t sizes[] = {1, 4, 12, 16};
    std::vector<collective> possible{collective::best_fitting, collective::send_receive};
    if (!ranges) {
      possible.push_back(collective::all_gather);
      possible.push_back(collective::broadcast);
    }
    for (const collective how : possible) {
      SCOPED_TRACE(std::string(kernel::collective_name(how)) + " in round " +
                   std::to_string(round));
      deliver(region_of(p, sizes[round % 4], how), round);
      if (HasFailure()) return;
    }
  }
}

TEST(nccl, picks_the_collective_that_fits) {
  const pattern equal{{0, 10, 20, 30}, {}};
  const pattern unequal{{0, 10, 21, 30}, {}};
  const pattern halo{{0, 10, 20, 30},
                     {{{8, 10, 0b010}}, {{10, 12, 0b001}, {18, 20, 0b100}}, {{20, 22, 0b010}}}};
  const auto best = collective::best_fitting;
  EXPECT_EQ(deliver(region_of(equal, 4, best), 1), "start all-gather all-gather all-gather end");
  EXPECT_EQ(words(deliver(region_of(unequal, 4, best), 2)),
            (std::set<std::string>{"start", "broadcast", "end"}));
  EXPECT_EQ(words(deliver(region_of(halo, 4, best), 3)),
            (std::set<std::string>{"start", "send", "receive", "end"}));
  // If a region asks for an all-gather, it gets an all-gather, even if the parts are unequal and
  // therefore need scratch memory. Equal parts need no scratch memory.
  EXPECT_EQ(kernel::plan_collective(region_of(equal, 4, collective::all_gather)).scratch_bytes, 0U);
  const auto padded = kernel::plan_collective(region_of(unequal, 4, collective::all_gather));
  EXPECT_EQ(padded.scratch_bytes, 3 * kernel::scratch_alignment);
  EXPECT_EQ(padded.how, collective::all_gather);
}

TEST(nccl, an_all_reduce_adds_the_values_of_all_devices_as_one_group) {
  const nccl_library library({FAKE_NCCL});
  const nccl_communicators communicators(library, {0, 1, 2});
  std::vector<std::vector<float>> sent{{1, 2, 3}, {10, 20, 30}, {100, 200, 300}};
  std::vector<std::vector<float>> received(3, std::vector<float>(3));
  std::vector<const void*> from;
  std::vector<void*> to;
  std::vector<cuda::opaque_stream> streams;
  for (std::size_t d = 0; d < 3; ++d) {
    from.push_back(sent[d].data());
    to.push_back(received[d].data());
    streams.push_back(reinterpret_cast<void*>(d + 1));  // NOLINT: only a number
  }
  start_log();
  communicators.sum_float32(from, to, 3, streams);
  EXPECT_EQ(log(), "start all-reduce all-reduce all-reduce end");
  for (const auto& one : received) EXPECT_EQ(one, (std::vector<float>{111, 222, 333}));
  start_log("all-reduce");
  EXPECT_EQ(message_of<device_error>([&] { communicators.sum_float32(from, to, 3, streams); }),
            "NCCL's ncclAllReduce failed: unhandled cuda error (the last words)");
  EXPECT_EQ(log(), "start all-reduce end");
  start_log();
}

TEST(nccl, one_owner_is_one_broadcast) {
  const pattern p{{0, 1000, 1000, 1000}, {}};
  EXPECT_EQ(deliver(region_of(p, 16, collective::best_fitting), 4),
            "start broadcast broadcast broadcast end");
}

TEST(nccl, collectives_of_everything_take_no_ranges) {
  const pattern halo{{0, 10, 20}, {{{8, 10, 0b10}}, {}}};
  for (const collective how : {collective::all_gather, collective::broadcast}) {
    const std::string text =
        message_of<usage_error>([&] { kernel::plan_collective(region_of(halo, 4, how)); });
    EXPECT_EQ(text, std::string("nccl's ") + kernel::collective_name(how) +
                        " sends everything to everybody, but the region names who receives which "
                        "range; use send-receive");
  }
}

TEST(nccl, switches_multicast_off_and_reports_its_version) {
  const nccl_library library({"/nowhere/libnccl.so.2", FAKE_NCCL});
  EXPECT_EQ(library.version(), "2.28.9");
  EXPECT_STREQ(stand_in<const char* (*)()>("fake_nvls")(), "0");
}

TEST(nccl, says_where_it_was_looked_for) {
  EXPECT_EQ(message_of<usage_error>([] {
              nccl_library({"/nowhere/a.so", "/nowhere/b.so"});
            }),
            "NCCL cannot be loaded (tried /nowhere/a.so, /nowhere/b.so); install the Python "
            "package nvidia-nccl-cu13, or set INTERLACE_NCCL to its libnccl.so.2");
}

TEST(nccl, says_what_a_library_lacks) {
  EXPECT_EQ(message_of<usage_error>([] { nccl_library({FAKE_NCCL_WITHOUT_SEND}); }),
            std::string("NCCL cannot be used: ") + FAKE_NCCL_WITHOUT_SEND +
                " has no ncclSend; install the Python package nvidia-nccl-cu13, or set "
                "INTERLACE_NCCL to its libnccl.so.2");
  // The library must not stay loaded.
  EXPECT_EQ(dlopen(FAKE_NCCL_WITHOUT_SEND, RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(nccl, refuses_a_gpu_that_stands_twice) {
  const nccl_library library({FAKE_NCCL});
  EXPECT_EQ(message_of<usage_error>([&] {
              const nccl_communicators c(library, {1, 2, 1});
            }),
            "nccl needs a GPU for each device, but GPU 1 stands for several devices; use another "
            "mechanism");
}

TEST(nccl, ends_the_group_that_it_began_and_says_what_failed) {
  const nccl_library library({FAKE_NCCL});
  start_log();
  const nccl_communicators communicators(library, {0, 1});
  const auto plan = kernel::plan_collective(region_of({{0, 2, 3}, {}}, 4, collective::broadcast));
  std::vector<char> memory(12);
  const std::vector<void*> streams{reinterpret_cast<void*>(1), reinterpret_cast<void*>(2)};
  start_log("broadcast");
  EXPECT_EQ(message_of<device_error>([&] {
              communicators.enqueue({{&plan, {memory.data(), memory.data()}}}, streams);
            }),
            "NCCL's ncclBroadcast failed: unhandled cuda error (the last words)");
  EXPECT_EQ(log().substr(log().rfind(' ') + 1), "end");
  start_log("init");
  EXPECT_EQ(message_of<device_error>([&] {
              const nccl_communicators c(library, {0, 1});
            }),
            "NCCL's ncclCommInitAll failed: unhandled cuda error");
}

TEST(nccl, buffers_are_registered_until_the_communicators_end) {
  const nccl_library library({FAKE_NCCL});
  char memory = 0;
  start_log();
  {
    nccl_communicators communicators(library, {0, 1});
    EXPECT_EQ(communicators.register_buffer(0, &memory, 1), "");
    EXPECT_EQ(communicators.register_buffer(1, nullptr, 0), "");
  }
  EXPECT_EQ(log(), "init register deregister destroy destroy");
  start_log("register");
  {
    nccl_communicators communicators(library, {0});
    EXPECT_EQ(communicators.register_buffer(0, &memory, 1),
              "ncclCommRegister: unhandled cuda error");
    communicators.abort();
  }
  EXPECT_EQ(log(), "init register abort");
  start_log();
}

}  // namespace
}  // namespace interlace::nccl_library_tests
