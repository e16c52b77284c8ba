// Programs run with the preloaded library and a stand-in driver whose GPUs are host memory. Every
// byte must be the same as without the library. The counters must agree with what the programs did.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "preload/counters.hpp"

namespace take_over_test {
namespace {

using namespace interlace::preload;

// A file of counters, as `interlace run` makes it.
class counters_file {
 public:
  explicit counters_file(std::uint64_t slots = 16) : slots_(slots) {
    const int descriptor = mkstemp(name_.data());
    const auto bytes = slots_offset + slots * slot_bytes;
    EXPECT_EQ(ftruncate(descriptor, static_cast<off_t>(bytes)), 0);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    header_ = static_cast<counters_header*>(memory);
    header_->magic = counters_magic;
    header_->slots.store(slots);
  }
  ~counters_file() {
    munmap(header_, slots_offset + slots_ * slot_bytes);
    unlink(name_.data());
  }
  counters_file(const counters_file&) = delete;
  counters_file& operator=(const counters_file&) = delete;

  std::string name() const { return name_.data(); }
  const counters_header& header() const { return *header_; }
  const counters_slot& slot(std::uint64_t index) const {
    const char* base = reinterpret_cast<const char*>(header_);
    return *reinterpret_cast<const counters_slot*>(base + slots_offset + index * slot_bytes);
  }
  std::pair<std::uint64_t, std::uint64_t> sum(int what = -1, int way = -1) const {
    std::pair<std::uint64_t, std::uint64_t> total{0, 0};
    for (std::uint64_t index = 0; index < slots_; ++index)
      for (std::size_t from = 0; from < direction_count; ++from)
        for (std::size_t which = 0; which < outcome_count; ++which) {
          if (what >= 0 && static_cast<std::size_t>(what) != which) continue;
          if (way >= 0 && static_cast<std::size_t>(way) != from) continue;
          total.first += slot(index).tallies[from][which].copies.load();
          total.second += slot(index).tallies[from][which].bytes.load();
        }
    return total;
  }
  std::uint64_t copies(outcome what) const { return sum(static_cast<int>(what)).first; }

 private:
  std::uint64_t slots_;
  std::string name_ = "/tmp/interlace-counters-XXXXXX";
  counters_header* header_ = nullptr;
};

struct ended {
  int status = 0;
  std::uint64_t made = 0;  // number of copies that the program reports
  std::uint64_t bytes = 0;
  std::string text;
};

ended run(const std::string& command, const counters_file* counters,
          const std::vector<std::string>& environment = {}) {
  std::string line = "LD_LIBRARY_PATH=" FAKE_DRIVER_FOLDER " LD_PRELOAD=" PRELOAD_LIBRARY
                     " INTERLACE_PRELOAD_THRESHOLD=256K INTERLACE_COPY_THRESHOLD=64K"
                     " INTERLACE_PRELOAD_START=wait INTERLACE_PRELOAD_AFTER=0"
                     " INTERLACE_COPY_TRAFFIC=none"
                     // With these options, the sanitizer accepts that its library is not the first
                     // library.
                     " ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0";
  if (counters != nullptr) line += " INTERLACE_PRELOAD_COUNTERS=" + counters->name();
  for (const std::string& one : environment) line += " " + one;
  // With `env`, the shell that starts the program does not load the library and is not counted.
  line = "env " + line + " " + command + " 2>&1";
  ended found;
  FILE* pipe = popen(line.c_str(), "r");
  std::array<char, 512> text{};
  while (fgets(text.data(), text.size(), pipe) != nullptr) found.text += text.data();
  found.status = pclose(pipe);
  std::istringstream lines(found.text);
  for (std::string one; std::getline(lines, one);) {
    unsigned long made = 0, bytes = 0;
    if (std::sscanf(one.c_str(), "made %lu %lu", &made, &bytes) != 2) continue;
    found.made += made;
    found.bytes += bytes;
  }
  return found;
}

const std::vector<const char*> programs{LINKED_PROGRAM, LOOKING_PROGRAM};

std::string seeded(const char* program, const char* mode, int seed) {
  return "FAKE_SEED=" + std::to_string(seed) + " " + program + " " + mode + " " +
         std::to_string(seed);
}

// Checks what must hold for every program: all bytes are right, and every copy is counted once.
void expect_whole(const ended& program, const counters_file& counters) {
  EXPECT_EQ(program.status, 0) << program.text;
  EXPECT_EQ(counters.sum().first, program.made) << program.text;
  EXPECT_EQ(counters.sum().second, program.bytes) << program.text;
  EXPECT_EQ(counters.copies(outcome::failed), 0U);
}

TEST(TakeOver, EveryKindOfCopyIsAsWithoutIt) {
  for (const char* program : programs)
    for (int seed = 1; seed <= 2; ++seed) {
      const counters_file counters;
      expect_whole(run(seeded(program, "mixed", seed), &counters), counters);
      EXPECT_GT(counters.copies(outcome::taken_over), 3U);
      for (const outcome what : {outcome::small, outcome::pageable, outcome::managed})
        EXPECT_GT(counters.copies(what), 0U) << static_cast<int>(what);
      EXPECT_EQ(counters.header().claimed.load(), 1U);
      const counters_slot& slot = counters.slot(0);
      EXPECT_EQ(slot.engine.load(), static_cast<std::uint64_t>(engine_state::ready));
      EXPECT_STREQ(slot.note.data(), "");
      const auto to_gpu = static_cast<std::size_t>(copy_direction::host_to_gpu);
      EXPECT_LE(slot.predicted_ns[to_gpu].load(), slot.direct_ns[to_gpu].load());
    }
}

TEST(TakeOver, GraphsAndStreamsOfTheEngine) {
  for (const char* how : {"graphs", "streams"}) {
    const counters_file counters;
    expect_whole(run(seeded(LOOKING_PROGRAM, "mixed", 11), &counters,
                     {std::string("INTERLACE_COPY=") + how}),
                 counters);
    EXPECT_GT(counters.copies(outcome::taken_over), 3U);
  }
}

// A driver for CUDA 12.2 has all functions that the engine needs. A driver for CUDA 11.8 lacks some
// of these functions, so the library passes all copies through to the driver.
TEST(TakeOver, OlderDrivers) {
  for (const char* mode : {"mixed", "capture", "threads"}) {
    const counters_file counters;
    expect_whole(run(seeded(LOOKING_PROGRAM, mode, 12), &counters, {"FAKE_CUDA=12020"}), counters);
    EXPECT_GT(counters.copies(outcome::taken_over), 0U) << mode;
  }
  const counters_file counters;
  const ended program = run(seeded(LINKED_PROGRAM, "mixed", 12), &counters, {"FAKE_CUDA=11080"});
  EXPECT_EQ(program.status, 0) << program.text;
  EXPECT_EQ(counters.sum().first, program.made) << program.text;
  EXPECT_EQ(counters.copies(outcome::taken_over), 0U);
  EXPECT_NE(std::string(counters.slot(0).note.data()).find("is for CUDA 11.8, and copies need"),
            std::string::npos)
      << counters.slot(0).note.data();
}

TEST(TakeOver, WithoutPeerAccessEveryCopyPassesThrough) {
  const counters_file counters;
  expect_whole(run(seeded(LOOKING_PROGRAM, "mixed", 13), &counters, {"FAKE_NO_PEER_ACCESS=1"}),
               counters);
  EXPECT_EQ(counters.copies(outcome::taken_over), 0U);
}

TEST(Batches, EveryFormIsAsWithoutIt) {
  for (const char* program : programs)
    for (int seed = 1; seed <= 3; ++seed) {
      EXPECT_EQ(run(seeded(program, "batches", seed), nullptr, {"LD_PRELOAD="}).status, 0);
      const counters_file counters;
      expect_whole(run(seeded(program, "batches", seed), &counters), counters);
      EXPECT_GT(counters.copies(outcome::one_kernel), 4000U);
      EXPECT_GT(counters.slot(0).batches.load(), 3U);
      EXPECT_EQ(counters.copies(outcome::no_kernel), 0U);
      EXPECT_STREQ(counters.slot(0).note.data(), "");
    }
}

TEST(Batches, ManyThreads) {
  const counters_file counters;
  expect_whole(run(seeded(LOOKING_PROGRAM, "batches_of_threads", 21), &counters), counters);
  EXPECT_GT(counters.copies(outcome::one_kernel), 4000U);
}

TEST(Batches, AContextsEndIsTheKernelsEnd) {
  for (const char* program : programs) {
    const counters_file counters;
    expect_whole(run(seeded(program, "renewed", 1), &counters), counters);
    EXPECT_EQ(counters.copies(outcome::one_kernel), 2 * 1024U);
    EXPECT_EQ(counters.copies(outcome::no_kernel), 1024U);  // this is the batch after the reset
  }
}

TEST(Batches, AContextThatTheEngineHoldsKeepsItsKernel) {
  for (const char* program : programs) {
    const counters_file counters;
    expect_whole(run(seeded(program, "held", 2), &counters), counters);
    EXPECT_EQ(counters.copies(outcome::one_kernel), 5 * 1024U);
    // This is the batch between the reset and the next retain.
    EXPECT_EQ(counters.copies(outcome::no_kernel), 1024U);
  }
}

TEST(Batches, TheKernelCanBeSwitchedOffAndNeedsADriverThatLoadsIt) {
  for (const char* way : {"INTERLACE_PRELOAD_BLOCKS=0", "FAKE_NO_KERNELS=1"}) {
    const counters_file counters;
    expect_whole(run(seeded(LOOKING_PROGRAM, "batches", 4), &counters, {way}), counters);
    EXPECT_EQ(counters.copies(outcome::one_kernel), 0U) << way;
  }
}

TEST(Batches, WhatIsNotTheSameIsLeftToTheDriver) {
  for (const char* program : programs) {
    const ended alone = run(seeded(program, "refused", 5), nullptr, {"LD_PRELOAD="});
    EXPECT_EQ(alone.status, 0) << alone.text;
    const counters_file counters;
    expect_whole(run(seeded(program, "refused", 5), &counters), counters);
    EXPECT_EQ(counters.copies(outcome::several_dimensions), 2U);
    EXPECT_EQ(counters.copies(outcome::one_kernel), 2 * 1000U);
    for (const outcome what : {outcome::read_early, outcome::overlap_wanted, outcome::overlapping,
                               outcome::pageable, outcome::capturing, outcome::other_context})
      EXPECT_EQ(counters.copies(what), 1000U) << static_cast<int>(what);
    EXPECT_EQ(counters.copies(outcome::refused), 9 * 1000U);
  }
}

TEST(TakeOver, ManyThreads) {
  const counters_file counters;
  expect_whole(run(seeded(LOOKING_PROGRAM, "threads", 3), &counters), counters);
  // Messages that overlap in time avoid each other's links, and the timing of the threads decides
  // which messages overlap. Only the first message is certain to have all paths.
  EXPECT_GT(counters.copies(outcome::taken_over), 0U);
}

TEST(TakeOver, TheEngineStartsWhileCopiesGoOn) {
  const counters_file counters;
  expect_whole(run(seeded(LOOKING_PROGRAM, "threads", 4), &counters,
                   {"INTERLACE_PRELOAD_START=background", "INTERLACE_PRELOAD_AFTER=20M"}),
               counters);
  EXPECT_GT(counters.copies(outcome::not_started), 0U);
}

TEST(TakeOver, ChildrenAndProgramsTheyExecute) {
  for (const char* program : programs) {
    const counters_file counters;
    expect_whole(run(seeded(program, "family", 5), &counters), counters);
    EXPECT_EQ(counters.header().claimed.load(), 5U);
    EXPECT_EQ(counters.header().loaded.load(), 2U);  // a fork does not load the library again
    for (std::uint64_t index = 0; index < 4; ++index) {
      EXPECT_GT(counters.slot(index).tallies[1][0].copies.load() +
                    counters.slot(index).tallies[2][0].copies.load() +
                    counters.slot(index).tallies[3][0].copies.load(),
                0U);
      for (std::uint64_t other = 0; other < index; ++other)
        EXPECT_NE(counters.slot(index).process.load(), counters.slot(other).process.load());
    }
  }
}

TEST(TakeOver, ProcessesBeyondTheLastSlotShareIt) {
  const counters_file counters(2);
  expect_whole(run(seeded(LINKED_PROGRAM, "family", 6), &counters), counters);
}

TEST(TakeOver, WhatIsCapturedIsLeftToTheProgram) {
  const counters_file counters;
  expect_whole(run(seeded(LOOKING_PROGRAM, "capture", 7), &counters), counters);
  EXPECT_EQ(counters.copies(outcome::capturing), 1U);
  EXPECT_EQ(counters.copies(outcome::taken_over), 2U);
}

TEST(TakeOver, AContextThatIsResetOrReleasedEndsTheEngineFirst) {
  for (const char* program : programs) {
    const counters_file counters;
    expect_whole(run(seeded(program, "reset", 8), &counters), counters);
    EXPECT_GT(counters.copies(outcome::taken_over), 2U);
  }
}

TEST(TakeOver, CallsThatWaitReturnWhenTheirCopyIsComplete) {
  for (const char* program : programs) {
    const counters_file counters;
    expect_whole(run(seeded(program, "waiting", 14), &counters), counters);
    EXPECT_EQ(counters.copies(outcome::taken_over), 13U);
    EXPECT_EQ(counters.copies(outcome::synchronous), 0U);
  }
}

TEST(TakeOver, WhatTheDriverCallsForTheEngineIsNotTheProgramsCopy) {
  for (const char* how : {"graphs", "streams"}) {
    const counters_file counters;
    expect_whole(run(seeded(LOOKING_PROGRAM, "capture", 7), &counters,
                     {"FAKE_NESTED=1", std::string("INTERLACE_COPY=") + how}),
                 counters);
    EXPECT_EQ(counters.copies(outcome::synchronous), 0U);
  }
}

TEST(TakeOver, PeerAccessIsTheProgramsOwn) {
  for (const char* program : programs) {
    const counters_file counters;
    expect_whole(run(seeded(program, "peers", 9), &counters), counters);
  }
}

TEST(TakeOver, AFailureOfTheEngineIsThePlainCopy) {
  const counters_file counters;
  const ended program =
      run(seeded(LOOKING_PROGRAM, "failing", 10), &counters, {"INTERLACE_COPY=streams"});
  EXPECT_EQ(program.status, 0) << program.text;
  EXPECT_EQ(counters.sum().first, program.made);
  EXPECT_GT(counters.copies(outcome::failed), 2U);
  EXPECT_NE(std::string(counters.slot(0).note.data()).find("cuMemcpyAsync failed"),
            std::string::npos);
}

TEST(TakeOver, GpusOfOneProcessAreLeftToOthers) {
  const counters_file counters;
  expect_whole(run(seeded(LOOKING_PROGRAM, "mixed", 13), &counters, {"FAKE_EXCLUSIVE=1"}),
               counters);
  EXPECT_EQ(counters.copies(outcome::taken_over), 0U);
  EXPECT_NE(std::string(counters.slot(0).note.data()).find("exclusive"), std::string::npos);
}

TEST(TakeOver, WithoutCountersAndWithoutAnEngine) {
  EXPECT_EQ(run(seeded(LOOKING_PROGRAM, "mixed", 12), nullptr).status, 0);
  const counters_file never;
  expect_whole(run(seeded(LOOKING_PROGRAM, "mixed", 12), &never, {"INTERLACE_PRELOAD_START=never"}),
               never);
  EXPECT_EQ(never.copies(outcome::taken_over), 0U);
  EXPECT_GT(never.copies(outcome::switched_off), 0U);
  const counters_file wrong;
  expect_whole(run(seeded(LOOKING_PROGRAM, "mixed", 12), &wrong, {"INTERLACE_PRELOAD_AFTER=much"}),
               wrong);
  EXPECT_EQ(wrong.copies(outcome::taken_over), 0U);
  const counters_file alone;  // INTERLACE_COPY=direct asks for plain copies only
  expect_whole(run(seeded(LOOKING_PROGRAM, "mixed", 12), &alone, {"INTERLACE_COPY=direct"}), alone);
  EXPECT_EQ(alone.copies(outcome::taken_over), 0U);
  EXPECT_STREQ(alone.slot(0).note.data(), "copies are left alone, as INTERLACE_COPY=direct asks");
}

TEST(TakeOver, OtherLookupsAreAsWithoutIt) {
  const counters_file counters;
  for (const bool preloaded : {false, true}) {
    const std::string command = SCOPES_PROGRAM " " SCOPES_MODULE;
    const ended program =
        preloaded ? run(command, &counters) : run("LD_PRELOAD= " + command, &counters);
    EXPECT_EQ(program.status, 0) << program.text;
  }
  EXPECT_EQ(counters.header().loaded.load(), 1U);
  EXPECT_EQ(counters.header().saw_driver.load(), 0U);
  EXPECT_EQ(counters.header().claimed.load(), 0U);
}

TEST(TakeOver, InterlacesOwnModulesGetTheDriver) {
  std::string folder = "/tmp/interlace-package-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string library = folder + "/libinterlace_preload.so";
  const std::string module = folder + "/_module.so";
  EXPECT_EQ(symlink(PRELOAD_LIBRARY, library.c_str()), 0);
  EXPECT_EQ(symlink(SCOPES_MODULE, module.c_str()), 0);
  const std::string program = LOOKING_PROGRAM;
  const ended own = run(program + " module " + module, nullptr, {"LD_PRELOAD=" + library});
  EXPECT_EQ(own.status, 0) << own.text;
  const ended other = run(program + " module " SCOPES_MODULE, nullptr, {"LD_PRELOAD=" + library});
  EXPECT_NE(other.status, 0);
  unlink(library.c_str());
  unlink(module.c_str());
  rmdir(folder.c_str());
}

TEST(TakeOver, CopiesOfTheLibraryForCAreItsOwn) {
  const counters_file counters;
  const ended program = run("FAKE_SEED=4 " COPY_PROGRAM " copies 4", &counters);
  EXPECT_EQ(program.status, 0) << program.text;
  EXPECT_EQ(counters.sum().first, 0U);
}

}  // namespace
}  // namespace take_over_test
