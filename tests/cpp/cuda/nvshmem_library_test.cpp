// NVSHMEM through a stand-in library. The tests check the calls that the library gets, and the
// errors if the library is missing or if one of its functions fails.
#include "interlace/cuda/transfer/nvshmem_library.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::nvshmem_library_tests {
namespace {

using cuda::nvshmem_id;
using cuda::nvshmem_library;
using cuda::nvshmem_rank;

template <class Function>
Function stand_in(const char* name) {
  void* library = dlopen(FAKE_NVSHMEM, RTLD_NOW);
  return reinterpret_cast<Function>(dlsym(library, name));
}
std::string log() { return stand_in<const char* (*)()>("fake_log")(); }
void start_log(const char* failing = "") { stand_in<void (*)(const char*)>("fake_reset")(failing); }

template <class Error>
std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}

std::unique_ptr<const nvshmem_library> loaded() {
  return std::make_unique<const nvshmem_library>(std::vector<std::string>{FAKE_NVSHMEM});
}

TEST(nvshmem_library, missing_libraries_and_functions_are_named) {
  EXPECT_EQ(message_of<usage_error>([] {
              nvshmem_library({"/no/such.so", "nor/this.so"});
            }),
            "NVSHMEM cannot be loaded (tried /no/such.so, nor/this.so); install the Python package "
            "nvidia-nvshmem-cu13");
  EXPECT_EQ(message_of<usage_error>([] {
              nvshmem_library({"/no.so", FAKE_NVSHMEM_WITHOUT_PUT});
            }),
            std::string("NVSHMEM cannot be used: ") + FAKE_NVSHMEM_WITHOUT_PUT +
                " has no nvshmemx_putmem_on_stream; install the Python package "
                "nvidia-nvshmem-cu13");
}

TEST(nvshmem_library, ranks_meet_and_put) {
  start_log();
  auto library = loaded();
  EXPECT_EQ(library->version(), "3.4.5");
  EXPECT_EQ(std::string(std::getenv("NVSHMEM_DISABLE_NVLS")), "1");
  const nvshmem_id id = library->make_id();
  const nvshmem_rank rank(std::move(library), 2, 4, id);
  EXPECT_EQ(rank.rank(), 2U);
  EXPECT_EQ(rank.ranks(), 4U);
  EXPECT_EQ(rank.version(), "3.4.5");
  EXPECT_EQ(rank.allocate(0), nullptr);
  auto* memory = static_cast<char*>(rank.allocate(64));
  const char from[] = "bytes";
  rank.put(memory, from, sizeof(from), 3, reinterpret_cast<void*>(std::size_t{17}));
  rank.barrier(reinterpret_cast<void*>(std::size_t{18}));
  EXPECT_STREQ(memory, from);
  rank.leave();
  EXPECT_EQ(log(), "2/4:meet here malloc:64 put:3:17 barrier:18 finalize");
}

TEST(nvshmem_library, failed_functions_are_named) {
  start_log("get_uniqueid");
  EXPECT_EQ(message_of<device_error>([] { (void)loaded()->make_id(); }),
            "nvshmemx_get_uniqueid failed with code 7");
  const auto start = [] { nvshmem_rank(loaded(), 0, 2, nvshmem_id{}); };
  start_log("set_attr");
  EXPECT_EQ(message_of<device_error>(start),
            "NVSHMEM cannot start: nvshmemx_set_attr_uniqueid_args failed with code 5; "
            "NVSHMEM_DEBUG=INFO says more");
  start_log("init");
  EXPECT_EQ(message_of<device_error>(start),
            "NVSHMEM cannot start: nvshmemx_hostlib_init_attr failed with code 9; "
            "NVSHMEM_DEBUG=INFO says more");
  start_log("malloc");
  const nvshmem_rank rank(loaded(), 0, 2, nvshmem_id{});
  EXPECT_EQ(message_of<device_error>([&] { (void)rank.allocate(8); }),
            "NVSHMEM has no 8 bytes of memory");
}

}  // namespace
}  // namespace interlace::nvshmem_library_tests
