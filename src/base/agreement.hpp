// Decisions that all ranks of a group take together: each brings something or says why it cannot,
// and all go on or none does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace interlace {

// As group::join takes it: bytes in, all ranks' bytes out.
using gather_function = std::function<std::vector<std::string>(const std::string& own)>;

// What `make` returned on every rank, in their order. Where it threw on any, all ranks throw: that
// one its own error, the others a usage_error with the message and the rank. Throws usage_error
// where the gather does not return `size` entries with the own one at `rank`.
std::vector<std::string> agree(const gather_function& gather, std::uint32_t rank,
                               std::uint32_t size, const std::function<std::string()>& make);

// Lines "name value" of what all ranks must have alike: throws usage_error that names the first
// line in which a rank differs from rank 0. `what` is the object, as "region 0".
void require_same(const std::vector<std::string>& of_ranks, const std::string& what);

}  // namespace interlace
