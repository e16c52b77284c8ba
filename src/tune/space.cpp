// Which candidates a region leaves.
#include <algorithm>
#include <utility>

#include "base/errors.hpp"
#include "base/units.hpp"
#include "interlace/tune.hpp"
#include "kernel/chunks.hpp"
#include "tune/region_options.hpp"

namespace interlace {

namespace {

std::string size_text(std::uint64_t bytes) {
  const std::pair<std::uint64_t, const char*> units[] = {
      {gib, " GiB"}, {mib, " MiB"}, {kib, " KiB"}};
  for (const auto& [size, name] : units) {
    if (bytes >= size && bytes % size == 0) return std::to_string(bytes / size) + name;
  }
  return std::to_string(bytes) + " B";
}

void check_values(const std::string& name, const std::vector<std::uint64_t>& values) {
  const bool ascending =
      std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
  if (values.empty() || values.front() == 0 || !ascending) {
    throw usage_error("the " + name + " to try must be above 0 and ascend; correct the list");
  }
}

// The chunks to try of a mechanism; the others go to `excluded`.
std::vector<std::uint64_t> possible_chunks(const std::string& mechanism, const tune_region& region,
                                           const tune_grid& grid,
                                           std::vector<tune_excluded>& excluded) {
  const bool waits = mechanism == "copy-engine";
  const auto exclude = [&](std::uint64_t chunk, std::string reason) {
    excluded.push_back({{mechanism, {{"chunk_bytes", chunk}}}, std::move(reason)});
  };
  const std::uint64_t by_waits =
      region.part_bytes / grid.most_waits + (region.part_bytes % grid.most_waits != 0 ? 1 : 0);
  const std::uint64_t least =
      !waits ? 0 : std::min(std::max(grid.least_copied_bytes, by_waits), grid.chunk_bytes.back());

  std::vector<std::uint64_t> found;
  for (const std::uint64_t chunk : grid.chunk_bytes) {
    if (chunk < region.element_bytes) {
      exclude(chunk, "an element has " + size_text(region.element_bytes));
    } else if (chunk < least && chunk < grid.least_copied_bytes) {
      exclude(chunk, "a chunk below " + size_text(grid.least_copied_bytes) +
                         " is not worth a wait and a copy");
    } else if (chunk < least) {
      exclude(chunk, "a part of " + size_text(region.part_bytes) + " would need more than " +
                         std::to_string(grid.most_waits) + " waits");
    } else if (!found.empty() && kernel::is_one_chunk(region.part_bytes, found.back())) {
      exclude(chunk, "the same as " + size_text(found.back()) + ": a part of " +
                         size_text(region.part_bytes) + " is one chunk");
    } else {
      found.push_back(chunk);
    }
  }
  return found;
}

}  // namespace

std::optional<std::uint64_t> tune_candidate::parameter(std::string_view name) const {
  for (const tune_parameter& it : parameters) {
    if (it.name == name) return it.value;
  }
  return std::nullopt;
}

std::vector<std::uint64_t> tune_grid::powers_of_two(std::uint64_t first, std::uint64_t last) {
  std::vector<std::uint64_t> found;
  for (std::uint64_t value = first; value <= last; value *= 2) found.push_back(value);
  return found;
}

tune_space tune_space_of(const tune_region& region, const std::vector<std::string>& mechanisms,
                         const tune_grid& grid) {
  if (region.peers == 0) throw usage_error("one device sends nothing; give at least 2 devices");
  if (grid.most_waits == 0) throw usage_error("a part is at least one chunk; allow 1 wait");
  check_values("ranges", grid.ranges);
  check_values("chunk_bytes", grid.chunk_bytes);
  check_values("agent_threads", grid.agent_threads);
  if (!grid.bulk_threads.empty()) check_values("bulk_threads", grid.bulk_threads);
  tune_space space;
  for (const std::string& mechanism : mechanisms) {
    tune_family family{mechanism, {}, mechanism == "bulk-copy" || mechanism == "split"};
    bool possible = true;
    if (mechanism == "split") family.axes.push_back({"ranges", grid.ranges});
    const bool launches = mechanism == "polling" || mechanism == "device-launch";
    if (launches || mechanism == "copy-engine" || mechanism == "proact-hardware") {
      family.axes.push_back(
          {"chunk_bytes", possible_chunks(mechanism, region, grid, space.excluded)});
      possible = !family.axes.back().values.empty();
    }
    tune_family in_bulk = family;
    if (launches) family.axes.push_back({"agent_threads", grid.agent_threads});
    if (possible) space.families.push_back(std::move(family));
    if (possible && mechanism == "polling" && !grid.bulk_threads.empty()) {
      in_bulk.axes.push_back({"bulk_threads", grid.bulk_threads});
      space.families.push_back(std::move(in_bulk));
    }
  }
  return space;
}

kernel::region_options with_candidate(const tune_candidate& candidate,
                                      kernel::region_options options) {
  options.mechanism = kernel::parse_mechanism(candidate.mechanism);
  if (const auto ranges = candidate.parameter("ranges")) {
    options.split_ranges = static_cast<std::uint32_t>(*ranges);
  }
  if (const auto chunk = candidate.parameter("chunk_bytes")) options.chunk_bytes = *chunk;
  if (const auto threads = candidate.parameter("agent_threads")) {
    options.agent_threads = static_cast<std::uint32_t>(*threads);
    options.agent_copy = kernel::agent_copy::vectors;
  }
  if (const auto threads = candidate.parameter("bulk_threads")) {
    options.agent_threads = static_cast<std::uint32_t>(*threads);
    options.agent_copy = kernel::agent_copy::bulk;
  }
  return options;
}

}  // namespace interlace
