// Prints, as JSON, how long the call for a small copy keeps the host busy, in ns: the best of
// several measurements.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

typedef int (*find_function)(const char*, void**, int, uint64_t, int*);

static find_function find;

static void* look_up(const char* name, int version) {
  void* found = 0;
  int status = 0;
  return find(name, &found, version, 0, &status) == 0 ? found : 0;
}

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(void) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == 0) return 2;
  find = (find_function)dlsym(library, "cuGetProcAddress_v2");
  int (*init)(unsigned) = (int (*)(unsigned))look_up("cuInit", 2000);
  int (*retain)(void**, int) = (int (*)(void**, int))look_up("cuDevicePrimaryCtxRetain", 7000);
  int (*set)(void*) = (int (*)(void*))look_up("cuCtxSetCurrent", 4000);
  int (*allocate)(unsigned long long*, size_t) =
      (int (*)(unsigned long long*, size_t))look_up("cuMemAlloc", 3020);
  int (*lock)(void**, size_t, unsigned) =
      (int (*)(void**, size_t, unsigned))look_up("cuMemHostAlloc", 2020);
  int (*stream_create)(void**, unsigned) =
      (int (*)(void**, unsigned))look_up("cuStreamCreate", 2000);
  int (*wait)(void*) = (int (*)(void*))look_up("cuStreamSynchronize", 2000);
  int (*copy)(unsigned long long, const void*, size_t, void*) =
      (int (*)(unsigned long long, const void*, size_t, void*))look_up("cuMemcpyHtoDAsync", 3020);
  void* context = 0;
  void* host = 0;
  void* stream = 0;
  unsigned long long gpu = 0;
  if (init(0) != 0 || retain(&context, 0) != 0 || set(context) != 0) return 3;
  if (allocate(&gpu, 4096) != 0 || lock(&host, 4096, 0) != 0 || stream_create(&stream, 1) != 0)
    return 3;
  double best = 1e18;
  for (int round = 0; round < 200; ++round) {
    const double begin = now_ns();
    for (int index = 0; index < 100; ++index)
      if (copy(gpu, host, 64, stream) != 0) return 4;
    const double took = (now_ns() - begin) / 100;
    if (took < best) best = took;
    wait(stream);
  }
  printf("{\"ns\": %.2f}\n", best);
  return 0;
}
