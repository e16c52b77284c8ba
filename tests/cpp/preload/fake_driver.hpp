// A CUDA driver for tests. It is a libcuda.so.1 whose GPUs are host memory.
//
// Work on streams, events and graphs runs late and in a random order that keeps only the order that
// CUDA promises. If a copy waits for too little, its bytes are therefore wrong. Every function
// counts its calls.
//
// The variable FAKE_CUDA sets the driver's version of CUDA. The default is 13000. With 12020 (CUDA
// 12.2), the driver lacks all functions and forms that came later, and refuses a caller that asks
// for a later version. If FAKE_NO_PEER_ACCESS is set, no GPU can access the memory of another GPU.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;

int cuInit(unsigned);
int cuDeviceGetCount(int*);
int cuGetProcAddress(const char*, void**, int, std::uint64_t);
int cuGetProcAddress_v2(const char*, void**, int, std::uint64_t, int*);

int cuDevicePrimaryCtxRetain(CUctx_st**, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuDevicePrimaryCtxReset_v2(int);
int cuCtxCreate_v2(CUctx_st**, unsigned, int);
int cuCtxSetCurrent(CUctx_st*);
int cuCtxSynchronize();
int cuCtxEnablePeerAccess(CUctx_st*, unsigned);
int cuCtxDisablePeerAccess(CUctx_st*);

int cuMemAlloc_v2(unsigned long long*, std::size_t);
int cuMemFree_v2(unsigned long long);
int cuMemAllocManaged(unsigned long long*, std::size_t, unsigned);
int cuMemHostAlloc(void**, std::size_t, unsigned);
int cuMemFreeHost(void*);

int cuMemcpyAsync(unsigned long long, unsigned long long, std::size_t, CUstream_st*);
int cuMemcpyAsync_ptsz(unsigned long long, unsigned long long, std::size_t, CUstream_st*);
int cuMemcpyHtoDAsync_v2(unsigned long long, const void*, std::size_t, CUstream_st*);
int cuMemcpyHtoDAsync_v2_ptsz(unsigned long long, const void*, std::size_t, CUstream_st*);
int cuMemcpyDtoHAsync_v2(void*, unsigned long long, std::size_t, CUstream_st*);
int cuMemcpyDtoHAsync_v2_ptsz(void*, unsigned long long, std::size_t, CUstream_st*);
int cuMemcpyDtoDAsync_v2(unsigned long long, unsigned long long, std::size_t, CUstream_st*);
int cuMemcpyDtoDAsync_v2_ptsz(unsigned long long, unsigned long long, std::size_t, CUstream_st*);
int cuMemcpyPeerAsync(unsigned long long, CUctx_st*, unsigned long long, CUctx_st*, std::size_t,
                      CUstream_st*);
int cuMemcpyPeerAsync_ptsz(unsigned long long, CUctx_st*, unsigned long long, CUctx_st*,
                           std::size_t, CUstream_st*);
int cuMemcpyHtoD_v2(unsigned long long, const void*, std::size_t);
int cuMemcpyDtoH_v2(void*, unsigned long long, std::size_t);

struct fake_attributes {
  int order = 1;
  int hints[4] = {};
  unsigned flags = 0;
};
int cuMemcpyBatchAsync(unsigned long long*, unsigned long long*, std::size_t*, std::size_t,
                       fake_attributes*, std::size_t*, std::size_t, std::size_t*, CUstream_st*);
int cuMemcpyBatchAsync_ptsz(unsigned long long*, unsigned long long*, std::size_t*, std::size_t,
                            fake_attributes*, std::size_t*, std::size_t, std::size_t*,
                            CUstream_st*);
int cuMemcpyBatchAsync_v2(unsigned long long*, unsigned long long*, std::size_t*, std::size_t,
                          fake_attributes*, std::size_t*, std::size_t, CUstream_st*);
int cuMemcpyBatchAsync_v2_ptsz(unsigned long long*, unsigned long long*, std::size_t*, std::size_t,
                               fake_attributes*, std::size_t*, std::size_t, CUstream_st*);
int cuMemcpy3DBatchAsync(std::size_t, void*, std::size_t*, unsigned long long, CUstream_st*);
int cuMemcpy3DBatchAsync_v2(std::size_t, void*, unsigned long long, CUstream_st*);

int cuStreamCreate(CUstream_st**, unsigned);
int cuStreamDestroy_v2(CUstream_st*);
int cuStreamSynchronize(CUstream_st*);
int cuStreamBeginCapture_v2(CUstream_st*, int);
int cuStreamEndCapture(CUstream_st*, CUgraph_st**);
int cuGraphInstantiateWithFlags(CUgraphExec_st**, CUgraph_st*, unsigned long long);
int cuGraphLaunch(CUgraphExec_st*, CUstream_st*);

// Returns how often this process called a function from outside the driver.
std::uint64_t fake_calls(const char* symbol);
// Counts the calls of looked-up functions from now on. Call number `at` fails with `code`. If
// `lasts` is not 0, all later calls fail, too. If `at` is 0, no call fails. A call that ends an
// object takes effect even if it fails.
void fake_fail_calls(std::uint64_t at, int code, int lasts);
// Returns the number of calls since fake_fail_calls.
std::uint64_t fake_calls_seen();
// Returns the name of the function that failed first since fake_fail_calls.
const char* fake_failed_call();
// Returns how many streams, events, graphs and other objects the program has made but not ended.
long fake_objects();
// Makes `times` copies fail, after `after` more copies that succeed.
void fake_fail_copies(long after, long times);
// Returns how many bytes are allocated on GPUs (if `on_gpus` is not 0) or page-locked (if `on_gpus`
// is 0).
std::uint64_t fake_bytes(int on_gpus);
// Limits the memory of all GPUs together to this number of bytes. 0 means no limit.
void fake_limit_memory(std::uint64_t bytes);
}
