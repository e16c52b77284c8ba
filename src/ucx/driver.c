#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "interlace/copy.h"

enum { forms_of = 12000 }; /* CUDA 12.0 */
enum { most_gpus = 64 };

typedef int (*find_call)(const char*, void**, int, uint64_t, int*);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static driver_calls calls;
static struct CUctx_st* contexts[most_gpus]; /* null: not retained yet */
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static char sentence[512];
static const char* reason = "";

static int load(find_call find, const char* name, void* into) {
  void* found = NULL;
  int status = 0;
  if (find(name, &found, forms_of, 0, &status) != driver_success || found == NULL) return 0;
  memcpy(into, &found, sizeof found);
  return 1;
}

static void load_all(void) {
  int (*init)(unsigned) = NULL;
  int (*count)(int*) = NULL;
  find_call find = NULL;
  void* address = NULL;
  int gpus = 0;
  int place = 0;
  void* library = NULL;
  /* The library has the sentence that says why a driver is missing or too old. */
  if (interlace_memory_place(&place, sizeof place, &place) == INTERLACE_NO_GPU) {
    (void)snprintf(sentence, sizeof sentence, "%s", interlace_last_error());
    reason = sentence;
    return;
  }
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* never closed */
  if (library == NULL) return;
  address = dlsym(library, "cuGetProcAddress_v2");
  memcpy(&find, &address, sizeof find);
  if (find == NULL || !load(find, "cuInit", &init) || !load(find, "cuDeviceGetCount", &count) ||
      !load(find, "cuDeviceGetUuid", &calls.device_uuid) ||
      !load(find, "cuDevicePrimaryCtxRetain", &calls.primary_retain) ||
      !load(find, "cuCtxPushCurrent", &calls.push) || !load(find, "cuCtxPopCurrent", &calls.pop) ||
      !load(find, "cuPointerGetAttributes", &calls.pointer_attributes) ||
      !load(find, "cuMemGetAddressRange", &calls.address_range) ||
      !load(find, "cuIpcGetMemHandle", &calls.ipc_export) ||
      !load(find, "cuIpcOpenMemHandle", &calls.ipc_open) ||
      !load(find, "cuIpcCloseMemHandle", &calls.ipc_close) ||
      !load(find, "cuStreamCreate", &calls.stream_create) ||
      !load(find, "cuStreamDestroy", &calls.stream_destroy) ||
      !load(find, "cuStreamSynchronize", &calls.stream_synchronize)) {
    reason = "the NVIDIA driver lacks functions of CUDA 12.0";
    return;
  }
  if (init(0) != driver_success || count(&gpus) != driver_success || gpus == 0) {
    reason = "the NVIDIA driver has no GPU for this process";
    return;
  }
  calls.gpus = gpus < most_gpus ? gpus : most_gpus;
}

const driver_calls* find_driver(const char** why) {
  (void)pthread_once(&once, load_all);
  *why = reason;
  return calls.gpus > 0 ? &calls : NULL;
}

int enter_gpu(const driver_calls* driver, int gpu) {
  struct CUctx_st* context;
  if (gpu < 0 || gpu >= driver->gpus) return 0;
  (void)pthread_mutex_lock(&contexts_lock);
  if (contexts[gpu] == NULL && driver->primary_retain(&contexts[gpu], gpu) != driver_success)
    contexts[gpu] = NULL;
  context = contexts[gpu];
  (void)pthread_mutex_unlock(&contexts_lock);
  return context != NULL && driver->push(context) == driver_success;
}

void leave_gpu(const driver_calls* driver) {
  struct CUctx_st* popped = NULL;
  (void)driver->pop(&popped);
}

int look_at_memory(const driver_calls* driver, device_address address, memory_facts* found) {
  enum { memory_type = 2, buffer_id = 7, device_ordinal = 9, legacy_ipc_capable = 10 };
  int which[] = {memory_type, buffer_id, device_ordinal, legacy_ipc_capable};
  void* into[] = {&found->type, &found->allocation, &found->gpu, &found->shareable};
  memset(found, 0, sizeof *found);
  return driver->pointer_attributes(4, which, into, address) == driver_success &&
         found->type == memory_of_gpu;
}
