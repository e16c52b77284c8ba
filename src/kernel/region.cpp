#include "interlace/kernel/region.hpp"

#include <algorithm>
#include <string>

#include "base/size_text.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::kernel {

bool stores_to_readers(const region_options& options) {
  return !options.readers.empty() && row_of(options.mechanism).stores_to_readers;
}

bool region_state::receives(std::uint32_t device, std::uint64_t element) const {
  const auto above =
      std::upper_bound(options.boundaries.begin(), options.boundaries.end(), element);
  const auto owner = static_cast<std::uint32_t>(above - options.boundaries.begin()) - 1;
  if (owner == device || options.subscribers.empty()) return true;
  if (!options.readers.empty()) {
    return (options.readers[element >> options.reader_shift] >> device & 1U) != 0;
  }
  const auto& ranges = options.subscribers[owner];
  return std::any_of(ranges.begin(), ranges.end(), [&](const subscriber_range& r) {
    return element >= r.begin && element < r.end && (r.devices >> device & 1U) != 0;
  });
}

std::vector<delivery> region_state::deliveries() const {
  std::vector<delivery> all;
  for (std::uint32_t owner = 0; owner < devices(); ++owner) {
    const auto own =
        deliveries(owner, {{options.boundaries[owner], options.boundaries[owner + 1]}});
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::vector<delivery> region_state::deliveries(std::uint32_t owner,
                                               const std::vector<element_range>& complete) const {
  std::vector<delivery> result;
  // The loop starts with the device after the owner, so that different senders start with different
  // receivers.
  for (std::uint32_t step = 1; step < devices(); ++step) {
    const std::uint32_t to = (owner + step) % devices();
    std::vector<element_range> wanted;
    if (options.subscribers.empty()) {
      wanted = complete;
    } else {
      for (const subscriber_range& s : options.subscribers[owner]) {
        if ((s.devices >> to & 1U) == 0) continue;
        for (const element_range& r : complete) {
          wanted.push_back({std::max(r.begin, s.begin), std::min(r.end, s.end)});
        }
      }
      wanted = merge_ranges(std::move(wanted));
    }
    for (const element_range& r : wanted) {
      if (r.begin < r.end) result.push_back({owner, to, r.begin, r.end});
    }
  }
  return result;
}

void check_front(std::uint64_t elements, const region_state& state) {
  if (elements == state.elements) return;
  throw model_error("a front of " + std::to_string(state.elements) + " elements is set from " +
                    std::to_string(elements) + " values");
}

namespace {

// Throws model_error unless every element has a set of readers and all of these readers subscribe
// to the element.
void check_readers(const region_options& o, std::uint32_t devices) {
  static_assert(max_devices <= 16, "a mask of readers has 16 bits");
  const std::uint64_t elements = o.boundaries.back();
  const std::uint64_t group = std::uint64_t{1} << o.reader_shift;
  if (o.readers.size() != (elements + group - 1) / group) {
    throw model_error("a region of " + std::to_string(elements) + " elements names readers for " +
                      std::to_string(o.readers.size()) + " groups of " + std::to_string(group) +
                      " elements");
  }
  std::vector<std::uint16_t> subscribed(elements, 0);
  for (std::uint32_t owner = 0; owner < devices; ++owner) {
    for (const subscriber_range& r : o.subscribers[owner]) {
      for (std::uint64_t e = r.begin; e < r.end; ++e) {
        subscribed[e] = static_cast<std::uint16_t>(subscribed[e] | r.devices);
      }
    }
  }
  for (std::uint64_t e = 0; e < elements; ++e) {
    if ((o.readers[e >> o.reader_shift] & ~subscribed[e]) == 0) continue;
    throw model_error("element " + std::to_string(e) +
                      " has a reader that does not subscribe to it");
  }
}

}  // namespace

region_state make_region_state(region_options options, std::uint32_t element_bytes,
                               std::uint32_t devices) {
  if (options.boundaries.size() != devices + std::size_t{1} || options.boundaries.front() != 0 ||
      !std::is_sorted(options.boundaries.begin(), options.boundaries.end())) {
    throw model_error("a region needs ascending boundaries from 0, one boundary more than devices");
  }
  if (row_of(options.mechanism).packs_updates) {
    throw usage_error(
        std::string(mechanism_name(options.mechanism)) +
        " moves only updates of partitioned arrays, not regions; use another mechanism");
  }
  if (!options.subscribers.empty() && options.subscribers.size() != devices) {
    throw model_error("a region needs subscribers for every owner, or for none");
  }
  for (std::uint32_t owner = 0; owner < options.subscribers.size(); ++owner) {
    const auto& ranges = options.subscribers[owner];
    if (ranges.size() > max_subscriber_ranges) {
      throw model_error("device " + std::to_string(owner) + " names " +
                        std::to_string(ranges.size()) + " subscriber ranges; at most " +
                        std::to_string(max_subscriber_ranges) + " are possible");
    }
    for (const subscriber_range& r : ranges) {
      if (r.begin > r.end || r.begin < options.boundaries[owner] ||
          r.end > options.boundaries[owner + 1] || (r.devices >> owner & 1U) != 0 ||
          (r.devices >> devices) != 0) {
        throw model_error("a subscriber range of device " + std::to_string(owner) +
                          " is outside of the device's part, or names the device itself or a "
                          "device that does not exist");
      }
    }
  }
  if (!options.readers.empty()) {
    if (options.subscribers.empty()) throw model_error("a region names readers but no subscribers");
    check_readers(options, devices);
  }
  const mechanism_parameter_row& threads = row_of(mechanism_parameter::agent_threads);
  if (options.agent_threads < threads.least || options.agent_threads > threads.most ||
      options.agent_threads % threads.multiple != 0) {
    throw usage_error("an agent cannot have " + std::to_string(options.agent_threads) +
                      " threads; give a multiple of " + std::to_string(threads.multiple) +
                      " from " + std::to_string(threads.least) + " to " +
                      std::to_string(threads.most));
  }
  const std::uint64_t most_chunk_bytes = row_of(mechanism_parameter::chunk_bytes).most;
  if (options.chunk_bytes > most_chunk_bytes) {
    throw usage_error("chunks cannot have " + std::to_string(options.chunk_bytes) +
                      " bytes; at most " + std::to_string(most_chunk_bytes) + " (" +
                      size_text(most_chunk_bytes) + ") are possible");
  }
  region_state state;
  state.element_bytes = element_bytes;
  state.elements = options.boundaries.back();
  state.options = std::move(options);
  return state;
}

region_state make_reduction_state(std::uint64_t elements, std::uint32_t copies,
                                  std::uint32_t element_bytes) {
  if (elements == 0 || copies == 0)
    throw model_error("a reduction needs at least one element and one copy");
  region_state state;
  state.is_reduction = true;
  state.element_bytes = element_bytes;
  state.elements = elements;
  state.copies = copies;
  return state;
}

}  // namespace interlace::kernel
