// Chunks of checkpoints between page-locked memory and GPUs, by the copy engine.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "checkpoint/carrier.hpp"
#include "cuda/transfer/driver_table.hpp"

namespace interlace::cuda {

class checkpoint_carrier final : public checkpoint::carrier {
 public:
  // Copies between unified addresses, stream-ordered: interlace::copy_async.
  using copy_function = std::function<void(device_address to, device_address from,
                                           std::uint64_t bytes, CUstream_st*)>;

  // A page-locked slot is made when it is asked for.
  checkpoint_carrier(const driver_table& driver, copy_function copy, std::uint32_t slots,
                     std::uint64_t slot_bytes);
  // Gives everything back, but what was abandoned.
  ~checkpoint_carrier() override;
  checkpoint_carrier(const checkpoint_carrier&) = delete;
  checkpoint_carrier& operator=(const checkpoint_carrier&) = delete;

  std::uint32_t slots() const override { return static_cast<std::uint32_t>(slots_.size()); }
  std::uint64_t slot_bytes() const override { return slot_bytes_; }
  char* slot(std::uint32_t number, int gpu) override;
  void send(std::uint32_t slot, std::span<const checkpoint::part> parts) override;
  void fetch(std::uint32_t slot, std::span<const checkpoint::part> parts) override;
  bool done(std::uint32_t slot) override;
  void abandon() noexcept override { abandoned_ = true; }
  bool abandoned() const { return abandoned_; }

 private:
  // Chunks that follow each other go to streams in turn: one begins while another ends.
  static constexpr std::uint32_t streams_of_a_gpu = 2;

  struct gpu_state {
    CUctx_st* context = nullptr;
    std::array<CUstream_st*, streams_of_a_gpu> streams{};
    std::uint32_t chunks = 0;
    std::vector<CUevent_st*> events;  // by slot; null: not needed yet
  };
  struct slot_state {
    std::once_flag made;
    char* memory = nullptr;
    gpu_state* gpu = nullptr;     // of its chunk
    CUevent_st* event = nullptr;  // that its chunk is complete
  };

  void enqueue(std::uint32_t slot, std::span<const checkpoint::part> parts, bool to_gpu);
  gpu_state& state_of(int gpu);

  const driver_table& driver_;
  copy_function copy_;
  std::uint64_t slot_bytes_;
  std::vector<slot_state> slots_;
  std::mutex mutex_;  // of what follows, and of which stream is next
  std::map<int, gpu_state> gpus_;
  std::atomic<bool> abandoned_{false};
};

}  // namespace interlace::cuda
