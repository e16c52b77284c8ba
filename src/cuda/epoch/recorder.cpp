#include "cuda/epoch/recorder.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "interlace/base/errors.hpp"
#include "kernel/chunks.hpp"

namespace interlace::cuda {

void check_launch(std::uint32_t devices, std::uint32_t device, const kernel_operation& k) {
  if (device >= devices) {
    throw model_error("a launch on device " + std::to_string(device) + " of " +
                      std::to_string(devices));
  }
  if (k.shape.blocks == 0) return;
  if (k.shape.blocks > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    throw model_error("a grid of " + std::to_string(k.shape.blocks) +
                      " blocks; at most 2147483647 are possible");
  }
  if (k.shape.threads == 0 || k.shape.threads % 32 != 0 || k.shape.threads > 1024) {
    throw model_error("a block of " + std::to_string(k.shape.threads) +
                      " threads; a GPU takes multiples of 32 up to 1024");
  }
}

void recorder::add_kernel(std::uint32_t device, kernel_operation k) {
  check_launch(gpus_.count(), device, k);
  if (k.shape.blocks == 0) return;
  operation o;
  o.what = operation::kind::kernel;
  o.device = device;
  o.kernel = std::move(k);
  submit(std::move(o));
}

void recorder::add_call(std::uint32_t device, kernel::library_call c) {
  kernel::check_call(c, c.on_gpu, device, gpus_.count());
  operation o;
  o.what = operation::kind::call;
  o.device = device;
  o.call = std::move(c);
  submit(std::move(o));
}

void recorder::add_copies(std::uint32_t device, std::vector<copy_operation> copies) {
  if (copies.empty()) return;
  for (const copy_operation& c : copies) copies_pending_[device] |= 1U << c.peer;
  operation o;
  o.what = operation::kind::copies;
  o.device = device;
  o.copies = std::move(copies);
  submit(std::move(o));
}

const tracked_region* recorder::launched(std::uint32_t device, std::uint32_t id) const {
  const auto found = launched_[device].find(id);
  return found == launched_[device].end() ? nullptr : found->second;
}

static_assert(2 * max_devices <= 32, "a bit for each copy stream");

// Checks the regions whose chunks are tracked. Throws model_error unless each device has written
// all elements that it delivers.
void recorder::check_exchange(const std::vector<std::uint32_t>& ids) const {
  std::uint32_t tracked = 0;
  for (const std::uint32_t id : ids) {
    const kernel::region_state& s = regions_.states().at(id);
    if (!s.is_region() || !kernel::tracks_chunks(s.options.mechanism) || gpus_.count() == 1)
      continue;
    if (++tracked > max_tracked_launches) {
      throw model_error("one exchange takes at most " + std::to_string(max_tracked_launches) +
                        " regions whose chunks are tracked");
    }
    for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
      if (launched_[d].contains(id) || kernel::cut_chunks(s, d).empty()) continue;
      throw model_error("region " + std::to_string(id) + " is exchanged, but no launch of device " +
                        std::to_string(d) + " wrote it in this epoch");
    }
  }
}

void recorder::add_exchange(const std::vector<std::uint32_t>& ids) {
  check_exchange(ids);
  operation o;
  o.what = operation::kind::exchange;
  exchange_operation& e = o.exchange;
  const std::vector<kernel::region_state>& states = regions_.states();
  std::string name = "exchange " + std::to_string(gpus_.exchanges()) + " (";
  for (const std::uint32_t id : ids) {
    if (name.back() != '(') name += ", ";
    const kernel::region_state& s = states.at(id);
    name += (s.is_reduction   ? "reduction "
             : s.is_partition ? "partition "
                              : "region ") +
            std::to_string(id);
  }
  e.id = gpus_.add_exchange(name + ")");

  e.prefetches.resize(gpus_.count());
  e.copies.resize(gpus_.count());
  e.large.resize(gpus_.count());
  e.first.resize(gpus_.count());
  e.join.resize(gpus_.count());
  for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
    e.join[d] = copies_pending_[d];
    copies_pending_[d] = 0;
    e.first[d].barrier = gpus_.barrier(d, e.id);
  }
  e.meets = ids.empty();
  for (const std::uint32_t id : ids) {
    if (states[id].is_reduction) {
      for (std::uint32_t d = 0; d < gpus_.count(); ++d) add_reduction(e, d, id);
      e.meets = true;
    } else if (states[id].is_partition) {
      if (gpus_.count() > 1) regions_.mechanism_of(id).deliver_updates(id, e);
      e.meets = true;
    } else if (gpus_.count() == 1 || regions_.mechanism_of(id).deliver(*this, id, e)) {
      e.meets = true;
    }
  }
  for (const std::uint32_t id : ids) {
    if (!states[id].is_reduction) regions_.set_parity(id, states[id].parity ^ 1U);
  }
  submit(std::move(o));
}

void recorder::add_reduction(exchange_operation& e, std::uint32_t device, std::uint32_t id) const {
  const kernel::region_state& s = regions_.states()[id];
  const node_regions::reduction_details& details = regions_.reduction(id);
  if (s.elements <= small_reduction_elements) {
    exchange_arguments& a = e.first[device];
    if (a.reductions == max_small_reductions) {
      throw model_error("one exchange takes at most " + std::to_string(max_small_reductions) +
                        " small reductions; use one reduction with more elements");
    }
    small_reduction& r = a.items[a.reductions++];
    r.type = details.type;
    r.operation = details.operation;
    r.elements = static_cast<std::uint32_t>(s.elements);
    r.copies = s.copies;
    r.partial = s.partials[device];
    r.front = s.buffers[device][0];
    std::copy(details.inboxes.begin(), details.inboxes.end(), r.inboxes);
    return;
  }
  large_reduction r;
  r.type = details.type;
  r.operation = details.operation;
  r.device = device;
  r.devices = gpus_.count();
  r.copies = s.copies;
  r.elements = s.elements;
  for (std::uint32_t p = 0; p < gpus_.count(); ++p) {
    r.partials[p] = s.partials[p];
    r.fronts[p] = s.buffers[p][0];
  }
  e.large[device].push_back(r);
}

void recorder::submit(operation o) {
  gpus_.require_usable();
  if (gpus_.recording()) {
    recorded_.push_back(std::move(o));
    return;
  }
  const current_device restore(gpus_.ordinal(0));
  // Outside of a recording, the kernels of a library call are not loaded here. The first launch of
  // such a kernel may wait for running work. This wait does no harm, because all of this work is
  // already enqueued on every device.
  if (o.what == operation::kind::kernel) kernels_.load(o.kernel);
  issues_.issue(o, nullptr);
}

// Whether a launch has written a region that no exchange has published yet.
bool recorder::between_exchanges() const {
  return std::any_of(copies_pending_.begin(), copies_pending_.end(),
                     [](std::uint32_t streams) { return streams != 0; }) ||
         std::any_of(launched_.begin(), launched_.end(),
                     [](const auto& launched) { return !launched.empty(); });
}

void recorder::begin() {
  gpus_.require_idle("run");
  if (between_exchanges()) {
    throw model_error("a run begins after a launch whose region has not been exchanged");
  }
  recorded_.clear();
  parities_before_.clear();
  for (const kernel::region_state& s : regions_.states()) parities_before_.push_back(s.parity);
  launched_since_ = false;
  gpus_.set_recording(true);
}

std::vector<operation> recorder::end() {
  gpus_.set_recording(false);
  std::vector<operation> operations = std::exchange(recorded_, {});
  if (between_exchanges()) {
    throw model_error("a run ends with a launch whose region is not exchanged");
  }
  return operations;
}

void recorder::cancel() {
  gpus_.set_recording(false);
  recorded_.clear();
  if (!launched_since_) {
    for (std::uint32_t i = 0; i < parities_before_.size(); ++i) {
      regions_.set_parity(i, parities_before_[i]);
    }
  }
  copies_pending_.assign(gpus_.count(), 0);
  for (auto& launched : launched_) launched.clear();
}

}  // namespace interlace::cuda
