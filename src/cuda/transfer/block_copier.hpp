// Copies batches of blocks between page-locked memory of the host and a GPU, or inside a GPU.
//
// | job                                          | files                                     |
// |----------------------------------------------|-------------------------------------------|
// | sizes and alignment of blocks, their lists   | plan/block_list                           |
// | which way is the fastest                     | plan/block_choice, plan/block_profile     |
// | where the blocks lie                         | block_memory                              |
// | the machine's profile                        | block_profile_file                        |
// | the kernels, and their launch                | block_kernels (.ptx), block_arguments     |
// | memory for lists that a kernel reads         | pinned_rooms                              |
// | other GPUs that copy a part                  | block_help, lent_gpus                     |
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "cuda/transfer/block_help.hpp"
#include "cuda/transfer/block_kernels.hpp"
#include "cuda/transfer/block_memory.hpp"
#include "cuda/transfer/driver_table.hpp"
#include "cuda/transfer/pinned_rooms.hpp"
#include "interlace/copy.hpp"
#include "plan/block_choice.hpp"
#include "plan/block_list.hpp"

namespace interlace::cuda {

enum class block_result : std::uint8_t {
  enqueued,
  nothing,      // every block has 0 bytes
  another_way,  // another way is faster, as the report says
  memory,       // the memory does not allow a kernel; the report has the reason
  capturing,    // the stream is being captured, or the driver does not tell
  no_kernels,   // the kernels cannot be loaded in the context
  no_room,      // no page-locked memory is left for the lists
};

struct block_report {
  block_result result = block_result::nothing;
  block_ends ends = block_ends::one_gpu;
  plan::block_direction direction = plan::block_direction::to_gpu;
  std::uint64_t bytes = 0;  // number of bytes in all blocks together
  plan::block_choice choice;
};

struct copied_blocks {
  blocks_way way = blocks_way::nothing;
  std::uint64_t bytes = 0;
};

struct block_options {
  // The most thread blocks of a kernel; 0 means the smallest number that fills the link.
  unsigned most_thread_blocks = 0;
  // The size of the page-locked memory for lists in each context.
  std::size_t room_bytes = std::size_t{64} << 20U;
  // Whether to use the times in the machine's profile. If this is false or there is no profile,
  // the times of an H200 are used.
  bool use_profile = true;
  std::function<void(const std::string&)> report = {};  // gets sentences for people; may be empty
};

// Copies batches of blocks. Thread-safe.
class block_copier {
 public:
  static constexpr std::array<std::size_t, 1> one_list{1};

  // Makes a copier. It predicts times by the costs in the machine's profile, or by the costs of an
  // H200 if there is no profile.
  explicit block_copier(const driver_table& driver, block_options options = {});
  // Makes a copier that predicts times by `costs`. `costs` must outlive the copier.
  block_copier(const driver_table& driver, block_options options, const plan::block_costs& costs);
  // Waits for the copier's kernels. The contexts must still exist.
  ~block_copier();
  block_copier(const block_copier&) = delete;
  block_copier& operator=(const block_copier&) = delete;

  // Tells the copier that all contexts have ended and that nobody uses the copier any more. After
  // this call, the destructor does not call the driver.
  void abandon();

  // Loads the kernels into a context. Takes a piece of memory of each size in `lists`. Later calls
  // therefore need no time for this work. Throws device_error.
  void prepare(CUctx_st* context, std::span<const std::size_t> lists = one_list);

  // Enqueues the batch as one kernel on the stream, under three conditions: a kernel is possible, a
  // kernel is predicted to be the fastest way, and the stream is not being captured. Otherwise
  // nothing is enqueued, and the report says why. The lists may change as soon as the call returns.
  // Throws usage_error for a block that reaches past the last address, and device_error if the
  // driver fails. After an error, nothing is enqueued.
  block_report try_kernel(const plan::block_list& list, CUstream_st* stream);
  // Keeps the promises of `copier::copy_blocks_async`.
  copied_blocks copy(const block_batch& batch, CUstream_st* stream,
                     const block_helpers& helpers = {});

 private:
  struct resources {
    block_kernels kernels;
    pinned_rooms rooms;

    resources(const driver_table& driver, std::size_t room_bytes)
        : kernels(driver), rooms(driver, room_bytes) {}
  };

  const plan::block_costs& costs();
  resources* resources_of(CUctx_st* context);
  blocks_way copy_numbers_on_gpu(const block_batch& batch, const plan::block_list& list,
                                 CUctx_st* context, CUstream_st* stream);
  blocks_way copy_by_driver(const plan::block_list& list, blocks_way way, CUstream_st* stream);
  void copy_staged(CUctx_st* context, const plan::block_list& list, const block_places& places,
                   CUstream_st* stream);
  void copy_with_help(block_help& help, const block_helpers& helpers, resources& by,
                      const plan::block_list& list, const plan::block_shape& shape,
                      unsigned thread_blocks, CUstream_st* stream);
  bool launch_on(const block_help::gpu& helper, const plan::block_list& part,
                 unsigned thread_blocks, const block_helpers& helpers);
  bool launch(resources& by, const plan::block_list& list, const plan::block_layout& layout,
              unsigned thread_blocks, CUstream_st* stream, CUgraph_st* graph);

  const driver_table& driver_;
  block_options options_;
  std::once_flag costs_once_;
  plan::block_costs of_profile_;
  const plan::block_costs* costs_ = nullptr;  // null if the costs are not known yet
  known_allocations known_;
  std::mutex mutex_;
  std::map<CUctx_st*, std::unique_ptr<resources>> contexts_;
};

}  // namespace interlace::cuda
