/* Copies between the memories of a node over all the wires that help, for C and whatever calls C.
 *
 *   #include <interlace/copy.h>                     // link libinterlace.so, or load it
 *   if (interlace_copy_async(dst, src, bytes, stream) != INTERLACE_SUCCESS)
 *     fprintf(stderr, "%s\n", interlace_last_error());
 *
 * What is promised of ordering, captures, memory kinds and errors is what interlace/copy.hpp
 * promises of interlace::copy_async: the copy takes the place of cudaMemcpyAsync(dst, src, bytes,
 * cudaMemcpyDefault, stream). Functions may be called by several threads at the same time, and no
 * C++ exception leaves them. Link against no CUDA library for this header; cudaStream_t and
 * CUstream are pointers to CUstream_st. */
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

/* The interface that this header describes. A library with the same or a higher number has all of
 * it: what is there never changes its meaning, functions and members at ends of structures are
 * added. */
#define INTERLACE_COPY_ABI 3

typedef enum interlace_result {
  INTERLACE_SUCCESS = 0,
  INTERLACE_INVALID_ARGUMENT = 1, /* buffers overlap, there is no such GPU, a null pointer */
  INTERLACE_INVALID_SETTING = 2,  /* an environment variable or a setting means nothing */
  INTERLACE_NO_GPU = 3,           /* no NVIDIA driver, one that is too old, or no GPU */
  INTERLACE_DEVICE_ERROR = 4,     /* the driver failed: memory, a stream or a GPU that is gone */
  INTERLACE_OUT_OF_MEMORY = 5,    /* of the host */
  INTERLACE_INTERNAL_ERROR = 6
} interlace_result;

/* The number of the library's interface, see INTERLACE_COPY_ABI. */
INTERLACE_EXPORT int interlace_copy_abi(void);
/* The library's version, as "0.1.0". */
INTERLACE_EXPORT const char* interlace_version(void);
/* One sentence about the last call of this thread that did not succeed; "" if all did. Valid until
 * the thread's next call that fails. */
INTERLACE_EXPORT const char* interlace_last_error(void);

/* `bytes` from `src` to `dst`, enqueued on `stream`; 0 bytes are no copy and need no GPU. By the
 * process's own copier, which is made at the first call with the settings of the environment and
 * never ends. */
INTERLACE_EXPORT interlace_result interlace_copy_async(void* dst, const void* src, size_t bytes,
                                                       struct CUstream_st* stream);

/* A copier with settings of its own. Where a function takes one, null is the process's own. */
typedef struct interlace_copier interlace_copier;

/* `settings` are words as "INTERLACE_COPY=graphs", ended by null, that stand before those of the
 * environment; null: the environment's alone. `interlace config` lists them. Writes `*copier` if it
 * succeeds. */
INTERLACE_EXPORT interlace_result interlace_copier_create(const char* const* settings,
                                                          interlace_copier** copier);
/* Waits for its copies. Null is nothing. */
INTERLACE_EXPORT void interlace_copier_destroy(interlace_copier* copier);

/* With `gpu`, a CUDA number, the call runs in the primary context of that GPU, whose default
 * streams null and cudaStreamPerThread then are. INTERLACE_CURRENT_GPU: in the context that the
 * thread has, as interlace_copy_async. */
#define INTERLACE_CURRENT_GPU (-1)
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

/* Copies that are planned together and in no order among themselves, as
 * interlace::copier::copy_batch_async has them. Since number 2 of the interface. */
INTERLACE_EXPORT interlace_result interlace_copier_copy_batch_async(
    interlace_copier* copier, int gpu, const interlace_batch_copy* copies, size_t count,
    struct CUstream_st* stream);
/* Of `participants`, each with a buffer to send and one to receive, as
 * interlace::copier::all_gather_async and all_to_all_async have them; `bytes` are those of a block.
 * Since number 2 of the interface. */
INTERLACE_EXPORT interlace_result interlace_copier_all_gather_async(
    interlace_copier* copier, int gpu, const void* const* send, void* const* receive,
    size_t participants, size_t bytes, struct CUstream_st* stream);
INTERLACE_EXPORT interlace_result interlace_copier_all_to_all_async(
    interlace_copier* copier, int gpu, const void* const* send, void* const* receive,
    size_t participants, size_t bytes, struct CUstream_st* stream);

/* What an all-reduce combines, and how; interlace::reduced_type and interlace::reduce_by. */
typedef enum interlace_element {
  INTERLACE_FLOAT32 = 0,
  INTERLACE_FLOAT64 = 1,
  INTERLACE_FLOAT16 = 2,
  INTERLACE_BFLOAT16 = 3,
  INTERLACE_INT32 = 4,
  INTERLACE_INT64 = 5
} interlace_element;
typedef enum interlace_reduction {
  INTERLACE_SUM = 0,
  INTERLACE_MIN = 1,
  INTERLACE_MAX = 2
} interlace_reduction;

/* `count` elements of each participant, as interlace::copier::all_reduce_async has it; a library
 * that was built without nvcc answers INTERLACE_INVALID_ARGUMENT. Since number 3 of the interface.
 */
INTERLACE_EXPORT interlace_result interlace_copier_all_reduce_async(
    interlace_copier* copier, int gpu, const void* const* send, void* const* receive,
    size_t participants, size_t count, interlace_element type, interlace_reduction by,
    struct CUstream_st* stream);

/* What the first large message would do: contexts on all GPUs, access between them. */
INTERLACE_EXPORT interlace_result interlace_copier_prepare(interlace_copier* copier);

/* Counted since the copier was made. Members are those of interlace::copy_statistics, where they
 * are described. */
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

/* `size` is sizeof(interlace_copy_statistics), as the caller was compiled. */
INTERLACE_EXPORT interlace_result interlace_copier_statistics(interlace_copier* copier,
                                                              interlace_copy_statistics* statistics,
                                                              size_t size);

/* Where memory is: a CUDA number of a GPU, from 0 on, or one of these. What is neither page-locked
 * (one allocation or registration) nor of one GPU is copied plainly, which may make the caller wait
 * for it. */
#define INTERLACE_PAGE_LOCKED (-1) /* the host's */
#define INTERLACE_PAGEABLE (-2)    /* the host's, or not known to the driver */
#define INTERLACE_MANAGED (-3)     /* moved by the driver */
#define INTERLACE_MIXED (-4)       /* of several allocations, not all in one place */
INTERLACE_EXPORT interlace_result interlace_memory_place(const void* memory, size_t bytes,
                                                         int* place);

/* For callers that have to order copies of several streams and are without a CUDA toolkit. `gpu` is
 * that of the stream, or INTERLACE_CURRENT_GPU. None of these disturbs a capture of another stream.
 *
 * Whether the stream is being captured: `*answer` is 1 or 0. */
INTERLACE_EXPORT interlace_result interlace_stream_is_capturing(int gpu, struct CUstream_st* stream,
                                                                int* answer);
/* A point in a stream: behind what it was given until now. Writes `*event` if it succeeds. */
typedef struct interlace_event interlace_event;
INTERLACE_EXPORT interlace_result interlace_event_record(int gpu, struct CUstream_st* stream,
                                                         interlace_event** event);
/* What the stream is given later runs behind the event. */
INTERLACE_EXPORT interlace_result interlace_event_wait(const interlace_event* event, int gpu,
                                                       struct CUstream_st* stream);
/* Whether all ahead of it is complete: `*answer` is 1 or 0. */
INTERLACE_EXPORT interlace_result interlace_event_done(const interlace_event* event, int* answer);
/* Waits for nothing, and what waits for the event still does. Null is nothing. */
INTERLACE_EXPORT void interlace_event_destroy(interlace_event* event);

#ifdef __cplusplus
}
#endif

#endif
