#include "cuda/transfer/graph_executor.hpp"

#include <chrono>
#include <optional>

namespace interlace::cuda {
namespace {

class stopwatch {
 public:
  // Returns the time in seconds since the last call.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const double passed = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return passed;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace

graph_times& graph_times::operator+=(const graph_times& more) {
  creation_s += more.creation_s;
  construction_s += more.construction_s;
  instantiation_s += more.instantiation_s;
  update_s += more.update_s;
  launch_s += more.launch_s;
  nodes += more.nodes;
  updates += more.updates;
  launches += more.launches;
  return *this;
}

std::vector<CUgraphNode_st*> add_copies(const contexts& of, CUgraph_st* graph,
                                        const copy_program& program, const addresses& where,
                                        std::span<CUgraphNode_st* const> roots) {
  std::vector<CUgraphNode_st*> nodes;
  nodes.reserve(program.copies.size());
  std::vector<std::optional<std::uint32_t>> last(program.slots.size());
  std::vector<CUgraphNode_st*> behind;
  for (const copy_program::copy& one : program.copies) {
    behind.clear();
    if (last[one.slot]) behind.push_back(nodes[*last[one.slot]]);
    for (const std::uint32_t on : one.after) behind.push_back(nodes[on]);
    if (behind.empty()) behind.assign(roots.begin(), roots.end());
    const memcpy_3d run = contiguous_copy(where.of(one.to), where.of(one.from), one.bytes);
    CUgraphNode_st* node = nullptr;
    check(of.driver(),
          of.driver().graph_add_copy(&node, graph, behind.data(), behind.size(), &run,
                                     of.context_of(program.slots[one.slot].gpu)),
          "cuGraphAddMemcpyNode");
    last[one.slot] = static_cast<std::uint32_t>(nodes.size());
    nodes.push_back(node);
  }
  return nodes;
}

std::vector<CUgraphNode_st*> last_nodes(const copy_program& program,
                                        std::span<CUgraphNode_st* const> nodes) {
  std::vector<CUgraphNode_st*> last(program.slots.size(), nullptr);
  for (std::size_t index = 0; index < nodes.size(); ++index)
    last[program.copies[index].slot] = nodes[index];
  std::vector<CUgraphNode_st*> ends;
  for (std::size_t slot = 0; slot < last.size(); ++slot)
    if (!program.slots[slot].last_awaited) ends.push_back(last[slot]);
  return ends;
}

graph_executable::graph_executable(contexts& of, const copy_program& program,
                                   const addresses& where, graph_times& times)
    : contexts_(of), where_(where) {
  const driver_table& driver = of.driver();
  try {
    stopwatch watch;
    check(driver, driver.graph_create(&graph_, 0), "cuGraphCreate");
    times.creation_s += watch.lap();
    nodes_ = add_copies(of, graph_, program, where, {});
    times.construction_s += watch.lap();
    check(driver, driver.graph_instantiate(&executable_, graph_, 0), "cuGraphInstantiateWithFlags");
    times.instantiation_s += watch.lap();
    times.nodes += nodes_.size();
  } catch (...) {
    if (graph_ != nullptr) log_failure(driver, driver.graph_destroy(graph_), "cuGraphDestroy");
    throw;
  }
}

graph_executable::~graph_executable() {
  const driver_table& driver = contexts_.driver();
  const in_context on(driver, contexts_.any_context(), std::nothrow);
  log_failure(driver, driver.graph_exec_destroy(executable_), "cuGraphExecDestroy");
  log_failure(driver, driver.graph_destroy(graph_), "cuGraphDestroy");
}

void graph_executable::launch(const copy_program& program, const addresses& where,
                              CUstream_st* stream, graph_times& times) {
  stopwatch watch;
  update(program, where, false, times);
  times.update_s += watch.lap();
  int result = contexts_.driver().graph_launch(executable_, stream);
  if (result == driver_result::invalid_value) {
    // The call updates all nodes. Otherwise the driver would treat a node that was not updated as
    // stale.
    update(program, where, true, times);
    result = contexts_.driver().graph_launch(executable_, stream);
  }
  check(contexts_.driver(), result, "cuGraphLaunch");
  times.launch_s += watch.lap();
  ++times.launches;
}

void graph_executable::update(const copy_program& program, const addresses& where, bool all,
                              graph_times& times) {
  // The driver refuses an executable that refers to freed memory, even if a new allocation has the
  // same address.
  const auto other_memory = [&](const plan::location& place) {
    if (place.memory == plan::memory::staging) return false;
    const bool source = place.memory == plan::memory::source;
    const auto& now = (source ? where.sources : where.destinations)[place.index];
    const auto& before = (source ? where_.sources : where_.destinations)[place.index];
    return now.id == 0 || now.id != before.id;
  };
  for (std::size_t index = 0; index < nodes_.size(); ++index) {
    const copy_program::copy& one = program.copies[index];
    const device_address to = where.of(one.to);
    const device_address from = where.of(one.from);
    const auto changed = [&](const plan::location& place, device_address now) {
      return now != where_.of(place) || other_memory(place);
    };
    if (!all && !changed(one.to, to) && !changed(one.from, from)) continue;
    const memcpy_3d run = contiguous_copy(to, from, one.bytes);
    check(contexts_.driver(),
          contexts_.driver().graph_exec_set_copy(executable_, nodes_[index], &run,
                                                 contexts_.context_of(program.slots[one.slot].gpu)),
          "cuGraphExecMemcpyNodeSetParams");
    ++times.updates;
  }
  where_ = where;
}

}  // namespace interlace::cuda
