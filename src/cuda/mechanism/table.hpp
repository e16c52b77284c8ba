// The mechanisms of GPUs: a row and a file for each.
#pragma once

#include <memory>

#include "cuda/mechanism/node_mechanism.hpp"
#include "cuda/mechanism/region_mechanism.hpp"
#include "kernel/region.hpp"

namespace interlace::cuda {

// Throws usage_error, which says what else to do, for a mechanism that no GPU has.
std::unique_ptr<node_mechanism> make_mechanism(kernel::mechanism which, const node_parts& of);

// Throws usage_error for one that regions of groups do not have.
const region_mechanism& mechanism_of_regions(kernel::mechanism which);

// What the rows name: each is in the file of its mechanism.
std::unique_ptr<node_mechanism> make_bulk_copy(const node_parts& of);
std::unique_ptr<node_mechanism> make_multi_path(const node_parts& of);
std::unique_ptr<node_mechanism> make_split(const node_parts& of);
std::unique_ptr<node_mechanism> make_inline_stores(const node_parts& of);
std::unique_ptr<node_mechanism> make_polling(const node_parts& of);
std::unique_ptr<node_mechanism> make_device_launch(const node_parts& of);
std::unique_ptr<node_mechanism> make_copy_engine(const node_parts& of);
std::unique_ptr<node_mechanism> make_nccl(const node_parts& of);
std::unique_ptr<node_mechanism> make_unified_memory(const node_parts& of);
const region_mechanism& region_by_bulk_copy();
const region_mechanism& region_by_inline_stores();
const region_mechanism& region_by_polling();
const region_mechanism& region_by_copy_engine();

}  // namespace interlace::cuda
