#include "checkpoint/transfer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/crc32c.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::checkpoint::transfer_test {

// A file in memory.
class memory_file {
 public:
  explicit memory_file(const std::string& bytes) : descriptor_(memfd_create("test", 0)) {
    if (descriptor_ < 0 ||
        write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      throw std::runtime_error("no memory file");
    }
  }
  ~memory_file() { close(descriptor_); }
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;

  file get() const { return {descriptor_, "a.safetensors"}; }
  void cut(std::uint64_t bytes) const {
    ASSERT_EQ(ftruncate(descriptor_, static_cast<off_t>(bytes)), 0);
  }
  std::string bytes() const {
    std::string all(static_cast<std::size_t>(lseek(descriptor_, 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(descriptor_, all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
    return all;
  }

 private:
  int descriptor_;
};

// A carrier that copies only when done() is called for the third time. It fails if the test sets
// `fails_at`.
class late_carrier : public carrier {
 public:
  late_carrier(std::uint32_t slots, std::uint64_t bytes)
      : bytes_(bytes), memory_(slots * bytes), states_(slots) {}

  std::uint32_t slots() const override { return static_cast<std::uint32_t>(states_.size()); }
  std::uint64_t slot_bytes() const override { return bytes_; }
  char* slot(std::uint32_t number, int /*gpu*/) override {
    return memory_.data() + number * bytes_;
  }
  void send(std::uint32_t slot, std::span<const part> parts) override {
    enqueue(slot, parts, true);
  }
  void fetch(std::uint32_t slot, std::span<const part> parts) override {
    enqueue(slot, parts, false);
  }

  bool done(std::uint32_t number) override {
    const std::lock_guard lock(mutex_);
    state& s = states_[number];
    if (!s.moving) throw std::logic_error("nothing is under way in the slot");
    ++asked;
    if (lost) throw device_error("the GPU is lost");
    if (hangs) return false;
    if (++s.asked < 3) return false;
    for (const part& p : s.parts) {
      char* in_slot = slot(number, p.gpu) + p.slot_offset;
      char* there = reinterpret_cast<char*>(p.address);
      std::memcpy(s.to_gpu ? there : in_slot, s.to_gpu ? in_slot : there, p.bytes);
    }
    // Spoils the contents of the slot, so that a later read of the slot gets wrong data.
    if (s.to_gpu) std::memset(slot(number, 0), 0xee, bytes_);
    s.moving = false;
    return true;
  }
  void abandon() noexcept override { abandoned = true; }

  std::size_t under_way() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(states_.begin(), states_.end(), [](const state& s) { return s.moving; }));
  }

  std::atomic<bool> hangs{false};
  std::atomic<bool> lost{false};
  std::atomic<int> asked{0};
  std::atomic<bool> abandoned{false};
  std::atomic<int> fails_at{-1};  // the number of the send or fetch that fails
  std::atomic<int> calls{0};

 private:
  struct state {
    bool moving = false;
    bool to_gpu = false;
    int asked = 0;
    std::vector<part> parts;
  };

  void enqueue(std::uint32_t slot, std::span<const part> parts, bool to_gpu) {
    const std::lock_guard lock(mutex_);
    if (calls++ == fails_at) throw device_error("the copy failed");
    state& s = states_[slot];
    if (s.moving) throw std::logic_error("the slot is in use");
    for (const part& p : parts) {
      if (p.slot_offset + p.bytes > bytes_) throw std::logic_error("beyond the slot");
    }
    s = {true, to_gpu, 0, {parts.begin(), parts.end()}};
  }

  std::uint64_t bytes_;
  std::vector<char> memory_;
  std::mutex mutex_;
  std::vector<state> states_;
};

// A carrier whose slots begin at multiples of a page.
class page_carrier final : public late_carrier {
 public:
  page_carrier(std::uint32_t slots, std::uint64_t bytes)
      : late_carrier(slots, bytes), memory_((slots + 1) * bytes + page_bytes) {}
  char* slot(std::uint32_t number, int /*gpu*/) override {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (page_bytes - begin % page_bytes) % page_bytes + number * slot_bytes();
  }

 private:
  std::vector<char> memory_;
};

std::string random_bytes(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string made(n, '\0');
  for (char& c : made) c = static_cast<char>(random());
  return made;
}

// Tensors in a file of `bytes` bytes that follow a header of 16 bytes, and memory for the tensors.
// Each tensor is on a GPU of `gpus` or on the host.
struct checkpoint_of {
  std::vector<std::string> memory;
  std::vector<segment> segments;

  checkpoint_of(std::uint64_t bytes, const std::vector<int>& places, std::uint32_t file,
                std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::uint64_t offset = 16; offset < 16 + bytes;) {
      const std::uint64_t left = 16 + bytes - offset;
      const std::uint64_t own = std::min<std::uint64_t>(left, random() % 40000);
      memory.emplace_back(own, '\0');
      segments.push_back({file, offset, own, 0, places[random() % places.size()],
                          static_cast<std::uint32_t>(segments.size())});
      offset += own;
    }
    for (std::size_t k = 0; k < memory.size(); ++k) {
      segments[k].address = reinterpret_cast<std::uintptr_t>(memory[k].data());
    }
  }
};

transfer_options quick(std::uint32_t threads) {
  transfer_options o;
  o.threads = threads;
  o.piece_bytes = 1500;
  o.deadline_s = 20;
  return o;
}

TEST(transfer, reads_into_gpus_and_host) {
  for (const std::uint32_t threads : {1U, 2U, 7U}) {
    for (const std::vector<int>& places : {std::vector{host}, {0}, {0, 1, host}}) {
      const std::string first = random_bytes(16 + 300'000, 1);
      const std::string second = random_bytes(16 + 77, 2);
      const memory_file one(first);
      const memory_file two(second);
      checkpoint_of a(300'000, places, 0, threads);
      checkpoint_of b(77, places, 1, 3);
      std::vector<segment> segments = a.segments;
      for (segment s : b.segments) {
        s.tensor += static_cast<std::uint32_t>(a.segments.size());
        segments.push_back(s);
      }
      late_carrier gpus(3, 4096);
      transfer_options how = quick(threads);
      how.checksums = threads != 2;
      std::uint64_t told = 0;
      how.progress = [&](std::uint64_t bytes) {
        EXPECT_GE(bytes, told);
        told = bytes;
      };
      const auto sums = read_segments({one.get(), two.get()}, segments, &gpus, how);
      EXPECT_EQ(told, 300'077U);
      EXPECT_EQ(gpus.under_way(), 0U);
      EXPECT_EQ(sums.size(), how.checksums ? segments.size() : 0);
      for (const segment& s : segments) {
        const std::string& whole = s.file == 0 ? first : second;
        const std::string_view expected(whole.data() + s.offset, s.bytes);
        ASSERT_EQ(std::string_view(reinterpret_cast<const char*>(s.address), s.bytes), expected);
        if (how.checksums) {
          ASSERT_EQ(sums[s.tensor], crc32c({expected.data(), expected.size()}));
        }
      }
    }
  }
}

TEST(transfer, writes_from_gpus_and_host) {
  for (const std::uint32_t threads : {1U, 2U, 7U}) {
    for (const std::vector<int>& places : {std::vector{host}, {0}, {0, 1, host}}) {
      checkpoint_of a(300'000, places, 0, threads);
      std::string expected(16, 'h');
      for (std::size_t k = 0; k < a.memory.size(); ++k) {
        const std::string own = random_bytes(a.memory[k].size(), k);
        std::copy(own.begin(), own.end(), a.memory[k].begin());
        expected += own;
      }
      const memory_file into(std::string(16, 'h'));
      late_carrier gpus(3, 4096);
      transfer_options how = quick(threads);
      how.checksums = true;
      const auto sums = write_segments({into.get()}, a.segments, &gpus, how);
      ASSERT_EQ(into.bytes(), expected);
      EXPECT_EQ(gpus.under_way(), 0U);
      for (std::size_t k = 0; k < a.memory.size(); ++k) {
        ASSERT_EQ(sums[k], crc32c({a.memory[k].data(), a.memory[k].size()}));
      }
    }
  }
}

TEST(transfer, of_nothing_is_nothing) {
  std::uint64_t told = 1;
  transfer_options how = quick(4);
  how.progress = [&](std::uint64_t bytes) { told = bytes; };
  EXPECT_TRUE(read_segments({}, {}, nullptr, how).empty());
  EXPECT_EQ(told, 0U);
}

template <class Error>
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(transfer, names_a_file_that_was_cut) {
  for (const int gpu : {host, 0}) {
    const memory_file cut(std::string(16 + 200'000, 'x'));
    cut.cut(100'000);
    checkpoint_of a(200'000, {gpu}, 0, 1);
    late_carrier gpus(3, 4096);
    const std::string text =
        error_of<usage_error>([&] { read_segments({cut.get()}, a.segments, &gpus, quick(3)); });
    EXPECT_EQ(text, "a.safetensors was truncated while it was read: it ends at byte 100000");
    EXPECT_EQ(gpus.under_way(), 0U);
    EXPECT_FALSE(gpus.abandoned);
  }
}

TEST(transfer, says_why_a_file_cannot_be_used) {
  checkpoint_of a(1000, {host}, 0, 1);
  const std::vector<file> closed{{-1, "b.safetensors"}};
  EXPECT_EQ(error_of<device_error>([&] { read_segments(closed, a.segments, nullptr, quick(2)); }),
            "b.safetensors cannot be read: Bad file descriptor (byte 16)");
  EXPECT_EQ(error_of<device_error>([&] { write_segments(closed, a.segments, nullptr, quick(2)); }),
            "b.safetensors cannot be written: Bad file descriptor (byte 16)");
}

TEST(transfer, a_copy_that_fails_ends_it) {
  for (const bool reads : {true, false}) {
    for (const int call : {0, 1, 5, 20}) {
      const memory_file of(std::string(16 + 200'000, 'x'));
      checkpoint_of a(200'000, {0}, 0, 1);
      late_carrier gpus(3, 4096);
      gpus.fails_at = call;
      const auto run = [&] {
        if (reads) {
          read_segments({of.get()}, a.segments, &gpus, quick(3));
        } else {
          write_segments({of.get()}, a.segments, &gpus, quick(3));
        }
      };
      EXPECT_EQ(error_of<device_error>(run), "the copy failed");
      EXPECT_EQ(gpus.under_way(), 0U);
    }
  }
}

TEST(transfer, a_gpu_that_hangs_misses_the_deadline) {
  const memory_file of(std::string(16 + 200'000, 'x'));
  checkpoint_of a(200'000, {2}, 0, 1);
  late_carrier gpus(3, 4096);
  gpus.hangs = true;
  transfer_options how = quick(3);
  how.deadline_s = 0.05;
  EXPECT_EQ(error_of<device_error>([&] { read_segments({of.get()}, a.segments, &gpus, how); }),
            "the bytes from 16 on of a.safetensors did not get to GPU 2 in 0.05 s; the GPU hangs, "
            "or something else keeps it busy");
  EXPECT_TRUE(gpus.abandoned);
}

TEST(transfer, ends_when_the_caller_asks_for_it) {
  const memory_file of(std::string(16 + 200'000, 'x'));
  checkpoint_of a(200'000, {0}, 0, 1);
  late_carrier gpus(3, 4096);
  gpus.hangs = true;
  transfer_options how = quick(3);
  how.progress = [&](std::uint64_t) {
    gpus.hangs = false;
    throw std::out_of_range("enough");
  };
  EXPECT_EQ(error_of<std::out_of_range>([&] { read_segments({of.get()}, a.segments, &gpus, how); }),
            "enough");
  EXPECT_EQ(gpus.under_way(), 0U);
}

// Adds the segments of a file to the reader. Every tensor is a separate batch.
std::vector<std::size_t> add_all(reader& to, const checkpoint_of& of) {
  std::vector<std::size_t> batches;
  for (segment s : of.segments) {
    s.tensor = 0;
    batches.push_back(to.add({s}));
  }
  return batches;
}

TEST(reader, gives_batches_in_any_order) {
  for (const std::uint32_t threads : {1U, 2U, 7U}) {
    const std::string bytes = random_bytes(16 + 300'000, 1);
    const memory_file of(bytes);
    checkpoint_of a(300'000, {0, 1, host}, 0, threads);
    late_carrier gpus(3, 4096);
    transfer_options how = quick(threads);
    how.checksums = true;
    reader reading({of.get()}, &gpus, how);
    std::vector<std::size_t> order = add_all(reading, a);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(threads));
    for (const std::size_t batch : order) {
      const segment& s = a.segments[batch];
      const std::string_view expected(bytes.data() + s.offset, s.bytes);
      const std::vector<std::uint32_t> own{crc32c({expected.data(), expected.size()})};
      ASSERT_EQ(reading.wait(batch), own);
      ASSERT_EQ(std::string_view(reinterpret_cast<const char*>(s.address), s.bytes), expected);
      EXPECT_TRUE(reading.done(batch));
    }
    reading.close();
    EXPECT_EQ(gpus.under_way(), 0U);
  }
}

// Threads that had run out of work read the tensors that are added later.
TEST(reader, takes_more_after_a_wait) {
  const std::string bytes = random_bytes(16 + 300'000, 1);
  const memory_file of(bytes);
  checkpoint_of a(300'000, {0, host}, 0, 1);
  late_carrier gpus(3, 4096);
  reader reading({of.get()}, &gpus, quick(3));
  for (segment s : a.segments) {
    s.tensor = 0;
    const std::size_t batch = reading.add({s});
    for (int asked = 0; !reading.done(batch); ++asked) {
      ASSERT_LT(asked, 1'000'000);
      std::this_thread::yield();
    }
    ASSERT_EQ(std::string_view(reinterpret_cast<const char*>(s.address), s.bytes),
              std::string_view(bytes).substr(s.offset, s.bytes));
  }
  EXPECT_EQ(reading.add({}), a.segments.size());
  EXPECT_TRUE(reading.done(a.segments.size()));
}

// Returns how many pages of a file are in the page cache.
std::size_t resident(int descriptor, std::size_t bytes) {
  void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  EXPECT_NE(mapped, MAP_FAILED);
  std::vector<unsigned char> there((bytes + page_bytes - 1) / page_bytes);
  EXPECT_EQ(mincore(mapped, bytes, there.data()), 0);
  munmap(mapped, bytes);
  return static_cast<std::size_t>(
      std::count_if(there.begin(), there.end(), [](unsigned char page) { return page % 2 == 1; }));
}

// The test file is on a disk, because a file system in memory may lack direct reads.
TEST(reader, reads_around_the_page_cache) {
  std::string name = (std::filesystem::temp_directory_path() / "interlace-direct-XXXXXX").string();
  const int descriptor = mkstemp(name.data());
  ASSERT_GE(descriptor, 0);
  unlink(name.c_str());
  for (const std::uint64_t size : {77U, 4096U, 300'000U}) {
    const std::string bytes = random_bytes(16 + size, size);
    ASSERT_EQ(ftruncate(descriptor, 0), 0);
    ASSERT_EQ(pwrite(descriptor, bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    for (const bool cold : {false, true}) {
      if (cold) {
        ASSERT_EQ(fsync(descriptor), 0);
        ASSERT_EQ(posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED), 0);
      }
      // Reads to host memory go through the page cache.
      const std::vector<int> places = cold ? std::vector{0, 1} : std::vector{0, 1, host};
      const std::size_t before = resident(descriptor, bytes.size());
      checkpoint_of a(size, places, 0, static_cast<std::uint32_t>(size));
      page_carrier gpus(3, 5 * page_bytes);
      transfer_options how = quick(3);
      how.piece_bytes = 2 * page_bytes;
      how.checksums = true;
      how.direct = true;
      reader reading({{descriptor, "a.safetensors"}}, &gpus, how);
      const std::size_t batch = reading.add(a.segments);
      const auto sums = reading.wait(batch);
      for (const segment& s : a.segments) {
        const std::string_view expected = std::string_view(bytes).substr(s.offset, s.bytes);
        ASSERT_EQ(std::string_view(reinterpret_cast<const char*>(s.address), s.bytes), expected);
        ASSERT_EQ(sums[s.tensor], crc32c({expected.data(), expected.size()}));
      }
      if (reading.direct_problem().empty()) {
        EXPECT_EQ(resident(descriptor, bytes.size()), before);
      }
    }
  }
  ASSERT_EQ(ftruncate(descriptor, 100'000), 0);
  checkpoint_of a(300'000, {0}, 0, 1);
  page_carrier gpus(3, 5 * page_bytes);
  transfer_options how = quick(3);
  how.piece_bytes = 2 * page_bytes;  // with smaller pieces, two pieces would share a page
  how.direct = true;
  reader reading({{descriptor, "a.safetensors"}}, &gpus, how);
  const std::size_t batch = reading.add(a.segments);
  EXPECT_EQ(error_of<usage_error>([&] { reading.wait(batch); }),
            "a.safetensors was truncated while it was read: it ends at byte 100000");
  // The reader's threads may still read the file. close() waits until these reads have ended.
  reading.close();
  close(descriptor);
}

// If the memory is not aligned, or the file system has no direct reads, all reads go through the
// page cache.
TEST(reader, says_why_it_uses_the_page_cache) {
  const std::string bytes = random_bytes(16 + 300'000, 1);
  const memory_file of(bytes);
  checkpoint_of a(300'000, {0}, 0, 1);
  late_carrier gpus(3, 3 * page_bytes);
  transfer_options how = quick(3);
  how.piece_bytes = 2 * page_bytes;  // with smaller pieces, two pieces would share a page
  how.direct = true;
  reader closed({{-1, "b.safetensors"}}, &gpus, how);
  EXPECT_EQ(closed.direct_problem(), "b.safetensors: No such file or directory");
  reader reading({of.get()}, &gpus, how);
  const std::size_t batch = reading.add(a.segments);
  reading.wait(batch);
  for (const segment& s : a.segments) {
    ASSERT_EQ(std::string_view(reinterpret_cast<const char*>(s.address), s.bytes),
              std::string_view(bytes).substr(s.offset, s.bytes));
  }
}

TEST(reader, ends_with_work_left) {
  const memory_file of(std::string(16 + 300'000, 'x'));
  checkpoint_of a(300'000, {0, host}, 0, 1);
  late_carrier gpus(3, 4096);
  gpus.hangs = true;
  reader reading({of.get()}, &gpus, quick(3));
  const auto batches = add_all(reading, a);
  EXPECT_FALSE(reading.done(batches.back()));
  gpus.hangs = false;
  reading.close();
  EXPECT_EQ(gpus.under_way(), 0U);
  EXPECT_FALSE(gpus.abandoned);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { reading.add({}); },
           [&] { reading.wait(batches.back()); },
           [&] { reading.done(batches.back()); },
       }) {
    EXPECT_EQ(error_of<usage_error>(call), "the reader is closed");
  }
}

TEST(reader, keeps_its_first_error) {
  const memory_file cut(std::string(16 + 200'000, 'x'));
  cut.cut(100'000);
  checkpoint_of a(200'000, {0}, 0, 1);
  late_carrier gpus(3, 4096);
  reader reading({cut.get()}, &gpus, quick(3));
  const std::size_t batch = reading.add(a.segments);
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_EQ(error_of<usage_error>([&] { reading.wait(batch); }),
              "a.safetensors was truncated while it was read: it ends at byte 100000");
  }
  EXPECT_EQ(error_of<usage_error>([&] { reading.wait(1); }),
            "there is no batch 1; the reader has 1 batch, numbered from 0");
  EXPECT_EQ(error_of<usage_error>([&] { reading.add({}); }),
            "a.safetensors was truncated while it was read: it ends at byte 100000");
}

// A binding closes the reader first, then frees the carrier, and then frees the reader.
TEST(reader, does_not_ask_the_carrier_once_it_is_closed) {
  const memory_file of(std::string(16 + 200'000, 'x'));
  checkpoint_of a(200'000, {0}, 0, 1);
  auto gpus = std::make_unique<late_carrier>(3, 4096);
  gpus->lost = true;
  reader reading({of.get()}, gpus.get(), quick(3));
  const std::size_t batch = reading.add(a.segments);
  EXPECT_EQ(error_of<device_error>([&] { reading.wait(batch); }), "the GPU is lost");
  reading.close();
  EXPECT_TRUE(gpus->abandoned);
  const int asked = gpus->asked;
  reading.close();
  EXPECT_EQ(gpus->asked, asked);
  gpus.reset();
}

// If the caller's function throws an exception, the reader passes the exception on only once,
// because the exception belongs to the caller.
TEST(reader, stops_where_the_caller_throws) {
  const memory_file of(std::string(16 + 200'000, 'x'));
  checkpoint_of a(200'000, {0}, 0, 1);
  late_carrier gpus(3, 4096);
  gpus.hangs = true;
  transfer_options how = quick(3);
  how.progress = [&](std::uint64_t) {
    gpus.hangs = false;
    throw std::out_of_range("enough");
  };
  reader reading({of.get()}, &gpus, how);
  const std::size_t batch = reading.add(a.segments);
  EXPECT_EQ(error_of<std::out_of_range>([&] { reading.wait(batch); }), "enough");
  EXPECT_EQ(error_of<usage_error>([&] { reading.wait(batch); }), "the transfer was stopped");
  reading.close();
  EXPECT_EQ(gpus.under_way(), 0U);
}

}  // namespace interlace::checkpoint::transfer_test
