/* GPU memory whose contents leave the GPU and come back to the same addresses, for C and
 * languages that call C.
 *
 *   #include <interlace/park.h>                     // link libinterlace.so, or load it
 *   interlace_pool_create("weights");
 *   interlace_pool_allocate("weights", 0, bytes, &memory);
 *   interlace_pool_park("weights", INTERLACE_PARK_ON_HOST, 1, NULL, 0, NULL);
 *   interlace_pool_resume("weights", NULL);
 *
 * A pool has a name and allocations on one or several GPUs. Parking a pool moves the contents
 * of all its allocations to page-locked host memory or to another GPU, or drops them, and
 * gives the physical memory back to the GPU. The addresses stay reserved. Pointers and
 * captured graphs are therefore valid again after the pool has resumed. Until then no work may
 * use the memory.
 * interlace_pool_park waits for all work on the pool's GPUs. interlace_pool_park and
 * interlace_pool_resume return once the bytes are in place. A call that fails changes nothing. The
 * pool stays on the GPU, or it stays parked. If a failed park cannot be undone, the error message
 * says so. In this case, interlace_pool_resume brings back the contents that were parked.
 *
 * Results and interlace_last_error are those of interlace/copy.h. All functions are
 * thread-safe. */
#ifndef INTERLACE_PARK_H
#define INTERLACE_PARK_H

#include "interlace/copy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of the interface that this header describes; see INTERLACE_COPY_ABI. */
#define INTERLACE_PARK_ABI 2

/* The number of the library's interface; see INTERLACE_PARK_ABI. */
INTERLACE_EXPORT int interlace_park_abi(void);

/* Makes a pool, unless a pool of this name exists. A pool lasts until the process ends. */
INTERLACE_EXPORT interlace_result interlace_pool_create(const char* pool);
/* Allocates memory on a GPU. `gpu` is CUDA's number of the GPU. Sizes are rounded up to a
 * multiple of the GPU's granularity, which is 2 MiB on today's GPUs. The call fails if the pool
 * is parked. Writes `*memory` if the call succeeds. */
INTERLACE_EXPORT interlace_result interlace_pool_allocate(const char* pool, int gpu, size_t bytes,
                                                          void** memory);
/* Waits for all work on the GPU and frees an allocation. Parked memory can be freed too. Its
 * contents are then lost. */
INTERLACE_EXPORT interlace_result interlace_pool_free(void* memory);

/* Page-locks as much host memory as the pool's contents need, so that the pool's next park to the
 * host need not page-lock memory. The call blocks until the memory is page-locked, so make it in a
 * thread of its own. If the pool is parked during the call, the call ends early, and the park
 * page-locks the memory that is still missing. The library keeps the memory, as after a park with
 * `keep_pool`. `*locked_bytes` is the number of bytes that this call page-locked; `locked_bytes`
 * may be null. */
INTERLACE_EXPORT interlace_result interlace_pool_prepare(const char* pool, uint64_t* locked_bytes);

/* The places of parked contents. A place is one of these values, or CUDA's number of another
 * GPU. */
#define INTERLACE_PARK_ON_HOST (-1)
#define INTERLACE_PARK_NOWHERE (-2) /* the contents are dropped */

/* The counts of one call. */
typedef struct interlace_park_report {
  uint64_t bytes;        /* bytes of contents that moved */
  uint64_t gpu_bytes;    /* physical memory that a park gave back or a resume took */
  uint64_t locked_bytes; /* host memory that was page-locked anew */
  double seconds;
} interlace_park_report;

/* Parks a pool. With `keep_pool`, the library keeps the page-locked memory after the pool has
 * resumed, for the next park. Without `keep_pool`, the system gets the memory back when the
 * pool resumes. `without_contents` lists `count` addresses at which allocations begin; the
 * contents of these allocations are dropped. `report` may be null. */
INTERLACE_EXPORT interlace_result interlace_pool_park(const char* pool, int place, int keep_pool,
                                                      void* const* without_contents, size_t count,
                                                      interlace_park_report* report);
/* Brings a pool back to its GPUs. Dropped contents are undefined afterwards. `report` may be
 * null. */
INTERLACE_EXPORT interlace_result interlace_pool_resume(const char* pool,
                                                        interlace_park_report* report);

/* The state of a pool. */
typedef struct interlace_pool_facts {
  uint64_t allocations;
  uint64_t bytes;      /* bytes of all allocations */
  uint64_t host_bytes; /* page-locked memory that the contents occupy */
  int parked;          /* 1 or 0 */
  int place;           /* place of the contents while the pool is parked */
} interlace_pool_facts;
/* Writes the state of a pool. */
INTERLACE_EXPORT interlace_result interlace_pool_look_up(const char* pool,
                                                         interlace_pool_facts* facts);
/* Writes the name of the pool that has the memory, with its terminating zero, to `name`. */
INTERLACE_EXPORT interlace_result interlace_pool_of(const void* memory, char* name, size_t size);
/* Writes the number of page-locked bytes that the library keeps for later parks. */
INTERLACE_EXPORT interlace_result interlace_park_idle_bytes(uint64_t* bytes);
/* Returns to the system the page-locked memory that is kept for later parks. */
INTERLACE_EXPORT interlace_result interlace_park_free_idle(void);

/* Bytes on a GPU, for programs that map and unmap memory themselves. */
typedef struct interlace_gpu_range {
  void* memory;
  size_t bytes;
  int gpu;
} interlace_gpu_range;
/* A copy of the contents of GPU ranges, in page-locked host memory. */
typedef struct interlace_contents interlace_contents;
/* Waits for all work on the GPUs and copies the contents of the ranges. Writes `*contents` if the
 * call succeeds. `report` may be null. */
INTERLACE_EXPORT interlace_result interlace_contents_keep(const interlace_gpu_range* ranges,
                                                          size_t count,
                                                          interlace_contents** contents,
                                                          interlace_park_report* report);
/* Copies contents back to ranges. The addresses of the ranges say where each part of the
 * contents belongs. `report` may be null. */
INTERLACE_EXPORT interlace_result interlace_contents_restore(interlace_contents* contents,
                                                             void* const* memory, size_t count,
                                                             interlace_park_report* report);
/* Destroys the contents, and keeps their page-locked memory for later parks. Does nothing if
 * `contents` is null. */
INTERLACE_EXPORT void interlace_contents_destroy(interlace_contents* contents);

/* Enters a pool. Allocators of frameworks do not know pools, so their memory comes from the pool
 * that the calling thread entered last. */
INTERLACE_EXPORT interlace_result interlace_pool_enter(const char* pool);
/* Leaves the pool that the calling thread entered last. */
INTERLACE_EXPORT interlace_result interlace_pool_leave(void);
/* The allocation function for a pluggable allocator of PyTorch. If it fails, it returns null and
 * writes a line to standard error. */
INTERLACE_EXPORT void* interlace_park_torch_allocate(ptrdiff_t bytes, int gpu,
                                                     struct CUstream_st* stream);
/* The function of the same allocator that frees memory. If it fails, it writes a line to
 * standard error. */
INTERLACE_EXPORT void interlace_park_torch_free(void* memory, size_t bytes, int gpu,
                                                struct CUstream_st* stream);

#ifdef __cplusplus
}
#endif

#endif
