/* A program that uses UCP, as MPI libraries do. One process reads and writes the memory of the
 * other process's GPU, and sends a message from its GPU to that GPU. UCX_TLS names the transports.
 * The GPUs are host memory. With the argument "peers-may-fail", the endpoints report failures of
 * the other process, so UCX uses only transports that handle errors. The exit code is 0 if every
 * byte is right. Otherwise the exit code is 1, and the program prints what failed. */
#include <dlfcn.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

struct CUctx_st;

enum { buffer_bytes = 8 << 20, tag = 7 };

static const char* doing = "";

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "%s: this does not hold: %s\n", doing, what);
  exit(1);
}

static void expect_ok(ucs_status_t status, const char* what) {
  if (status != UCS_OK) fprintf(stderr, "%s\n", ucs_status_string(status));
  expect(status == UCS_OK, what);
}

static int (*primary_retain)(struct CUctx_st**, int);
static int (*set_current)(struct CUctx_st*);
static int (*allocate)(unsigned long long*, size_t);
static uint64_t (*calls_of)(const char*);

static void find(void* library, const char* name, void* function) {
  void* const found = dlsym(library, name);
  expect(found != NULL, name);
  memcpy(function, &found, sizeof found);
}

static void load_driver(void) {
  int (*init)(unsigned) = NULL;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  doing = "the driver";
  expect(library != NULL, "it can be loaded");
  find(library, "cuInit", &init);
  find(library, "cuDevicePrimaryCtxRetain", &primary_retain);
  find(library, "cuCtxSetCurrent", &set_current);
  find(library, "cuMemAlloc_v2", &allocate);
  find(library, "fake_calls", &calls_of);
  expect(init(0) == 0, "it starts");
}

static unsigned char* memory_of(int gpu, int value) {
  struct CUctx_st* context = NULL;
  unsigned long long made = 0;
  expect(primary_retain(&context, gpu) == 0 && set_current(context) == 0, "a context");
  expect(allocate(&made, buffer_bytes) == 0, "memory of a GPU");
  memset((void*)(uintptr_t)made, value, buffer_bytes);
  return (unsigned char*)(uintptr_t)made;
}

static int holds_only(const unsigned char* memory, int value) {
  return memory[0] == value && memcmp(memory, memory + 1, buffer_bytes - 1) == 0;
}

/* --- the other process --- */

static int out_of_here, into_here;

static void tell(const void* bytes, size_t count) {
  expect(write(out_of_here, bytes, count) == (ssize_t)count, "it is written");
}
static void hear(void* bytes, size_t count) {
  size_t at = 0;
  while (at < count) {
    const ssize_t got = read(into_here, (char*)bytes + at, count - at);
    expect(got > 0, "it is read");
    at += (size_t)got;
  }
}
static void tell_block(const void* bytes, size_t count) {
  tell(&count, sizeof count);
  tell(bytes, count);
}
static void* hear_block(void) {
  size_t count = 0;
  void* bytes;
  hear(&count, sizeof count);
  bytes = malloc(count);
  hear(bytes, count);
  return bytes;
}

static ucp_worker_h worker;

static void wait_for_other(void) { /* which may need this process's progress */
  struct pollfd heard = {into_here, POLLIN, 0};
  char word = 0;
  while (poll(&heard, 1, 0) == 0) (void)ucp_worker_progress(worker);
  hear(&word, 1);
}

static void finish(void* request, const char* what) {
  ucs_status_t status = UCS_OK;
  if (UCS_PTR_IS_ERR(request)) expect_ok(UCS_PTR_STATUS(request), what);
  if (request == NULL) return;
  while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
    (void)ucp_worker_progress(worker);
  expect_ok(status, what);
  ucp_request_free(request);
}

static void ignore_failure(void* of, ucp_ep_h ep, ucs_status_t status) {
  (void)of, (void)ep, (void)status;
}

int main(int count, char** words) {
  const ucp_params_t wanted = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                               .features = UCP_FEATURE_RMA | UCP_FEATURE_TAG};
  const ucp_worker_params_t as_is = {0};
  ucp_request_param_t of_gpu = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                .memory_type = UCS_MEMORY_TYPE_CUDA};
  const ucp_request_param_t plain = {0};
  ucp_mem_map_params_t mapped = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                               UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                               UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                 .length = buffer_bytes,
                                 .memory_type = UCS_MEMORY_TYPE_CUDA};
  ucp_ep_params_t peer = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                          .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                          .err_handler = {.cb = ignore_failure}};
  ucp_context_h context;
  ucp_address_t* address;
  ucp_rkey_h key;
  ucp_mem_h memory_handle;
  ucp_ep_h ep;
  unsigned char *memory, *others, *received, *sent;
  void* packed;
  size_t bytes;
  int forth[2], back[2], status = 1;
  pid_t child;
  const char word = 0;
  if (count > 1 && strcmp(words[1], "peers-may-fail") == 0)
    peer.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  if (pipe(forth) != 0 || pipe(back) != 0) return 1;
  child = fork(); /* before anything is loaded */
  out_of_here = child == 0 ? back[1] : forth[1];
  into_here = child == 0 ? forth[0] : back[0];
  (void)close(child == 0 ? forth[1] : back[1]); /* so that each sees the other one's end */
  (void)close(child == 0 ? back[0] : forth[0]);
  load_driver();
  memory = memory_of(child == 0 ? 1 : 0, child == 0 ? 0x11 : 0x22);

  doing = "UCX";
  expect_ok(ucp_init(&wanted, NULL, &context), "a context");
  expect_ok(ucp_worker_create(context, &as_is, &worker), "a worker");
  expect_ok(ucp_worker_get_address(worker, &address, &bytes), "an address");
  tell_block(address, bytes);
  peer.address = hear_block();
  expect_ok(ucp_ep_create(worker, &peer, &ep), "an endpoint");
  mapped.address = memory;
  expect_ok(ucp_mem_map(context, &mapped, &memory_handle), "memory is registered");
  expect_ok(ucp_rkey_pack(context, memory_handle, &packed, &bytes), "a key");
  tell(&memory, sizeof memory);
  tell_block(packed, bytes);
  hear(&others, sizeof others);
  expect_ok(ucp_ep_rkey_unpack(ep, hear_block(), &key), "a key is unpacked");

  if (child == 0) {
    doing = "the process that is read and written";
    wait_for_other();
    expect(holds_only(memory, 0x33), "the bytes that were put are right");
    tell(&word, 1);
    received = memory_of(2, 0);
    finish(ucp_tag_recv_nbx(worker, received, buffer_bytes, tag, (ucp_tag_t)-1, &of_gpu),
           "a message");
    expect(holds_only(received, 0x44), "the bytes that were received are right");
    tell(&word, 1);
    wait_for_other();
    exit(0);
  }
  doing = "the process that reads and writes";
  received = memory_of(2, 0);
  sent = memory_of(3, 0x33);
  finish(ucp_get_nbx(ep, received, buffer_bytes, (uintptr_t)others, key, &of_gpu), "a get");
  expect(holds_only(received, 0x11), "the get brings the right bytes");
  finish(ucp_put_nbx(ep, sent, buffer_bytes, (uintptr_t)others, key, &of_gpu), "a put");
  finish(ucp_ep_flush_nbx(ep, &plain), "a flush");
  tell(&word, 1);
  wait_for_other();
  memset(sent, 0x44, buffer_bytes);
  finish(ucp_tag_send_nbx(ep, sent, buffer_bytes, tag, &of_gpu), "a message");
  wait_for_other();
  tell(&word, 1);
  expect(calls_of("cuIpcOpenMemHandle_v2") > 0, "memory of the other process was mapped");
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return 1;
  printf("every byte is right between two processes\n");
  return 0;
}
