// Runs the blocks of a GPU's kernels on the CPU and records them for the thread that simulates the
// GPU. Other threads may record blocks ahead of the simulation.
//
// A block's record does not depend on simulated time. While a kernel runs, nothing that the kernel
// reads changes, except values that its own blocks write. If blocks are recorded in the order in
// which they start, the records are therefore always the same. It does not matter which thread
// makes them, or when.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "interlace/kernel/mapping.hpp"
#include "interlace/kernel/serial_block.hpp"
#include "interlace/sim/gpu/program.hpp"
#include "interlace/sim/gpu/recorder.hpp"
#include "sim/gpu/program_memory.hpp"

namespace interlace::sim {

class block_recording {
 public:
  struct block {
    std::vector<warp_program> programs;  // one for each warp
    // Ranges that the block writes and that no instruction announces.
    std::vector<kernel::element_range> written;
    // The number of stores that must still be made before these ranges count as written.
    std::uint32_t stores_left = 0;
  };

  // Starts a kernel whose blocks have `warps` warps each. `settings` and `function` must live until
  // the next call of start().
  void start(const recorder::settings& settings, const block_function& function,
             std::uint32_t warps);
  // Gives a block one program for each of its warps. Call this function while no thread records
  // ahead.
  void fit(block& b);
  // Allows other threads to record from now on. Afterwards, the caller must take the blocks from 0
  // to `blocks` - 1 in ascending order.
  void allow_ahead(std::uint64_t blocks);
  // Puts the record of a block into `into`. Records the block now unless another thread has
  // recorded it. Throws the exception that the block's kernel threw, if any.
  void take(std::uint64_t index, block& into);

  // Records one block ahead and returns true. Returns false if there is nothing to record now. Any
  // thread may call this function at any time.
  bool record_ahead();
  // Whether the last take() made room for several blocks.
  bool has_room() const { return ahead_ && taken_ % (places / 4) == 0; }

  // The number of accesses of lanes in all blocks so far (recorder::work). Call this function after
  // all blocks were taken.
  std::uint64_t work() const { return recorder_.work(); }

 private:
  struct place {
    block what;
    std::exception_ptr failed;
  };

  void record(std::uint64_t index, block& into);

  // Limits for blocks that are recorded ahead: a number of blocks, and a number of instructions.
  // Without limits, the large records would fill the memory.
  static constexpr std::uint64_t places = 64;
  static constexpr std::uint64_t most_instructions = std::uint64_t{1} << 16U;

  // declared before the programs, so that this memory outlives the programs
  program_memory memory_;
  const recorder::settings* settings_ = nullptr;
  const block_function* function_ = nullptr;
  std::uint32_t warps_ = 0;
  bool ahead_ = false;  // used only by the simulating thread
  // The number of blocks taken so far; used only by the simulating thread.
  std::uint64_t taken_ = 0;

  // A thread that records holds `recording_`, which guards the members up to `end_`.
  std::mutex recording_;
  recorder recorder_;
  kernel::block_memory scratch_;
  std::uint64_t next_ = 0;  // number of the block to record next
  std::uint64_t end_ = 0;   // the first block that may not be recorded ahead

  // Block k is at ring_[k % places] from the time it is recorded until it is taken.
  std::array<place, places> ring_;
  std::atomic<std::uint64_t> recorded_ = 0;  // number of recorded blocks
  std::atomic<std::uint64_t> free_ = 0;      // number of blocks whose places are free again
  // The number of instructions of the blocks in ring_.
  std::atomic<std::uint64_t> instructions_ = 0;
};

}  // namespace interlace::sim
