#include "memory.h"

#include <pthread.h>
#include <string.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/sys.h>
#include <ucs/sys/uid.h>
#include <unistd.h>

enum { most_idle_mappings = 256 };

/* The contents of a key. Any process of the machine can read it. */
typedef struct packed_key {
  uint64_t process;
  uint64_t allocation;
  uint64_t base;
  uint64_t bytes;
  gpu_uuid gpu;
  uint64_t shareable; /* 0: no valid handle, so other processes cannot access the memory */
  ipc_handle handle;
} packed_key;

struct mapping {
  ucs_list_link_t link; /* the most recently used first */
  uint64_t process;
  uint64_t allocation;
  uint64_t base;
  uint64_t bytes;
  int gpu;
  device_address here;
  unsigned users;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static UCS_LIST_HEAD(mappings);

uint64_t process_number(void) {
  static uint64_t random = 0;
  static pthread_mutex_t random_lock = PTHREAD_MUTEX_INITIALIZER;
  uint64_t number;
  (void)pthread_mutex_lock(&random_lock);
  if (random == 0) random = ucs_generate_uuid((uintptr_t)&random);
  number = random;
  (void)pthread_mutex_unlock(&random_lock);
  return number + (uint64_t)getpid(); /* the child of a fork has another number */
}

/* --- mappings --- */

static void close_mapping(const driver_calls* driver, mapping* one) {
  ucs_list_del(&one->link);
  if (enter_gpu(driver, one->gpu)) {
    if (driver->ipc_close(one->here) != driver_success)
      ucs_diag("interlace: memory of another process on GPU %d cannot be unmapped", one->gpu);
    leave_gpu(driver);
  }
  ucs_free(one);
}

static int overlaps(const mapping* one, const packed_key* key) {
  return one->process == key->process && one->base < key->base + key->bytes &&
         key->base < one->base + one->bytes;
}

/* Closes mappings of memory that the other process has freed, and mappings that have been idle
 * for the longest time. */
static void close_idle(const driver_calls* driver, const packed_key* key) {
  mapping *one, *next;
  unsigned idle = 0;
  ucs_list_for_each_safe(one, next, &mappings, link) {
    if (one->users != 0) continue;
    if (overlaps(one, key) || ++idle > most_idle_mappings) close_mapping(driver, one);
  }
}

static mapping* map_memory(const driver_calls* driver, int gpu, const packed_key* key) {
  mapping* one;
  (void)pthread_mutex_lock(&lock);
  ucs_list_for_each(one, &mappings, link) {
    if (one->process != key->process || one->allocation != key->allocation ||
        one->base != key->base || one->bytes != key->bytes)
      continue;
    ucs_list_del(&one->link);
    ucs_list_add_head(&mappings, &one->link);
    ++one->users;
    goto out;
  }
  close_idle(driver, key);
  one = ucs_calloc(1, sizeof *one, "interlace_mapping");
  if (one == NULL) goto out;
  one->process = key->process;
  one->allocation = key->allocation;
  one->base = key->base;
  one->bytes = key->bytes;
  one->gpu = gpu;
  one->users = 1;
  if (enter_gpu(driver, gpu)) {
    const int result = driver->ipc_open(&one->here, key->handle, ipc_lazy_peer_access);
    leave_gpu(driver);
    if (result == driver_success) {
      ucs_list_add_head(&mappings, &one->link);
      goto out;
    }
    ucs_diag("interlace: memory of another process on GPU %d cannot be mapped (error %d)", gpu,
             result);
  }
  ucs_free(one);
  one = NULL;
out:
  (void)pthread_mutex_unlock(&lock);
  return one;
}

void hold_mapping(mapping* of) {
  if (of == NULL) return;
  (void)pthread_mutex_lock(&lock);
  ++of->users;
  (void)pthread_mutex_unlock(&lock);
}

void release_mapping(mapping* of) {
  if (of == NULL) return;
  (void)pthread_mutex_lock(&lock);
  --of->users;
  (void)pthread_mutex_unlock(&lock);
}

/* --- the memory domain --- */

static ucs_status_t query(uct_md_h md, uct_md_attr_v2_t* told) {
  uct_md_base_md_query(told);
  told->flags = UCT_MD_FLAG_REG | UCT_MD_FLAG_NEED_RKEY;
  told->reg_mem_types = UCS_BIT(UCS_MEMORY_TYPE_CUDA);
  told->cache_mem_types = UCS_BIT(UCS_MEMORY_TYPE_CUDA);
  told->access_mem_types = UCS_BIT(UCS_MEMORY_TYPE_CUDA);
  told->rkey_packed_size = sizeof(packed_key);
  return UCS_OK;
}

/* Makes a key, which says whether the memory can be shared. If the memory cannot be shared,
 * UCX uses another transport for it. */
static ucs_status_t register_memory(uct_md_h md, void* address, size_t bytes,
                                    const uct_md_mem_reg_params_t* params, uct_mem_h* registered) {
  const char* why = NULL;
  const driver_calls* const driver = find_driver(&why);
  const device_address at = (uintptr_t)address;
  memory_facts facts;
  device_address base = 0;
  size_t size = 0;
  packed_key* key;
  if (driver == NULL) return UCS_ERR_NO_DEVICE;
  key = ucs_calloc(1, sizeof *key, "interlace_key");
  if (key == NULL) return UCS_ERR_NO_MEMORY;
  key->process = process_number();
  key->base = at;
  key->bytes = bytes;
  if (!look_at_memory(driver, at, &facts) || !enter_gpu(driver, facts.gpu)) goto out;
  (void)driver->device_uuid(&key->gpu, facts.gpu);
  if (facts.shareable && driver->address_range(&base, &size, at) == driver_success &&
      at + bytes <= base + size && driver->ipc_export(&key->handle, base) == driver_success) {
    key->allocation = facts.allocation;
    key->base = base;
    key->bytes = size;
    key->shareable = 1;
  }
  leave_gpu(driver);
out:
  if (!key->shareable)
    ucs_debug("interlace: %zu bytes at %p cannot be shared with other processes", bytes, address);
  *registered = key;
  return UCS_OK;
}

static ucs_status_t deregister_memory(uct_md_h md, const uct_md_mem_dereg_params_t* params) {
  UCT_MD_MEM_DEREG_CHECK_PARAMS(params, 0);
  ucs_free(params->memh);
  return UCS_OK;
}

static ucs_status_t pack_key(uct_md_h md, uct_mem_h registered, void* address, size_t bytes,
                             const uct_md_mkey_pack_params_t* params, void* into) {
  memcpy(into, registered, sizeof(packed_key));
  return UCS_OK;
}

static int gpu_of(const driver_calls* driver, const gpu_uuid* uuid) {
  int gpu;
  for (gpu = 0; gpu < driver->gpus; ++gpu) {
    gpu_uuid found;
    if (driver->device_uuid(&found, gpu) == driver_success &&
        memcmp(&found, uuid, sizeof found) == 0)
      return gpu;
  }
  return -1;
}

static ucs_status_t unpack_key(uct_component_t* component, const void* packed,
                               const uct_rkey_unpack_params_t* params, uct_rkey_t* unpacked,
                               void** handle) {
  const char* why = NULL;
  const driver_calls* const driver = find_driver(&why);
  remote_memory* made;
  packed_key key;
  int gpu;
  if (driver == NULL) return UCS_ERR_UNREACHABLE;
  memcpy(&key, packed, sizeof key); /* `packed` need not be aligned */
  gpu = gpu_of(driver, &key.gpu);
  if (gpu < 0) return UCS_ERR_UNREACHABLE; /* this process does not see the GPU */
  made = ucs_calloc(1, sizeof *made, "interlace_remote_memory");
  if (made == NULL) return UCS_ERR_NO_MEMORY;
  made->base = key.base;
  made->bytes = key.bytes;
  made->gpu = gpu;
  made->here = key.base;
  if (key.process != process_number()) {
    made->of = key.shareable ? map_memory(driver, gpu, &key) : NULL;
    if (made->of == NULL) {
      ucs_free(made);
      return UCS_ERR_UNREACHABLE;
    }
    made->here = made->of->here;
  }
  *unpacked = (uintptr_t)made;
  *handle = NULL;
  return UCS_OK;
}

static ucs_status_t release_key(uct_component_t* component, uct_rkey_t unpacked, void* handle) {
  remote_memory* const made = (remote_memory*)unpacked;
  release_mapping(made->of);
  ucs_free(made);
  return UCS_OK;
}

static void close_domain(uct_md_h md) { ucs_free(md); }

static ucs_status_t open_domain(uct_component_t* component, const char* name,
                                const uct_md_config_t* config, uct_md_h* opened) {
  static uct_md_ops_t operations = {
      .close = close_domain,
      .query = query,
      .mem_alloc = (uct_md_mem_alloc_func_t)ucs_empty_function_return_unsupported,
      .mem_free = (uct_md_mem_free_func_t)ucs_empty_function_return_unsupported,
      .mem_advise = (uct_md_mem_advise_func_t)ucs_empty_function_return_unsupported,
      .mem_reg = register_memory,
      .mem_dereg = deregister_memory,
      .mem_query = (uct_md_mem_query_func_t)ucs_empty_function_return_unsupported,
      .mkey_pack = pack_key,
      .mem_attach = (uct_md_mem_attach_func_t)ucs_empty_function_return_unsupported,
      .detect_memory_type = (uct_md_detect_memory_type_func_t)ucs_empty_function_return_unsupported,
      .mem_elem_pack = (uct_md_mem_elem_pack_func_t)ucs_empty_function_return_unsupported,
  };
  uct_md_h const md = ucs_calloc(1, sizeof *md, "interlace_domain");
  if (md == NULL) return UCS_ERR_NO_MEMORY;
  md->ops = &operations;
  md->component = component;
  *opened = md;
  return UCS_OK;
}

uct_component_t uct_interlace_component = {
    .name = "interlace",
    .query_md_resources = uct_md_query_single_md_resource,
    .md_open = open_domain,
    .cm_open = (uct_component_cm_open_func_t)ucs_empty_function_return_unsupported,
    .rkey_unpack = unpack_key,
    .rkey_ptr = (uct_component_rkey_ptr_func_t)ucs_empty_function_return_unsupported,
    .rkey_release = release_key,
    .rkey_compare = uct_base_rkey_compare,
    .md_config = UCT_MD_DEFAULT_CONFIG_INITIALIZER,
    .cm_config = UCS_CONFIG_EMPTY_GLOBAL_LIST_ENTRY,
    .tl_list = UCT_COMPONENT_TL_LIST_INITIALIZER(&uct_interlace_component),
    .flags = 0,
    .md_vfs_init = (uct_component_md_vfs_init_func_t)ucs_empty_function,
};
