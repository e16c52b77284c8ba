#include "bench/microbenchmark_sim.hpp"

#include <map>
#include <string>

#include "base/units.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/sim/node.hpp"
#include "sim/tasks/simulation.hpp"
#include "workload/benchmark/microbenchmark.hpp"

namespace interlace::bench {

namespace {

timed_bytes timed(const std::vector<kernel::run_result>& runs) {
  const kernel::run_result& r = runs.back();
  return {.time_s = r.time_s,
          .payload = r.stores.bytes,
          .wire = r.stores.wire,
          .packets = r.stores.packets};
}

constexpr std::uint32_t max_copies = 4096;
constexpr std::uint64_t page_bytes = 4096;  // page size of unified memory on the simulated node

}  // namespace

timed_bytes stores_on_sim(const machine::machine& described, std::uint32_t gpus,
                          std::uint32_t element_bytes, const workload::store_request& asked,
                          const std::function<void()>& check_interrupt) {
  sim::node node(described, gpus, check_interrupt);
  switch (element_bytes) {
    case 4:
      return timed(workload::run_stores<workload::words_element<1>>(node, asked));
    case 8:
      return timed(workload::run_stores<workload::words_element<2>>(node, asked));
    case 16:
      return timed(workload::run_stores<workload::words_element<4>>(node, asked));
    default:
      throw usage_error("no kernel stores " + std::to_string(element_bytes) +
                        " bytes for each lane; give 4, 8 or 16");
  }
}

timed_bytes copy_kernel_on_sim(const machine::machine& described, std::uint64_t bytes,
                               std::uint32_t blocks, const std::function<void()>& check_interrupt) {
  using element = workload::words_element<4>;
  if (bytes < sizeof(element) || blocks == 0) throw usage_error("a copy needs bytes and blocks");
  sim::node node(described, 2, check_interrupt);
  const std::uint32_t rounds = workload::copy_rounds(bytes);
  const auto found = workload::run_copy<element>(node, bytes / rounds / sizeof(element), blocks,
                                                 rounds, page_bytes);
  return {.time_s = found.back().time_s, .payload = bytes};
}

timed_bytes loads_on_sim(const machine::machine& described, std::uint32_t element_bytes,
                         std::uint64_t elements, const std::function<void()>& check_interrupt) {
  sim::node node(described, 2, check_interrupt);
  std::vector<kernel::run_result> runs;
  if (element_bytes == 4) {
    runs = workload::run_loads<workload::words_element<1>>(node, elements, page_bytes);
  } else if (element_bytes == 16) {
    runs = workload::run_loads<workload::words_element<4>>(node, elements, page_bytes);
  } else {
    throw usage_error("no kernel loads " + std::to_string(element_bytes) + " bytes; give 4 or 16");
  }
  return {.time_s = runs.back().time_s, .payload = elements * element_bytes};
}

double copies_on_sim(const machine::machine& described, const std::vector<simulated_copy>& copies,
                     bool by_host, const std::function<void()>& check_interrupt) {
  if (copies.empty() || copies.size() > max_copies) {
    throw usage_error(std::to_string(copies.size()) + " copies cannot be simulated; give 1 to " +
                      std::to_string(max_copies));
  }
  sim::address_map addresses;
  addresses.devices = described.gpu_count;
  sim::simulation simulated(described, addresses, check_interrupt);
  std::map<std::uint32_t, sim::task_id> last;
  for (const simulated_copy& c : copies) {
    if (c.from == c.to || c.from >= described.gpu_count || c.to >= described.gpu_count ||
        c.bytes == 0) {
      throw usage_error("a copy of " + std::to_string(c.bytes) + " bytes from GPU " +
                        std::to_string(c.from) + " to GPU " + std::to_string(c.to));
    }
    sim::simulation::copy_request request;
    request.by = by_host ? sim::simulation::mover::host : sim::simulation::mover::engine;
    request.from = c.from;
    request.bytes = c.bytes;
    request.address = std::uint64_t{c.from} << addresses.slot_bits;
    request.to.push_back({c.to, std::uint64_t{c.to} << addresses.slot_bits});
    std::vector<sim::task_id> after;
    if (const auto before = last.find(c.stream); before != last.end()) {
      after.push_back(before->second);
    }
    last[c.stream] = simulated.add_copy(std::move(request), after);
  }
  return seconds_of(simulated.run());
}

}  // namespace interlace::bench
