// The host's functions of partitioned arrays for kernels of your own. Programs use the class
// `partitioned_array` of interlace/partition_device.cuh.
//
// Each element of a partitioned array is owned by one device of a group. Kernels of all devices
// update elements: they add to an element, take the minimum, and so on. Each update is combined
// with its element exactly once, at the latest by the exchange that ends the epoch.
//
// Memory: each device holds its part, and with `packed` also the queues for the packets of the
// other devices. A device takes two buffers. All buffers have the same size, which suffices for the
// largest part and for the largest queues.
//
// Calls, graphs, deadlines and errors are as with regions (interlace/region.hpp): an epoch of a
// device is begin, the kernels that update, and exchange, all on one stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "interlace/kernel/packing_table.hpp"
#include "interlace/kernel/region.hpp"
#include "interlace/region.hpp"

namespace interlace {

namespace cuda {
class shared_partition;
}  // namespace cuda

// The properties of a partitioned array. Every rank of a group must pass equal properties.
struct partition_spec {
  std::string name;  // name for messages
  std::uint64_t elements = 0;
  // Device d owns the elements [boundaries[d], boundaries[d + 1]). An empty list means equal parts.
  std::vector<std::uint64_t> boundaries;
  // "inline": each update is an atomic in the owner's memory. "packed": warps send many updates as
  // one packet, and the exchange combines them.
  std::string mechanism = kernel::mechanism_name(kernel::mechanism::inline_stores);
  // The members below are for `packed` (interlace/kernel/region.hpp, region_options).
  std::uint32_t packet_bytes = kernel::region_options{}.packet_bytes;
  std::uint64_t queued_updates = 0;  // 0 means the number of elements of the largest part
  bool combine_in_packets = true;
  std::uint32_t update_windows = 1;
  // Debug mode: `check` reports an update of an element beyond the end of the array. In every mode,
  // such an update changes nothing.
  bool checks = false;
};

// The functions of a partitioned array that do not depend on the type of its elements.
class partition_base {
 public:
  // Waits for the work that runs on the devices. All ranks must destroy their arrays in the same
  // order.
  virtual ~partition_base();
  partition_base(const partition_base&) = delete;
  partition_base& operator=(const partition_base&) = delete;
  partition_base(partition_base&&) = delete;
  partition_base& operator=(partition_base&&) = delete;

  // The number of elements of all parts together.
  std::uint64_t elements() const;
  // The elements that a device owns.
  kernel::element_range part(std::uint32_t device) const;
  // The parts of all devices, indexed by device, at the addresses by which this device accesses
  // them. With `inline`, kernels in other languages can update elements there, by atomics at system
  // scope.
  std::vector<void*> parts(std::uint32_t device) const;

  // Begins an epoch of the device. The call enqueues on `stream` and does not block.
  void begin(std::uint32_t device, CUstream_st* stream);
  // Waits for the stream. Afterwards throws model_error if a kernel of the device updated an
  // element beyond the end of the array. The error names the device, the block, the lane and the
  // element. Only the debug mode finds such updates.
  void check(std::uint32_t device, CUstream_st* stream);

 protected:
  partition_base(const group& g, const partition_spec& spec, std::uint32_t element_bytes,
                 combine operation, kernel::number_type type);

  // The array's state in the device's current epoch.
  kernel::region_state state(std::uint32_t device) const;
  // The facts that a kernel needs in order to pack updates. Adds the bytes of the packets to the
  // block's shared memory in `shape`. There is no value if updates are not packed. Throws
  // usage_error if the packets do not fit in a block's shared memory.
  std::unique_ptr<kernel::packing_table> packing(std::uint32_t device, grid& shape) const;
  // Throws model_error unless an epoch of the device has begun.
  void require_begun(std::uint32_t device) const;
  // Passes the barrier of the exchange. Returns the parity of the epoch that ended.
  std::uint32_t pass_barrier(std::uint32_t device, CUstream_st* stream);
  int ordinal(std::uint32_t device) const;
  const std::vector<std::uint32_t>& local_devices() const;

 private:
  std::unique_ptr<cuda::shared_partition> state_;
};

namespace detail {

// A partitioned array whose element type and operation are known only at run time. A kernel of the
// library makes its updates.
class any_partition {
 public:
  any_partition() = default;
  virtual ~any_partition() = default;
  any_partition(const any_partition&) = delete;
  any_partition& operator=(const any_partition&) = delete;
  any_partition(any_partition&&) = delete;
  any_partition& operator=(any_partition&&) = delete;

  virtual partition_base& base() = 0;
  // Enqueues the updates of elements[k] with values[k] for all k below `count`. Throws usage_error
  // unless both arrays are in memory that the device's GPU can read.
  virtual void update(std::uint32_t device, const std::int64_t* elements, const void* values,
                      std::uint64_t count, CUstream_st* stream) = 0;
  virtual void exchange(std::uint32_t device, CUstream_st* stream) = 0;
};

// Makes a partitioned array. `type` is a name such as "float32", and `operation` is add, min, max,
// or, xor or store. Throws usage_error for other names, and for `or` and `xor` of floats.
std::unique_ptr<any_partition> make_any_partition(const group& g, const partition_spec& spec,
                                                  const std::string& type,
                                                  const std::string& operation);

}  // namespace detail

}  // namespace interlace
