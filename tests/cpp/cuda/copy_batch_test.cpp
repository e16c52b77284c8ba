// Batches of copies, and collectives that are batches, on a driver whose GPUs are host memory.
// Every byte must arrive, in stream order, no matter which executor runs the copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "cuda/copy_world.hpp"
#include "cuda/transfer/collective.hpp"
#include "interlace/base/errors.hpp"
#include "plan/random_machine.hpp"

namespace interlace::copy_engine_tests {
namespace {

using cuda::batch_part;

// A part of a buffer.
struct piece {
  buffer* of = nullptr;
  std::uint64_t at = 0;

  device_address address() const { return copy_engine_tests::address(of->memory) + at; }
};

// Makes the copies with the engine, and makes the same copies in the expected contents.
void copy_batch(const world& in, const std::vector<std::pair<piece, piece>>& to_from,
                const std::vector<std::uint64_t>& sizes, CUstream_st* on) {
  std::vector<batch_part> parts;
  for (std::size_t at = 0; at < sizes.size(); ++at) {
    const auto& [to, from] = to_from[at];
    parts.push_back({to.address(), from.address(), sizes[at]});
    std::memcpy(to.of->expected.data() + to.at, from.of->expected.data() + from.at, sizes[at]);
  }
  in.engine->copy_batch(parts, on);
}

// Copies a batch whose ranges do not overlap. The batch reads one half of every buffer, and writes
// each block of the other half once.
void copy_random_batch(world& in, std::vector<buffer>& memory, std::mt19937_64& random,
                       CUstream_st* on) {
  const std::uint64_t half = memory.front().expected.size() / 2;
  constexpr std::uint64_t blocks = 8;
  const std::uint64_t block = half / blocks;
  const bool upper = below(random, 2) == 0;  // true if the batch writes the upper half
  std::vector<std::pair<std::size_t, std::uint64_t>> targets;
  for (std::size_t of = 0; of < memory.size(); ++of)
    for (std::uint64_t number = 0; number < blocks; ++number) targets.emplace_back(of, number);
  std::shuffle(targets.begin(), targets.end(), random);
  targets.resize(1 + below(random, 14));
  std::vector<std::pair<piece, piece>> to_from;
  std::vector<std::uint64_t> sizes;
  for (const auto& [of, number] : targets) {
    sizes.push_back(below(random, 10) == 0 ? 0 : 1 + below(random, block));
    const std::uint64_t read = (upper ? 0 : half) + below(random, half - sizes.back());
    const std::uint64_t written =
        (upper ? half : 0) + number * block + below(random, block - sizes.back() + 1);
    to_from.push_back({{&memory[of], written}, {&memory[below(random, memory.size())], read}});
  }
  copy_batch(in, to_from, sizes, on);
}

void run_random_batches(std::uint64_t seed, copy_statistics& total) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  machine::machine on = below(random, 2) == 0
                            ? mesh(2 + static_cast<std::uint32_t>(below(random, 3)))
                            : slowed(plan::random_machine(random));
  copy_options options = options_of(static_cast<copy_executor>(below(random, 4)));
  options.graphs = 1 + static_cast<std::uint32_t>(below(random, 6));
  if (below(random, 3) == 0) options.staging_bytes = std::uint64_t{8} << 10U;
  if (below(random, 2) == 0)
    // If the options state the number of chunks, the engine uses several paths even if they help
    // only little.
    options.chunks = 3;
  const auto gpus = static_cast<int>(on.gpu_count);
  world in(std::move(on), options, seed + 1);
  if (below(random, 4) == 0) in.step_ns = 1'000;
  struct user {
    CUstream_st* stream = nullptr;
    std::vector<buffer> memory;
  };
  std::vector<user> users(2);
  for (user& one : users) {
    if (&one != users.data() || below(random, 3) != 0)  // else this user has the default stream
      one.stream = in.driver.stream(static_cast<int>(below(random, gpus)), below(random, 2) == 0);
    for (int place = 0; place <= gpus; ++place)
      one.memory.push_back(make_buffer(
          in, place == gpus ? (below(random, 6) == 0 ? kind::pageable : kind::pinned) : kind::gpu,
          place % gpus, 32'000, random));
  }
  for (int turn = 0; turn < 8; ++turn)
    for (user& one : users) {
      copy_random_batch(in, one.memory, random, one.stream);
      if (below(random, 3) != 0) continue;
      // This message on the same stream must run after this batch and before the next one.
      buffer& to = one.memory[below(random, one.memory.size())];
      buffer& from = one.memory[below(random, one.memory.size())];
      if (&to == &from) continue;
      in.copy(to.memory, from.memory, 32'000, one.stream);
      to.expected = from.expected;
    }
  in.driver.synchronize();
  for (const user& one : users)
    for (const buffer& each : one.memory)
      ASSERT_EQ(std::memcmp(each.memory, each.expected.data(), each.expected.size()), 0);
  const copy_statistics counted = in.engine->statistics();
  total.direct += counted.direct;
  total.streams += counted.streams;
  total.graphs += counted.graphs;
  in.engine.reset();
  in.expect_no_errors();
}

TEST(copy_batch, random_batches_move_every_byte_in_stream_order) {
  copy_statistics total;
  for (std::uint64_t seed = 0; seed < 24 && !::testing::Test::HasFailure(); ++seed)
    run_random_batches(seed, total);
  // These bounds show that all cases were reached.
  EXPECT_GT(total.direct, 150U);
  EXPECT_GT(total.streams, 60U);
  EXPECT_GT(total.graphs, 30U);
}

// The buffers of the participants, one on each GPU, and the expected contents.
struct collective {
  static constexpr std::uint64_t bytes = 5'003;

  world& in;
  std::mt19937_64 random{11};
  std::vector<buffer> send;
  std::vector<buffer> receive;

  collective(world& of, int gpus, std::uint64_t sent, std::uint64_t received) : in(of) {
    for (int gpu = 0; gpu < gpus; ++gpu) {
      send.push_back(make_buffer(in, kind::gpu, gpu, sent, random));
      receive.push_back(make_buffer(in, kind::gpu, gpu, received, random));
    }
  }
  static std::vector<device_address> addresses(const std::vector<buffer>& of) {
    std::vector<device_address> made;
    for (const buffer& one : of) made.push_back(address(one.memory));
    return made;
  }
  void refill() {
    in.driver.synchronize();
    for (buffer& one : send) fill(one, random);
  }
  void all_gather(CUstream_st* on) {
    in.engine->copy_batch(cuda::all_gather_copies(addresses(send), addresses(receive), bytes), on);
  }
  void all_to_all(CUstream_st* on) {
    in.engine->copy_batch(cuda::all_to_all_copies(addresses(send), addresses(receive), bytes), on);
  }
  void expect_gathered() {
    in.driver.synchronize();
    for (const buffer& to : receive)
      for (std::size_t from = 0; from < send.size(); ++from)
        ASSERT_EQ(std::memcmp(to.memory + from * bytes, send[from].expected.data(), bytes), 0);
  }
  void expect_exchanged() {
    in.driver.synchronize();
    for (std::size_t to = 0; to < receive.size(); ++to)
      for (std::size_t from = 0; from < send.size(); ++from)
        ASSERT_EQ(std::memcmp(receive[to].memory + from * bytes,
                              send[from].expected.data() + to * bytes, bytes),
                  0);
  }
};

TEST(copy_batch, an_all_gather_and_an_all_to_all_bring_every_block_to_its_place) {
  for (const copy_executor executor : {copy_executor::automatic, copy_executor::direct,
                                       copy_executor::streams, copy_executor::graphs})
    for (const int gpus : {2, 3, 4}) {
      SCOPED_TRACE(gpus);
      const auto count = static_cast<std::uint64_t>(gpus);
      world in(mesh(static_cast<std::uint32_t>(gpus)), options_of(executor), count);
      CUstream_st* const stream = in.driver.stream(gpus - 1, executor == copy_executor::streams);
      collective gather(in, gpus, collective::bytes, count * collective::bytes);
      collective exchange(in, gpus, count * collective::bytes, count * collective::bytes);
      for (int turn = 0; turn < 3; ++turn) {
        gather.refill();
        gather.all_gather(stream);
        gather.expect_gathered();
        exchange.refill();
        exchange.all_to_all(stream);
        exchange.expect_exchanged();
      }
      const copy_statistics counted = in.engine->statistics();
      EXPECT_EQ(counted.direct, executor == copy_executor::direct ? 6 * count * count : 0U);
      // The engine uses graphs for batches that have many copies and are repeated.
      if (executor == copy_executor::automatic) {
        EXPECT_GE(counted.streams, 1U);
        EXPECT_GE(counted.graphs, 4U);
      }
      EXPECT_EQ(counted.bytes, 6 * count * count * collective::bytes);
      in.engine.reset();
      in.expect_no_errors();
    }
}

TEST(copy_batch, an_all_gather_in_place_copies_no_block_onto_itself) {
  world in(mesh(4), options_of(copy_executor::streams), 3);
  collective gather(in, 4, collective::bytes, 4 * collective::bytes);
  std::vector<device_address> own;
  for (std::size_t gpu = 0; gpu < 4; ++gpu) {
    std::memcpy(gather.receive[gpu].memory + gpu * collective::bytes, gather.send[gpu].memory,
                collective::bytes);
    own.push_back(address(gather.receive[gpu].memory) + gpu * collective::bytes);
  }
  const auto copies =
      cuda::all_gather_copies(own, collective::addresses(gather.receive), collective::bytes);
  EXPECT_EQ(copies.size(), 12U);
  in.engine->copy_batch(copies, in.driver.stream(0, false));
  gather.expect_gathered();
  in.expect_no_errors();
}

TEST(copy_batch, copies_inside_gpus_run_beside_the_others) {
  four_gpus in(options_of(copy_executor::streams));
  in.driver.run_nothing_unasked();
  CUstream_st* const stream = in.driver.stream(0, false);
  copy_batch(in,
             {{{&in.gpu[1], 0}, {&in.gpu[0], 0}},
              {{&in.gpu[2], 0}, {&in.gpu[2], 30'000}},
              {{&in.gpu[3], 0}, {&in.gpu[3], 30'000}}},
             {30'000, 20'000, 20'000}, stream);
  for (const buffer& one : in.gpu) in.expect_right(one);
  EXPECT_EQ(in.engine->statistics().streams, 1U);
  EXPECT_EQ(in.engine->statistics().direct, 0U);
  in.expect_no_errors();
}

TEST(copy_batch, other_addresses_of_one_shape_only_change_nodes) {
  world in(mesh(4), options_of(copy_executor::graphs), 1);
  CUstream_st* const stream = in.driver.stream(0, false);
  collective first(in, 4, 4 * collective::bytes, 4 * collective::bytes);
  collective second(in, 4, 4 * collective::bytes, 4 * collective::bytes);
  first.all_to_all(stream);
  const copy_statistics one = in.engine->statistics();
  EXPECT_EQ(one.misses, 1U);
  EXPECT_EQ(one.updates, 0U);
  first.all_to_all(stream);
  EXPECT_EQ(in.engine->statistics().updates, 0U);
  second.all_to_all(stream);
  const copy_statistics all = in.engine->statistics();
  EXPECT_EQ(all.nodes, one.nodes);
  EXPECT_EQ(all.hits, 2U);
  EXPECT_GE(all.updates, 16U);
  in.driver.synchronize();
  in.driver.allocate_again(second.receive[3].memory);
  second.all_to_all(stream);
  EXPECT_GT(in.engine->statistics().updates, all.updates);
  EXPECT_EQ(in.driver.calls("graph_launch"), 4U);  // the driver refused no launch
  first.expect_exchanged();
  second.expect_exchanged();
  in.expect_no_errors();
}

TEST(copy_batch, a_captured_batch_runs_in_the_callers_graph_again_and_again) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    world in(mesh(4), options_of(copy_executor::automatic), seed);
    const auto& table = in.driver.table();
    CUstream_st* const stream = in.driver.stream(1, false);
    collective gather(in, 4, collective::bytes, 4 * collective::bytes);
    collective exchange(in, 4, 4 * collective::bytes, 4 * collective::bytes);
    collective beside(in, 4, 4 * collective::bytes, 4 * collective::bytes);
    in.engine->prepare();
    in.driver.begin_capture(stream);
    gather.all_gather(stream);
    exchange.all_to_all(stream);
    CUgraph_st* const graph = in.driver.end_capture(stream);
    EXPECT_EQ(in.engine->statistics().captured, 2U);
    CUgraphExec_st* executable = nullptr;
    ASSERT_EQ(table.graph_instantiate(&executable, graph, 0), 0);
    table.graph_destroy(graph);
    for (int launch = 0; launch < 3; ++launch) {
      gather.refill();
      exchange.refill();
      ASSERT_EQ(table.graph_launch(executable, stream), 0);
      beside.all_to_all(in.driver.stream(0, false));
      gather.expect_gathered();
      exchange.expect_exchanged();
      beside.expect_exchanged();
    }
    table.graph_exec_destroy(executable);
    EXPECT_EQ(in.driver.live_user_objects(), 0U);
    in.engine.reset();
    in.expect_no_errors();
  }
}

TEST(copy_batch, a_copy_that_cannot_be_planned_makes_the_whole_batch_plain_copies) {
  four_gpus in(options_of(copy_executor::streams));
  CUstream_st* const stream = in.driver.stream(0, false);
  buffer pageable = make_buffer(in, kind::pageable, 0, four_gpus::bytes, in.random);
  buffer managed = make_buffer(in, kind::managed, 0, four_gpus::bytes, in.random);
  buffer pinned = make_buffer(in, kind::pinned, 0, four_gpus::bytes, in.random);
  std::uint64_t direct = 0;
  for (buffer* const odd : {&pageable, &managed, &pinned}) {
    copy_batch(in, {{{&in.gpu[1], 0}, {&in.gpu[0], 0}}, {{odd, 0}, {&in.host, 0}}},
               {30'000, 30'000}, stream);
    direct += 2;
    EXPECT_EQ(in.engine->statistics().direct, direct);
    in.expect_right(in.gpu[1]);
    in.expect_right(*odd);
  }
  EXPECT_EQ(in.engine->statistics().streams, 0U);
  in.expect_no_errors();
}

TEST(copy_batch, small_batches_are_plain_copies_and_one_copy_is_a_message) {
  copy_options options = options_of(copy_executor::streams);
  options.threshold_bytes = 1000;
  four_gpus in(options);
  CUstream_st* const stream = in.driver.stream(0, false);
  const auto two = [&](std::uint64_t bytes) {
    copy_batch(in, {{{&in.gpu[1], 0}, {&in.gpu[0], 0}}, {{&in.gpu[2], 0}, {&in.gpu[3], 0}}},
               {bytes, bytes}, stream);
  };
  const std::uint64_t before = in.driver.all_calls();
  two(499);
  EXPECT_EQ(in.driver.all_calls(), before + 2);
  EXPECT_EQ(in.engine->statistics().direct, 2U);
  two(500);
  EXPECT_EQ(in.engine->statistics().streams, 1U);
  copy_batch(in, {{{&in.gpu[1], 0}, {&in.gpu[0], 0}}, {{&in.gpu[2], 0}, {&in.gpu[3], 0}}}, {0, 999},
             stream);
  EXPECT_EQ(in.engine->statistics().direct, 3U);
  copy_batch(in, {}, {}, stream);
  two(0);
  EXPECT_EQ(in.engine->statistics().bytes, 2 * 499U + 2 * 500U + 999U);
  for (const buffer& one : in.gpu) in.expect_right(one);
  in.expect_no_errors();
}

// The time that planning takes grows with the cube of the number of messages.
TEST(copy_batch, very_many_copies_are_plain) {
  four_gpus in(options_of(copy_executor::automatic));
  CUstream_st* const stream = in.driver.stream(0, false);
  std::vector<batch_part> many;
  for (std::uint64_t k = 0; k < 257; ++k)
    many.push_back({address(in.gpu[1].memory) + 4 * k, address(in.gpu[0].memory) + 4 * k, 4});
  in.engine->copy_batch(many, stream);
  EXPECT_EQ(in.engine->statistics().direct, 257U);
  many.pop_back();
  in.engine->copy_batch(many, stream);
  EXPECT_EQ(in.engine->statistics().direct, 257U);
}

TEST(copy_batch, without_staging_memory_the_copies_go_directly_and_together) {
  for (const bool captured : {false, true}) {
    world in(mesh(4), options_of(copy_executor::streams), 1);
    in.engine->prepare();
    in.driver.forbid_memory(true);
    CUstream_st* const stream = in.driver.stream(0, false);
    // The copies go around a ring of GPUs. They leave several paths free, so messages could take
    // these paths.
    collective ring(in, 4, collective::bytes, collective::bytes);
    std::vector<batch_part> copies;
    for (std::size_t gpu = 0; gpu < 4; ++gpu)
      copies.push_back({address(ring.receive[(gpu + 1) % 4].memory), address(ring.send[gpu].memory),
                        collective::bytes});
    if (captured) in.driver.begin_capture(stream);
    in.engine->copy_batch(copies, stream);
    CUgraphExec_st* executable = nullptr;
    if (captured) {
      CUgraph_st* const graph = in.driver.end_capture(stream);
      ASSERT_EQ(in.driver.table().graph_instantiate(&executable, graph, 0), 0);
      in.driver.table().graph_destroy(graph);
      ASSERT_EQ(in.driver.table().graph_launch(executable, stream), 0);
    }
    in.driver.synchronize();
    if (captured) in.driver.table().graph_exec_destroy(executable);
    for (std::size_t gpu = 0; gpu < 4; ++gpu)
      EXPECT_EQ(std::memcmp(ring.receive[(gpu + 1) % 4].memory, ring.send[gpu].expected.data(),
                            collective::bytes),
                0);
    const copy_statistics counted = in.engine->statistics();
    EXPECT_EQ(counted.direct, 0U);
    EXPECT_EQ(counted.streams + counted.captured, 1U);
    ASSERT_EQ(in.reports.size(), 1U);
    EXPECT_NE(in.reports[0].find("staging memory"), std::string::npos) << in.reports[0];
  }
}

TEST(copy_batch, memory_that_relays_cannot_reach_goes_directly_and_together) {
  four_gpus in(options_of(copy_executor::streams));
  CUstream_st* const stream = in.driver.stream(0, false);
  buffer secluded = make_buffer(in, kind::virtual_gpu, 1, four_gpus::bytes, in.random);
  copy_batch(in, {{{&secluded, 0}, {&in.gpu[0], 0}}, {{&in.gpu[0], 30'000}, {&in.gpu[1], 0}}},
             {30'000, 30'000}, stream);
  in.expect_right(secluded);
  in.expect_right(in.gpu[0]);
  // The sending GPU cannot access the memory of the receiving GPU, so the driver makes plain
  // copies.
  EXPECT_EQ(in.engine->statistics().direct, 2U);
  in.driver.give_access(secluded.memory, 0);
  copy_batch(in, {{{&secluded, 0}, {&in.gpu[0], 0}}, {{&in.gpu[0], 30'000}, {&in.gpu[1], 0}}},
             {30'000, 30'000}, stream);
  in.expect_right(secluded);
  in.expect_right(in.gpu[0]);
  EXPECT_EQ(in.engine->statistics().direct, 2U);
  EXPECT_EQ(in.engine->statistics().streams, 1U);
  in.expect_no_errors();
}

TEST(copy_batch, messages_of_others_keep_off_the_links_of_a_batch) {
  four_gpus in(options_of(copy_executor::streams));
  in.step_ns = 1'000;
  CUstream_st* const own = in.driver.stream(0, false);
  CUstream_st* const other = in.driver.stream(2, false);
  const auto both = [&] {
    copy_batch(in,
               {{{&in.gpu[1], 0}, {&in.gpu[0], 0}}, {{&in.gpu[0], 30'000}, {&in.gpu[1], 30'000}}},
               {30'000, 30'000}, own);
    in.move(in.gpu[3], in.gpu[2], other, 30'000);
    for (const buffer& one : in.gpu) in.expect_right(one);
    in.time_ns += 10'000'000;
  };
  both();  // in the first call, the batch can use all paths
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t before = in.driver.calls("copy");
    both();
    EXPECT_EQ(in.driver.calls("copy"), before + 3);  // each of the three copies had its own link
  }
  in.expect_no_errors();
}

TEST(copy_batch, nonsense_is_refused_by_a_sentence) {
  four_gpus in(options_of(copy_executor::automatic));
  const device_address one = address(in.gpu[0].memory);
  const device_address other = address(in.gpu[1].memory);
  const auto complaint = [&](const std::vector<batch_part>& copies) -> std::string {
    try {
      in.engine->copy_batch(copies, nullptr);
    } catch (const usage_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint({{one + 1, one, 2}}),
            "source and destination of copy 0 of a batch overlap; copy through a third buffer");
  EXPECT_EQ(complaint({{one, other, 2}, {one + 1, other + 8, 2}}),
            "copies 0 and 1 of a batch overlap: one of them writes bytes that the other one reads "
            "or writes");
  EXPECT_EQ(complaint({{one, other, 8}, {other + 100, one + 50, 8}, {other + 7, one + 90, 1}}),
            "copies 0 and 2 of a batch overlap: one of them writes bytes that the other one reads "
            "or writes");
  EXPECT_EQ(complaint({{one, other, ~std::uint64_t{0}}, {one, other, 1}}),
            "copy 0 of a batch has 18446744073709551615 bytes, which reach past the last address");
  EXPECT_EQ(complaint({{one, other, 0}, {one, one, 0}}), "");
  // Two copies may read the same bytes.
  EXPECT_EQ(complaint({{one, other, 8}, {one + 8, other, 8}}), "");
  EXPECT_EQ(in.engine->statistics().bytes, 16U);
  const std::vector<device_address> two{one, other};
  const auto refused = [&](auto made, const std::vector<device_address>& send,
                           const std::vector<device_address>& receive,
                           std::uint64_t bytes) -> std::string {
    try {
      (void)made(send, receive, bytes);
    } catch (const usage_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused(cuda::all_gather_copies, two, {one}, 8),
            "an all-gather has 2 buffers to send and 1 to receive; give one of each kind for every "
            "participant");
  EXPECT_EQ(refused(cuda::all_to_all_copies, {one, 0}, two, 8),
            "send buffer 1 of an all-to-all is a null pointer");
  EXPECT_EQ(refused(cuda::all_to_all_copies, two, {0, one}, 8),
            "receive buffer 0 of an all-to-all is a null pointer");
  EXPECT_NE(refused(cuda::all_gather_copies, two, two, std::uint64_t{1} << 63U), "");
  EXPECT_EQ(refused(cuda::all_gather_copies, {0, 0}, {0, 0}, 0), "");
  // The send buffer is inside the receive buffer, but not at the place to which the all-gather
  // copies the bytes of the send buffer.
  EXPECT_NE(complaint(cuda::all_gather_copies(two, two, 8)).find("overlap"), std::string::npos);
}

TEST(copy_batch, a_driver_that_fails_anywhere_is_an_error_and_the_next_batch_arrives) {
  std::size_t failed = 0;
  for (const std::string function :
       {"pointer_attributes", "allocate", "stream_create", "stream_wait", "event_create",
        "event_record", "copy", "graph_create", "graph_add_copy", "graph_launch",
        "graph_instantiate", "graph_exec_set_copy", "event_query", "push"})
    for (const copy_executor executor : {copy_executor::streams, copy_executor::graphs})
      for (const int nth : {1, 7}) {
        SCOPED_TRACE(function + " " + std::to_string(nth));
        world in(mesh(3), options_of(executor), static_cast<std::uint64_t>(nth));
        CUstream_st* const stream = in.driver.stream(0, false);
        collective gather(in, 3, collective::bytes, 3 * collective::bytes);
        collective exchange(in, 3, 3 * collective::bytes, 3 * collective::bytes);
        in.engine->prepare();
        in.driver.fail(function, nth, 1);
        for (int turn = 0; turn < 2; ++turn) {
          try {
            gather.all_gather(stream);
            exchange.all_to_all(stream);
          } catch (const device_error& error) {
            EXPECT_NE(std::string(error.what()).find("failed: FAKE"), std::string::npos);
            ++failed;
          }
        }
        in.driver.fail(function, 0, 0);
        gather.refill();
        gather.all_gather(stream);
        exchange.all_to_all(stream);
        gather.expect_gathered();
        exchange.expect_exchanged();
        in.engine.reset();
        in.expect_no_errors();
      }
  EXPECT_GT(failed, 20U);
}

}  // namespace
}  // namespace interlace::copy_engine_tests
