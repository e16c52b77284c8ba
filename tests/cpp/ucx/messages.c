/* Puts and gets between two processes through UCX's transport "interlace", on GPUs that are host
 * memory. One process has memory. The other process reads and writes that memory by keys. The
 * exit code is 0 if every byte is right, and 77 if UCX does not offer the transport. Otherwise
 * the exit code is 1, and the program prints what failed. */
#include <dlfcn.h>
#include <interlace/copy.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucs/async/async.h>
#include <uct/api/uct.h>
#include <unistd.h>

struct CUctx_st;

enum { gpus = 4, buffer_bytes = 8 << 20, most_key_bytes = 512, skipped = 77 };

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

/* --- the driver --- */

static int (*primary_retain)(struct CUctx_st**, int);
static int (*set_current)(struct CUctx_st*);
static int (*allocate)(unsigned long long*, size_t);
static int (*release_memory)(unsigned long long);
static uint64_t (*calls_of)(const char*);
static void (*fail_copies)(long, long);

static void find(void* library, const char* name, void* function) {
  void* const found = dlsym(library, name);
  expect(found != NULL, name);
  memcpy(function, &found, sizeof found);
}

static void load_driver(void) {
  int (*init)(unsigned) = NULL;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  doing = "the driver";
  expect(library != NULL, "the driver can be loaded");
  find(library, "cuInit", &init);
  find(library, "cuDevicePrimaryCtxRetain", &primary_retain);
  find(library, "cuCtxSetCurrent", &set_current);
  find(library, "cuMemAlloc_v2", &allocate);
  find(library, "cuMemFree_v2", &release_memory);
  find(library, "fake_calls", &calls_of);
  find(library, "fake_fail_copies", &fail_copies);
  expect(init(0) == 0, "the driver starts");
}

static unsigned char* memory_of(int gpu) {
  struct CUctx_st* context = NULL;
  unsigned long long made = 0;
  expect(primary_retain(&context, gpu) == 0 && set_current(context) == 0, "a context");
  expect(allocate(&made, buffer_bytes) == 0, "memory of a GPU");
  return (unsigned char*)(uintptr_t)made;
}

static uint64_t random_state = 1;
static uint64_t random_number(void) { /* splitmix64 */
  uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static void fill(unsigned char* bytes, uint64_t seed) {
  size_t at;
  random_state = seed;
  for (at = 0; at < buffer_bytes; at += sizeof(uint64_t)) {
    const uint64_t word = random_number();
    memcpy(bytes + at, &word, sizeof word);
  }
}

/* --- the transport --- */

struct transport {
  uct_component_h component;
  uct_md_h domain;
  uct_worker_h worker;
  uct_iface_h interface;
  uct_iface_attr_t told;
  size_t key_bytes;
};

static void open_transport(struct transport* made) {
  uct_component_h* components = NULL;
  uct_component_attr_t component = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME};
  uct_md_config_t* md_config = NULL;
  uct_iface_config_t* config = NULL;
  uct_tl_resource_desc_t* resources = NULL;
  ucs_async_context_t* async = NULL;
  uct_iface_params_t params;
  uct_md_attr_t domain;
  unsigned count = 0, at;
  doing = "the transport";
  memset(made, 0, sizeof *made);
  expect_ok(uct_query_components(&components, &count), "components");
  for (at = 0; at < count; ++at) {
    expect_ok(uct_component_query(components[at], &component), "a component");
    if (strcmp(component.name, "interlace") == 0) made->component = components[at];
  }
  uct_release_component_list(components);
  if (made->component == NULL) {
    fprintf(stderr, "UCX has loaded no module interlace\n");
    exit(skipped);
  }
  expect_ok(uct_md_config_read(made->component, NULL, NULL, &md_config), "settings");
  expect_ok(uct_md_open(made->component, "interlace", md_config, &made->domain), "the domain");
  uct_config_release(md_config);
  expect_ok(uct_md_query(made->domain, &domain), "the attributes of the domain");
  made->key_bytes = domain.rkey_packed_size;
  expect(made->key_bytes <= most_key_bytes, "a key has a size");
  expect_ok(uct_md_query_tl_resources(made->domain, &resources, &count), "devices");
  expect(count == 1 && strcmp(resources->tl_name, "interlace") == 0, "there is one device");
  expect_ok(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &async), "async");
  expect_ok(uct_worker_create(async, UCS_THREAD_MODE_SINGLE, &made->worker), "a worker");
  expect_ok(uct_md_iface_config_read(made->domain, resources->tl_name, NULL, NULL, &config),
            "settings");
  memset(&params, 0, sizeof params);
  params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE | UCT_IFACE_PARAM_FIELD_DEVICE;
  params.open_mode = UCT_IFACE_OPEN_MODE_DEVICE;
  params.mode.device.tl_name = resources->tl_name;
  params.mode.device.dev_name = resources->dev_name;
  expect_ok(uct_iface_open(made->domain, made->worker, &params, config, &made->interface),
            "the interface");
  uct_config_release(config);
  uct_release_tl_resource_list(resources);
  uct_iface_progress_enable(made->interface, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
  expect_ok(uct_iface_query(made->interface, &made->told), "the attributes of the interface");
  expect((made->told.cap.flags & UCT_IFACE_FLAG_PUT_ZCOPY) != 0 &&
             (made->told.cap.flags & UCT_IFACE_FLAG_GET_ZCOPY) != 0,
         "it puts and gets");
  expect((made->told.cap.flags & UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE) != 0 &&
             (made->told.cap.flags & UCT_IFACE_FLAG_ERRHANDLE_ZCOPY_BUF) != 0 &&
             (made->told.cap.flags & UCT_IFACE_FLAG_ERRHANDLE_REMOTE_MEM) != 0,
         "it handles errors");
}

static void close_transport(struct transport* made) {
  doing = "the end";
  uct_iface_close(made->interface);
  uct_worker_destroy(made->worker);
  uct_md_close(made->domain);
}

/* What a process tells the other process about itself and its memory. */
struct address {
  unsigned char device[64], interface[64];
};
struct place {
  uint64_t at;
  unsigned char key[most_key_bytes];
};

static void send_bytes(int to, const void* bytes, size_t count) {
  expect(write(to, bytes, count) == (ssize_t)count,
         "the whole message is written to the other process");
}
static void receive_bytes(int from, void* bytes, size_t count) {
  size_t at = 0;
  while (at < count) {
    const ssize_t got = read(from, (char*)bytes + at, count - at);
    expect(got > 0, "a message is read from the other process");
    at += (size_t)got;
  }
}

/* --- the process that has the memory --- */

enum { rounds = 3 };

static void owner(int to, int from) {
  struct transport by;
  struct address own;
  int round, gpu;
  load_driver();
  open_transport(&by);
  memset(&own, 0, sizeof own);
  expect_ok(uct_iface_get_device_address(by.interface, (uct_device_addr_t*)own.device), "address");
  expect_ok(uct_iface_get_address(by.interface, (uct_iface_addr_t*)own.interface), "address");
  send_bytes(to, &own, sizeof own);
  for (round = 0; round < rounds; ++round) {
    unsigned char* memory[gpus];
    unsigned char* expected = malloc(buffer_bytes);
    uct_mem_h registered[gpus];
    doing = "the owner";
    for (gpu = 0; gpu < gpus; ++gpu) {
      struct place told;
      memory[gpu] = memory_of(gpu);
      fill(memory[gpu], (uint64_t)(round * gpus + gpu + 1));
      expect_ok(uct_md_mem_reg(by.domain, memory[gpu], buffer_bytes, UCT_MD_MEM_ACCESS_ALL,
                               &registered[gpu]),
                "memory is registered");
      memset(&told, 0, sizeof told);
      told.at = (uintptr_t)memory[gpu];
      expect_ok(uct_md_mkey_pack(by.domain, registered[gpu], told.key), "a key");
      send_bytes(to, &told, sizeof told);
    }
    receive_bytes(from, &gpu, sizeof gpu); /* all puts and gets are over */
    for (gpu = 0; gpu < gpus; ++gpu) {
      fill(expected, (uint64_t)(round * gpus + gpu + 1));
      {
        unsigned char* const put = malloc(buffer_bytes);
        fill(put, (uint64_t)(1000 + round * gpus + gpu));
        memcpy(expected + 1000, put + 1000, buffer_bytes / 2);
        free(put);
      }
      expect(memcmp(memory[gpu], expected, buffer_bytes) == 0, "the bytes that were put are right");
      expect_ok(uct_md_mem_dereg(by.domain, registered[gpu]), "memory is deregistered");
      expect(release_memory((uintptr_t)memory[gpu]) == 0, "memory is freed");
    }
    free(expected);
    send_bytes(to, &round, sizeof round);
  }
  close_transport(&by);
}

/* --- the process that puts and gets --- */

/* Returns how many messages the module sent over several paths. The module uses the default copier
 * of this process, and that copier counts them. */
static uint64_t messages_over_paths(void) {
  interlace_result (*tell)(interlace_copier*, interlace_copy_statistics*, size_t) = NULL;
  interlace_copy_statistics counted;
  void* const library = dlopen("libinterlace.so", RTLD_NOW | RTLD_NOLOAD);
  expect(library != NULL, "the module has loaded the copies");
  find(library, "interlace_copier_statistics", &tell);
  expect(tell(NULL, &counted, sizeof counted) == INTERLACE_SUCCESS, "statistics");
  return counted.streams + counted.graphs;
}

static int completed;
static void count_completion(uct_completion_t* self) {
  expect(self->status == UCS_OK, "a message succeeds");
  ++completed;
}

/* Tries buffers of the host, addresses outside of the key's memory, and copies that the driver
 * refuses. Each of them must give an error. */
static void expect_errors(struct transport* by, uct_ep_h ep, uct_iov_t part, uint64_t address,
                          uct_rkey_t key) {
  uct_iov_t on_host = {.length = part.length, .count = 1};
  uct_completion_t refused = {.func = count_completion, .count = 1, .status = UCS_OK};
  doing = "errors";
  on_host.buffer = malloc(part.length);
  expect(uct_ep_put_zcopy(ep, &on_host, 1, address, key, NULL) == UCS_ERR_INVALID_ADDR,
         "a buffer of the host is refused");
  free(on_host.buffer);
  expect(uct_ep_put_zcopy(ep, &part, 1, address + buffer_bytes / 2 + 1, key, NULL) ==
             UCS_ERR_INVALID_ADDR,
         "memory outside of the key is refused");
  fail_copies(0, 1 << 20);
  expect(uct_ep_put_zcopy(ep, &part, 1, address, key, &refused) == UCS_ERR_IO_ERROR,
         "a copy that the driver refuses is an error");
  fail_copies(0, 0);
  expect(completed == 0, "a put that was refused does not complete");
  expect_ok(uct_iface_flush(by->interface, 0, NULL), "the refused put leaves nothing to flush");
  doing = "the user";
}

static void user(int to, int from) {
  struct transport by;
  struct address other;
  uct_ep_params_t params;
  uct_ep_h ep = NULL;
  int round, gpu;
  load_driver();
  open_transport(&by);
  receive_bytes(from, &other, sizeof other);
  expect(uct_iface_is_reachable(by.interface, (uct_device_addr_t*)other.device,
                                (uct_iface_addr_t*)other.interface),
         "the other process is reachable");
  memset(&params, 0, sizeof params);
  params.field_mask =
      UCT_EP_PARAM_FIELD_IFACE | UCT_EP_PARAM_FIELD_DEV_ADDR | UCT_EP_PARAM_FIELD_IFACE_ADDR;
  params.iface = by.interface;
  params.dev_addr = (uct_device_addr_t*)other.device;
  params.iface_addr = (uct_iface_addr_t*)other.interface;
  expect_ok(uct_ep_create(&params, &ep), "an endpoint");
  for (round = 0; round < rounds; ++round) {
    unsigned char *sent[gpus], *got[gpus];
    uct_rkey_bundle_t keys[gpus];
    uct_completion_t done[2 * gpus], flushed;
    ucs_status_t status;
    int posted = 0;
    completed = 0;
    for (gpu = 0; gpu < gpus; ++gpu) {
      struct place told;
      /* The memory is on the next GPU, or on the same GPU. */
      const int own = round % 2 == 0 ? (gpu + 1) % gpus : gpu;
      uct_iov_t part = {.length = buffer_bytes, .count = 1};
      doing = "the user";
      sent[gpu] = memory_of(own);
      got[gpu] = memory_of(own);
      memset(got[gpu], 0x5A, buffer_bytes);
      fill(sent[gpu], (uint64_t)(1000 + round * gpus + gpu));
      receive_bytes(from, &told, sizeof told);
      expect_ok(uct_rkey_unpack(by.component, told.key, &keys[gpu]), "a key is unpacked");
      done[2 * gpu] = done[2 * gpu + 1] =
          (uct_completion_t){.func = count_completion, .count = 1, .status = UCS_OK};
      part.buffer = got[gpu];
      if (round == rounds - 1 && gpu == 0) {
        part.length = buffer_bytes / 2 + 1;
        expect_errors(&by, ep, part, told.at, keys[gpu].rkey);
        part.length = buffer_bytes;
      }
      status = uct_ep_get_zcopy(ep, &part, 1, told.at, keys[gpu].rkey, &done[2 * gpu]);
      expect(status == UCS_INPROGRESS, "a get is under way");
      part.buffer = sent[gpu] + 1000;
      part.length = buffer_bytes / 2;
      status = uct_ep_put_zcopy(ep, &part, 1, told.at + 1000, keys[gpu].rkey, &done[2 * gpu + 1]);
      expect(status == UCS_INPROGRESS, "a put is in flight"); /* after the get of its route */
      posted += 2;
      part.length = 0;
      expect_ok(uct_ep_put_zcopy(ep, &part, 1, told.at, keys[gpu].rkey, NULL),
                "a put of 0 bytes succeeds");
    }
    flushed = (uct_completion_t){.func = count_completion, .count = 1, .status = UCS_OK};
    status = uct_ep_flush(ep, 0, &flushed);
    expect(status == UCS_INPROGRESS || status == UCS_OK, "a flush");
    if (status == UCS_INPROGRESS) ++posted;
    while (completed < posted) (void)uct_worker_progress(by.worker);
    expect_ok(uct_iface_flush(by.interface, 0, NULL), "a flush of the interface leaves nothing");
    for (gpu = 0; gpu < gpus; ++gpu) {
      unsigned char* const expected = malloc(buffer_bytes);
      fill(expected, (uint64_t)(round * gpus + gpu + 1));
      expect(memcmp(got[gpu], expected, buffer_bytes) == 0, "the get brings the right bytes");
      free(expected);
      expect_ok(uct_rkey_release(by.component, &keys[gpu]), "a key is released");
      expect(release_memory((uintptr_t)sent[gpu]) == 0 && release_memory((uintptr_t)got[gpu]) == 0,
             "memory is freed");
    }
    send_bytes(to, &round, sizeof round);
    receive_bytes(from, &round, sizeof round);
  }
  expect(calls_of("cuIpcOpenMemHandle_v2") == rounds * gpus, "each allocation is mapped once");
  expect(messages_over_paths() > 0, "some messages went over several paths");
  uct_ep_destroy(ep);
  close_transport(&by);
}

int main(void) {
  int forth[2], back[2], status = 1;
  pid_t child;
  if (pipe(forth) != 0 || pipe(back) != 0) return 1;
  child = fork();                               /* before anything is loaded */
  (void)close(child == 0 ? forth[0] : back[0]); /* so that each sees the other one's end */
  (void)close(child == 0 ? back[1] : forth[1]);
  if (child == 0) {
    owner(forth[1], back[0]);
    return 0;
  }
  user(back[1], forth[0]);
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return 1;
  printf("every byte is right between two processes on %d GPUs\n", gpus);
  return 0;
}
