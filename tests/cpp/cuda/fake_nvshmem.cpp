// A stand-in for libnvshmem_host.so.3 that logs its calls. It declares the binary interface of the
// real library independently of src/.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct unique_id {
  int version;
  char internal[124];
};
struct id_arguments {
  int version;
  const unique_id* id;
  int rank;
  int ranks;
};
struct attributes {
  int version;
  void* mpi;
  struct {
    int version;
    id_arguments id;
    char rest[96];
  } arguments;
};
static_assert(sizeof(unique_id) == 128 && sizeof(attributes) == 144);

std::string log;      // NOLINT: the library's state
std::string failing;  // the name of the function that fails

void note(const std::string& word) { log += (log.empty() ? "" : " ") + word; }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

const char* fake_log() { return log.c_str(); }
void fake_reset(const char* function) {
  log.clear();
  failing = function;
}

void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  *major = 3;
  *minor = 4;
  *patch = 5;
}
int nvshmemx_get_uniqueid(unique_id* id) {
  if (failing == "get_uniqueid" || id->version != (1 << 16) + 128) return 7;
  std::memcpy(id->internal, "meet here", 10);
  return 0;
}
int nvshmemx_set_attr_uniqueid_args(int rank, int ranks, const unique_id* id, attributes* a) {
  if (failing == "set_attr") return 5;
  a->arguments.id.id = id;
  a->arguments.id.rank = rank;
  a->arguments.id.ranks = ranks;
  return 0;
}
int nvshmemx_hostlib_init_attr(unsigned int flags, attributes* a) {
  if (failing == "init" || flags != 8) return 9;
  if (a->version != (1 << 16) + 144 || a->arguments.version != (1 << 16) + 128) return 10;
  if (a->arguments.id.version != (1 << 16) + 24 || a->mpi != nullptr) return 11;
  const id_arguments& own = a->arguments.id;
  note(std::to_string(own.rank) + "/" + std::to_string(own.ranks) + ":" + own.id->internal);
  return 0;
}
void nvshmemx_hostlib_finalize() { note("finalize"); }
void* nvshmem_malloc(std::size_t bytes) {
  note("malloc:" + std::to_string(bytes));
  static char memory[64];
  return failing == "malloc" ? nullptr : memory;
}
#if !defined(WITHOUT_PUT)
void nvshmemx_putmem_on_stream(void* to, const void* from, std::size_t bytes, int rank,
                               void* stream) {
  std::memcpy(to, from, bytes);
  note("put:" + std::to_string(rank) + ":" + std::to_string(reinterpret_cast<std::size_t>(stream)));
}
#endif
void nvshmemx_barrier_all_on_stream(void* stream) {
  note("barrier:" + std::to_string(reinterpret_cast<std::size_t>(stream)));
}

}  // extern "C"
#pragma GCC visibility pop
