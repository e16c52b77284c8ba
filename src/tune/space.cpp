// The candidates that a region allows.
#include <algorithm>
#include <utility>

#include "base/size_text.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/tune.hpp"
#include "kernel/chunks.hpp"
#include "tune/region_options.hpp"

namespace interlace {

namespace {

using parameter = kernel::mechanism_parameter;

const char* name_of(parameter p) { return kernel::row_of(p).name; }

void check_values(const std::string& name, const std::vector<std::uint64_t>& values) {
  const bool ascending =
      std::adjacent_find(values.begin(), values.end(), std::greater_equal<>()) == values.end();
  if (values.empty() || values.front() == 0 || !ascending) {
    throw usage_error("the " + name + " to try must be above 0 and ascend; correct the list");
  }
}

// Returns the chunk sizes to try for a mechanism. Adds all other sizes to `excluded`.
std::vector<std::uint64_t> possible_chunks(const kernel::mechanism_row& mechanism,
                                           const tune_region& region, const tune_grid& grid,
                                           std::vector<tune_excluded>& excluded) {
  const auto exclude = [&](std::uint64_t chunk, std::string reason) {
    excluded.push_back(
        {{mechanism.name, {{name_of(parameter::chunk_bytes), chunk}}}, std::move(reason)});
  };
  const std::uint64_t by_waits =
      region.part_bytes / grid.most_waits + (region.part_bytes % grid.most_waits != 0 ? 1 : 0);
  const std::uint64_t least =
      mechanism.waits_for_each_chunk
          ? std::min(std::max(grid.least_copied_bytes, by_waits), grid.chunk_bytes.back())
          : 0;

  std::vector<std::uint64_t> found;
  for (const std::uint64_t chunk : grid.chunk_bytes) {
    if (chunk < region.element_bytes) {
      exclude(chunk, "an element has " + size_text(region.element_bytes));
    } else if (chunk < least && chunk < grid.least_copied_bytes) {
      exclude(chunk, "a chunk below " + size_text(grid.least_copied_bytes) +
                         " is too small to be worth a wait and a copy");
    } else if (chunk < least) {
      exclude(chunk, "a part of " + size_text(region.part_bytes) + " would need more than " +
                         std::to_string(grid.most_waits) + " waits");
    } else if (!found.empty() && kernel::is_one_chunk(region.part_bytes, found.back())) {
      exclude(chunk, "it gives the same chunk as " + size_text(found.back()) + ": a part of " +
                         size_text(region.part_bytes) + " is one chunk");
    } else {
      found.push_back(chunk);
    }
  }
  return found;
}

const std::vector<std::uint64_t>& values_of(parameter p, const tune_grid& grid) {
  switch (p) {
    case parameter::ranges:
      return grid.ranges;
    case parameter::chunk_bytes:
      return grid.chunk_bytes;
    case parameter::agent_threads:
      return grid.agent_threads;
    case parameter::bulk_threads:
      return grid.bulk_threads;
  }
  throw model_error("a parameter has no values to try");
}

// Returns the values to try for each of these parameters. Returns nothing if one of the parameters
// has no value to try.
std::optional<std::vector<tune_axis>> axes_of(kernel::parameter_list parameters,
                                              const tune_grid& grid,
                                              const std::vector<std::uint64_t>& chunks) {
  std::vector<tune_axis> axes;
  for (const parameter p : parameters) {
    axes.push_back({name_of(p), p == parameter::chunk_bytes ? chunks : values_of(p, grid)});
    if (axes.back().values.empty()) return std::nullopt;
  }
  return axes;
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

std::vector<std::uint64_t> tune_grid::tried(kernel::mechanism_parameter of) {
  const kernel::mechanism_parameter_row& row = kernel::row_of(of);
  return powers_of_two(row.first_tried, row.last_tried);
}

tune_space tune_space_of(const tune_region& region, const std::vector<std::string>& mechanisms,
                         const tune_grid& grid) {
  if (region.peers == 0) throw usage_error("one device sends nothing; give at least 2 devices");
  if (grid.most_waits == 0) throw usage_error("a part is at least one chunk; allow 1 wait");
  for (const auto p : {parameter::ranges, parameter::chunk_bytes, parameter::agent_threads}) {
    check_values(name_of(p), values_of(p, grid));
  }
  if (!grid.bulk_threads.empty()) check_values(name_of(parameter::bulk_threads), grid.bulk_threads);
  tune_space space;
  for (const std::string& name : mechanisms) {
    const kernel::mechanism_row& row = kernel::row_of(kernel::parse_mechanism(name));
    if (row.families.empty()) space.families.push_back({name, {}, row.control});
    std::vector<std::uint64_t> chunks;
    if (row.tracks_chunks) chunks = possible_chunks(row, region, grid, space.excluded);
    for (const kernel::parameter_list& parameters : row.families) {
      auto axes = axes_of(parameters, grid, chunks);
      if (axes) space.families.push_back({name, std::move(*axes), row.control});
    }
  }
  return space;
}

kernel::region_options with_candidate(const tune_candidate& candidate,
                                      kernel::region_options options) {
  options.mechanism = kernel::parse_mechanism(candidate.mechanism);
  const auto given = [&](parameter p) { return candidate.parameter(name_of(p)); };
  if (const auto ranges = given(parameter::ranges)) {
    options.split_ranges = static_cast<std::uint32_t>(*ranges);
  }
  if (const auto chunk = given(parameter::chunk_bytes)) options.chunk_bytes = *chunk;
  if (const auto threads = given(parameter::agent_threads)) {
    options.agent_threads = static_cast<std::uint32_t>(*threads);
    options.agent_copy = kernel::agent_copy::vectors;
  }
  if (const auto threads = given(parameter::bulk_threads)) {
    options.agent_threads = static_cast<std::uint32_t>(*threads);
    options.agent_copy = kernel::agent_copy::bulk;
  }
  return options;
}

}  // namespace interlace
