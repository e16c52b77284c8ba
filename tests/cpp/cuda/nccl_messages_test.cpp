// Messages of every pattern and every window, through a stand-in for NCCL. Each message must arrive
// at its destination, and all messages must be in one group.
#include "cuda/transfer/nccl_messages.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::nccl_messages_tests {
namespace {

using cuda::nccl_communicators;
using cuda::nccl_library;
using cuda::nccl_message;
using cuda::nccl_messages;
using pairs = std::vector<std::pair<int, int>>;

template <class Function>
Function of_stand_in(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen(FAKE_NCCL, RTLD_NOW), name));
}

// Memory for messages of `bytes` bytes. Each message has different contents.
class traffic {
 public:
  traffic(const pairs& of, std::size_t bytes) {
    std::mt19937_64 random(of.size() * bytes);
    for (const auto& [from, to] : of) {
      contents source(bytes);
      for (unsigned char& byte : source) byte = static_cast<unsigned char>(random());
      sources_.push_back(std::move(source));
      targets_.emplace_back(bytes + 1, untouched);
      messages.push_back({from, to, sources_.back().data(), targets_.back().data(), bytes});
    }
  }
  void expect_arrived() const {
    for (std::size_t at = 0; at < sources_.size(); ++at) {
      contents wanted = sources_[at];
      wanted.push_back(untouched);
      EXPECT_EQ(targets_[at], wanted) << "message " << at;
    }
  }

  std::vector<nccl_message> messages;

 private:
  using contents = std::vector<unsigned char>;
  static constexpr unsigned char untouched = 0xee;
  std::vector<contents> sources_;
  std::vector<contents> targets_;
};

std::vector<cuda::opaque_stream> streams_of(std::size_t count) {
  std::vector<cuda::opaque_stream> streams;
  for (std::size_t at = 1; at <= count; ++at)
    streams.push_back(reinterpret_cast<void*>(at));  // NOLINT: only a number
  return streams;
}

// Returns how often the stand-in's function of this name was called.
std::size_t calls_of(const std::string& name) {
  const std::string log = std::string(" ") + of_stand_in<const char* (*)()>("fake_log")() + " ";
  std::size_t count = 0;
  for (auto at = log.find(" " + name + " "); at != std::string::npos;
       at = log.find(" " + name + " ", at + 1))
    ++count;
  return count;
}

void deliver(const pairs& of, std::size_t bytes) {
  const traffic moved(of, bytes);
  const nccl_library library({FAKE_NCCL});
  const std::vector<int> gpus = nccl_messages::gpus_of(moved.messages);
  const nccl_communicators communicators(library, gpus);
  const nccl_messages group(communicators, moved.messages);
  of_stand_in<void (*)(const char*)>("fake_reset")("");
  group.enqueue(streams_of(gpus.size()));
  moved.expect_arrived();
  EXPECT_EQ(calls_of("start"), 1U);
  EXPECT_EQ(calls_of("end"), 1U);
  EXPECT_EQ(calls_of("send"), of.size());
  EXPECT_EQ(calls_of("receive"), of.size());
}

TEST(nccl_messages, every_pattern_and_window_arrives_as_one_group) {
  for (const int gpus : {2, 3, 8})
    for (const int window : {1, 3}) {
      pairs ring;
      pairs all;
      for (int turn = 1; turn < gpus; ++turn)
        for (int gpu = 0; gpu < gpus; ++gpu) {
          all.emplace_back(gpu, (gpu + turn) % gpus);
          if (turn == 1) ring.push_back(all.back());
        }
      for (const pairs& once : {pairs{{0, 1}}, pairs{{0, 1}, {1, 0}}, ring, all}) {
        pairs of;
        for (int time = 0; time < window; ++time) of.insert(of.end(), once.begin(), once.end());
        deliver(of, 1000 + static_cast<std::size_t>(window));
      }
    }
}

TEST(nccl_messages, gpus_are_those_that_have_a_message) {
  EXPECT_EQ(nccl_messages::gpus_of({{5, 2, nullptr, nullptr, 1}, {2, 7, nullptr, nullptr, 1}}),
            (std::vector<int>{2, 5, 7}));
  deliver({{5, 2}, {2, 7}, {5, 2}}, 77);
}

TEST(nccl_messages, the_host_and_one_gpu_are_no_ends) {
  const nccl_library library({FAKE_NCCL});
  const nccl_communicators communicators(library, {0});
  for (const auto& [from, to] : pairs{{-1, 0}, {0, -1}, {3, 3}}) {
    try {
      const nccl_messages refused(communicators, {{from, to, nullptr, nullptr, 1}});
      FAIL();
    } catch (const usage_error& error) {
      EXPECT_EQ(error.what(), "NCCL's messages are from one GPU to another, not from " +
                                  std::to_string(from) + " to " + std::to_string(to));
    }
  }
}

}  // namespace
}  // namespace interlace::nccl_messages_tests
