#include "transport.h"

#include <interlace/copy.h>
#include <string.h>
#include <ucs/datastruct/list.h>
#include <ucs/datastruct/queue.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/string.h>
#include <ucs/sys/sys.h>
#include <ucs/sys/uid.h>
#include <ucs/type/class.h>

#include "driver.h"
#include "memory.h"

static const char device_name[] = "gpus";

/* The estimates by which UCX compares transports and protocols. They do not change the copies.
 * The bandwidth is slightly higher than UCX's estimate for copies between processes of the host.
 * If it were lower, UCX would stage CUDA memory in host memory. If it were much higher, UCX
 * would send host memory through GPUs. */
typedef struct estimates {
  double bandwidth;
  double latency;
  double overhead;
} estimates;

typedef struct interlace_iface_config {
  uct_iface_config_t super;
  estimates expected;
} interlace_iface_config_t;

static ucs_config_field_t config_table[] = {
    {"", "", NULL, ucs_offsetof(interlace_iface_config_t, super),
     UCS_CONFIG_TYPE_TABLE(uct_iface_config_table)},

    {"BW", "12000MBs", "Bandwidth that UCX expects, to choose among transports and protocols",
     ucs_offsetof(interlace_iface_config_t, expected.bandwidth), UCS_CONFIG_TYPE_BW},

    {"LAT", "10us", "Latency that UCX expects",
     ucs_offsetof(interlace_iface_config_t, expected.latency), UCS_CONFIG_TYPE_TIME},

    {"OVERHEAD", "10us", "Time that UCX expects the CPU to spend on a message",
     ucs_offsetof(interlace_iface_config_t, expected.overhead), UCS_CONFIG_TYPE_TIME},

    {NULL}};

/* A copy in flight. */
typedef struct operation {
  ucs_queue_elem_t queue;
  interlace_event* end;
  uct_completion_t* completion; /* null if the caller wants no notice */
  mapping* memory;              /* used by the copy, or null */
  uint64_t number;
} operation;

/* The copies between two GPUs. They run one after another. */
typedef struct route {
  ucs_list_link_t link; /* list of routes with copies in flight */
  struct CUstream_st* stream;
  int gpu; /* GPU of the stream */
  ucs_queue_head_t under_way;
} route;

/* A request for a notification when all copies up to a given number are complete. */
typedef struct flush {
  ucs_list_link_t link;
  uct_completion_t* completion;
  uint64_t number;
  uint64_t left;
} flush;

typedef struct interlace_iface {
  uct_base_iface_t super;
  const driver_calls* driver;
  estimates expected;
  route* routes; /* index: GPU of the local memory, GPU of the remote memory */
  ucs_list_link_t active;
  ucs_list_link_t flushes;
  uint64_t posted;
  uint64_t outstanding;
} interlace_iface_t;

typedef struct interlace_ep {
  uct_base_ep_t super;
  uint64_t process;
} interlace_ep_t;

/* --- copies --- */

static route* route_between(interlace_iface_t* iface, int own, int other) {
  route* const found = &iface->routes[own * iface->driver->gpus + other];
  int result;
  if (found->stream != NULL) return found;
  if (!enter_gpu(iface->driver, own)) return NULL;
  result = iface->driver->stream_create(&found->stream, stream_non_blocking);
  leave_gpu(iface->driver);
  if (result == driver_success) return found;
  found->stream = NULL;
  return NULL;
}

static ucs_status_t failed(const char* what) {
  ucs_error("interlace: %s: %s", what, interlace_last_error());
  return UCS_ERR_IO_ERROR;
}

static ucs_status_t post(uct_ep_h ep, const uct_iov_t* parts, size_t count, uint64_t address,
                         uct_rkey_t key, uct_completion_t* completion, int put) {
  interlace_iface_t* const iface = ucs_derived_of(ep->iface, interlace_iface_t);
  const remote_memory* const other = (const remote_memory*)key;
  const size_t bytes = count == 0 ? 0 : parts->length;
  ucs_status_t status;
  operation* made;
  void* remote;
  route* way;
  int gpu = 0;
  if (bytes == 0) return UCS_OK;
  if (count > 1 || parts->count > 1) return UCS_ERR_INVALID_PARAM;
  if (address < other->base || address + bytes > other->base + other->bytes) {
    ucs_error("interlace: %zu bytes at 0x%lx are not in the memory of their key", bytes,
              (unsigned long)address);
    return UCS_ERR_INVALID_ADDR;
  }
  if (interlace_memory_place(parts->buffer, bytes, &gpu) != INTERLACE_SUCCESS)
    return failed("the memory of a message");
  if (gpu < 0 || gpu >= iface->driver->gpus) {
    ucs_error("interlace: %zu bytes at %p are not in a GPU's memory", bytes, parts->buffer);
    return UCS_ERR_INVALID_ADDR;
  }
  way = route_between(iface, gpu, other->gpu);
  if (way == NULL) return UCS_ERR_IO_ERROR; /* not UCS_ERR_NO_RESOURCE: UCX must not try again */
  made = ucs_calloc(1, sizeof *made, "interlace_operation");
  if (made == NULL) return UCS_ERR_NO_MEMORY;
  remote = (void*)(uintptr_t)(other->here + (address - other->base));
  if (interlace_copier_copy_async(NULL, gpu, put ? remote : parts->buffer,
                                  put ? parts->buffer : remote, bytes,
                                  way->stream) != INTERLACE_SUCCESS) {
    status = failed(put ? "a put" : "a get");
    goto out;
  }
  if (interlace_event_record(gpu, way->stream, &made->end) != INTERLACE_SUCCESS) {
    status = failed("the end of a message");
    (void)iface->driver->stream_synchronize(way->stream); /* no operation would track the copy */
    goto out;
  }
  hold_mapping(other->of);
  made->memory = other->of;
  made->completion = completion;
  made->number = ++iface->posted;
  ++iface->outstanding;
  if (ucs_queue_is_empty(&way->under_way)) ucs_list_add_tail(&iface->active, &way->link);
  ucs_queue_push(&way->under_way, &made->queue);
  return UCS_INPROGRESS;
out:
  ucs_free(made);
  return status;
}

static ucs_status_t put_zcopy(uct_ep_h ep, const uct_iov_t* parts, size_t count, uint64_t address,
                              uct_rkey_t key, uct_completion_t* completion) {
  return post(ep, parts, count, address, key, completion, 1);
}

static ucs_status_t get_zcopy(uct_ep_h ep, const uct_iov_t* parts, size_t count, uint64_t address,
                              uct_rkey_t key, uct_completion_t* completion) {
  return post(ep, parts, count, address, key, completion, 0);
}

static void end(operation* one) {
  interlace_event_destroy(one->end);
  release_mapping(one->memory);
  ucs_free(one);
}

static void complete(interlace_iface_t* iface, operation* one, ucs_status_t status) {
  uct_completion_t* const completion = one->completion;
  const uint64_t number = one->number;
  ucs_list_link_t ended;
  flush *waiting, *next;
  ucs_list_head_init(&ended);
  --iface->outstanding;
  end(one);
  /* A completion can start a new flush, which must not wait for this operation. The list is
   * therefore handled first. */
  ucs_list_for_each_safe(waiting, next, &iface->flushes, link) {
    if (waiting->number < number || --waiting->left != 0) continue;
    ucs_list_del(&waiting->link);
    ucs_list_add_tail(&ended, &waiting->link);
  }
  if (completion != NULL) uct_invoke_completion(completion, status);
  ucs_list_for_each_safe(waiting, next, &ended, link) {
    uct_invoke_completion(waiting->completion, UCS_OK);
    ucs_free(waiting);
  }
}

static unsigned progress(uct_iface_h of) {
  interlace_iface_t* const iface = ucs_derived_of(of, interlace_iface_t);
  unsigned count = 0;
  route *way, *next;
  ucs_list_for_each_safe(way, next, &iface->active, link) {
    while (!ucs_queue_is_empty(&way->under_way)) {
      operation* const first = ucs_queue_head_elem_non_empty(&way->under_way, operation, queue);
      int done = 0;
      const int failure = interlace_event_done(first->end, &done) != INTERLACE_SUCCESS;
      if (!failure && !done) break;
      (void)ucs_queue_pull_non_empty(&way->under_way);
      /* A completion can post the next operation. In this case, that operation is the first
       * operation of the route. */
      if (ucs_queue_is_empty(&way->under_way)) ucs_list_del(&way->link);
      complete(iface, first, failure ? failed("a message") : UCS_OK);
      ++count;
    }
  }
  return count;
}

static ucs_status_t flush_all(interlace_iface_t* iface, uct_completion_t* completion) {
  flush* waiting;
  if (iface->outstanding == 0) return UCS_OK;
  if (completion == NULL) return UCS_INPROGRESS;
  waiting = ucs_calloc(1, sizeof *waiting, "interlace_flush");
  if (waiting == NULL) return UCS_ERR_NO_MEMORY;
  waiting->completion = completion;
  waiting->number = iface->posted;
  waiting->left = iface->outstanding;
  ucs_list_add_tail(&iface->flushes, &waiting->link);
  return UCS_INPROGRESS;
}

static ucs_status_t flush_ep(uct_ep_h ep, unsigned flags, uct_completion_t* completion) {
  return flush_all(ucs_derived_of(ep->iface, interlace_iface_t), completion);
}

static ucs_status_t flush_iface(uct_iface_h of, unsigned flags, uct_completion_t* completion) {
  return flush_all(ucs_derived_of(of, interlace_iface_t), completion);
}

/* --- endpoints --- */

static UCS_CLASS_INIT_FUNC(interlace_ep_t, const uct_ep_params_t* params) {
  interlace_iface_t* const iface = ucs_derived_of(params->iface, interlace_iface_t);
  UCT_EP_PARAMS_CHECK_DEV_IFACE_ADDRS(params);
  UCS_CLASS_CALL_SUPER_INIT(uct_base_ep_t, &iface->super);
  memcpy(&self->process, params->iface_addr, sizeof self->process);
  return UCS_OK;
}

static UCS_CLASS_CLEANUP_FUNC(interlace_ep_t) {}

UCS_CLASS_DEFINE(interlace_ep_t, uct_base_ep_t)
static UCS_CLASS_DEFINE_NEW_FUNC(
    interlace_ep_t, uct_ep_t,
    const uct_ep_params_t*) static UCS_CLASS_DEFINE_DELETE_FUNC(interlace_ep_t, uct_ep_t)

    static int is_connected(const uct_ep_h of, const uct_ep_is_connected_params_t* params) {
  const interlace_ep_t* const ep = ucs_derived_of(of, interlace_ep_t);
  return uct_base_ep_is_connected(of, params) &&
         memcmp(&ep->process, params->iface_addr, sizeof ep->process) == 0;
}

/* --- the interface --- */

static ucs_status_t device_address_of(uct_iface_h of, uct_device_addr_t* into) {
  const uint64_t machine = ucs_get_system_id();
  memcpy(into, &machine, sizeof machine);
  return UCS_OK;
}

static ucs_status_t address_of(uct_iface_h of, uct_iface_addr_t* into) {
  const uint64_t process = process_number();
  memcpy(into, &process, sizeof process);
  return UCS_OK;
}

static int is_reachable(const uct_iface_h of, const uct_iface_is_reachable_params_t* params) {
  uint64_t machine = 0;
  if (!uct_iface_is_reachable_params_addrs_valid(params) || params->device_addr == NULL) return 0;
  memcpy(&machine, params->device_addr, sizeof machine);
  if (machine == ucs_get_system_id()) return uct_iface_scope_is_reachable(of, params);
  uct_iface_fill_info_str_buf(params, "it is on another machine");
  return 0;
}

static ucs_status_t query(uct_iface_h of, uct_iface_attr_t* told) {
  const interlace_iface_t* const iface = ucs_derived_of(of, interlace_iface_t);
  uct_base_iface_query(ucs_derived_of(of, uct_base_iface_t), told);
  told->iface_addr_len = sizeof(uint64_t);
  told->device_addr_len = sizeof(uint64_t);
  told->cap.flags = UCT_IFACE_FLAG_CONNECT_TO_IFACE | UCT_IFACE_FLAG_PENDING |
                    UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_ZCOPY |
                    /* The transport refuses wrong addresses. A copy that fails, for example
                     * because the other process has ended, completes with an error. */
                    UCT_IFACE_FLAG_ERRHANDLE_ZCOPY_BUF | UCT_IFACE_FLAG_ERRHANDLE_REMOTE_MEM |
                    UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE;
  told->cap.put.max_zcopy = SIZE_MAX;
  told->cap.put.opt_zcopy_align = 1;
  told->cap.put.align_mtu = 1;
  told->cap.put.max_iov = 1;
  told->cap.get.max_zcopy = SIZE_MAX;
  told->cap.get.opt_zcopy_align = 1;
  told->cap.get.align_mtu = 1;
  told->cap.get.max_iov = 1;
  told->latency = ucs_linear_func_make(iface->expected.latency, 0);
  told->bandwidth.dedicated = 0;
  told->bandwidth.shared = iface->expected.bandwidth;
  told->overhead = iface->expected.overhead;
  told->priority = 0;
  return UCS_OK;
}

static UCS_CLASS_DECLARE_DELETE_FUNC(interlace_iface_t, uct_iface_t);

static uct_iface_ops_t operations = {
    .ep_put_zcopy = put_zcopy,
    .ep_get_zcopy = get_zcopy,
    .ep_pending_add = (uct_ep_pending_add_func_t)ucs_empty_function_return_busy,
    .ep_pending_purge = (uct_ep_pending_purge_func_t)ucs_empty_function,
    .ep_flush = flush_ep,
    .ep_fence = uct_base_ep_fence,
    .ep_check = (uct_ep_check_func_t)ucs_empty_function_return_unsupported,
    .ep_create = UCS_CLASS_NEW_FUNC_NAME(interlace_ep_t),
    .ep_destroy = UCS_CLASS_DELETE_FUNC_NAME(interlace_ep_t),
    .iface_flush = flush_iface,
    .iface_fence = uct_base_iface_fence,
    .iface_progress_enable = uct_base_iface_progress_enable,
    .iface_progress_disable = uct_base_iface_progress_disable,
    .iface_progress = progress,
    .iface_event_fd_get = (uct_iface_event_fd_get_func_t)ucs_empty_function_return_unsupported,
    .iface_event_arm = (uct_iface_event_arm_func_t)ucs_empty_function_return_unsupported,
    .iface_close = UCS_CLASS_DELETE_FUNC_NAME(interlace_iface_t),
    .iface_query = query,
    .iface_get_device_address = device_address_of,
    .iface_get_address = address_of,
    .iface_is_reachable = uct_base_iface_is_reachable,
};

static uct_iface_internal_ops_t internal_operations = {
    .iface_query_v2 = uct_iface_base_query_v2,
    .iface_estimate_perf = uct_base_iface_estimate_perf,
    .iface_vfs_refresh = (uct_iface_vfs_refresh_func_t)ucs_empty_function,
    .ep_query = (uct_ep_query_func_t)ucs_empty_function_return_unsupported,
    .ep_invalidate = (uct_ep_invalidate_func_t)ucs_empty_function_return_unsupported,
    .ep_connect_to_ep_v2 = (uct_ep_connect_to_ep_v2_func_t)ucs_empty_function_return_unsupported,
    .iface_is_reachable_v2 = is_reachable,
    .ep_is_connected = is_connected,
    .ep_get_device_ep = (uct_ep_get_device_ep_func_t)ucs_empty_function_return_unsupported,
    .ep_put_sgl_zcopy = (uct_ep_put_sgl_zcopy_func_t)ucs_empty_function_return_unsupported,
};

static UCS_CLASS_INIT_FUNC(interlace_iface_t, uct_md_h md, uct_worker_h worker,
                           const uct_iface_params_t* params, const uct_iface_config_t* given) {
  const interlace_iface_config_t* const config = ucs_derived_of(given, interlace_iface_config_t);
  const char* why = NULL;
  int at;
  UCS_CLASS_CALL_SUPER_INIT(uct_base_iface_t, &operations, &internal_operations, md, worker, params,
                            given);
  self->driver = find_driver(&why);
  if (self->driver == NULL) {
    ucs_error("interlace: %s", why);
    return UCS_ERR_NO_DEVICE;
  }
  self->expected = config->expected;
  self->posted = 0;
  self->outstanding = 0;
  ucs_list_head_init(&self->active);
  ucs_list_head_init(&self->flushes);
  self->routes = ucs_calloc((size_t)self->driver->gpus * (size_t)self->driver->gpus,
                            sizeof *self->routes, "interlace_routes");
  if (self->routes == NULL) return UCS_ERR_NO_MEMORY;
  for (at = 0; at < self->driver->gpus * self->driver->gpus; ++at) {
    self->routes[at].gpu = at / self->driver->gpus;
    ucs_queue_head_init(&self->routes[at].under_way);
  }
  return UCS_OK;
}

static UCS_CLASS_CLEANUP_FUNC(interlace_iface_t) {
  flush *waiting, *next;
  int at;
  uct_base_iface_progress_disable(&self->super.super, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
  for (at = 0; at < self->driver->gpus * self->driver->gpus; ++at) {
    route* const way = &self->routes[at];
    if (way->stream == NULL) continue;
    (void)self->driver->stream_synchronize(way->stream);
    while (!ucs_queue_is_empty(&way->under_way))
      end(ucs_queue_pull_elem_non_empty(&way->under_way, operation, queue));
    (void)self->driver->stream_destroy(way->stream);
  }
  ucs_list_for_each_safe(waiting, next, &self->flushes, link) ucs_free(waiting);
  ucs_free(self->routes);
}

UCS_CLASS_DEFINE(interlace_iface_t, uct_base_iface_t)
static UCS_CLASS_DEFINE_NEW_FUNC(
    interlace_iface_t, uct_iface_t, uct_md_h, uct_worker_h, const uct_iface_params_t*,
    const uct_iface_config_t*) static UCS_CLASS_DEFINE_DELETE_FUNC(interlace_iface_t, uct_iface_t)

    /* There is one device. It stands for all GPUs that the process sees, if there are at least
     * two. */
    static ucs_status_t
    query_devices(uct_md_h md, uct_tl_device_resource_t** devices, unsigned* count) {
  const char* why = NULL;
  const driver_calls* const driver = find_driver(&why);
  *devices = NULL;
  *count = 0;
  if (driver == NULL) {
    ucs_diag("interlace: no device: %s", why);
    return UCS_OK;
  }
  if (driver->gpus < 2) {
    ucs_diag("interlace: no device: this process sees one GPU, and messages are between two");
    return UCS_OK;
  }
  return uct_single_device_resource(md, device_name, UCT_DEVICE_TYPE_SHM, UCS_SYS_DEVICE_ID_UNKNOWN,
                                    devices, count);
}

UCT_TL_DEFINE_ENTRY(&uct_interlace_component, interlace, query_devices, interlace_iface_t,
                    "INTERLACE_", config_table, interlace_iface_config_t)
