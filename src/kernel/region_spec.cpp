#include "kernel/region_spec.hpp"

#include <limits>

#include "interlace/base/errors.hpp"

namespace interlace::kernel {

std::vector<std::uint64_t> part_boundaries(std::vector<std::uint64_t> given, std::uint64_t elements,
                                           std::uint32_t devices, const std::string& label) {
  if (given.empty()) {
    for (std::uint32_t d = 0; d <= devices; ++d) {
      // This form avoids the product of two large numbers, which could overflow.
      given.push_back(elements / devices * d + elements % devices * d / devices);
    }
  }
  if (given.back() != elements) {
    throw usage_error(label + " has " + std::to_string(elements) +
                      " elements, and its boundaries end at " + std::to_string(given.back()));
  }
  return given;
}

region_state check_spec(const region_spec& spec, std::uint32_t devices, const std::string& label) {
  if (spec.elements == 0 || spec.element_bytes == 0) {
    throw usage_error(label + " has " + std::to_string(spec.elements) + " elements of " +
                      std::to_string(spec.element_bytes) + " bytes; both must be 1 or more");
  }
  if (spec.elements > std::numeric_limits<std::uint64_t>::max() / 2 / spec.element_bytes) {
    throw usage_error(label + " of " + std::to_string(spec.elements) + " elements of " +
                      std::to_string(spec.element_bytes) + " bytes is larger than any memory");
  }
  region_options o;
  o.mechanism = parse_mechanism(spec.mechanism);
  if (!row_of(o.mechanism).of_regions) {
    throw usage_error(label + " cannot have the mechanism '" + spec.mechanism +
                      "', which needs kernels that a node launches; use " +
                      mechanisms_with(&mechanism_row::of_regions));
  }
  o.boundaries = part_boundaries(spec.boundaries, spec.elements, devices, label);
  o.subscribers = spec.subscribers;
  o.chunk_bytes = spec.chunk_bytes;
  o.agent_threads = spec.agent_threads;
  o.agent_copy = parse_agent_copy(spec.agent_copy);
  if (!spec.producers.empty() && spec.producers.size() != devices) {
    throw usage_error(label + " names producers for " + std::to_string(spec.producers.size()) +
                      " devices, but the number of devices is " + std::to_string(devices));
  }
  if (!spec.producers.empty() && spec.checks) {
    throw usage_error(label +
                      ": the debug mode notes what is published; let the kernel publish and give "
                      "no producers");
  }
  region_state state;
  try {
    state = make_region_state(std::move(o), spec.element_bytes, devices);
  } catch (const model_error& e) {
    throw usage_error(label + ": " + e.what());
  }
  if (tracks_chunks(state.options.mechanism)) {
    for (std::uint32_t d = 0; d < devices; ++d) (void)cut_chunks(state, d);
  }
  return state;
}

std::string describe_spec(const region_state& state, const region_spec& spec) {
  std::string text = "name " + spec.name + "\nelements " + std::to_string(state.elements) +
                     "\nelement_bytes " + std::to_string(state.element_bytes) + "\nmechanism " +
                     mechanism_name(state.options.mechanism) + "\nchunk_bytes " +
                     std::to_string(state.options.chunk_bytes) + "\nagent_threads " +
                     std::to_string(state.options.agent_threads) + "\nagent_copy " +
                     spec.agent_copy + "\nchecks " + (spec.checks ? "on" : "off") + "\nboundaries";
  for (const std::uint64_t b : state.options.boundaries) text += " " + std::to_string(b);
  for (std::size_t owner = 0; owner < state.options.subscribers.size(); ++owner) {
    text += "\nsubscribers of device " + std::to_string(owner);
    for (const subscriber_range& r : state.options.subscribers[owner]) {
      text += " [" + std::to_string(r.begin) + ", " + std::to_string(r.end) + ") to mask " +
              std::to_string(r.devices);
    }
  }
  return text + "\n";
}

launch_plan plan_launch(const region_state& state, const region_spec& spec, std::uint32_t device,
                        const std::string& label) {
  launch_plan plan;
  if (!tracks_chunks(state.options.mechanism)) return plan;
  plan.chunks = cut_chunks(state, device);
  if (spec.producers.empty()) {
    for (const chunk& c : plan.chunks) plan.announced.targets.push_back(c.end - c.begin);
    return plan;
  }
  const region_producer& producer = spec.producers[device];
  try {
    plan.announced =
        announce(plan.chunks, producer.mapping, producer.blocks,
                 {state.options.boundaries[device], state.options.boundaries[device + 1]});
  } catch (const model_error& e) {
    throw usage_error(label + ", device " + std::to_string(device) + ": " + e.what());
  }
  return plan;
}

}  // namespace interlace::kernel
