#include "cuda/epoch/regions.hpp"

#include <utility>

#include "cuda/mechanism/mechanisms.hpp"

namespace interlace::cuda {

std::uint32_t node_regions::add_region(kernel::region_options o, std::uint32_t element_bytes) {
  const auto id = static_cast<std::uint32_t>(states_.size());
  std::unique_ptr<node_mechanism>& how = mechanisms_[o.mechanism];
  if (how == nullptr) {
    how = make_mechanism(o.mechanism, {.gpus = gpus_,
                                       .arrays = arrays_,
                                       .regions = states_,
                                       .copies = copies_,
                                       .remarks = remarks_});
  }
  kernel::region_state state =
      kernel::make_region_state(std::move(o), element_bytes, gpus_.count());
  how->prepare(id, state);
  states_.push_back(std::move(state));
  reductions_.emplace_back();
  by_region_.push_back(how.get());
  return id;
}

std::uint32_t node_regions::add_reduction(std::uint64_t n, std::uint32_t copies,
                                          std::uint32_t element_bytes, element_type type,
                                          combine operation) {
  kernel::region_state state = kernel::make_reduction_state(n, copies, element_bytes);
  reduction_details details{.type = type, .operation = operation, .inboxes = {}};
  for (std::uint32_t d = 0; d < gpus_.count(); ++d) {
    state.buffers[d][0] = arrays_.take(d, n * element_bytes);
    state.partials[d] = arrays_.take(d, n * copies * element_bytes);
    if (n <= small_reduction_elements) {
      details.inboxes[d] = arrays_.take(d, 2 * gpus_.count() * n * element_bytes);
    }
  }
  states_.push_back(std::move(state));
  reductions_.push_back(details);
  by_region_.push_back(nullptr);
  return static_cast<std::uint32_t>(states_.size() - 1);
}

void node_regions::write_front(std::uint32_t id, std::uint32_t device, const void* values,
                               std::uint64_t n, std::uint64_t element_bytes) {
  const kernel::region_state& s = states_.at(id);
  kernel::check_front(n, s);
  arrays_.write(s.buffers[device][0], values, n * element_bytes);
  if (!s.is_reduction) arrays_.write(s.buffers[device][1], values, n * element_bytes);
}

std::string node_regions::made() const {
  std::string all;
  for (const auto& [which, how] : mechanisms_) {
    const std::string one = how == nullptr ? std::string() : how->made();
    if (!all.empty() && !one.empty()) all += "; ";
    all += one;
  }
  return all;
}

}  // namespace interlace::cuda
