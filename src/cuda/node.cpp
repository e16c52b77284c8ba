#include "interlace/cuda/node.hpp"

#include "cuda/epoch/accesses.hpp"
#include "cuda/epoch/executor.hpp"
#include "cuda/epoch/gpus.hpp"
#include "cuda/epoch/issuer.hpp"
#include "cuda/epoch/kernels.hpp"
#include "cuda/epoch/recorder.hpp"
#include "cuda/epoch/regions.hpp"
#include "cuda/mechanism/node_mechanism.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/cuda/occupancy.hpp"

namespace interlace::cuda {

struct node::parts {
  explicit parts(const node_options& o) : copies(o.copies), gpus(o) {}
  ~parts() {
    runs.open_gate();
    gpus.finish();
  }
  parts(const parts&) = delete;
  parts& operator=(const parts&) = delete;
  parts(parts&&) = delete;
  parts& operator=(parts&&) = delete;

  // The order of the members matters, because each member uses earlier members.
  std::optional<copy_options> copies;
  std::vector<std::string> remarks;
  node_gpus gpus;
  node_arrays arrays{gpus};
  node_regions regions{gpus, arrays, copies, remarks};
  loaded_kernels kernels{gpus};
  issuer issues{gpus, kernels};
  recorder records{gpus, regions, kernels, issues};
  executor runs{gpus, arrays, regions, kernels, issues, records, remarks};
};

// NOLINTNEXTLINE(performance-unnecessary-value-param)
node::node(options o) : parts_(std::make_unique<parts>(o)) {}

// The destructor restores the caller's current device.
node::~node() {
  int before = 0;
  INTERLACE_CUDA_LOG(cudaGetDevice(&before));
  parts_.reset();
  INTERLACE_CUDA_LOG(cudaSetDevice(before));
}

std::uint32_t node::devices() const { return parts_->gpus.count(); }
int node::ordinal(std::uint32_t device) const { return parts_->gpus.ordinal(device); }
cudaStream_t node::stream(std::uint32_t device) const { return parts_->gpus.streams().at(device); }
std::uint64_t node::threads_at_once(std::uint32_t device) const {
  return cuda::threads_at_once(ordinal(device));
}
const std::vector<std::string>& node::remarks() const { return parts_->remarks; }
std::uint64_t node::early_launches() const { return parts_->issues.early_launches(); }
std::string node::batches_made() const { return parts_->regions.made(); }
void node::synchronize() const { parts_->gpus.synchronize(); }

void* node::take(std::uint32_t device, std::uint64_t bytes) {
  return parts_->arrays.take(device, bytes);
}
void* node::take_unified(std::uint64_t bytes, const kernel::page_placement& pages) {
  return parts_->arrays.take_unified(bytes, pages);
}
void node::write(void* to, const void* from, std::uint64_t bytes) {
  parts_->arrays.write(to, from, bytes);
}
void node::read_bytes(void* to, const void* from, std::uint64_t bytes) const {
  parts_->arrays.read(to, from, bytes);
}
const std::vector<memory_range>& node::memory(std::uint32_t device) const {
  return parts_->arrays.ranges(device);
}

const kernel::region_state& node::state(std::uint32_t id) const {
  return parts_->regions.states().at(id);
}
void node::write_front(std::uint32_t id, std::uint32_t device, const void* values, std::uint64_t n,
                       std::uint64_t element_bytes) {
  parts_->regions.write_front(id, device, values, n, element_bytes);
}
std::uint32_t node::add_region(kernel::region_options o, std::uint32_t element_bytes) {
  return parts_->regions.add_region(std::move(o), element_bytes);
}
std::uint32_t node::add_reduction(std::uint64_t n, std::uint32_t copies,
                                  std::uint32_t element_bytes, element_type type,
                                  combine operation) {
  return parts_->regions.add_reduction(n, copies, element_bytes, type, operation);
}

void node::add_kernel(std::uint32_t device, kernel_operation k) {
  parts_->records.add_kernel(device, std::move(k));
}

void node::add_kernel_over(const kernel_operation& k, kernel::block_placement how) {
  if (how != kernel::block_placement::contiguous) {
    throw usage_error("real GPUs take contiguous ranges of blocks; other placements are simulated");
  }
  for (std::uint32_t d = 0; d < devices(); ++d) {
    const kernel::block_share share = kernel::share_of(k.shape.blocks, devices(), d, how);
    if (share.count == 0) continue;
    kernel_operation own = k;
    own.first = static_cast<std::uint32_t>(share.first);
    own.total = static_cast<std::uint32_t>(k.shape.blocks);
    own.shape.blocks = share.count;
    add_kernel(d, std::move(own));
  }
}

void node::add_launch(std::uint32_t device, kernel_operation k, const kernel_entries& entries,
                      std::uint32_t region, const kernel::block_mapping& mapping) {
  if (devices() == 1) {
    k.entry = entries.whole;
    return add_kernel(device, std::move(k));
  }
  parts_->regions.mechanism_of(region).launch(parts_->records, {.device = device,
                                                                .kernel = std::move(k),
                                                                .entries = entries,
                                                                .region = region,
                                                                .mapping = mapping});
}

std::uint32_t node::add_partition(kernel::region_options o, std::uint32_t element_bytes,
                                  combine operation, kernel::number_type type) {
  return parts_->regions.add_partition(std::move(o), element_bytes, operation, type);
}
void node::add_updates(std::uint32_t device, kernel_operation k, const kernel_entries& entries,
                       std::uint32_t partition) {
  if (devices() == 1) {
    k.entry = entries.whole;
    return add_kernel(device, std::move(k));
  }
  parts_->regions.mechanism_of(partition).launch_updates(
      parts_->records, {.device = device,
                        .kernel = std::move(k),
                        .entries = entries,
                        .partition = state(partition),
                        .operation = parts_->regions.partition(partition).operation,
                        .type = parts_->regions.partition(partition).type});
}

void node::call(std::uint32_t device, kernel::library_call c) {
  parts_->records.add_call(device, std::move(c));
}
void node::add_exchange(const std::vector<std::uint32_t>& ids) {
  parts_->records.add_exchange(ids);
}

kernel::trace_totals node::count_accesses(std::uint32_t device, const kernel_operation& k) {
  return cuda::count_accesses(parts_->gpus, parts_->arrays, parts_->kernels, device, k);
}
void node::record_accesses(std::uint32_t device, const kernel_operation& k,
                           const kernel::access_taker& take) {
  cuda::record_accesses(parts_->gpus, parts_->arrays, parts_->kernels, device, k, take);
}

void node::begin_recording() { parts_->records.begin(); }
void node::cancel_recording() { parts_->records.cancel(); }
kernel::run_result node::execute(const run_options& o) {
  kernel::run_result result = parts_->runs.execute(o);
  parts_->regions.check_updates();
  return result;
}

}  // namespace interlace::cuda
