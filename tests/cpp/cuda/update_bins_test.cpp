// The device code of bins of updates, on the host: every update is applied once, whatever the
// distribution, the sizes and the room.
#include "block_on_host.hpp"
// what follows needs block_on_host.hpp
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "interlace/cuda/updates/bins.cuh"
#include "interlace/cuda/updates/host_ring.cuh"
#include "interlace/cuda/updates/record.cuh"
#include "interlace/cuda/updates/sizing.hpp"

namespace interlace::cuda::updates {
namespace {

using update = indexed_update<std::uint64_t>;
using producer = update_arrays<update, std::uint64_t>;

struct add_on_host {
  static constexpr bool by_blocks = false;
  static std::uint32_t receivers() { return 0; }
  std::uint64_t* table;
  std::uint64_t element(const update& u) const { return u.element(); }
  void now(const update& u) const { table[u.element()] += u.value(); }
  const void* table_bytes() const { return table; }
};

// Memory of bins, as scattered_updates makes it.
class host_bins {
 public:
  host_bins(const sizing& s, std::uint64_t elements)
      : pool_(s.pool_records()),
        words_(std::size_t{4} * s.bins),
        lists_(std::size_t{s.bins} * s.list_entries),
        free_(s.chunks),
        due_(s.chunks) {
    m.pool = pool_.data();
    m.cursor = words_.data();
    m.capacity = m.cursor + s.bins;
    m.owned = m.capacity + s.bins;
    m.before = m.owned + s.bins;
    m.lists = lists_.data();
    m.free = free_.data();
    m.due = due_.data();
    m.counts = counts_;
    m.direct = &direct;
    m.bad = &bad;
    m.elements = elements;
    m.bins = s.bins;
    m.window_log2 = s.window_log2;
    m.chunk_log2 = s.chunk_log2;
    m.list_entries = s.list_entries;
    for (std::uint32_t k = 0; k < s.chunks; ++k) free_[k] = s.chunks - 1 - k;
    counts_[0] = s.chunks;
  }
  bin_memory<update> m{};
  unsigned long long direct = 0;
  bad_update bad{};
  std::uint32_t free_chunks() const { return counts_[0]; }

 private:
  std::vector<update> pool_;
  std::vector<std::uint32_t> words_;
  std::vector<std::uint32_t> lists_;
  std::vector<std::uint32_t> free_;
  std::vector<due_chunk> due_;
  std::uint32_t counts_[2] = {0, 0};
};

constexpr int threads = 64;
constexpr int each = 4;

// How the elements of updates are spread.
enum class spread { even, one_bin, moving, one_element };

struct outcome {
  std::uint64_t direct = 0;
  bad_update bad{};
};

// Rings, and threads of the host that read them.
struct add_by_readers {
  std::uint64_t* table;
  void fetch(const update&) const {}
  void now(const update& u) const { table[u.element()] += u.value(); }
};
class host_rings {
 public:
  static constexpr std::uint32_t threads = 3;
  static constexpr std::uint32_t slots = 2;
  host_rings(const sizing& s, std::uint64_t* table)
      : memory_(threads * slots * slot_bytes<update>() / 8),
        words_(threads * (slots + 2)),
        owner_(s.bins) {
    for (std::uint32_t k = 0; k < threads; ++k)
      rings_.push_back({words_.data() + k * slots, words_.data() + threads * slots + k,
                        words_.data() + threads * (slots + 1) + k, slots});
    for (std::uint32_t b = 0; b < s.bins; ++b) owner_[b] = static_cast<std::uint8_t>(b % threads);
    auto* const bytes = reinterpret_cast<unsigned char*>(memory_.data());
    send = {{}, rings_.data(), bytes, owner_.data(), &failure, &failed, 0, threads};
    readers_ = std::make_unique<ring_readers<update, add_by_readers>>(rings_, bytes,
                                                                      add_by_readers{table});
  }
  void finish() { readers_->finish({words_.end() - threads, words_.end()}); }
  send_to_host<own_codec<update>> send{};
  ring_failure failure{};
  unsigned int failed = 0;

 private:
  std::vector<std::uint64_t> memory_;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint8_t> owner_;
  std::vector<kernel::credit_ring> rings_;
  std::unique_ptr<ring_readers<update, add_by_readers>> readers_;
};

enum class receiver { table, host };

outcome run(const sizing& s, std::uint64_t elements, std::uint64_t count, spread how,
            std::uint64_t beyond, std::uint32_t seed, receiver to = receiver::table) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> indices(count);
  std::vector<std::uint64_t> values(count);
  std::vector<std::uint64_t> wanted(elements);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t window = std::uint64_t{1} << s.window_log2;
    switch (how) {
      case spread::even:
        indices[i] = random() % elements;
        break;
      case spread::one_bin:
        indices[i] = random() % 8 == 0 ? random() % elements : random() % window;
        break;
      case spread::moving:
        indices[i] = (i * elements / count + random() % 64) % elements;
        break;
      case spread::one_element:
        indices[i] = 5;
        break;
    }
    values[i] = random();
    if (beyond != 0 && random() % beyond == 0) indices[i] = elements + random() % 9;
    if (indices[i] < elements) wanted[indices[i]] += values[i];
  }
  std::vector<std::uint64_t> table(elements);
  host_bins made(s, elements);
  const producer from{indices.data(), values.data()};
  const add_on_host apply{table.data()};
  std::vector<std::uint32_t> plan_words(s.bins + 33);
  const auto plan = [&](std::uint32_t begin, std::uint32_t end, bool first, bool last) {
    plan_arguments a{};
    a.begin = begin;
    a.end = end;
    a.expected = first ? static_cast<std::uint32_t>(s.expected) : 0;
    a.last = last;
    a.ahead = to == receiver::table ? 1 : 0;
    a.lines = to == receiver::table ? (8U << s.window_log2) / 128 : 0;
    a.table_lines = static_cast<std::uint32_t>(elements * 8 / 128);
    block_on_host::launch(1, threads, [&] { plan_round<threads>(made.m, a, plan_words.data()); });
  };
  std::vector<std::uint64_t> shared(
      round_shared_bytes<update>(s.bins, threads * each) / sizeof(std::uint64_t) + 1);
  auto* const memory = reinterpret_cast<unsigned char*>(shared.data());
  std::unique_ptr<host_rings> rings;
  if (to == receiver::host) rings = std::make_unique<host_rings>(s, table.data());
  const auto round = [&](std::uint64_t begin, std::uint64_t end) {
    block_on_host::launch(3, threads, [&] {
      using shape = round_shape<threads, each, 1>;
      if (rings)
        run_round<shape>(made.m, {begin, end}, from, rings->send, memory);
      else
        run_round<shape>(made.m, {begin, end}, from, apply, memory);
    });
  };
  std::uint32_t number = 0;
  for (std::uint64_t begin = 0; begin < count; begin += s.round_records, ++number) {
    const std::uint32_t due = number % s.groups;
    const auto first_bin = [&](std::uint32_t g) { return s.bins * g / s.groups; };
    if (number == 0)
      plan(0, 0, true, false);
    else
      plan(first_bin(due), first_bin(due + 1), false, false);
    round(begin, std::min(count, begin + s.round_records));
  }
  plan(0, s.bins, false, true);
  round(0, 0);
  if (rings) {
    EXPECT_EQ(rings->failed, 0U);
    rings->finish();
  }
  EXPECT_EQ(table, wanted);
  plan(0, 0, false, true);  // takes back the last chunks
  std::uint32_t owned = 0;
  for (std::uint32_t b = 0; b < s.bins; ++b) {
    owned += made.m.owned[b];
    EXPECT_EQ(made.m.cursor[b], 0U);
  }
  EXPECT_EQ(made.free_chunks() + owned, s.chunks) << "chunks were lost";
  return {made.direct, made.bad};
}

sizing sizes_of(std::uint32_t bins, std::uint32_t groups, std::uint32_t chunks) {
  sizing s;
  s.window_log2 = 6;
  s.bins = bins;
  s.groups = groups;
  s.chunk_log2 = 6;
  s.chunks = chunks;
  s.list_entries = 4 + 4 * chunks / bins;
  s.round_records = 2048;
  s.expected = 2048 / bins + 2048 / bins / 16 + 64;
  return s;
}

TEST(update_bins, every_update_is_applied_once) {
  std::uint32_t seed = 0;
  for (const std::uint32_t bins : {1U, 33U, 130U}) {
    for (const std::uint32_t groups : {1U, 4U}) {
      if (groups > bins) continue;
      const std::uint64_t elements = bins * 64 - 5;
      const auto roomy = sizes_of(bins, groups, 3 * bins + 17 * (groups + 3));
      EXPECT_EQ(run(roomy, elements, 9999, spread::even, 0, ++seed).direct, 0U) << bins;
      for (const spread how : {spread::even, spread::one_bin, spread::moving, spread::one_element})
        run(sizes_of(bins, groups, bins + 7), elements, 9001, how, 0, ++seed);
    }
  }
}

TEST(update_bins, skewed_updates_find_other_ways) {
  const auto s = sizes_of(32, 4, 120);
  EXPECT_GT(run(s, 32 * 64, 20000, spread::one_bin, 0, 1).direct, 0U);
  EXPECT_GT(run(s, 32 * 64, 20000, spread::one_element, 0, 2).direct, 0U);
}

TEST(update_bins, threads_of_the_host_apply_what_arrives) {
  const auto s = sizes_of(32, 4, 120);
  for (const spread how : {spread::even, spread::one_bin, spread::one_element})
    run(s, 32 * 64 - 3, 9001, how, 0, 3, receiver::host);
}

TEST(update_bins, elements_that_do_not_exist_are_counted) {
  const auto s = sizes_of(32, 4, 220);
  const auto seen = run(s, 32 * 64, 5000, spread::even, 50, 1).bad;
  EXPECT_GT(seen.count, 40U);
  EXPECT_GE(seen.element, 32U * 64);
  EXPECT_LT(seen.element, 32U * 64 + 9);
  EXPECT_LT(seen.block, 3U);
  EXPECT_LT(seen.thread, static_cast<unsigned>(threads));
}

TEST(update_bins, sizes_keep_the_promises) {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
  for (std::uint64_t table = 16 * mib; table <= 65536 * mib; table *= 2) {
    sizing_request r;
    r.elements = table / 8;
    r.cache_bytes = 60 * mib;
    sizing s = size_bins(r);
    EXPECT_EQ(s.plain, table <= 64 * mib || table > 8192 * mib) << table / mib;
    if (s.plain) {
      r.cache_bytes = 0;  // bins, all the same
      s = size_bins(r);
    }
    EXPECT_LE(s.buffer_bytes, table / 4) << table / mib;
    EXPECT_GE(s.buffer_bytes, table / 5) << table / mib;
    EXPECT_GE((std::uint64_t{s.bins} << s.window_log2), r.elements);
    EXPECT_LE(s.bins, 4096U);
    EXPECT_LE(std::uint64_t{8} << s.window_log2, 32 * mib);
    EXPECT_LE(s.groups * s.round_records, (std::uint64_t{1} << 31U));
    // The rounds of a group's age, and the round under way, fit in the pool.
    EXPECT_LE(s.round_records * (s.groups + 3) / 2, s.pool_records());
  }
  sizing_request r;
  r.elements = 1 << 24U;
  r.buffer_bytes = 4096;
  EXPECT_THROW(size_bins(r), usage_error);
  r.elements = 0;
  EXPECT_THROW(size_bins(r), usage_error);
}

}  // namespace
}  // namespace interlace::cuda::updates
