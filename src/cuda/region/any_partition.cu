#include <algorithm>
#include <memory>
#include <string>

#include "interlace/base/errors.hpp"
#include "interlace/cuda/check.hpp"
#include "interlace/partition.hpp"
#include "interlace/partition_device.cuh"

namespace interlace::detail {

namespace {

// Each lane makes several updates, so that its warp fills packets.
constexpr std::uint64_t updates_a_lane = 16;
constexpr std::uint32_t update_threads = 256;
constexpr std::uint64_t most_update_blocks = 4096;

template <class T, combine Op>
struct update_from_arrays {
  static constexpr std::uint32_t threads = update_threads;

  partitioned<T, Op> array;
  local<const std::int64_t> elements;
  local<const T> values;

  template <class Block>
  INTERLACE_KERNEL void operator()(Block& block) const {
    block.each([&](auto lane) {
      for (auto k : lane.range(lane.global_index(), elements.size, lane.global_count())) {
        // A negative number becomes a number beyond the end of the array.
        lane.update(array, static_cast<std::uint64_t>(lane.load_index(elements, k)),
                    lane.load(values, k));
      }
    });
  }
};

void require_readable(const void* data, const char* what, std::uint32_t device, int ordinal) {
  cudaPointerAttributes found{};
  if (cudaPointerGetAttributes(&found, data) != cudaSuccess) (void)cudaGetLastError();
  const bool readable = found.type == cudaMemoryTypeManaged ||
                        (found.type == cudaMemoryTypeDevice && found.device == ordinal);
  if (readable) return;
  throw usage_error(std::string("the ") + what + " of device " + std::to_string(device) +
                    " are not in the memory of GPU " + std::to_string(ordinal) +
                    "; copy them there first");
}

template <class T, combine Op>
class typed_partition final : public any_partition {
 public:
  typed_partition(const group& g, const partition_spec& spec) : group_(g), array_(g, spec) {
    array_.template load<update_from_arrays<T, Op>>();
  }

  partition_base& base() override { return array_; }
  void update(std::uint32_t device, const std::int64_t* elements, const void* values,
              std::uint64_t count, CUstream_st* stream) override {
    if (count == 0) return;
    require_readable(elements, "elements", device, group_.ordinal(device));
    require_readable(values, "values", device, group_.ordinal(device));
    const update_from_arrays<T, Op> k{
        array_.view(device), {elements, count}, {static_cast<const T*>(values), count}};
    const std::uint64_t each = update_threads * updates_a_lane;
    array_.launch(device, k,
                  {std::min((count + each - 1) / each, most_update_blocks), update_threads},
                  stream);
  }
  void exchange(std::uint32_t device, CUstream_st* stream) override {
    array_.exchange(device, stream);
  }

 private:
  group group_;
  partitioned_array<T, Op> array_;
};

template <class T>
std::unique_ptr<any_partition> make_typed(const group& g, const partition_spec& spec,
                                          const std::string& type, const std::string& operation) {
  const auto made = [&]<combine Op>() -> std::unique_ptr<any_partition> {
    return std::make_unique<typed_partition<T, Op>>(g, spec);
  };
  if (operation == "add") return made.template operator()<combine::add>();
  if (operation == "min") return made.template operator()<combine::min>();
  if (operation == "max") return made.template operator()<combine::max>();
  if (operation == "store") return made.template operator()<combine::store>();
  if (operation != "or" && operation != "xor") {
    region::refuse(g, "there is no operation '" + operation +
                          "' for updates; give add, min, max, or, xor or store");
  }
  if constexpr (std::is_integral_v<T>) {
    if (operation == "or") return made.template operator()<combine::bit_or>();
    return made.template operator()<combine::bit_xor>();
  }
  region::refuse(g,
                 "the operation '" + operation + "' is for integers, and the elements are " + type);
}

}  // namespace

std::unique_ptr<any_partition> make_any_partition(const group& g, const partition_spec& spec,
                                                  const std::string& type,
                                                  const std::string& operation) {
  if (type == "int32") return make_typed<std::int32_t>(g, spec, type, operation);
  if (type == "int64") return make_typed<std::int64_t>(g, spec, type, operation);
  if (type == "uint32") return make_typed<std::uint32_t>(g, spec, type, operation);
  if (type == "uint64") return make_typed<std::uint64_t>(g, spec, type, operation);
  if (type == "float32") return make_typed<float>(g, spec, type, operation);
  if (type == "float64") return make_typed<double>(g, spec, type, operation);
  region::refuse(g, "a partitioned array of " + type +
                        " is not possible; use int32, int64, uint32, uint64, float32 or float64");
}

}  // namespace interlace::detail
