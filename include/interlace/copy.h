/* Copies between the memories of a node over all paths that help, for C and languages that call
 * C.
 *
 *   #include <interlace/copy.h>                     // link libinterlace.so, or load it
 *   if (interlace_copy_async(dst, src, bytes, stream) != INTERLACE_SUCCESS)
 *     fprintf(stderr, "%s\n", interlace_last_error());
 *
 * This interface makes the same promises about ordering, captures, kinds of memory and errors as
 * interlace::copy_async in interlace/copy.hpp. A copy replaces cudaMemcpyAsync(dst, src, bytes,
 * cudaMemcpyDefault, stream). All functions are thread-safe and throw no C++ exception. This
 * header needs no CUDA library; cudaStream_t and CUstream are pointers to CUstream_st. */
#ifndef INTERLACE_COPY_H
#define INTERLACE_COPY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define INTERLACE_EXPORT __attribute__((visibility("default")))
#else
#define INTERLACE_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* The number of the interface that this header describes. A library with the same or a higher
 * number has everything in this header. Existing parts never change their meaning. A new
 * interface only adds functions, and members at the ends of structures. */
#define INTERLACE_COPY_ABI 4

/* The result of a call. */
typedef enum interlace_result {
  INTERLACE_SUCCESS = 0,
  INTERLACE_INVALID_ARGUMENT = 1, /* overlapping buffers, a null pointer, or no such GPU */
  INTERLACE_INVALID_SETTING = 2,  /* an environment variable or a setting is not valid */
  INTERLACE_NO_GPU = 3,           /* no GPU, no NVIDIA driver, or a driver that is too old */
  INTERLACE_DEVICE_ERROR = 4,     /* the driver failed, or memory, stream or GPU are gone */
  INTERLACE_OUT_OF_MEMORY = 5,    /* the host has no memory left */
  INTERLACE_INTERNAL_ERROR = 6
} interlace_result;

/* The number of the library's interface; see INTERLACE_COPY_ABI. */
INTERLACE_EXPORT int interlace_copy_abi(void);
/* The library's version, such as "0.2.0". */
INTERLACE_EXPORT const char* interlace_version(void);
/* One sentence about the last call of this thread that failed, or "" if no call failed. The text
 * is valid until the thread's next call that fails. */
INTERLACE_EXPORT const char* interlace_last_error(void);

/* Enqueues a copy of `bytes` bytes from `src` to `dst` on `stream`. A copy of 0 bytes does
 * nothing and needs no GPU. This function uses the process's own copier. The first call makes
 * this copier with the settings of the environment, and the copier lives until the process ends. */
INTERLACE_EXPORT interlace_result interlace_copy_async(void* dst, const void* src, size_t bytes,
                                                       struct CUstream_st* stream);

/* A copier with its own settings. If a function takes a copier, null means the process's own
 * copier. */
typedef struct interlace_copier interlace_copier;

/* Makes a copier. `settings` is an array of words such as "INTERLACE_COPY=graphs" that ends with
 * a null pointer. These words override the environment. If `settings` is null, all
 * settings come from the environment. `interlace config` lists them. The function writes `*copier`
 * if it succeeds. */
INTERLACE_EXPORT interlace_result interlace_copier_create(const char* const* settings,
                                                          interlace_copier** copier);
/* Waits for the copies of the copier, and then frees the copier. Does nothing if `copier` is
 * null. */
INTERLACE_EXPORT void interlace_copier_destroy(interlace_copier* copier);

/* Use this value in place of a GPU's number to run a call in the thread's current context. */
#define INTERLACE_CURRENT_GPU (-1)
/* Does the same as interlace_copy_async, with the given copier and GPU. `gpu` is CUDA's number
 * of a GPU. The call runs in the primary context of this GPU, and null and cudaStreamPerThread
 * are the default streams of this context. With INTERLACE_CURRENT_GPU the call runs in the
 * thread's current context. */
INTERLACE_EXPORT interlace_result interlace_copier_copy_async(interlace_copier* copier, int gpu,
                                                              void* dst, const void* src,
                                                              size_t bytes,
                                                              struct CUstream_st* stream);

/* One copy of a batch. */
typedef struct interlace_batch_copy {
  void* dst;
  const void* src;
  size_t bytes;
} interlace_batch_copy;

/* Makes the copies of a batch, like interlace::copier::copy_batch_async. The copies are planned
 * together and have no order among themselves. Available since number 2 of the interface. */
INTERLACE_EXPORT interlace_result interlace_copier_copy_batch_async(
    interlace_copier* copier, int gpu, const interlace_batch_copy* copies, size_t count,
    struct CUstream_st* stream);
/* One side of a batch of blocks, like interlace::blocks_side. Block i lies numbers[i] * stride
 * bytes after `base`. If `base` is null and `stride` is 1, the numbers are addresses.
 * `number_bytes` is 4 or 8. All blocks must lie within `extent` bytes from `base`; 0 means that
 * the extent is unknown. */
typedef struct interlace_blocks_side {
  void* base;
  size_t stride;
  const void* numbers; /* null: 0, 1, 2 and so on */
  size_t number_bytes;
  size_t extent;
} interlace_blocks_side;

/* A batch of blocks, like interlace::block_batch. */
typedef struct interlace_blocks {
  interlace_blocks_side dst;
  interlace_blocks_side src;
  const uint64_t* sizes; /* bytes of each block; null: all blocks have `bytes` */
  size_t bytes;
  size_t count;
  int numbers_on_gpu; /* 1: the numbers lie in memory of the GPU */
  /* the largest number of thread blocks of a kernel; 0 means the smallest number with full speed */
  unsigned most_thread_blocks;
  int stage_pageable; /* 1: pageable memory is staged; 0: it is refused */
  int only;           /* the interlace_blocks_way to take; 0: the fastest way */
} interlace_blocks;

/* The way in which a batch was enqueued, like interlace::blocks_way. */
typedef enum interlace_blocks_way {
  INTERLACE_BLOCKS_NOTHING = 0,
  INTERLACE_BLOCKS_KERNEL = 1,
  INTERLACE_BLOCKS_DRIVER_BATCH = 2,
  INTERLACE_BLOCKS_COPIES = 3,
  INTERLACE_BLOCKS_STAGED = 4
} interlace_blocks_way;

/* Copies blocks, like interlace::copier::copy_blocks_async. `size` must be the caller's
 * sizeof(interlace_blocks). The function writes `*way` unless `way` is null. Available since
 * number 4 of the interface. */
INTERLACE_EXPORT interlace_result interlace_copier_copy_blocks_async(
    interlace_copier* copier, int gpu, const interlace_blocks* blocks, size_t size,
    struct CUstream_st* stream, interlace_blocks_way* way);
/* Makes an all-gather, like interlace::copier::all_gather_async. Each of the `participants` has
 * a buffer to send and a buffer to receive. `bytes` is the size of a block. Available since
 * number 2 of the interface. */
INTERLACE_EXPORT interlace_result interlace_copier_all_gather_async(
    interlace_copier* copier, int gpu, const void* const* send, void* const* receive,
    size_t participants, size_t bytes, struct CUstream_st* stream);
/* Makes an all-to-all, like interlace::copier::all_to_all_async, with the same arguments as
 * interlace_copier_all_gather_async. Available since number 2 of the interface. */
INTERLACE_EXPORT interlace_result interlace_copier_all_to_all_async(
    interlace_copier* copier, int gpu, const void* const* send, void* const* receive,
    size_t participants, size_t bytes, struct CUstream_st* stream);

/* The elements of an all-reduce, like interlace::reduced_type. */
typedef enum interlace_element {
  INTERLACE_FLOAT32 = 0,
  INTERLACE_FLOAT64 = 1,
  INTERLACE_FLOAT16 = 2,
  INTERLACE_BFLOAT16 = 3,
  INTERLACE_INT32 = 4,
  INTERLACE_INT64 = 5
} interlace_element;
/* The way in which an all-reduce combines two elements, like interlace::reduce_by. */
typedef enum interlace_reduction {
  INTERLACE_SUM = 0,
  INTERLACE_MIN = 1,
  INTERLACE_MAX = 2
} interlace_reduction;

/* Makes an all-reduce of `count` elements of each participant, like
 * interlace::copier::all_reduce_async. A library that was built without nvcc returns
 * INTERLACE_INVALID_ARGUMENT. Available since number 3 of the interface. */
INTERLACE_EXPORT interlace_result interlace_copier_all_reduce_async(
    interlace_copier* copier, int gpu, const void* const* send, void* const* receive,
    size_t participants, size_t count, interlace_element type, interlace_reduction by,
    struct CUstream_st* stream);

/* Does in advance what the first large message would do: makes contexts on all GPUs and enables
 * access between them. */
INTERLACE_EXPORT interlace_result interlace_copier_prepare(interlace_copier* copier);

/* Counts of a copier's work since the copier was made. interlace::copy_statistics describes the
 * members. */
typedef struct interlace_copy_statistics {
  uint64_t direct;
  uint64_t streams;
  uint64_t graphs;
  uint64_t captured;
  uint64_t bytes;
  uint64_t hits;
  uint64_t misses;
  uint64_t evictions;
  uint64_t executables;
  double creation_s;
  double construction_s;
  double instantiation_s;
  double update_s;
  double launch_s;
  uint64_t nodes;
  uint64_t updates;
  uint64_t launches;
  uint64_t staging_bytes;
} interlace_copy_statistics;

/* Writes the counts of a copier. `size` must be the caller's sizeof(interlace_copy_statistics). */
INTERLACE_EXPORT interlace_result interlace_copier_statistics(interlace_copier* copier,
                                                              interlace_copy_statistics* statistics,
                                                              size_t size);

/* Places of memory that are not GPUs. interlace_memory_place reports them. */
#define INTERLACE_PAGE_LOCKED (-1) /* memory of the host */
#define INTERLACE_PAGEABLE (-2)    /* host memory that is not page-locked, or unknown memory */
#define INTERLACE_MANAGED (-3)     /* memory that the driver moves */
#define INTERLACE_MIXED (-4)       /* several allocations that are not all in one place */
/* Says where memory is. The result is CUDA's number of a GPU (0 or more), or one of the places
 * above. Memory is page-locked if it lies in one page-locked allocation or registration. Memory
 * that is neither page-locked nor in one GPU is copied by a plain copy, which can block the
 * caller. */
INTERLACE_EXPORT interlace_result interlace_memory_place(const void* memory, size_t bytes,
                                                         int* place);

/* The following functions are for callers that must order the copies of several streams and have
 * no CUDA toolkit. `gpu` is the GPU of the stream, or INTERLACE_CURRENT_GPU. No function
 * disturbs a capture of another stream.
 *
 * This function says whether the stream is being captured: it sets `*answer` to 1 or 0. */
INTERLACE_EXPORT interlace_result interlace_stream_is_capturing(int gpu, struct CUstream_st* stream,
                                                                int* answer);
/* A point in the order of a stream's work. */
typedef struct interlace_event interlace_event;
/* Makes an event after all work that is on the stream now. Writes `*event` if the call succeeds. */
INTERLACE_EXPORT interlace_result interlace_event_record(int gpu, struct CUstream_st* stream,
                                                         interlace_event** event);
/* Makes all later work on the stream run after the event. */
INTERLACE_EXPORT interlace_result interlace_event_wait(const interlace_event* event, int gpu,
                                                       struct CUstream_st* stream);
/* Says whether all work before the event is complete: sets `*answer` to 1 or 0. */
INTERLACE_EXPORT interlace_result interlace_event_done(const interlace_event* event, int* answer);
/* Destroys an event without waiting for it. Streams that already wait for the event continue to
 * wait. Does nothing if `event` is null. */
INTERLACE_EXPORT void interlace_event_destroy(interlace_event* event);

#ifdef __cplusplus
}
#endif

#endif
