// Moves chunks of checkpoints between page-locked memory and GPUs, by the copy engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "checkpoint/carrier.hpp"
#include "cuda/transfer/driver_table.hpp"
#include "cuda/transfer/page_locked.hpp"

namespace interlace::cuda {

class checkpoint_carrier final : public checkpoint::carrier {
 public:
  // A stream-ordered copy between unified addresses, such as interlace::copy_async.
  using copy_function = std::function<void(device_address to, device_address from,
                                           std::uint64_t bytes, CUstream_st*)>;

  // Makes a carrier. The page-locked memory of a slot is allocated at the slot's first use. The
  // chunks of a GPU alternate between `streams` streams. Copies over several paths need two
  // streams, so that one copy starts while another copy ends. Plain copies are faster in one
  // stream, because a GPU takes time to change streams.
  checkpoint_carrier(const driver_table& driver, copy_function copy, std::uint32_t streams,
                     std::uint32_t slots, std::uint64_t slot_bytes);
  // Frees everything, unless `abandon` was called.
  ~checkpoint_carrier() override;
  checkpoint_carrier(const checkpoint_carrier&) = delete;
  checkpoint_carrier& operator=(const checkpoint_carrier&) = delete;

  std::uint32_t slots() const override { return static_cast<std::uint32_t>(slots_.size()); }
  std::uint64_t slot_bytes() const override { return slot_bytes_; }
  void expect(std::uint32_t slots) override;
  char* slot(std::uint32_t number, int gpu) override;
  void send(std::uint32_t slot, std::span<const checkpoint::part> parts) override;
  void fetch(std::uint32_t slot, std::span<const checkpoint::part> parts) override;
  bool done(std::uint32_t slot) override;
  void abandon() noexcept override { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }

 private:
  struct gpu_state {
    CUctx_st* context = nullptr;
    std::vector<CUstream_st*> streams;
    std::uint32_t chunks = 0;
    std::vector<CUevent_st*> events;  // one for each slot; null before the slot's first use
  };
  struct slot_state {
    std::once_flag made;
    page_locked memory;
    gpu_state* gpu = nullptr;     // GPU of the slot's chunk
    CUevent_st* event = nullptr;  // completes when the slot's chunk is copied
  };

  void enqueue(std::uint32_t slot, std::span<const checkpoint::part> parts, bool to_gpu);
  gpu_state& state_of(int gpu);
  void free(int number, const gpu_state& gpu) const noexcept;
  bool ends_soon(CUstream_st* stream, CUevent_st* event) const noexcept;

  const driver_table& driver_;
  copy_function copy_;
  std::uint32_t streams_;
  std::uint64_t slot_bytes_;
  std::vector<slot_state> slots_;
  std::atomic<std::uint32_t> expected_{0};  // number of slots that will be used
  std::mutex making_;                       // guards the following members
  std::unique_ptr<page_locker> locker_;
  std::uint32_t made_ = 0;
  std::uint32_t left_ = 0;  // number of slots that the locker can still make
  std::mutex mutex_;        // guards gpus_ and the choice of the next stream
  std::map<int, gpu_state> gpus_;
  std::atomic<bool> abandoned_{false};
};

}  // namespace interlace::cuda
