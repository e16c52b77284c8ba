#include "cuda/transfer/copy_runner.hpp"

#include <string>
#include <utility>

#include "cuda/transfer/graph_executor.hpp"

namespace interlace::cuda {
namespace {

// The least number of copies for which a graph is used. Launching a graph with fewer copies takes
// longer than enqueueing these copies.
constexpr std::size_t least_graph_copies = 8;

graph_key key_of(const copy_call& call) {
  const copy_program& program = call.plan->program;
  graph_key key{
      .shape = program.shape, .shape_hash = program.shape_hash, .ends = {}, .role = call.role};
  for (const copy_message& one : call.messages)
    for (const memory_view* seen : {&one.source, &one.destination})
      key.ends.push_back({seen->context, seen->origin});
  return key;
}

}  // namespace

void enqueue_plain_copy(const driver_table& driver, device_address to, device_address from,
                        std::uint64_t bytes, CUstream_st* stream) {
  int result = driver.copy(to, from, bytes, stream);
  if (result == driver_result::invalid_context) {
    // If there is no current context, this thread has not called CUDA yet. The runtime uses the
    // first GPU for such a thread.
    CUctx_st* context = nullptr;
    if (stream == nullptr || driver.stream_context(stream, &context) != driver_result::success)
      check(driver, driver.primary_retain(&context, 0), "cuDevicePrimaryCtxRetain");
    const in_context on(driver, context);
    result = driver.copy(to, from, bytes, stream);
  }
  check(driver, result, "cuMemcpyAsync");
}

copy_runner::copy_runner(contexts& of, const copy_options& options, kernel_image image,
                         copy_accounts& accounts)
    : contexts_(of),
      accounts_(accounts),
      executor_(options.executor),
      graphs_(options.graphs),
      kernels_(of, image),
      streams_(of) {
  for (int gpu = 0; gpu < of.count(); ++gpu)
    pools_.push_back(std::make_unique<staging_pool>(of, gpu, options.staging_bytes));
  pools_.push_back(std::make_unique<staging_pool>(of, host_place, options.staging_bytes));
}

staging_pool& copy_runner::pool(int place) {
  return *(place == host_place ? pools_.back() : pools_[static_cast<std::size_t>(place)]);
}

bool copy_runner::take_staging(copy_call& call) {
  for (const copy_program::buffer& buffer : call.plan->program.buffers) {
    const auto taken = pool(buffer.place).take(buffer.bytes, call.caller.identity);
    if (!taken) {
      accounts_.report(std::string("copies are direct while the staging memory of ") +
                       (buffer.place == host_place ? "the host" : gpu_text(buffer.place)) +
                       " is in use; INTERLACE_COPY_STAGING allows more");
      return_staging(call, nullptr);
      return false;
    }
    call.blocks.push_back(*taken);
    call.where.buffers.push_back(taken->address);
  }
  return true;
}

void copy_runner::return_staging(copy_call& call, const shared_completion& end) {
  for (std::size_t index = 0; index < call.blocks.size(); ++index)
    pool(call.plan->program.buffers[index].place).give(call.blocks[index], end);
  call.blocks.clear();
}

bool copy_runner::uses_graph(const copy_call& call) const {
  const bool again = call.plan->uses.fetch_add(1, std::memory_order_relaxed) > 0;
  const copy_executor wanted =
      executor_ == copy_executor::automatic ? call.choice.executor : executor_;
  return wanted == copy_executor::graphs ||
         (wanted == copy_executor::automatic && again &&
          call.plan->program.copies.size() >= least_graph_copies);
}

std::optional<copy_result> copy_runner::run(copy_call& call) {
  const driver_table& driver = contexts_.driver();
  const copy_program& program = call.plan->program;
  const caller_stream& caller = call.caller;
  const bool graph = uses_graph(call);
  if (!take_staging(call)) return std::nullopt;
  const graph_key key = key_of(call);
  std::unique_ptr<graph_executable> executable;
  std::unique_ptr<stream_set> used;
  shared_completion end;
  try {
    if (caller.blocking && !contexts_.enqueue_work(caller.identity.gpu, caller.stream)) {
      return_staging(call, nullptr);
      return std::nullopt;
    }
    if (graph) {
      graph_times spent;
      executable = graphs_.take(key, caller.identity);
      if (!executable)
        executable = std::make_unique<graph_executable>(contexts_, program, call.where, spent);
      executable->launch(program, call.where, caller.stream, spent);
      graphs_.add_times(spent);
    } else {
      used = streams_.run(program, call.where, caller);
      if (!used) {
        return_staging(call, nullptr);
        accounts_.report("copies are direct while too many copies are under way");
        return std::nullopt;
      }
    }
    if (caller.blocking) (void)contexts_.enqueue_work(caller.identity.gpu, caller.stream);
    end = std::make_shared<completion>(contexts_, caller.stream, caller.identity);
  } catch (...) {
    // All enqueued work must end before its memory is used again.
    log_failure(driver, driver.stream_synchronize(caller.stream), "cuStreamSynchronize");
    return_staging(call, nullptr);
    if (used) streams_.keep(std::move(used), nullptr);
    throw;
  }
  return_staging(call, end);
  if (executable) graphs_.keep(key, std::move(executable), end);
  if (used) streams_.keep(std::move(used), end);
  if (graph) {
    accounts_.add_by_graph();
    return copy_result::graph;
  }
  accounts_.add_by_streams();
  return copy_result::streams;
}

void copy_runner::give_to_graph(CUgraph_st* graph, std::vector<placed_block> blocks) {
  struct owner {
    copy_runner& runner;
    std::vector<placed_block> blocks;

    void give_back() const {
      for (const placed_block& one : blocks) runner.pool(one.place).give(one.memory, nullptr);
    }
  };
  const driver_table& driver = contexts_.driver();
  auto owning = std::make_unique<owner>(owner{*this, std::move(blocks)});
  // The driver calls this function, so the function must not call the driver.
  const auto release = [](void* data) {
    const std::unique_ptr<owner> ended(static_cast<owner*>(data));
    ended->give_back();
    ended->runner.owning_graphs_.fetch_sub(1);
  };
  CUuserObject_st* object = nullptr;
  const int created =
      driver.user_object_create(&object, owning.get(), release, 1, user_object_unsynchronized);
  if (created != driver_result::success) {
    owning->give_back();
    check(driver, created, "cuUserObjectCreate");
  }
  owning_graphs_.fetch_add(1);
  (void)owning.release();  // the user object owns it now
  const int retained = driver.graph_retain_user_object(graph, object, 1, graph_takes_user_object);
  if (retained != driver_result::success) {
    log_failure(driver, driver.user_object_release(object, 1), "cuUserObjectRelease");
    check(driver, retained, "cuGraphRetainUserObject");
  }
}

bool copy_runner::capture(copy_call& call) {
  if (!take_staging(call)) return false;
  const copy_program& program = call.plan->program;
  std::vector<placed_block> blocks;
  for (std::size_t index = 0; index < call.blocks.size(); ++index)
    blocks.push_back({program.buffers[index].place, call.blocks[index]});
  call.blocks.clear();
  give_to_graph(call.graph, std::move(blocks));
  const auto nodes = add_copies(contexts_, call.graph, program, call.where, call.roots);
  auto last = last_nodes(program, nodes);
  const driver_table& driver = contexts_.driver();
  check(
      driver,
      driver.capture_depend(call.caller.stream, last.data(), last.size(), capture_set_dependencies),
      "cuStreamUpdateCaptureDependencies");
  accounts_.add_captured();
  return true;
}

void copy_runner::add_to(copy_statistics& now) const {
  const graph_counts counted = graphs_.counts();
  now.hits = counted.hits;
  now.misses = counted.misses;
  now.evictions = counted.evictions;
  now.executables = counted.executables;
  now.creation_s = counted.times.creation_s;
  now.construction_s = counted.times.construction_s;
  now.instantiation_s = counted.times.instantiation_s;
  now.update_s = counted.times.update_s;
  now.launch_s = counted.times.launch_s;
  now.nodes = counted.times.nodes;
  now.updates = counted.times.updates;
  now.launches = counted.times.launches;
  for (const auto& pool : pools_) now.staging_bytes += pool->reserved();
}

}  // namespace interlace::cuda
