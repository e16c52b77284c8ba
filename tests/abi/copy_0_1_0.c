/* The interface of interlace/copy.h in version 0.1.0: functions, values and layouts. Nobody may
 * change this file, but later versions may add to the interface. The compiler checks types, values
 * and layouts. The linker checks the symbols. */
#include <interlace/copy.h>
#include <stddef.h>
#include <stdio.h>

_Static_assert(INTERLACE_COPY_ABI >= 3, "interface number");

#define VALUE(name, value) _Static_assert((name) == (value), #name)
VALUE(INTERLACE_SUCCESS, 0);
VALUE(INTERLACE_INVALID_ARGUMENT, 1);
VALUE(INTERLACE_INVALID_SETTING, 2);
VALUE(INTERLACE_NO_GPU, 3);
VALUE(INTERLACE_DEVICE_ERROR, 4);
VALUE(INTERLACE_OUT_OF_MEMORY, 5);
VALUE(INTERLACE_INTERNAL_ERROR, 6);
VALUE(INTERLACE_CURRENT_GPU, -1);
VALUE(INTERLACE_PAGE_LOCKED, -1);
VALUE(INTERLACE_PAGEABLE, -2);
VALUE(INTERLACE_MANAGED, -3);
VALUE(INTERLACE_MIXED, -4);
VALUE(INTERLACE_FLOAT32, 0);
VALUE(INTERLACE_FLOAT64, 1);
VALUE(INTERLACE_FLOAT16, 2);
VALUE(INTERLACE_BFLOAT16, 3);
VALUE(INTERLACE_INT32, 4);
VALUE(INTERLACE_INT64, 5);
VALUE(INTERLACE_SUM, 0);
VALUE(INTERLACE_MIN, 1);
VALUE(INTERLACE_MAX, 2);

_Static_assert(sizeof(interlace_result) == 4 && sizeof(interlace_element) == 4 &&
                   sizeof(interlace_reduction) == 4,
               "enumerations are ints");

#define MEMBER(type, name, offset, bytes)                                                    \
  _Static_assert(offsetof(type, name) == (offset) && sizeof(((type*)NULL)->name) == (bytes), \
                 #type "." #name)
/* Callers pass arrays of this struct, so the struct cannot grow. */
_Static_assert(sizeof(interlace_batch_copy) == 24, "interlace_batch_copy");
MEMBER(interlace_batch_copy, dst, 0, 8);
MEMBER(interlace_batch_copy, src, 8, 8);
MEMBER(interlace_batch_copy, bytes, 16, 8);
/* Callers pass the size of this struct, so the struct can grow at its end. */
_Static_assert(sizeof(interlace_copy_statistics) >= 144, "interlace_copy_statistics");
MEMBER(interlace_copy_statistics, direct, 0, 8);
MEMBER(interlace_copy_statistics, streams, 8, 8);
MEMBER(interlace_copy_statistics, graphs, 16, 8);
MEMBER(interlace_copy_statistics, captured, 24, 8);
MEMBER(interlace_copy_statistics, bytes, 32, 8);
MEMBER(interlace_copy_statistics, hits, 40, 8);
MEMBER(interlace_copy_statistics, misses, 48, 8);
MEMBER(interlace_copy_statistics, evictions, 56, 8);
MEMBER(interlace_copy_statistics, executables, 64, 8);
MEMBER(interlace_copy_statistics, creation_s, 72, 8);
MEMBER(interlace_copy_statistics, construction_s, 80, 8);
MEMBER(interlace_copy_statistics, instantiation_s, 88, 8);
MEMBER(interlace_copy_statistics, update_s, 96, 8);
MEMBER(interlace_copy_statistics, launch_s, 104, 8);
MEMBER(interlace_copy_statistics, nodes, 112, 8);
MEMBER(interlace_copy_statistics, updates, 120, 8);
MEMBER(interlace_copy_statistics, launches, 128, 8);
MEMBER(interlace_copy_statistics, staging_bytes, 136, 8);

typedef struct CUstream_st* stream;
typedef interlace_copier* copier;
typedef interlace_result result;

static int (*const copy_abi)(void) = interlace_copy_abi;
static const char* (*const version)(void) = interlace_version;
static const char* (*const last_error)(void) = interlace_last_error;
static result (*const copy)(void*, const void*, size_t, stream) = interlace_copy_async;
static result (*const create)(const char* const*, copier*) = interlace_copier_create;
static void (*const destroy)(copier) = interlace_copier_destroy;
static result (*const copier_copy)(copier, int, void*, const void*, size_t,
                                   stream) = interlace_copier_copy_async;
static result (*const batch)(copier, int, const interlace_batch_copy*, size_t,
                             stream) = interlace_copier_copy_batch_async;
static result (*const all_gather)(copier, int, const void* const*, void* const*, size_t, size_t,
                                  stream) = interlace_copier_all_gather_async;
static result (*const all_to_all)(copier, int, const void* const*, void* const*, size_t, size_t,
                                  stream) = interlace_copier_all_to_all_async;
static result (*const all_reduce)(copier, int, const void* const*, void* const*, size_t, size_t,
                                  interlace_element, interlace_reduction,
                                  stream) = interlace_copier_all_reduce_async;
static result (*const prepare)(copier) = interlace_copier_prepare;
static result (*const statistics)(copier, interlace_copy_statistics*,
                                  size_t) = interlace_copier_statistics;
static result (*const place)(const void*, size_t, int*) = interlace_memory_place;
static result (*const is_capturing)(int, stream, int*) = interlace_stream_is_capturing;
static result (*const record)(int, stream, interlace_event**) = interlace_event_record;
static result (*const event_wait)(const interlace_event*, int, stream) = interlace_event_wait;
static result (*const event_done)(const interlace_event*, int*) = interlace_event_done;
static void (*const event_destroy)(interlace_event*) = interlace_event_destroy;

int main(void) {
  const int there = last_error && copy && create && destroy && copier_copy && batch && all_gather &&
                    all_to_all && all_reduce && prepare && statistics && place && is_capturing &&
                    record && event_wait && event_done && event_destroy;
  printf("%d %s\n", copy_abi(), version());
  return there ? 0 : 1;
}
