#include "plan/schedule.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "machine/sample.hpp"
#include "plan/steps.hpp"

namespace interlace::plan::schedule_tests {
namespace {

using machine::gpu_end;
using machine::host_end;

// A mesh. Its NVLinks move 50 GB/s of payload, and its links to the host move 10 GB/s.
machine::machine plain_mesh(std::uint32_t gpus) {
  machine::machine mesh = machine::make_mesh(gpus);
  for (machine::link& edge : mesh.links) {
    edge.copy_bytes_per_s = edge.b == host_end() ? 10e9 : 50e9;
    edge.latency_ps = 1'000'000;
  }
  mesh.gpu.copy_setup_ps = 2'000'000;
  mesh.gpu.copy_launch_ps = 3'000'000;
  mesh.gpu.copy_event_ps = 1'000'000;
  return mesh;
}

path way(const resources& shared, std::uint32_t message, std::vector<machine::endpoint> stops) {
  path made;
  made.message = message;
  made.stops = std::move(stops);
  for (std::size_t stop = 0; stop + 1 < made.stops.size(); ++stop)
    made.legs.push_back(*shared.copy(made.stops[stop], made.stops[stop + 1]));
  return made;
}

TEST(schedule, one_copy_is_launch_setup_bytes_and_latency) {
  const machine::machine mesh = plain_mesh(2);
  const resources shared(mesh);
  plan made;
  made.messages = {{gpu_end(0), gpu_end(1), 50'000'000}};
  made.rounds = {0};
  made.paths = {way(shared, 0, {gpu_end(0), gpu_end(1)})};
  cut(made, {{1}, {1}}, dealing::by_share, 0);
  const auto rates = predict(made, shared, mesh.gpu, true);
  EXPECT_NEAR(made.predicted_s, 3e-6 + 2e-6 + 1e-3 + 1e-6, 1e-12);
  EXPECT_NEAR(made.steps[0].begin_s, 3e-6, 1e-15);
  ASSERT_EQ(rates.size(), 1U);
  EXPECT_DOUBLE_EQ(rates[0].bytes_per_s, 50e9);
}

TEST(schedule, a_staged_path_pipelines_its_chunks) {
  const machine::machine mesh = plain_mesh(3);
  const resources shared(mesh);
  plan made;
  made.messages = {{gpu_end(0), gpu_end(1), 40'960'000}};
  made.rounds = {0};
  made.paths = {way(shared, 0, {gpu_end(0), gpu_end(2), gpu_end(1)})};
  cut(made, {{1}, {4}}, dealing::by_share, 1 << 30);
  predict(made, shared, mesh.gpu);
  // The expected time is 3 us to launch the copies and the time of five chunks: four chunks on the
  // first leg, and the last chunk on the second leg. Each chunk also takes a setup of 2 us and a
  // latency of 1 us.
  const double chunk = 40'960'000 / 4 / 50e9;
  EXPECT_NEAR(made.predicted_s, 3e-6 + 5 * (chunk + 2e-6 + 1e-6), 1e-12);
}

TEST(schedule, copies_that_meet_share_evenly) {
  machine::machine mesh = plain_mesh(3);
  mesh.host.memory_bytes_per_s = 12e9;
  mesh.gpu.copy_launch_ps = 0;
  const resources shared(mesh);
  plan made;
  made.messages = {{gpu_end(0), host_end(), 60'000'000}, {gpu_end(1), host_end(), 60'000'000}};
  made.rounds = {0, 0};
  made.paths = {way(shared, 0, {gpu_end(0), host_end()}), way(shared, 1, {gpu_end(1), host_end()})};
  cut(made, {{1, 1}, {1, 1}}, dealing::by_share, 0);
  predict(made, shared, mesh.gpu);
  EXPECT_NEAR(made.predicted_s, 10e-3 + 3e-6, 1e-9);
}

TEST(schedule, a_copy_waits_for_an_engine) {
  machine::machine mesh = plain_mesh(3);
  mesh.gpu.copy_engines = 1;
  mesh.gpu.copy_launch_ps = 0;
  const resources shared(mesh);
  plan made;
  made.messages = {{gpu_end(0), gpu_end(1), 50'000'000}, {gpu_end(0), gpu_end(2), 50'000'000}};
  made.rounds = {0, 0};
  made.paths = {way(shared, 0, {gpu_end(0), gpu_end(1)}), way(shared, 1, {gpu_end(0), gpu_end(2)})};
  cut(made, {{1, 1}, {1, 1}}, dealing::by_share, 0);
  predict(made, shared, mesh.gpu);
  EXPECT_NEAR(made.steps[1].begin_s, 2e-6 + 1e-3, 1e-12);
  EXPECT_NEAR(made.predicted_s, 2 * (2e-6 + 1e-3) + 1e-6, 1e-12);
}

}  // namespace
}  // namespace interlace::plan::schedule_tests
