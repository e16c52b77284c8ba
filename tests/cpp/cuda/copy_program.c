/* A C program that uses interlace/copy.h:
 *
 *   copy_program nothing         on a machine without a driver: checks the error of every function
 *   copy_program copies SEED     random copies between all memories, compared byte by byte
 *
 * The exit code is 0 if every check passes. Otherwise the exit code is 1, and the program prints
 * the check that failed. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interlace/copy.h"

struct CUctx_st;

static const char* doing = "";

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s: this does not hold: %s; the last error is \"%s\"\n", doing, what,
          interlace_last_error());
  exit(1);
}

static void expect_failure(interlace_result found, interlace_result wanted, const char* part) {
  expect(found == wanted, "the result is the expected one");
  expect(strstr(interlace_last_error(), part) != NULL, part);
}

/* Checks what every caller can rely on, on any machine. */
static void check_arguments(void) {
  unsigned char bytes[64] = {0};
  interlace_copier* copier = NULL;
  const char* const unknown[] = {"INTERLACE_COPY=direct", "INTERLACE_SPEED=11", NULL};
  const char* const wrong[] = {"INTERLACE_COPY_THRESHOLD=some", NULL};
  const interlace_batch_copy nothing = {NULL, NULL, 0};
  const interlace_batch_copy from_nowhere = {bytes, NULL, 8};
  const void* const sent[] = {bytes};
  void* const buffers[] = {bytes};
  doing = "arguments";
  expect(interlace_copy_abi() == INTERLACE_COPY_ABI,
         "the library has the ABI number of the header");
  expect(strchr(interlace_version(), '.') != NULL, "a version has a point");
  expect(strcmp(interlace_last_error(), "") == 0, "nothing has failed yet");
  expect(interlace_copy_async(bytes, bytes, 0, NULL) == INTERLACE_SUCCESS, "0 bytes: no copy");
  expect_failure(interlace_copy_async(NULL, bytes, 8, NULL), INTERLACE_INVALID_ARGUMENT,
                 "the destination of a copy of 8 bytes is a null pointer");
  expect_failure(interlace_copy_async(bytes, NULL, 8, NULL), INTERLACE_INVALID_ARGUMENT,
                 "the source of a copy of 8 bytes is a null pointer");
  expect_failure(interlace_copier_create(unknown, &copier), INTERLACE_INVALID_SETTING,
                 "'INTERLACE_SPEED=11' is not a setting of copies");
  expect_failure(interlace_copier_create(wrong, &copier), INTERLACE_INVALID_SETTING,
                 "INTERLACE_COPY_THRESHOLD='some' is not a size");
  expect_failure(interlace_copier_create(NULL, NULL), INTERLACE_INVALID_ARGUMENT,
                 "the pointer for the new copier is null");
  expect_failure(interlace_copier_statistics(NULL, NULL, 8), INTERLACE_INVALID_ARGUMENT,
                 "the pointer for the statistics is null");
  expect_failure(interlace_memory_place(bytes, 8, NULL), INTERLACE_INVALID_ARGUMENT,
                 "the pointer for the answer is null");
  expect_failure(interlace_stream_is_capturing(0, NULL, NULL), INTERLACE_INVALID_ARGUMENT,
                 "the pointer for the answer is null");
  expect_failure(interlace_event_record(0, NULL, NULL), INTERLACE_INVALID_ARGUMENT,
                 "the pointer for the event is null");
  expect_failure(interlace_event_wait(NULL, 0, NULL), INTERLACE_INVALID_ARGUMENT,
                 "there is no event to wait for");
  expect_failure(interlace_event_done(NULL, NULL), INTERLACE_INVALID_ARGUMENT,
                 "the event, or the pointer for the answer, is null");
  interlace_event_destroy(NULL);
  expect(
      interlace_copier_copy_batch_async(NULL, 0, NULL, 0, NULL) == INTERLACE_SUCCESS &&
          interlace_copier_copy_batch_async(NULL, 0, &nothing, 1, NULL) == INTERLACE_SUCCESS &&
          interlace_copier_all_gather_async(NULL, 0, NULL, NULL, 0, 8, NULL) == INTERLACE_SUCCESS &&
          interlace_copier_all_to_all_async(NULL, 0, NULL, NULL, 2, 0, NULL) == INTERLACE_SUCCESS &&
          interlace_copier_all_reduce_async(NULL, 0, NULL, NULL, 2, 0, INTERLACE_INT64,
                                            INTERLACE_MAX, NULL) == INTERLACE_SUCCESS,
      "nothing needs no GPU");
  expect_failure(interlace_copier_copy_batch_async(NULL, 0, NULL, 2, NULL),
                 INTERLACE_INVALID_ARGUMENT, "the copies of a batch are a null pointer");
  expect_failure(interlace_copier_copy_batch_async(NULL, 0, &from_nowhere, 1, NULL),
                 INTERLACE_INVALID_ARGUMENT, "the source of copy 0 of a batch is a null pointer");
  expect_failure(interlace_copier_all_gather_async(NULL, 0, NULL, buffers, 1, 8, NULL),
                 INTERLACE_INVALID_ARGUMENT, "the buffers to send of a collective");
  expect_failure(interlace_copier_all_to_all_async(NULL, 0, sent, NULL, 1, 8, NULL),
                 INTERLACE_INVALID_ARGUMENT, "the buffers to receive of a collective");
  expect_failure(interlace_copier_all_reduce_async(NULL, 0, sent, NULL, 1, 8, INTERLACE_FLOAT32,
                                                   INTERLACE_SUM, NULL),
                 INTERLACE_INVALID_ARGUMENT, "the buffers to receive of a collective");
  expect_failure(interlace_copier_all_reduce_async(NULL, 0, sent, buffers, 1, 8,
                                                   (interlace_element)6, INTERLACE_SUM, NULL),
                 INTERLACE_INVALID_ARGUMENT, "there is no element type 6 of an all-reduce");
  expect_failure(interlace_copier_all_reduce_async(NULL, 0, sent, buffers, 1, 8, INTERLACE_FLOAT32,
                                                   (interlace_reduction)3, NULL),
                 INTERLACE_INVALID_ARGUMENT, "there is no reduction 3 of an all-reduce");
  expect(copier == NULL, "no copier was made");
  interlace_copier_destroy(NULL);
}

static void without_a_driver(void) {
  unsigned char bytes[64] = {0};
  interlace_copier* copier = NULL;
  interlace_event* event = NULL;
  interlace_copy_statistics counted;
  int answer = 0;
  const interlace_batch_copy batch = {bytes, bytes + 32, 8};
  const void* const sent[] = {bytes};
  void* const received[] = {bytes + 32};
  const char* const none = "no NVIDIA driver was found";
  doing = "without a driver";
  expect_failure(interlace_copy_async(bytes, bytes + 32, 8, NULL), INTERLACE_NO_GPU, none);
  expect_failure(interlace_copier_copy_async(NULL, 0, bytes, bytes + 32, 8, NULL), INTERLACE_NO_GPU,
                 none);
  expect_failure(interlace_copier_copy_batch_async(NULL, 0, &batch, 1, NULL), INTERLACE_NO_GPU,
                 none);
  expect_failure(interlace_copier_all_gather_async(NULL, 0, sent, received, 1, 8, NULL),
                 INTERLACE_NO_GPU, none);
  expect_failure(interlace_copier_all_to_all_async(NULL, 0, sent, received, 1, 8, NULL),
                 INTERLACE_NO_GPU, none);
  expect_failure(interlace_copier_all_reduce_async(NULL, 0, sent, received, 1, 8, INTERLACE_INT32,
                                                   INTERLACE_MIN, NULL),
                 INTERLACE_NO_GPU, none);
  expect_failure(interlace_copier_create(NULL, &copier), INTERLACE_NO_GPU, none);
  expect_failure(interlace_copier_prepare(NULL), INTERLACE_NO_GPU, none);
  expect_failure(interlace_copier_statistics(NULL, &counted, sizeof counted), INTERLACE_NO_GPU,
                 none);
  expect_failure(interlace_memory_place(bytes, 8, &answer), INTERLACE_NO_GPU, none);
  expect_failure(interlace_stream_is_capturing(0, NULL, &answer), INTERLACE_NO_GPU, none);
  expect_failure(interlace_event_record(0, NULL, &event), INTERLACE_NO_GPU, none);
  printf("%s\n", interlace_last_error());
}

/* The functions of the driver that this program itself needs. */
static int (*cu_init)(unsigned);
static int (*device_count)(int*);
static int (*primary_retain)(struct CUctx_st**, int);
static int (*set_current)(struct CUctx_st*);
static int (*allocate)(unsigned long long*, size_t);
static int (*allocate_host)(void**, size_t, unsigned);
static int (*stream_create)(struct CUstream_st**, unsigned);
static int (*synchronize)(void);

static void find(void* library, const char* name, void* function) {
  void* const found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "the driver has no %s\n", name);
    exit(1);
  }
  memcpy(function, &found, sizeof found);
}

static void load_driver(void) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  doing = "the driver";
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  find(library, "cuInit", &cu_init);
  find(library, "cuDeviceGetCount", &device_count);
  find(library, "cuDevicePrimaryCtxRetain", &primary_retain);
  find(library, "cuCtxSetCurrent", &set_current);
  find(library, "cuMemAlloc_v2", &allocate);
  find(library, "cuMemHostAlloc", &allocate_host);
  find(library, "cuStreamCreate", &stream_create);
  find(library, "cuCtxSynchronize", &synchronize);
  expect(cu_init(0) == 0, "the driver starts");
}

enum { most_gpus = 8, buffer_bytes = 4 << 20 };

static uint64_t random_state;
static uint64_t random_number(void) { /* splitmix64 */
  uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static void fill(unsigned char* bytes, size_t count) {
  size_t at;
  for (at = 0; at + 8 <= count; at += 8) {
    const uint64_t word = random_number();
    memcpy(bytes + at, &word, 8);
  }
}

/* Copies from pinned memory to a GPU, from there to another GPU, and back to the host. The copies
 * use a copier or, with null, the default copier. Before the copies, the destinations hold other
 * contents. */
static void copy_around(interlace_copier* copier, int gpus) {
  struct CUctx_st* contexts[most_gpus];
  unsigned long long memory[most_gpus];
  struct CUstream_st* streams[most_gpus];
  void* place = NULL;
  unsigned char *from, *to, *poison;
  int gpu, round, answer = -9;
  for (gpu = 0; gpu < gpus; ++gpu) {
    expect(primary_retain(&contexts[gpu], gpu) == 0, "a context");
    expect(set_current(contexts[gpu]) == 0, "the context is current");
    expect(allocate(&memory[gpu], buffer_bytes) == 0, "memory of a GPU");
    expect(stream_create(&streams[gpu], 1) == 0, "a stream");
  }
  expect(allocate_host(&place, buffer_bytes, 0) == 0, "pinned memory");
  from = place;
  expect(allocate_host(&place, buffer_bytes, 0) == 0, "pinned memory");
  to = place;
  expect(allocate_host(&place, buffer_bytes, 0) == 0, "pinned memory");
  poison = place;
  expect(interlace_memory_place(from, buffer_bytes, &answer) == INTERLACE_SUCCESS &&
             answer == INTERLACE_PAGE_LOCKED,
         "pinned memory is page-locked");
  expect(interlace_memory_place(&random_state, 8, &answer) == INTERLACE_SUCCESS &&
             answer == INTERLACE_PAGEABLE,
         "other memory is not");
  for (gpu = 0; gpu < gpus; ++gpu)
    expect(interlace_memory_place((void*)(uintptr_t)memory[gpu], buffer_bytes, &answer) ==
                   INTERLACE_SUCCESS &&
               answer == gpu,
           "memory of a GPU is there");
  for (round = 0; round < 9; ++round) {
    const int one = (int)(random_number() % (unsigned)gpus);
    const int other = (int)(random_number() % (unsigned)gpus);
    const int own = round % 3; /* a stream of ours, the GPU's default one, that of the thread */
    const size_t bytes = 1 + random_number() % (round % 4 == 0 ? 4096 : buffer_bytes);
    const size_t at = random_number() % (buffer_bytes - bytes + 1);
    const size_t there = random_number() % (buffer_bytes - bytes + 1);
    const int given = own == 0 ? INTERLACE_CURRENT_GPU : one;
    struct CUstream_st* const thread = (struct CUstream_st*)(uintptr_t)2;
    struct CUstream_st* stream = own == 0 ? streams[one] : own == 1 ? NULL : thread;
    unsigned char* const first = (unsigned char*)(uintptr_t)memory[one];
    unsigned char* const second = (unsigned char*)(uintptr_t)memory[other];
    interlace_result results[6];
    int k;
    fill(from, buffer_bytes);
    memset(poison, 0xA5, buffer_bytes);
    memset(to, 0x5A, buffer_bytes);
    /* The current context may differ from the stream's context if the call names the GPU. */
    expect(set_current(contexts[own == 0 ? one : (one + 1) % gpus]) == 0, "a current context");
    results[0] = interlace_copier_copy_async(copier, given, first, poison, buffer_bytes, stream);
    results[1] = one == other ? INTERLACE_SUCCESS
                              : interlace_copier_copy_async(copier, given, second, poison,
                                                            buffer_bytes, stream);
    results[2] = interlace_copier_copy_async(copier, given, first + at, from + at, bytes, stream);
    results[3] = one == other ? INTERLACE_SUCCESS
                              : interlace_copier_copy_async(copier, given, second + there,
                                                            first + at, bytes, stream);
    results[4] = interlace_copier_copy_async(copier, given, to, one == other ? first : second,
                                             buffer_bytes, stream);
    results[5] = INTERLACE_SUCCESS;
    for (k = 0; k < 6; ++k) expect(results[k] == INTERLACE_SUCCESS, "a copy is enqueued");
    expect(set_current(contexts[one]) == 0 && synchronize() == 0, "the copies end");
    {
      const size_t begin = one == other ? at : there;
      const unsigned char* const behind = to + begin + bytes;
      expect(memcmp(to + begin, from + at, bytes) == 0, "every byte is copied");
      memset(poison, 0xA5, buffer_bytes);
      expect(memcmp(to, poison, begin) == 0 &&
                 memcmp(behind, poison, (size_t)(to + buffer_bytes - behind)) == 0,
             "no other byte is written");
    }
  }
}

/* Uses two GPUs, each with its own stream. An event orders the second copy after the first. */
static void in_order(int gpus) {
  struct CUctx_st* context;
  struct CUstream_st* streams[2];
  unsigned long long memory[2];
  void* place = NULL;
  unsigned char *from, *to;
  int round, k, answer = -1;
  for (k = 0; k < 2; ++k) {
    expect(primary_retain(&context, k % gpus) == 0 && set_current(context) == 0, "a context");
    expect(allocate(&memory[k], buffer_bytes) == 0, "memory of a GPU");
    expect(stream_create(&streams[k], 1) == 0, "a stream");
  }
  expect(allocate_host(&place, buffer_bytes, 0) == 0, "pinned memory");
  from = place;
  expect(allocate_host(&place, buffer_bytes, 0) == 0, "pinned memory");
  to = place;
  for (round = 0; round < 3; ++round) {
    interlace_event *first = NULL, *second = NULL;
    fill(from, buffer_bytes);
    memset(to, 0x5A, buffer_bytes);
    expect(interlace_copier_copy_async(NULL, 0, (void*)(uintptr_t)memory[0], from, buffer_bytes,
                                       streams[0]) == INTERLACE_SUCCESS,
           "a copy on the first stream");
    expect(
        interlace_stream_is_capturing(0, streams[0], &answer) == INTERLACE_SUCCESS && answer == 0,
        "nothing is captured");
    expect(interlace_event_record(0, streams[0], &first) == INTERLACE_SUCCESS, "an event");
    expect(interlace_event_wait(first, 1 % gpus, streams[1]) == INTERLACE_SUCCESS, "a wait");
    interlace_event_destroy(first);
    expect(interlace_copier_copy_async(NULL, 1 % gpus, (void*)(uintptr_t)memory[1],
                                       (void*)(uintptr_t)memory[0], buffer_bytes,
                                       streams[1]) == INTERLACE_SUCCESS,
           "a copy on the second stream");
    expect(interlace_copier_copy_async(NULL, 1 % gpus, to, (void*)(uintptr_t)memory[1],
                                       buffer_bytes, streams[1]) == INTERLACE_SUCCESS,
           "and one back");
    expect(interlace_event_record(1 % gpus, streams[1], &second) == INTERLACE_SUCCESS, "an event");
    expect(
        primary_retain(&context, 1 % gpus) == 0 && set_current(context) == 0 && synchronize() == 0,
        "the copies end");
    expect(interlace_event_done(second, &answer) == INTERLACE_SUCCESS && answer == 1,
           "the second event has completed");
    interlace_event_destroy(second);
    expect(memcmp(from, to, buffer_bytes) == 0, "every byte is right");
  }
}

/* All GPUs send to all GPUs. Blocks come from pinned memory, and go back to pinned memory after
 * they have arrived. */
static void collect(interlace_copier* copier, int gpus) {
  const size_t bytes = buffer_bytes / most_gpus;
  struct CUctx_st* context;
  struct CUstream_st* stream = NULL;
  interlace_batch_copy batch[2 * most_gpus];
  unsigned long long memory[2][most_gpus];
  const void* sent[most_gpus];
  void* received[most_gpus];
  unsigned char* host[most_gpus]; /* what a GPU sends, followed by what it has received */
  void* place = NULL;
  int round, gpu, block, kind;
  for (gpu = gpus - 1; gpu >= 0; --gpu) { /* the stream is the first one's */
    expect(primary_retain(&context, gpu) == 0 && set_current(context) == 0, "a context");
    for (kind = 0; kind < 2; ++kind)
      expect(allocate(&memory[kind][gpu], buffer_bytes) == 0, "memory of a GPU");
    expect(allocate_host(&place, 2 * buffer_bytes, 0) == 0, "pinned memory");
    host[gpu] = place;
    sent[gpu] = (const void*)(uintptr_t)memory[0][gpu];
    received[gpu] = (void*)(uintptr_t)memory[1][gpu];
  }
  expect(stream_create(&stream, 1) == 0, "a stream");
  for (round = 0; round < 2; ++round) {
    const int gather = round % 2;
    for (gpu = 0; gpu < gpus; ++gpu) {
      fill(host[gpu], buffer_bytes);
      memset(host[gpu] + buffer_bytes, 0x5A, buffer_bytes);
      batch[2 * gpu].dst = (void*)(uintptr_t)memory[0][gpu];
      batch[2 * gpu].src = host[gpu];
      batch[2 * gpu].bytes = buffer_bytes;
      batch[2 * gpu + 1].dst = received[gpu];
      batch[2 * gpu + 1].src = host[gpu] + buffer_bytes;
      batch[2 * gpu + 1].bytes = buffer_bytes;
    }
    expect(interlace_copier_copy_batch_async(copier, 0, batch, 2 * (size_t)gpus, stream) ==
               INTERLACE_SUCCESS,
           "a batch");
    expect((gather ? interlace_copier_all_gather_async : interlace_copier_all_to_all_async)(
               copier, 0, sent, received, (size_t)gpus, bytes, stream) == INTERLACE_SUCCESS,
           "a collective");
    for (gpu = 0; gpu < gpus; ++gpu) {
      batch[gpu].dst = host[gpu] + buffer_bytes;
      batch[gpu].src = received[gpu];
      batch[gpu].bytes = buffer_bytes;
    }
    expect(interlace_copier_copy_batch_async(copier, INTERLACE_CURRENT_GPU, batch, (size_t)gpus,
                                             stream) == INTERLACE_SUCCESS,
           "a batch");
    expect(synchronize() == 0, "the copies end");
    for (gpu = 0; gpu < gpus; ++gpu)
      for (block = 0; block < most_gpus; ++block) {
        const unsigned char* const found = host[gpu] + buffer_bytes + (size_t)block * bytes;
        if (block < gpus)
          expect(memcmp(found, host[block] + (gather ? 0 : (size_t)gpu * bytes), bytes) == 0,
                 "every block is in its place");
        else
          expect(found[0] == 0x5A && memcmp(found, found + 1, bytes - 1) == 0,
                 "no other byte is written");
      }
  }
  batch[0].dst = (unsigned char*)received[0] + 1; /* batch[0] reads received[0] */
  expect_failure(interlace_copier_copy_batch_async(copier, 0, batch, 1, stream),
                 INTERLACE_INVALID_ARGUMENT, "overlap");
}

static void copies(uint64_t seed) {
  const char* const graphs[] = {"INTERLACE_COPY=graphs", "INTERLACE_COPY_THRESHOLD=64K", NULL};
  const char* const streams[] = {"INTERLACE_COPY=graphs", "INTERLACE_COPY_THRESHOLD=64K",
                                 "INTERLACE_COPY=streams", NULL};
  unsigned char bytes[64] = {0};
  struct {
    interlace_copy_statistics known;
    uint64_t of_a_later_library;
  } counted;
  interlace_copier* copier = NULL;
  int gpus = 0;
  random_state = seed;
  load_driver();
  expect(device_count(&gpus) == 0 && gpus > 0, "the driver has GPUs");
  if (gpus > most_gpus) gpus = most_gpus;

  doing = "wrong arguments";
  expect_failure(interlace_copier_copy_async(NULL, 1000, bytes, bytes + 32, 8, NULL),
                 INTERLACE_INVALID_ARGUMENT, "there is no GPU 1000; this process sees ");
  expect_failure(interlace_copier_copy_async(NULL, -2, bytes, bytes + 32, 8, NULL),
                 INTERLACE_INVALID_ARGUMENT, "there is no GPU -2");
  expect_failure(interlace_copy_async(bytes, bytes + 1, 8, NULL), INTERLACE_INVALID_ARGUMENT,
                 "overlap");

  doing = "the process's copier";
  expect(interlace_copier_prepare(NULL) == INTERLACE_SUCCESS, "the default copier is prepared");
  copy_around(NULL, gpus);
  collect(NULL, gpus);
  memset(&counted, 0xFF, sizeof counted);
  expect(interlace_copier_statistics(NULL, &counted.known, sizeof counted) == INTERLACE_SUCCESS,
         "statistics");
  expect(counted.known.bytes > 0 && counted.known.direct > 0, "copies are counted");
  expect(counted.of_a_later_library == 0, "members that the library does not know are 0");
  memset(&counted, 0xFF, sizeof counted);
  expect(interlace_copier_statistics(NULL, &counted.known, 8) == INTERLACE_SUCCESS,
         "the first 8 bytes of the statistics");
  expect(counted.known.streams == UINT64_MAX,
         "only the bytes that the caller asks for are written");

  doing = "two streams";
  in_order(gpus);

  doing = "a copier with graphs";
  expect(interlace_copier_create(graphs, &copier) == INTERLACE_SUCCESS, "a copier is made");
  copy_around(copier, gpus);
  collect(copier, gpus);
  expect(interlace_copier_statistics(copier, &counted.known, sizeof counted) == INTERLACE_SUCCESS,
         "statistics");
  expect(counted.known.streams == 0, "a copier with graphs uses no streams");
  expect(gpus < 2 || counted.known.graphs > 0, "a copier with graphs uses graphs");
  interlace_copier_destroy(copier);

  doing = "a copier with streams";
  expect(interlace_copier_create(streams, &copier) == INTERLACE_SUCCESS, "a copier is made");
  copy_around(copier, gpus);
  collect(copier, gpus);
  expect(interlace_copier_statistics(copier, &counted.known, sizeof counted) == INTERLACE_SUCCESS,
         "statistics");
  expect(counted.known.graphs == 0, "a copier with streams uses no graphs");
  expect(gpus < 2 || counted.known.streams > 0, "a copier with streams uses streams");
  interlace_copier_destroy(copier);
  printf("every byte is right on %d GPUs\n", gpus);
}

int main(int count, char** words) {
  check_arguments();
  if (count == 2 && strcmp(words[1], "nothing") == 0)
    without_a_driver();
  else if (count == 3 && strcmp(words[1], "copies") == 0)
    copies(strtoull(words[2], NULL, 10));
  else
    return 2;
  return 0;
}
