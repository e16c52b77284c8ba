// The functions of the CUDA driver that the copy engine calls, as a table of pointers. The program
// therefore does not link CUDA, the engine compiles without a toolkit, and tests can supply their
// own driver.
//
// Types and values are those of the driver API of CUDA 12.0 (public documentation). Every later
// driver has these functions in the same form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUgraphExec_st;
struct CUuserObject_st;
struct CUmemPoolHandle_st;
struct CUmod_st;
struct CUfunc_st;

namespace interlace::cuda {

using device_address = unsigned long long;  // CUdeviceptr

// The results that the engine distinguishes. Any other result is a failure.
namespace driver_result {
inline constexpr int success = 0;
inline constexpr int invalid_value = 1;
inline constexpr int out_of_memory = 2;
inline constexpr int deinitialized = 4;
inline constexpr int invalid_context = 201;
inline constexpr int no_binary_for_gpu = 209;
inline constexpr int not_ready = 600;
inline constexpr int peer_access_already_enabled = 704;
}  // namespace driver_result

enum pointer_attribute : int {
  pointer_context = 1,
  pointer_memory_type = 2,
  pointer_on_device = 3,  // address by which kernels reach the memory
  pointer_buffer_id = 7,
  pointer_is_managed = 8,
  pointer_device = 9,
  pointer_is_plain = 10,  // memory from cuMemAlloc, which legacy IPC handles can share
  pointer_range_begin = 11,
  pointer_range_bytes = 12,
  pointer_pool = 17,
  pointer_mapping_bytes = 18,
  pointer_mapping_base = 19,
};

enum memory_type : unsigned { memory_unknown = 0, memory_host = 1, memory_device = 2 };

// The driver's CUmemLocation.
struct memory_location {
  int type = 1;  // 1 means a GPU
  int id = 0;
};
inline constexpr int access_read_and_write = 3;

// The driver's CUmemAllocationProp, for memory of a GPU.
struct physical_properties {
  int type = 1;  // 1 means pinned memory
  int handle_types = 0;
  memory_location location;
  void* reserved_0 = nullptr;
  unsigned char compression = 0;
  unsigned char gpu_direct_rdma = 0;
  unsigned short usage = 0;
  unsigned char reserved_1[4] = {};
};
// The driver's CUmemAccessDesc.
struct access_description {
  memory_location location;
  int access = access_read_and_write;
};
using physical_memory = unsigned long long;  // CUmemGenericAllocationHandle
inline constexpr int granularity_minimum = 0;
inline constexpr int attribute_rdma_of_mapped_memory = 110;

inline constexpr unsigned unified_memory_type = 4;
inline constexpr unsigned event_without_timing = 2;
inline constexpr unsigned stream_non_blocking = 1;
// The handles of the default streams. The null handle means the legacy default stream, too.
inline constexpr std::uintptr_t legacy_stream = 1;
inline constexpr std::uintptr_t per_thread_stream = 2;
inline constexpr unsigned host_memory_portable = 1;
inline constexpr int capture_mode_relaxed = 2;
inline constexpr int capture_none = 0;
inline constexpr int capture_active = 1;
inline constexpr unsigned capture_set_dependencies = 1;
inline constexpr unsigned user_object_unsynchronized = 1;
inline constexpr unsigned graph_takes_user_object = 1;

// The driver's CUDA_MEMCPY3D. All copies here are contiguous and between unified addresses.
struct memcpy_3d {
  std::size_t from_x = 0, from_y = 0, from_z = 0, from_lod = 0;
  unsigned from_type = unified_memory_type;
  const void* from_host = nullptr;
  device_address from_device = 0;
  void* from_array = nullptr;
  void* reserved_0 = nullptr;
  std::size_t from_pitch = 0, from_height = 0;
  std::size_t to_x = 0, to_y = 0, to_z = 0, to_lod = 0;
  unsigned to_type = unified_memory_type;
  void* to_host = nullptr;
  device_address to_device = 0;
  void* to_array = nullptr;
  void* reserved_1 = nullptr;
  std::size_t to_pitch = 0, to_height = 0;
  std::size_t width_bytes = 0, height = 1, depth = 1;
};

// The driver's CUDA_KERNEL_NODE_PARAMS_v2.
struct kernel_node {
  CUfunc_st* function = nullptr;
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
  void** parameters = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;
  CUctx_st* context = nullptr;  // context of the function
};

// The driver's CUmemcpyAttributes.
struct batch_attributes {
  int source_order = 1;  // sources are read in the order of the stream
  memory_location source{.type = 0}, destination{.type = 0};  // no hints
  unsigned flags = 0;
};

memcpy_3d contiguous_copy(device_address to, device_address from, std::size_t bytes);

struct driver_table {
  // Version of CUDA that the driver supports, such as 12020 for 12.2; 0 if it is not known.
  int version = 0;

  int (*error_name)(int, const char**) = nullptr;

  int (*device_count)(int*) = nullptr;
  int (*device_name)(char*, int, int) = nullptr;
  int (*device_bus_id)(char*, int, int) = nullptr;
  int (*device_attribute)(int*, int, int) = nullptr;
  int (*can_access_peer)(int*, int, int) = nullptr;

  int (*primary_retain)(CUctx_st**, int) = nullptr;
  int (*primary_release)(int) = nullptr;
  int (*primary_state)(int, unsigned* flags, int* active) = nullptr;
  int (*push)(CUctx_st*) = nullptr;
  int (*pop)(CUctx_st**) = nullptr;
  int (*current)(CUctx_st**) = nullptr;
  int (*enable_peer)(CUctx_st*, unsigned) = nullptr;  // enables access from the current context
  int (*context_synchronize)() = nullptr;             // waits for the current context
  int (*current_gpu)(int*) = nullptr;

  int (*pointer_attributes)(unsigned, int*, void**, device_address) = nullptr;
  int (*allocate)(device_address*, std::size_t) = nullptr;
  int (*free)(device_address) = nullptr;
  int (*allocate_host)(void**, std::size_t, unsigned) = nullptr;
  int (*free_host)(void*) = nullptr;
  int (*host_register)(void*, std::size_t, unsigned) = nullptr;
  int (*host_unregister)(void*) = nullptr;
  // Free and total memory of the current GPU.
  int (*memory_info)(std::size_t*, std::size_t*) = nullptr;

  int (*granularity)(std::size_t*, const physical_properties*, int) = nullptr;
  int (*reserve)(device_address*, std::size_t, std::size_t, device_address,
                 unsigned long long) = nullptr;
  int (*free_reserved)(device_address, std::size_t) = nullptr;
  int (*physical_create)(physical_memory*, std::size_t, const physical_properties*,
                         unsigned long long) = nullptr;
  int (*physical_release)(physical_memory) = nullptr;
  int (*map)(device_address, std::size_t, std::size_t, physical_memory,
             unsigned long long) = nullptr;
  int (*unmap)(device_address, std::size_t) = nullptr;
  int (*set_access)(device_address, std::size_t, const access_description*, std::size_t) = nullptr;

  int (*pool_access)(int*, CUmemPoolHandle_st*, memory_location*) = nullptr;
  int (*memory_access)(unsigned long long*, const memory_location*, device_address) = nullptr;
  int (*copy)(device_address, device_address, std::size_t, CUstream_st*) = nullptr;
  // The function in the form of CUDA 12.8, or null if the driver is older.
  int (*copy_batch)(device_address*, device_address*, std::size_t*, std::size_t, batch_attributes*,
                    std::size_t*, std::size_t, std::size_t*, CUstream_st*) = nullptr;
  int (*set_bytes)(device_address, unsigned char, std::size_t, CUstream_st*) = nullptr;

  int (*module_load)(CUmod_st**, const void*) = nullptr;  // loads into the current context
  int (*module_unload)(CUmod_st*) = nullptr;
  int (*module_function)(CUfunc_st**, CUmod_st*, const char*) = nullptr;
  int (*launch)(CUfunc_st*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                CUstream_st*, void**, void**) = nullptr;

  int (*stream_create)(CUstream_st**, unsigned) = nullptr;
  int (*stream_destroy)(CUstream_st*) = nullptr;
  int (*stream_synchronize)(CUstream_st*) = nullptr;
  int (*stream_wait)(CUstream_st*, CUevent_st*, unsigned) = nullptr;
  int (*stream_context)(CUstream_st*, CUctx_st**) = nullptr;
  // This function must not be called while the stream is being captured, because the call would end
  // the capture.
  int (*stream_id)(CUstream_st*, unsigned long long*) = nullptr;
  int (*stream_flags)(CUstream_st*, unsigned*) = nullptr;
  int (*capture_info)(CUstream_st*, int*, unsigned long long*, CUgraph_st**,
                      CUgraphNode_st* const**, std::size_t*) = nullptr;
  int (*capture_depend)(CUstream_st*, CUgraphNode_st**, std::size_t, unsigned) = nullptr;
  int (*exchange_capture_mode)(int*) = nullptr;

  int (*event_create)(CUevent_st**, unsigned) = nullptr;
  int (*event_destroy)(CUevent_st*) = nullptr;
  int (*event_record)(CUevent_st*, CUstream_st*) = nullptr;
  int (*event_query)(CUevent_st*) = nullptr;
  int (*event_synchronize)(CUevent_st*) = nullptr;

  int (*graph_create)(CUgraph_st**, unsigned) = nullptr;
  int (*graph_destroy)(CUgraph_st*) = nullptr;
  int (*graph_add_copy)(CUgraphNode_st**, CUgraph_st*, CUgraphNode_st* const*, std::size_t,
                        const memcpy_3d*, CUctx_st*) = nullptr;
  int (*graph_add_kernel)(CUgraphNode_st**, CUgraph_st*, CUgraphNode_st* const*, std::size_t,
                          const kernel_node*) = nullptr;
  int (*graph_instantiate)(CUgraphExec_st**, CUgraph_st*, unsigned long long) = nullptr;
  int (*graph_exec_destroy)(CUgraphExec_st*) = nullptr;
  int (*graph_exec_set_copy)(CUgraphExec_st*, CUgraphNode_st*, const memcpy_3d*,
                             CUctx_st*) = nullptr;
  int (*graph_launch)(CUgraphExec_st*, CUstream_st*) = nullptr;
  int (*user_object_create)(CUuserObject_st**, void*, void (*)(void*), unsigned,
                            unsigned) = nullptr;
  int (*user_object_release)(CUuserObject_st*, unsigned) = nullptr;
  int (*graph_retain_user_object)(CUgraph_st*, CUuserObject_st*, unsigned, unsigned) = nullptr;
};

// The driver of this process. Throws usage_error if there is no driver, if it is too old for
// copies, or if it cannot start.
const driver_table& real_driver();

// Throws device_error unless `result` is success. The error has the call and the driver's
// description.
void check(const driver_table& driver, int result, const char* call);
// Writes a line to the log, unless the driver is already shutting down. This function is for
// destructors.
void log_failure(const driver_table& driver, int result, const char* call) noexcept;

// Makes a context current in the calling thread while the object lives.
class in_context {
 public:
  in_context(const driver_table& driver, CUctx_st* context);
  // This constructor is for destructors. If the driver fails, it writes a line to the log.
  in_context(const driver_table& driver, CUctx_st* context, std::nothrow_t) noexcept;
  ~in_context();
  in_context(const in_context&) = delete;
  in_context& operator=(const in_context&) = delete;

 private:
  const driver_table& driver_;
  bool pushed_ = true;
};

// While this object lives, calls of this thread (allocations, queries of events) do not end
// captures of other threads. By default such calls end captures, although they do not concern the
// captured work.
class relaxed_capture_mode {
 public:
  explicit relaxed_capture_mode(const driver_table& driver);
  // This constructor is for calls that free something. If the driver fails, it writes a line to the
  // log.
  relaxed_capture_mode(const driver_table& driver, std::nothrow_t) noexcept;
  ~relaxed_capture_mode();
  relaxed_capture_mode(const relaxed_capture_mode&) = delete;
  relaxed_capture_mode& operator=(const relaxed_capture_mode&) = delete;

 private:
  const driver_table& driver_;
  int mode_ = capture_mode_relaxed;
  bool exchanged_ = true;
};

}  // namespace interlace::cuda
