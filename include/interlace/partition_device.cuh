// Partitioned arrays for CUDA kernels of your own: kernels on all devices update elements of any
// device.
//
//   struct count {
//     static constexpr std::uint32_t threads = 256;
//     interlace::partitioned<std::uint64_t, interlace::combine::add> bins;
//     interlace::local<const std::uint32_t> keys;
//     template <class Block>
//     __device__ void operator()(Block& block) const {
//       block.each([&](auto lane) {
//         for (auto k : lane.range(lane.global_index(), keys.size, lane.global_count())) {
//           lane.update(bins, lane.load_index(keys, k), 1);
//         }
//       });
//     }
//   };
//
//   interlace::partition_spec spec;
//   spec.elements = n;
//   spec.mechanism = "packed";
//   interlace::partitioned_array<std::uint64_t, interlace::combine::add> bins(group, spec);
//   bins.load<count>();
//   for (std::uint32_t d : group.local_devices()) {
//     bins.begin(d, stream[d]);
//     bins.launch(d, count{bins.view(d), keys[d]}, {blocks, 256}, stream[d]);
//     bins.exchange(d, stream[d]);
//   }
//
// The kernels are written as docs/how-to/kernels.md describes. All elements begin as 0.
//
// Memory ordering: updates of an epoch have no order. Work on the owner's stream after the exchange
// sees all updates of the epoch. During the epoch, the owner's loads may see none, some or all of
// the updates. Only the owner may store an element, in an epoch in which no device updates it.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "interlace/cuda/check.hpp"
#include "interlace/cuda/memory/memory.hpp"
#include "interlace/kernel/partition.hpp"
#include "interlace/kernel_device.cuh"
#include "interlace/partition.hpp"

namespace interlace {

namespace device {

// Launches the kernels of an exchange on a stream.
struct stream_launcher {
  cudaStream_t stream = nullptr;
  template <class Kernel>
  void launch(std::uint32_t /*device*/, const Kernel& kernel, grid shape) const {
    run_grid<untracked, Kernel>
        <<<static_cast<unsigned int>(shape.blocks), shape.threads, 0, stream>>>(kernel);
    INTERLACE_CUDA_CHECK(cudaGetLastError());
  }
};

}  // namespace device

// An array in which each element is owned by one device of a group.
template <class T, combine Op>
class partitioned_array final : public partition_base {
  static_assert(std::is_integral_v<T> || (Op != combine::bit_or && Op != combine::bit_xor),
                "`or` and `xor` are for integers");

 public:
  // Allocates the array. All elements are 0. All ranks of a group must construct the array, with
  // equal specs. If any rank fails, all ranks throw that rank's error.
  partitioned_array(const group& g, const partition_spec& spec)
      : partition_base(g, spec, sizeof(T), Op, kernel::number_type_of<T>()) {
    load_entry(&device::run_grid<device::untracked, kernel::unpack_updates<T, Op>>);
  }

  // The device's part, in its memory.
  T* data(std::uint32_t device) const { return static_cast<T*>(parts(device)[device]); }
  // The argument through which a kernel of the device updates elements. It is valid for kernels of
  // the current epoch, and for graphs that captured these kernels.
  partitioned<T, Op> view(std::uint32_t device) const {
    return kernel::make_partitioned_view<T, Op>(state(device), device, nullptr);
  }

  // Loads a kernel on all devices of this process. A program must load its kernels before the first
  // epoch, because loading can wait for kernels that wait for other devices.
  template <class Kernel>
  void load() const {
    load_entry(&device::run_grid<device::untracked, Kernel>);
    load_entry(&device::run_packing<Kernel>);
  }
  // Enqueues a kernel that updates this array and no other partitioned array. The call does not
  // block. Throws usage_error if the packets of a block do not fit in its shared memory, and
  // model_error before `begin`.
  template <class Kernel>
  void launch(std::uint32_t device, const Kernel& kernel, grid shape, cudaStream_t stream) const {
    require_begun(device);
    if (shape.blocks == 0) return;
    const cuda::current_device on(ordinal(device));
    const std::unique_ptr<kernel::packing_table> table = packing(device, shape);
    const auto blocks = static_cast<unsigned int>(shape.blocks);
    if (table == nullptr) {
      const auto entry = &device::run_grid<device::untracked, Kernel>;
      allow_shared(entry, shape.shared_bytes);
      entry<<<blocks, shape.threads, shape.shared_bytes, stream>>>(kernel);
    } else {
      const auto entry = &device::run_packing<Kernel>;
      allow_shared(entry, shape.shared_bytes);
      entry<<<blocks, shape.threads, shape.shared_bytes, stream>>>(kernel, *table);
    }
    INTERLACE_CUDA_CHECK(cudaGetLastError());
  }

  // Ends the epoch: delivers all updates. Enqueues on `stream` and does not block.
  void exchange(std::uint32_t device, cudaStream_t stream) {
    const std::uint32_t parity = pass_barrier(device, stream);
    const cuda::current_device on(ordinal(device));
    device::stream_launcher launcher{stream};
    kernel::deliver_updates<T, Op>(launcher, state(device), device, parity);
  }

 private:
  template <class Entry>
  void load_entry(Entry* entry) const {
    for (const std::uint32_t d : local_devices()) {
      const cuda::current_device on(ordinal(d));
      cudaFuncAttributes loaded{};
      INTERLACE_CUDA_CHECK(cudaFuncGetAttributes(&loaded, entry));
    }
  }
  template <class Entry>
  static void allow_shared(Entry* entry, std::uint32_t bytes) {
    constexpr std::uint32_t always_allowed = 48U << 10U;
    if (bytes <= always_allowed) return;
    INTERLACE_CUDA_CHECK(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(bytes)));
  }
};

}  // namespace interlace
