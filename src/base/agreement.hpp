// Decisions that all ranks of a group take together. Each rank contributes a result, or says why it
// has none. Afterwards, either all ranks continue or no rank continues.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace interlace {

// Takes this rank's bytes and returns the bytes of all ranks, as in group::join.
using gather_function = std::function<std::vector<std::string>(const std::string& own)>;

// Returns the results of `make` on all ranks, in rank order. If `make` threw on any rank, all ranks
// throw. The rank on which `make` threw throws its own error. The other ranks throw a usage_error
// with the message of that error and the number of that rank. Also throws usage_error if the gather
// does not return `size` entries with this rank's entry at `rank`.
std::vector<std::string> agree(const gather_function& gather, std::uint32_t rank,
                               std::uint32_t size, const std::function<std::string()>& make);

// Takes the lines "name value" of each rank, which must be equal on all ranks. Throws usage_error
// if a rank differs from rank 0. The error names the first line that differs. `what` names the
// object, for example "region 0".
void require_same(const std::vector<std::string>& of_ranks, const std::string& what);

}  // namespace interlace
