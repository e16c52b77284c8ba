// The facts by which kernels pack updates, and the report of a wrong update. Both nodes of GPUs and
// the partitioned arrays of programs use this file.
#pragma once

#include <cstdint>
#include <string>

#include "interlace/kernel/packing_table.hpp"
#include "interlace/kernel/region.hpp"

namespace interlace::kernel {

// The facts that a device's kernel on a GPU needs in order to pack updates. `room` is the most
// shared memory that a block on the GPU can have. Adds the bytes of the packets to the block's
// shared memory in `shape`. Throws usage_error as check_packing does.
packing_table make_packing_table(const region_state& state, std::uint32_t device, number_type type,
                                 combine operation, std::uint64_t room, std::uint32_t gpu,
                                 grid& shape);

// Says which update beyond the end of an array of `elements` elements a device noted.
std::string describe_mistake(const update_mistake& mistake, std::uint32_t device,
                             std::uint64_t elements);

}  // namespace interlace::kernel
