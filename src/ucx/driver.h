/* The functions of the CUDA driver that the module calls itself, for memory of other processes
 * and for streams. interlace/copy.h has copies, events and places of memory. The driver is
 * loaded when it is needed, so the module does not link CUDA. Types and values are those of the
 * driver API of CUDA 12.0. */
#ifndef INTERLACE_UCX_DRIVER_H
#define INTERLACE_UCX_DRIVER_H

#include <stddef.h>
#include <stdint.h>

struct CUctx_st;
struct CUstream_st;

typedef unsigned long long device_address; /* CUdeviceptr */

typedef struct gpu_uuid {
  unsigned char bytes[16];
} gpu_uuid;

typedef struct ipc_handle {
  unsigned char bytes[64];
} ipc_handle;

enum { driver_success = 0 };
enum { ipc_lazy_peer_access = 1 };
enum { stream_non_blocking = 1 };

/* The driver's facts about an address. */
enum { memory_of_gpu = 2 };
typedef struct memory_facts {
  unsigned type;
  unsigned long long allocation; /* id of the allocation; the process never gets it again */
  int gpu;
  int shareable; /* whether an ipc_handle can share it */
} memory_facts;

typedef struct driver_calls {
  int gpus;
  int (*device_uuid)(gpu_uuid*, int);
  int (*primary_retain)(struct CUctx_st**, int);
  int (*push)(struct CUctx_st*);
  int (*pop)(struct CUctx_st**);
  int (*pointer_attributes)(unsigned, int*, void**, device_address);
  int (*address_range)(device_address*, size_t*, device_address);
  int (*ipc_export)(ipc_handle*, device_address);
  int (*ipc_open)(device_address*, ipc_handle, unsigned);
  int (*ipc_close)(device_address);
  int (*stream_create)(struct CUstream_st**, unsigned);
  int (*stream_destroy)(struct CUstream_st*);
  int (*stream_synchronize)(struct CUstream_st*);
} driver_calls;

/* The driver of the process, or null if there are no GPUs. If the result is null, `*why` is a
 * sentence without its end. Thread-safe. */
const driver_calls* find_driver(const char** why);

/* Makes the primary context of a GPU the thread's current context, until `leave_gpu` is called.
 * Returns 0 on failure. */
int enter_gpu(const driver_calls* driver, int gpu);
void leave_gpu(const driver_calls* driver);

/* Asks the driver about an address. Returns 0 if the driver does not know the address. */
int look_at_memory(const driver_calls* driver, device_address address, memory_facts* found);

#endif
