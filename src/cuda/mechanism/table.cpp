#include "cuda/mechanism/table.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/errors.hpp"

namespace interlace::cuda {

namespace {

struct row {
  kernel::mechanism which;
  std::unique_ptr<node_mechanism> (*on_node)(const node_parts&);
  const region_mechanism& (*of_regions)();  // null: regions of groups do not have it
};

constexpr std::array rows{
    row{kernel::mechanism::bulk_copy, make_bulk_copy, region_by_bulk_copy},
    row{kernel::mechanism::multi_path, make_multi_path, nullptr},
    row{kernel::mechanism::split, make_split, nullptr},
    row{kernel::mechanism::inline_stores, make_inline_stores, region_by_inline_stores},
    row{kernel::mechanism::polling, make_polling, region_by_polling},
    row{kernel::mechanism::device_launch, make_device_launch, nullptr},
    row{kernel::mechanism::copy_engine, make_copy_engine, region_by_copy_engine},
    row{kernel::mechanism::nccl, make_nccl, nullptr},
    row{kernel::mechanism::unified_memory, make_unified_memory, nullptr},
};

const row* find(kernel::mechanism which) {
  const auto* found =
      std::find_if(rows.begin(), rows.end(), [which](const row& r) { return r.which == which; });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

std::unique_ptr<node_mechanism> make_mechanism(kernel::mechanism which, const node_parts& of) {
  kernel::check_has(kernel::node_kind::cuda, which);
  const row* r = find(which);
  if (r == nullptr) {
    throw model_error(std::string(kernel::mechanism_name(which)) +
                      " runs on GPUs by its row and has no file here");
  }
  return r->on_node(of);
}

const region_mechanism& mechanism_of_regions(kernel::mechanism which) {
  const row* r = find(which);
  if (r != nullptr && r->of_regions != nullptr) return r->of_regions();
  throw usage_error(std::string(kernel::mechanism_name(which)) +
                    " is not a mechanism of regions of a group");
}

}  // namespace interlace::cuda
