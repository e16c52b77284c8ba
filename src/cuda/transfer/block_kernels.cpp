#include "cuda/transfer/block_kernels.hpp"

#include <algorithm>
#include <array>

#include "cuda/transfer/block_image.hpp"

namespace interlace::cuda {
namespace {

constexpr std::uint64_t vector_bytes = 16;
constexpr std::uint64_t place_bytes = 16;  // size of a block's two addresses in shared memory
constexpr std::uint64_t most_run = 48 * 1024 / place_bytes;
constexpr std::uint64_t warp = 32;

// CUDA's errors for code that a driver will never be able to load: INVALID_IMAGE,
// NO_BINARY_FOR_GPU, INVALID_PTX, JIT_COMPILER_NOT_FOUND, UNSUPPORTED_PTX_VERSION,
// JIT_COMPILATION_DISABLED and NOT_SUPPORTED.
constexpr std::array never_loads{200, 209, 218, 221, 222, 223, 801};

std::uint64_t divided_up(std::uint64_t number, std::uint64_t by) { return (number + by - 1) / by; }

struct grid {
  unsigned thread_blocks = 1;
  unsigned threads = 1;
  unsigned shared_bytes = 0;
};

// A grid for blocks of equal size. It divides the runs among the thread blocks as evenly as
// possible.
grid even_grid(block_arguments& what, unsigned thread_blocks) {
  const std::uint64_t vectors = what.bytes / vector_bytes;
  const std::uint64_t groups = std::min<std::uint64_t>(thread_blocks, what.count);
  // A thread block counts the vectors of a run in 32 bits, which limits the length of a run.
  const std::uint64_t longest =
      std::clamp<std::uint64_t>((std::uint64_t{1} << 31U) / vectors, 1, most_run);
  const std::uint64_t rounds = divided_up(what.count, groups * longest);
  const std::uint64_t run = divided_up(what.count, groups * rounds);
  what.run = static_cast<std::uint32_t>(run);
  const std::uint64_t lanes = divided_up(run * vectors, warp) * warp;
  return {static_cast<unsigned>(std::min(groups, divided_up(what.count, run))),
          static_cast<unsigned>(std::min<std::uint64_t>(lanes, block_kernel_threads)),
          static_cast<unsigned>(run * place_bytes)};
}

grid any_grid(const block_arguments& what, unsigned thread_blocks) {
  // The most warps that get work. Each warp takes whole blocks.
  const std::uint64_t warps = what.count;
  const std::uint64_t groups = std::min<std::uint64_t>(thread_blocks, warps);
  const std::uint64_t threads = divided_up(warps, groups) * warp;
  return {static_cast<unsigned>(groups),
          static_cast<unsigned>(std::min<std::uint64_t>(threads, block_kernel_threads)), 0};
}

}  // namespace

block_kernels::block_kernels(const driver_table& driver) : driver_(driver) {
  const int loaded = driver_.module_load(&module_, block_kernels_text());
  if (std::find(never_loads.begin(), never_loads.end(), loaded) != never_loads.end())
    throw no_block_kernels("the driver cannot load the kernels for batches of blocks");
  check(driver_, loaded, "cuModuleLoadData");
  try {
    check(driver_, driver_.module_function(&even_, module_, "interlace_copy_even_blocks"),
          "cuModuleGetFunction");
    check(driver_, driver_.module_function(&any_, module_, "interlace_copy_any_blocks"),
          "cuModuleGetFunction");
  } catch (...) {
    log_failure(driver_, driver_.module_unload(module_), "cuModuleUnload");
    throw;
  }
}

block_kernels::~block_kernels() {
  if (module_ == nullptr) return;
  log_failure(driver_, driver_.module_unload(module_), "cuModuleUnload");
}

void block_kernels::launch(block_arguments& what, bool even, unsigned thread_blocks,
                           CUstream_st* stream) const {
  const grid by = even ? even_grid(what, thread_blocks) : any_grid(what, thread_blocks);
  void* parameters[] = {&what};
  check(driver_,
        driver_.launch(even ? even_ : any_, by.thread_blocks, 1, 1, by.threads, 1, 1,
                       by.shared_bytes, stream, parameters, nullptr),
        "cuLaunchKernel");
}

}  // namespace interlace::cuda
