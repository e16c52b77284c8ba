#include "interlace/cuda/transfer/nvshmem_library.hpp"

#include <cstdlib>
#include <utility>

#include "cuda/loaded_library.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::cuda {

namespace {

// A struct in the form that the library expects. The version number in the struct tells the library
// the struct's size.
template <class Struct>
constexpr int version_of() {
  return (1 << 16) + static_cast<int>(sizeof(Struct));
}
struct id_arguments {
  int version;
  const nvshmem_id* id;
  int rank;
  int ranks;
};
static_assert(sizeof(id_arguments) == 24);
struct init_arguments {
  int version;
  id_arguments id;
  std::array<char, 96> unused;
};
static_assert(sizeof(init_arguments) == 128);
struct init_attributes {
  int version;
  void* mpi_communicator;
  init_arguments arguments;
};
static_assert(sizeof(init_attributes) == 144);
static_assert(sizeof(nvshmem_id) == 128);

constexpr unsigned int init_with_id = 1U << 3U;

}  // namespace

nvshmem_library::nvshmem_library(const std::vector<std::string>& candidates) {
  // NOLINTBEGIN(concurrency-mt-unsafe): no thread reads these variables yet
  (void)setenv("NVSHMEM_DISABLE_NVLS", "1", 1);
  (void)setenv("NVSHMEM_REMOTE_TRANSPORT", "none", 0);
  (void)setenv("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "lo", 0);
  // NOLINTEND(concurrency-mt-unsafe)
  loaded_library library("NVSHMEM", candidates, "install the Python package nvidia-nvshmem-cu13");
  library.need("nvshmemx_vendor_get_version_info", api_.version_info);
  library.need("nvshmemx_get_uniqueid", api_.get_unique_id);
  library.need("nvshmemx_set_attr_uniqueid_args", api_.set_unique_id);
  library.need("nvshmemx_hostlib_init_attr", api_.init);
  library.need("nvshmemx_hostlib_finalize", api_.finalize);
  library.need("nvshmem_malloc", api_.allocate);
  library.need("nvshmemx_putmem_on_stream", api_.put);
  library.need("nvshmemx_barrier_all_on_stream", api_.barrier);
  library.keep();
}

std::string nvshmem_library::version() const {
  int major = 0;
  int minor = 0;
  int patch = 0;
  api_.version_info(&major, &minor, &patch);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

nvshmem_id nvshmem_library::make_id() const {
  nvshmem_id id;
  if (const int result = api_.get_unique_id(&id); result != 0) {
    throw device_error("nvshmemx_get_uniqueid failed with code " + std::to_string(result));
  }
  return id;
}

nvshmem_rank::nvshmem_rank(std::unique_ptr<const nvshmem_library> library, std::uint32_t rank,
                           std::uint32_t ranks, const nvshmem_id& id)
    : library_(std::move(library)), rank_(rank), ranks_(ranks) {
  init_attributes attributes{};
  attributes.version = version_of<init_attributes>();
  attributes.arguments.version = version_of<init_arguments>();
  attributes.arguments.id.version = version_of<id_arguments>();
  const auto check = [](int result, const char* function) {
    if (result == 0) return;
    throw device_error(std::string("NVSHMEM cannot start: ") + function + " failed with code " +
                       std::to_string(result) + "; NVSHMEM_DEBUG=INFO says more");
  };
  check(library_->api().set_unique_id(static_cast<int>(rank), static_cast<int>(ranks), &id,
                                      &attributes),
        "nvshmemx_set_attr_uniqueid_args");
  check(library_->api().init(init_with_id, &attributes), "nvshmemx_hostlib_init_attr");
}

void* nvshmem_rank::allocate(std::size_t bytes) const {
  if (bytes == 0) return nullptr;
  void* memory = library_->api().allocate(bytes);
  if (memory == nullptr) {
    throw device_error("NVSHMEM has no " + std::to_string(bytes) + " bytes of memory");
  }
  return memory;
}

void nvshmem_rank::put(void* to, const void* from, std::size_t bytes, std::uint32_t rank,
                       void* stream) const {
  library_->api().put(to, from, bytes, static_cast<int>(rank), stream);
}

void nvshmem_rank::barrier(void* stream) const { library_->api().barrier(stream); }

void nvshmem_rank::leave() const { library_->api().finalize(); }

}  // namespace interlace::cuda
