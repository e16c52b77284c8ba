// All-reduces on a driver whose GPUs are host memory. An all-reduce must combine every element in
// the order of the participants, give all GPUs the same result, keep the order of streams, and stay
// within the staging memory.
#include "cuda/transfer/all_reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/copy_world.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::copy_engine_tests {
namespace {

using cuda::all_reduce_call;

// --- cuts of a message ---

void expect_cut(std::uint64_t bytes, std::size_t participants, std::uint64_t staging,
                bool overlap) {
  SCOPED_TRACE(std::to_string(bytes) + " bytes of " + std::to_string(participants) + " in " +
               std::to_string(staging));
  const cuda::all_reduce_cut cut = cuda::cut_all_reduce(bytes, participants, staging, overlap);
  const std::uint64_t smallest = 256 * (participants - 1);
  if (cut.pieces.empty()) {
    EXPECT_LT(staging, smallest * (overlap ? 2 : 1));
    return;
  }
  EXPECT_LE(cut.sets * cut.set_bytes, staging);
  EXPECT_EQ(cut.set_bytes, cut.slot_bytes * (participants - 1));
  EXPECT_EQ(cut.slot_bytes % 256, 0U);
  EXPECT_EQ(cut.sets == 2, overlap && cut.pieces.size() > 1);
  std::uint64_t at = 0;
  std::uint64_t longest = 0;
  std::set<std::uint64_t> sizes;  // sizes of all pieces except the last one
  for (std::size_t piece = 0; piece < cut.pieces.size(); ++piece) {
    ASSERT_EQ(cut.pieces[piece].size(), participants);
    const std::uint64_t begin = at;
    for (const cuda::byte_range& part : cut.pieces[piece]) {
      ASSERT_EQ(part.begin, at);
      ASSERT_TRUE(part.bytes == 0 || part.begin % 16 == 0);
      at += part.bytes;
      longest = std::max(longest, part.bytes);
    }
    ASSERT_GT(at, begin);
    if (piece + 1 < cut.pieces.size()) sizes.insert(at - begin);
  }
  EXPECT_EQ(at, bytes);
  EXPECT_LE(longest, cut.slot_bytes);
  EXPECT_LE(sizes.size(), 1U);
}

TEST(all_reduce, a_cut_covers_the_message_within_the_staging_memory) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 3000 && !::testing::Test::HasFailure(); ++round) {
    const std::uint64_t bytes = 1 + (random() >> (34 + random() % 29));
    const std::uint64_t staging =
        std::max(bytes >> (random() % 6), (random() % 8) * 256 + random() % 40'000);
    expect_cut(bytes, 2 + random() % 15, staging, random() % 2 == 0);
  }
  expect_cut(1, 16, 1 << 20, true);
  expect_cut(16, 2, 256, true);
  expect_cut(std::uint64_t{1} << 40U, 4, std::uint64_t{128} << 20U, true);
}

// --- whole all-reduces ---

template <class T>
std::vector<T> numbers(std::uint64_t count, std::mt19937_64& random) {
  std::vector<T> made(count);
  for (T& one : made) {
    if constexpr (std::is_floating_point_v<T>)
      one = static_cast<T>(static_cast<double>(random() >> 11) * 0x1p-52 - 1.0);
    else
      one = static_cast<T>(random());
  }
  return made;
}

// The buffers of each participant, and the results that the interface promises.
template <class T>
struct reduced {
  world& in;
  std::mt19937_64 random;
  reduced_type type;
  reduce_by by;
  std::vector<buffer> send;
  std::vector<buffer> receive;  // empty if the results go to the buffers with the summands
  std::vector<T> wanted;
  std::vector<double> exact;
  std::vector<double> magnitude;

  reduced(world& of, int gpus, std::uint64_t count, reduced_type what, reduce_by how, bool in_place,
          std::uint64_t seed)
      : in(of), random(seed), type(what), by(how) {
    for (int gpu = 0; gpu < gpus; ++gpu) {
      send.push_back(make_buffer(in, kind::gpu, gpu, count * sizeof(T), random));
      if (!in_place) receive.push_back(make_buffer(in, kind::gpu, gpu, count * sizeof(T), random));
    }
  }
  std::uint64_t count() const { return send[0].expected.size() / sizeof(T); }
  std::vector<buffer>& results() { return receive.empty() ? send : receive; }

  void refill() {
    for (buffer& one : receive) std::memset(one.memory, 0xCD, one.expected.size());
    for (buffer& one : send) {
      const std::vector<T> values = numbers<T>(count(), random);
      std::memcpy(one.memory, values.data(), one.expected.size());
    }
    expect();
  }
  // Takes the current contents of the buffers as the summands.
  void expect() {
    wanted.assign(count(), T{});
    exact.assign(count(), 0);
    magnitude.assign(count(), 0);
    for (std::size_t at = 0; at < send.size(); ++at) {
      std::vector<T> values(count());
      std::memcpy(values.data(), send[at].memory, values.size() * sizeof(T));
      for (std::uint64_t k = 0; k < count(); ++k) {
        const T value = values[k];
        exact[k] += static_cast<double>(value);
        magnitude[k] += std::abs(static_cast<double>(value));
        T& all = wanted[k];
        if (at == 0)
          all = value;
        else if (by == reduce_by::min)
          all = std::min(all, value);
        else if (by == reduce_by::max)
          all = std::max(all, value);
        else if constexpr (std::is_floating_point_v<T>)
          all += value;
        else
          all = static_cast<T>(static_cast<std::make_unsigned_t<T>>(all) +
                               static_cast<std::make_unsigned_t<T>>(value));
      }
    }
  }
  static std::vector<device_address> addresses(const std::vector<buffer>& of) {
    std::vector<device_address> made;
    made.reserve(of.size());
    for (const buffer& one : of) made.push_back(address(one.memory));
    return made;
  }
  all_reduce_call call() { return {addresses(send), addresses(results()), count(), type, by}; }
  void enqueue(CUstream_st* on) { in.engine->all_reduce(call(), on); }
  void expect_right() {
    in.driver.synchronize();
    for (const buffer& one : results()) {
      std::vector<T> found(count());
      std::memcpy(found.data(), one.memory, found.size() * sizeof(T));
      ASSERT_EQ(found, wanted);
      if constexpr (std::is_floating_point_v<T>) {
        if (by != reduce_by::sum) continue;
        for (std::uint64_t k = 0; k < found.size(); ++k)
          ASSERT_LE(std::abs(static_cast<double>(found[k]) - exact[k]),
                    static_cast<double>(send.size()) * magnitude[k] *
                        static_cast<double>(std::numeric_limits<T>::epsilon()));
      }
    }
  }
};

template <class T>
void reduce_everything(reduced_type type, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const reduce_by by : {reduce_by::sum, reduce_by::min, reduce_by::max})
    for (const copy_executor executor : {copy_executor::automatic, copy_executor::direct,
                                         copy_executor::streams, copy_executor::graphs}) {
      if (by != reduce_by::sum && below(random, 2) == 0) continue;
      const int gpus = 2 + static_cast<int>(below(random, 3));
      world in(mesh(static_cast<std::uint32_t>(gpus)), options_of(executor), random());
      CUstream_st* const stream = in.driver.stream(
          static_cast<int>(below(random, static_cast<std::uint64_t>(gpus))), below(random, 2) == 0);
      for (const std::uint64_t count :
           {std::uint64_t{1}, 3 + below(random, 60), std::uint64_t{2'001}}) {
        reduced<T> one(in, gpus, count, type, by, below(random, 2) == 0, random());
        one.refill();
        one.enqueue(stream);
        one.expect_right();
      }
      in.engine.reset();
      EXPECT_EQ(in.driver.live_modules(), 0);
      in.expect_no_errors();
    }
}

TEST(all_reduce, combines_every_type_in_every_way_by_every_executor) {
  reduce_everything<float>(reduced_type::float32, 1);
  reduce_everything<double>(reduced_type::float64, 2);
  reduce_everything<std::int32_t>(reduced_type::int32, 3);
  reduce_everything<std::int64_t>(reduced_type::int64, 4);
}

// The 16-bit numbers have so few digits that their sums are exact.
TEST(all_reduce, combines_numbers_of_16_bits) {
  for (const bool brain : {false, true})
    for (const reduce_by by : {reduce_by::sum, reduce_by::min, reduce_by::max}) {
      world in(mesh(3), options_of(copy_executor::automatic), 5);
      reduced<std::uint16_t> one(in, 3, 500, brain ? reduced_type::bfloat16 : reduced_type::float16,
                                 by, false, 1);
      std::vector<float> wanted(500);
      for (std::size_t gpu = 0; gpu < 3; ++gpu)
        for (std::size_t k = 0; k < wanted.size(); ++k) {
          const auto value = static_cast<float>(static_cast<int>(below(one.random, 64)) - 32) / 4;
          const std::uint16_t bits = brain ? fake::narrowed<8>(value) : fake::narrowed<5>(value);
          std::memcpy(one.send[gpu].memory + 2 * k, &bits, 2);
          wanted[k] = gpu == 0               ? value
                      : by == reduce_by::sum ? wanted[k] + value
                      : by == reduce_by::min ? std::min(wanted[k], value)
                                             : std::max(wanted[k], value);
        }
      one.enqueue(in.driver.stream(0, false));
      in.driver.synchronize();
      for (const buffer& each : one.receive)
        for (std::size_t k = 0; k < wanted.size(); ++k) {
          std::uint16_t bits = 0;
          std::memcpy(&bits, each.memory + 2 * k, 2);
          ASSERT_EQ(brain ? fake::widened<8>(bits) : fake::widened<5>(bits), wanted[k]);
        }
      in.expect_no_errors();
    }
}

TEST(all_reduce, the_stand_in_rounds_numbers_of_16_bits_as_ieee_has_it) {
  EXPECT_EQ(fake::narrowed<5>(1.0F), 0x3c00);
  EXPECT_EQ(fake::narrowed<5>(-65504.0F), 0xfbff);
  EXPECT_EQ(fake::narrowed<5>(65520.0F), 0x7c00);  // a tie rounds to infinity
  EXPECT_EQ(fake::narrowed<5>(65519.0F), 0x7bff);
  EXPECT_EQ(fake::narrowed<5>(1.0F + 0x1p-11F), 0x3c00);  // a tie rounds to even
  EXPECT_EQ(fake::narrowed<5>(1.0F + 0x3p-11F), 0x3c02);
  EXPECT_EQ(fake::narrowed<5>(0x1p-24F), 0x0001);
  EXPECT_EQ(fake::narrowed<8>(1.0F), 0x3f80);
  EXPECT_EQ(fake::narrowed<8>(3.0F), 0x4040);
  EXPECT_EQ(fake::narrowed<8>(1.0F + 0x1p-8F), 0x3f80);
  for (std::uint32_t bits = 0; bits < 0x7c00; bits += 7) {
    const auto half = static_cast<std::uint16_t>(bits);
    EXPECT_EQ(fake::narrowed<5>(fake::widened<5>(half)), half);
    EXPECT_EQ(fake::narrowed<8>(fake::widened<8>(half)), half);
  }
}

TEST(all_reduce, elements_are_added_in_the_participants_order) {
  world in(mesh(4), options_of(copy_executor::streams), 1);
  reduced<float> one(in, 4, 4'000, reduced_type::float32, reduce_by::sum, true, 1);
  const float values[] = {1e8F, 1.0F, -1e8F, 1.0F};
  for (std::size_t gpu = 0; gpu < 4; ++gpu)
    for (std::size_t k = 0; k < 4'000; ++k)
      std::memcpy(one.send[gpu].memory + 4 * k, &values[gpu], 4);
  one.enqueue(in.driver.stream(2, false));
  in.driver.synchronize();
  for (const buffer& each : one.send)
    for (std::size_t k = 0; k < 4'000; ++k) {
      float found = 0;
      std::memcpy(&found, each.memory + 4 * k, 4);
      ASSERT_EQ(found, 1.0F) << k;  // some other orders of addition would give 0 or 2
    }
}

TEST(all_reduce, messages_beyond_the_staging_memory_go_in_pieces_in_stream_order) {
  for (std::uint64_t seed = 0; seed < 6 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    copy_options options = options_of(static_cast<copy_executor>(below(random, 4)));
    options.staging_bytes = std::uint64_t{8} << 10U;
    world in(mesh(4), options, seed);
    if (below(random, 4) == 0) in.driver.run_nothing_unasked();
    std::vector<CUstream_st*> streams{in.driver.stream(0, true), in.driver.stream(3, false)};
    if (below(random, 3) == 0) streams[0] = nullptr;
    std::vector<reduced<float>> all;
    for (std::uint64_t k = 0; k < 2; ++k) {
      all.emplace_back(in, 4, 2'000 + below(random, 1'500), reduced_type::float32, reduce_by::sum,
                       below(random, 2) == 0, random());
      all.back().refill();
    }
    for (int turn = 0; turn < 2; ++turn)
      for (std::size_t user = 0; user < all.size(); ++user) {
        reduced<float>& one = all[user];
        // Between all-reduces, messages copy the result of an all-reduce to an input of the next
        // all-reduce.
        one.enqueue(streams[user]);
        buffer& to = one.send[below(random, 4)];
        buffer& from = one.results()[below(random, 4)];
        if (to.memory != from.memory)
          in.copy(to.memory, from.memory, one.count() * 4, streams[user]);
        in.driver.synchronize();
        one.expect();
      }
    for (std::size_t user = 0; user < all.size(); ++user) {
      all[user].refill();
      all[user].enqueue(streams[user]);
    }
    for (reduced<float>& one : all) one.expect_right();
    EXPECT_LE(in.engine->statistics().staging_bytes, 5 * options.staging_bytes);
    in.engine.reset();
    in.expect_no_errors();
  }
}

TEST(all_reduce, many_streams_wait_for_each_others_staging_memory) {
  copy_options options = options_of(copy_executor::streams);
  options.staging_bytes = std::uint64_t{8} << 10U;
  world in(mesh(3), options, 1);
  in.driver.run_nothing_unasked();
  std::vector<reduced<float>> all;
  for (std::uint64_t user = 0; user < 6; ++user) {
    all.emplace_back(in, 3, 6'000, reduced_type::float32, reduce_by::sum, false, user);
    all.back().refill();
  }
  for (std::size_t user = 0; user < all.size(); ++user)
    all[user].enqueue(in.driver.stream(static_cast<int>(user % 3), true));
  for (reduced<float>& one : all) one.expect_right();
  EXPECT_LE(in.engine->statistics().staging_bytes, 4 * options.staging_bytes);
  in.engine.reset();
  in.expect_no_errors();
}

TEST(all_reduce, a_captured_one_runs_in_the_callers_graph_again_and_again) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    copy_options options = options_of(copy_executor::automatic);
    if (seed % 2 == 1) options.staging_bytes = std::uint64_t{16} << 10U;
    world in(mesh(4), options, seed);
    const auto& table = in.driver.table();
    CUstream_st* const stream = in.driver.stream(1, false);
    reduced<float> one(in, 4, 6'001, reduced_type::float32, reduce_by::sum, seed > 3, seed);
    reduced<double> other(in, 4, 600, reduced_type::float64, reduce_by::max, false, seed);
    in.driver.begin_capture(stream);
    one.enqueue(stream);
    other.enqueue(stream);
    CUgraph_st* const graph = in.driver.end_capture(stream);
    CUgraphExec_st* executable = nullptr;
    ASSERT_EQ(table.graph_instantiate(&executable, graph, 0), 0);
    table.graph_destroy(graph);
    if (seed == 5) in.engine.reset();  // the memory that graphs own must stay allocated
    for (int launch = 0; launch < 3; ++launch) {
      one.refill();
      other.refill();
      ASSERT_EQ(table.graph_launch(executable, stream), 0);
      one.expect_right();
      other.expect_right();
    }
    EXPECT_EQ(in.driver.calls("launch"), 0U);
    table.graph_exec_destroy(executable);
    EXPECT_EQ(in.driver.live_user_objects(), 0U);
    in.engine.reset();
    in.expect_no_errors();
  }
}

// Earlier messages can leave the free staging memory in parts. Each part has room for one set.
TEST(all_reduce, two_sets_need_not_be_next_to_each_other) {
  constexpr std::uint64_t piece = 5'376;  // elements of the largest piece that has two sets
  copy_options options = options_of(copy_executor::streams);
  options.staging_bytes = std::uint64_t{64} << 10U;
  world in(mesh(4), options, 1);
  CUstream_st* const stream = in.driver.stream(0, false);
  std::vector<CUgraph_st*> owners;
  for (const std::uint64_t count : {piece, std::uint64_t{256}, piece, std::uint64_t{10'240}}) {
    reduced<float> one(in, 4, count, reduced_type::float32, reduce_by::sum, true, count);
    in.driver.begin_capture(stream);
    one.enqueue(stream);
    owners.push_back(in.driver.end_capture(stream));
  }
  const auto& table = in.driver.table();
  for (const std::size_t first_and_third : {0U, 2U}) table.graph_destroy(owners[first_and_third]);
  reduced<float> one(in, 4, 4 * piece, reduced_type::float32, reduce_by::sum, false, 1);
  one.refill();
  const std::uint64_t before = in.driver.calls("launch");
  one.enqueue(stream);
  one.expect_right();
  EXPECT_EQ(in.driver.calls("launch") - before, 4U * 4U);  // 4 pieces on 4 GPUs
  for (const std::size_t second_and_fourth : {1U, 3U})
    table.graph_destroy(owners[second_and_fourth]);
  in.engine.reset();
  in.expect_no_errors();
}

TEST(all_reduce, a_repeated_one_of_one_piece_changes_no_graph) {
  world in(mesh(4), options_of(copy_executor::graphs), 1);
  CUstream_st* const stream = in.driver.stream(0, false);
  reduced<float> one(in, 4, 4'000, reduced_type::float32, reduce_by::sum, false, 1);
  for (int turn = 0; turn < 3; ++turn) {
    one.refill();
    one.enqueue(stream);
    one.expect_right();
  }
  const copy_statistics counted = in.engine->statistics();
  EXPECT_EQ(counted.launches, 6U);
  EXPECT_EQ(counted.misses, 2U);  // one graph to the staging memory, and one graph to the results
  EXPECT_EQ(counted.updates, 0U);
  in.engine.reset();
  in.expect_no_errors();
}

TEST(all_reduce, one_participant_copies_and_none_does_nothing) {
  world in(mesh(2), options_of(copy_executor::streams), 1);
  reduced<float> one(in, 1, 1'000, reduced_type::float32, reduce_by::sum, false, 1);
  one.refill();
  one.enqueue(nullptr);
  one.expect_right();
  reduced<float> self(in, 1, 1'000, reduced_type::float32, reduce_by::sum, true, 1);
  const std::uint64_t before = in.driver.calls("copy");
  self.enqueue(nullptr);
  in.engine->all_reduce({}, nullptr);
  in.engine->all_reduce({{0, 0}, {0, 0}, 0, reduced_type::int32, reduce_by::min}, nullptr);
  EXPECT_EQ(in.driver.calls("copy"), before);
  EXPECT_EQ(in.driver.calls("module_load"), 0U);
}

std::string complaint(world& in, const all_reduce_call& call) {
  try {
    in.engine->all_reduce(call, nullptr);
  } catch (const usage_error& error) {
    return error.what();
  } catch (const device_error& error) {
    return std::string("device: ") + error.what();
  }
  return "";
}

TEST(all_reduce, says_what_is_wrong_with_its_buffers) {
  world in(mesh(3), options_of(copy_executor::streams), 1);
  reduced<float> good(in, 3, 100, reduced_type::float32, reduce_by::sum, false, 1);
  const auto with = [&](const auto& change) {
    all_reduce_call call = good.call();
    change(call);
    return complaint(in, call);
  };
  EXPECT_EQ(with([](all_reduce_call& call) { call.receive.pop_back(); }),
            "an all-reduce has 3 buffers to send and 2 to receive; give one of each kind for every "
            "participant");
  EXPECT_EQ(with([](all_reduce_call& call) { call.send[1] = 0; }),
            "send buffer 1 of an all-reduce is a null pointer");
  EXPECT_EQ(with([](all_reduce_call& call) { call.receive[2] += 2; }),
            "receive buffer 2 of an all-reduce is not aligned to its elements of 4 bytes");
  EXPECT_EQ(
      with([](all_reduce_call& call) { call.receive[0] = call.send[0] + 4; }),
      "receive buffer 0 of an all-reduce overlaps a buffer of participant 0; a receive "
      "buffer must not overlap any other buffer, but it may be exactly the send buffer of its own "
      "participant");
  EXPECT_EQ(
      with([](all_reduce_call& call) { call.receive[0] = call.send[1]; }),
      "receive buffer 0 of an all-reduce overlaps a buffer of participant 1; a receive "
      "buffer must not overlap any other buffer, but it may be exactly the send buffer of its own "
      "participant");
  EXPECT_EQ(
      with([](all_reduce_call& call) { call.receive[1] = call.receive[0] + 396; }),
      "receive buffer 0 of an all-reduce overlaps a buffer of participant 1; a receive "
      "buffer must not overlap any other buffer, but it may be exactly the send buffer of its own "
      "participant");
  EXPECT_EQ(with([](all_reduce_call& call) { std::swap(call.receive[0], call.receive[1]); }),
            "receive buffer 0 of an all-reduce is on gpu1, but the same participant's send buffer "
            "is on gpu0; give both on "
            "one GPU");
  EXPECT_NE(with([](all_reduce_call& call) { call.count = ~std::uint64_t{0}; }), "");
  EXPECT_EQ(with([](all_reduce_call& call) {
              call.send.assign(17, 4096);
              call.receive.assign(17, 4096);
            }),
            "an all-reduce has at most 16 participants, not 17");
  for (const kind what : {kind::pinned, kind::pageable, kind::managed}) {
    const buffer odd = make_buffer(in, what, 0, 400, good.random);
    EXPECT_EQ(with([&](all_reduce_call& call) { call.send[0] = address(odd.memory); }),
              "send buffer 0 of an all-reduce is not in the memory of a GPU; give memory of "
              "cudaMalloc");
  }
  EXPECT_EQ(in.driver.calls("launch"), 0U);
  in.expect_no_errors();
}

TEST(all_reduce, says_what_it_lacks) {
  for (const auto& [version, sentence] :
       {std::pair{
            13000,
            "device: the kernels of an all-reduce were not compiled for GPU 0; build Interlace "
            "with its architecture in CMAKE_CUDA_ARCHITECTURES"},
        std::pair{12020,
                  "device: the NVIDIA driver is for CUDA 12.2, and all-reduces need a driver for "
                  "CUDA 13.0 (580) or later; copies and other collectives still work"}}) {
    world in(mesh(2), options_of(copy_executor::streams), 1);
    in.driver.refuse_kernels(version);
    reduced<float> one(in, 2, 100, reduced_type::float32, reduce_by::sum, false, 1);
    EXPECT_EQ(complaint(in, one.call()), sentence);
  }
  {
    copy_options options = options_of(copy_executor::streams);
    options.staging_bytes = 1'000;
    world in(mesh(3), options, 1);
    reduced<float> one(in, 3, 1'000, reduced_type::float32, reduce_by::sum, false, 1);
    EXPECT_EQ(complaint(in, one.call()),
              "device: an all-reduce has no staging memory on gpu0: graphs own it, the GPU has no "
              "more, or INTERLACE_COPY_STAGING allows too little");
  }
  {
    world in(mesh(2), options_of(copy_executor::streams), 1);
    in.driver.forbid_memory(true);
    reduced<float> one(in, 2, 1'000, reduced_type::float32, reduce_by::sum, false, 1);
    EXPECT_NE(complaint(in, one.call()).find("no staging memory on gpu0"), std::string::npos);
    in.driver.forbid_memory(false);
    one.refill();
    one.enqueue(nullptr);
    one.expect_right();
    in.expect_no_errors();
  }
  fake::driver driver(2, 1);
  driver.table().push(driver.context(0));
  copy_engine without(driver.table(), options_of(copy_executor::streams), {}, {}, {}, {});
  try {
    without.all_reduce({{4096, 8192}, {4096, 8192}, 4, reduced_type::int32, reduce_by::max},
                       nullptr);
    FAIL();
  } catch (const usage_error& error) {
    EXPECT_STREQ(error.what(),
                 "this library was built without nvcc, and has no kernels for an all-reduce; "
                 "install the CUDA toolkit and build it again");
  }
}

TEST(all_reduce, a_driver_that_fails_anywhere_is_an_error_and_the_next_one_is_right) {
  std::size_t failed = 0;
  for (const std::string function :
       {"pointer_attributes", "allocate", "stream_create", "stream_wait", "event_create",
        "event_record", "copy", "launch", "module_load", "module_function", "event_query", "push"})
    for (const int nth : {1, 5, 20}) {
      SCOPED_TRACE(function + " " + std::to_string(nth));
      copy_options options = options_of(copy_executor::streams);
      options.staging_bytes = std::uint64_t{8} << 10U;
      world in(mesh(3), options, static_cast<std::uint64_t>(nth));
      CUstream_st* const stream = in.driver.stream(0, false);
      reduced<float> one(in, 3, 4'000, reduced_type::float32, reduce_by::sum, false, 1);
      in.engine->prepare();
      in.driver.fail(function, nth, 1);
      for (int turn = 0; turn < 2; ++turn) {
        try {
          one.enqueue(stream);
        } catch (const device_error& error) {
          EXPECT_NE(std::string(error.what()).find("failed: FAKE"), std::string::npos);
          ++failed;
        }
      }
      in.driver.fail(function, 0, 0);
      one.refill();
      one.enqueue(stream);
      one.expect_right();
      in.engine.reset();
      in.expect_no_errors();
    }
  EXPECT_GT(failed, 20U);
}

}  // namespace
}  // namespace interlace::copy_engine_tests
