// The device code of update bins, run on the host. Every update must be applied exactly once, for
// every distribution of the updates and for bins of all sizes.
#include "block_on_host.hpp"
// The following headers need block_on_host.hpp before them.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "interlace/cuda/updates/bins.cuh"
#include "interlace/cuda/updates/host_ring.cuh"
#include "interlace/cuda/updates/record.cuh"
#include "interlace/cuda/updates/sizing.hpp"
#include "interlace/cuda/updates/windows.cuh"

namespace interlace::cuda::updates {
namespace {

using update = indexed_update<std::uint64_t>;
using producer = update_arrays<update, std::uint64_t>;

struct add_on_host {
  static constexpr bool by_blocks = false;
  std::uint64_t* table;
  std::uint64_t element(const update& u) const { return u.element(); }
  void now(const update& u) const { table[u.element()] += u.value(); }
  void within(std::uint64_t* at, const update& u) const { *at += u.value(); }
};

constexpr int threads = 64;
using shape = append_shape<threads, 4, 1>;

// The distribution of the updates over the elements.
enum class spread { even, one_bin, moving, one_element };

struct outcome {
  std::uint64_t direct = 0;
  bad_update bad{};
};

// Applies the updates that threads of the host read from rings.
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
      : memory_(threads * slots * slot_bytes<update>() / 8), words_(threads * (slots + 2)) {
    for (std::uint32_t k = 0; k < threads; ++k)
      rings_.push_back({words_.data() + k * slots, words_.data() + threads * slots + k,
                        words_.data() + threads * (slots + 1) + k, slots});
    auto* const bytes = reinterpret_cast<unsigned char*>(memory_.data());
    send = {{}, rings_.data(), bytes, &failure, &failed, 0, threads, s.bins};
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
  std::vector<kernel::credit_ring> rings_;
  std::unique_ptr<ring_readers<update, add_by_readers>> readers_;
};

enum class receiver { table, host };

struct sample {
  std::vector<std::uint64_t> indices;
  std::vector<std::uint64_t> values;
  std::vector<std::uint64_t> wanted;
};

sample samples(const sizing& s, std::uint64_t elements, std::uint64_t count, spread how,
               std::uint64_t beyond, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  sample made{std::vector<std::uint64_t>(count), std::vector<std::uint64_t>(count),
              std::vector<std::uint64_t>(elements)};
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t& at = made.indices[i];
    switch (how) {
      case spread::even:
        at = random() % elements;
        break;
      case spread::one_bin:
        at = random() % (random() % 8 == 0 ? elements : std::uint64_t{1} << s.bin_log2());
        break;
      case spread::moving:
        at = (i * elements / count + random() % 64) % elements;
        break;
      case spread::one_element:
        at = 5;
        break;
    }
    made.values[i] = random();
    if (beyond != 0 && random() % beyond == 0)
      at = random() % 2 == 0 ? elements + random() % 9 : ~std::uint64_t{0};
    if (at < elements) made.wanted[at] += made.values[i];
  }
  return made;
}

// Runs, on the host, the device code that update_bins launches on a GPU.
outcome run(const sizing& s, std::uint64_t elements, std::uint64_t count, spread how,
            std::uint64_t beyond, std::uint32_t seed, receiver to = receiver::table) {
  const sample made = samples(s, elements, count, how, beyond, seed);
  std::vector<std::uint64_t> table(elements);
  const producer from{made.indices.data(), made.values.data()};
  const add_on_host apply{table.data()};
  outcome seen;
  std::vector<update> pool(std::size_t{s.bins} * s.room);
  std::vector<update> part_pool(std::size_t{s.parts()} * s.part_room);
  std::vector<std::uint32_t> filled(s.bins);
  std::vector<std::uint32_t> part_filled(s.parts());
  const std::uint64_t words =
      append_shared_bytes<update>(std::max(s.bins, 1U << s.parts_log2), shape::tile) / 8 + 1;
  std::vector<four_words> shared(
      std::max<std::uint64_t>(words, std::uint64_t{1} << s.window_log2) / 2 + 1);
  auto* const memory = reinterpret_cast<unsigned char*>(shared.data());
  std::unique_ptr<host_rings> rings;
  if (to == receiver::host) rings = std::make_unique<host_rings>(s, table.data());
  const auto combine = [&](const bin_set<update>& bins, std::uint32_t windows) {
    block_on_host::launch(std::min(windows, 3U), threads, [&] {
      combine_windows<threads, 2>(table.data(), bins, windows, elements, apply, memory);
    });
  };
  for (std::uint64_t begin = 0; begin < count; begin += s.round_updates) {
    for (std::uint32_t slice = 0; slice < s.passes; ++slice) {
      std::fill(filled.begin(), filled.end(), 0);
      const bin_set<update> bins{pool.data(), filled.data(), slice * s.slice(),
                                 s.bins,      s.bin_log2(),  s.room};
      const chosen_updates<producer> chosen{
          from,
          begin,
          std::min(count, begin + s.round_updates),
          slice + 1 == s.passes ? ~std::uint32_t{0} - slice * s.bins : s.bins - 1,
          elements,
          &seen.bad};
      constexpr std::uint32_t blocks = 3;
      constexpr std::uint32_t warps = threads / 32;
      block_on_host::launch(blocks, threads, [&] {
        seen.direct += rings ? append_block<shape>(bins, chosen, blocks * warps, blockIdx.x * warps,
                                                   rings->send, memory)
                             : append_block<shape>(bins, chosen, blocks * warps, blockIdx.x * warps,
                                                   apply, memory);
      });
      if (rings) {
        block_on_host::launch(blocks, threads, [&] { send_bins(bins, rings->send); });
        continue;
      }
      if (s.parts_log2 == 0) combine(bins, s.bins);
      for (std::uint32_t first = 0; s.parts_log2 != 0 && first < s.bins; first += s.group) {
        std::fill(part_filled.begin(), part_filled.end(), 0);
        const std::uint32_t here = std::min(s.group, s.bins - first);
        bin_set<update> parts{part_pool.data(),
                              part_filled.data(),
                              bins.first + (std::uint64_t{first} << bins.log2),
                              1U << s.parts_log2,
                              s.window_log2,
                              s.part_room};
        for (std::uint32_t b = 0; b < here; ++b) {
          bin_set<update> one = parts;
          one.pool += std::size_t{b} * one.bins * one.room;
          one.filled += b * one.bins;
          one.first += std::uint64_t{b} << bins.log2;
          const stored_updates<update> stored{bins.pool + std::size_t{first + b} * bins.room,
                                              std::min(bins.filled[first + b], bins.room)};
          block_on_host::launch(2, threads, [&] {
            seen.direct +=
                append_block<shape>(one, stored, 2 * warps, blockIdx.x * warps, apply, memory);
          });
        }
        combine(parts, here << s.parts_log2);
      }
    }
  }
  if (rings) {
    EXPECT_EQ(rings->failed, 0U);
    rings->finish();
  }
  EXPECT_EQ(table, made.wanted);
  return seen;
}

// Returns sizes with windows of 64 elements, and with room for `mean` updates in each bin.
sizing sizes_of(std::uint32_t bins, std::uint32_t parts_log2, std::uint32_t passes,
                std::uint32_t mean) {
  sizing s;
  s.window_log2 = 6;
  s.bins = bins;
  s.parts_log2 = parts_log2;
  s.passes = passes;
  s.group = 2;
  s.room = static_cast<std::uint32_t>(room_for(mean));
  s.part_room = static_cast<std::uint32_t>(room_for(mean >> parts_log2));
  s.round_updates = std::uint64_t{mean} * bins * passes;
  return s;
}

TEST(update_bins, every_update_is_applied_once) {
  std::uint32_t seed = 0;
  for (const std::uint32_t bins : {1U, 9U}) {
    for (const std::uint32_t parts_log2 : {0U, 2U}) {
      for (const std::uint32_t passes : {1U, 3U}) {
        const sizing s = sizes_of(bins, parts_log2, passes, 40 + 200 / bins);
        for (const spread how :
             {spread::even, spread::one_bin, spread::moving, spread::one_element})
          run(s, s.slice() * passes - 37, 901, how, 0, ++seed);
      }
    }
  }
}

TEST(update_bins, even_updates_find_room) {
  const sizing s = sizes_of(8, 2, 2, 400);
  EXPECT_LT(run(s, s.slice() * 2, 8000, spread::even, 0, 1).direct, 80U);
}

TEST(update_bins, skewed_updates_find_other_ways) {
  const sizing s = sizes_of(16, 2, 2, 40);
  EXPECT_GT(run(s, s.slice() * 2, 2500, spread::one_bin, 0, 1).direct, 0U);
  EXPECT_GT(run(s, s.slice() * 2, 2500, spread::one_element, 0, 2).direct, 0U);
}

TEST(update_bins, threads_of_the_host_apply_what_arrives) {
  const sizing s = sizes_of(32, 0, 1, 60);
  for (const spread how : {spread::even, spread::one_bin, spread::one_element})
    run(s, s.slice() - 3, 4001, how, 0, 3, receiver::host);
  run(sizes_of(2, 0, 1, 3000), 128, 5000, spread::even, 0, 4, receiver::host);
}

TEST(update_bins, elements_that_do_not_exist_are_counted) {
  const sizing s = sizes_of(8, 1, 3, 60);
  const auto seen = run(s, s.slice() * 3 - 9, 5000, spread::even, 50, 1).bad;
  EXPECT_GT(seen.count, 40U);
  EXPECT_LT(seen.count, 160U);
  EXPECT_GE(seen.element, s.slice() * 3 - 9);
  EXPECT_LT(seen.block, 3U);
  EXPECT_LT(seen.thread, static_cast<unsigned>(threads));
}

TEST(update_bins, sizes_keep_the_promises) {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
  for (const std::uint32_t produced : {0U, 12U}) {
    for (std::uint64_t table = 16 * mib; table <= 65536 * mib; table *= 2) {
      sizing_request r;
      r.elements = table / 8;
      r.cache_bytes = 60 * mib;
      r.window_bytes = 128 << 10U;
      r.produced_bytes = produced;
      sizing s = size_bins(r);
      EXPECT_EQ(s.plain, table <= 64 * mib) << table / mib;
      if (s.plain) {
        r.cache_bytes = 0;  // forces the use of bins
        s = size_bins(r);
      }
      EXPECT_LE(s.buffer_bytes, table / 4) << table / mib;
      EXPECT_GE(s.buffer_bytes, table / 8) << table / mib;
      EXPECT_GE(s.passes * s.slice(), r.elements);
      EXPECT_LT((s.passes - 1) * s.slice(), r.elements);
      EXPECT_LE(s.bins, r.most_bins);
      EXPECT_LE(1U << s.parts_log2, r.most_bins);
      EXPECT_EQ(std::uint64_t{8} << s.window_log2, r.window_bytes);
      EXPECT_LE(std::uint64_t{s.bins} * s.room, std::uint64_t{1} << 32U);
      // If the producer of the updates reads memory, it reads this memory in every pass. There must
      // then be at most 4 passes.
      EXPECT_LE(s.passes, produced == 0 ? 16U : 4U) << table / mib;
    }
  }
  sizing_request r;
  r.elements = 1 << 24U;
  r.buffer_bytes = 1024;
  r.window_bytes = 1 << 16U;
  EXPECT_THROW(size_bins(r), usage_error);
  r.elements = 0;
  EXPECT_THROW(size_bins(r), usage_error);
}

TEST(update_bins, few_updates_have_small_bins) {
  sizing_request r;
  r.elements = std::uint64_t{1} << 26U;
  r.window_bytes = 64 << 10U;
  r.updates = 1 << 20U;
  const sizing s = size_bins(r);
  EXPECT_EQ(s.rounds(r.updates), 1U);
  EXPECT_LT(s.buffer_bytes, std::uint64_t{16} << 20U);
}

}  // namespace
}  // namespace interlace::cuda::updates
