// Statistics of a trace.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/trace/address_ranges.hpp"
#include "sim/trace/instruction.hpp"

namespace interlace::sim::trace {

class statistics final : public sink {
 public:
  static constexpr std::array<std::uint32_t, 3> units{32, 64, 128};
  // The number of bins in the histogram of stores. A warp's instruction stores runs of contiguous
  // bytes to a 128-byte line of another GPU. The bins count runs of up to 1, 2, 4 ... 128 bytes.
  static constexpr std::size_t run_sizes = 8;

  struct of_gpu {
    std::uint64_t launches = 0;
    std::uint64_t blocks = 0;
    // For each kind of access, the number of warps' instructions and the number of bytes of their
    // lanes. `own` counts accesses to the GPU's own memory, and `remote` counts accesses to other
    // GPUs' memory. An instruction with lanes in both memories counts as remote.
    std::array<std::uint64_t, access_kinds> own{}, remote{};
    std::array<std::uint64_t, access_kinds> own_bytes{}, remote_bytes{};
  };

  explicit statistics(const header& h) : ranges_(h), gpus_(h.gpus), matrix_(h.gpus * h.gpus, 0) {}

  void program(const step& s) override;
  void begin_kernel(std::uint32_t, std::uint32_t) override {}
  void begin_block(std::uint32_t gpu, std::uint64_t index) override;
  void add(std::uint32_t gpu, std::uint32_t warp, const instruction& i) override;

  const totals& all() const { return totals_; }
  const std::vector<of_gpu>& gpus() const { return gpus_; }
  // The number of instructions for each pair of kind and bytes of a lane.
  const std::map<std::pair<action, std::uint32_t>, std::uint64_t>& widths() const {
    return widths_;
  }
  // For each unit size, the total bytes of the units that lanes touch. A unit counts once for each
  // instruction that touches it.
  const std::array<std::uint64_t, access_kinds>& distinct_bytes() const { return distinct_; }
  const std::array<std::array<std::uint64_t, 3>, access_kinds>& touched() const { return touched_; }
  const std::array<std::uint64_t, run_sizes>& remote_runs() const { return runs_; }
  // The number of bytes that lanes access. The index is gpu * GPUs + home.
  const std::vector<std::uint64_t>& matrix() const { return matrix_; }
  std::uint64_t host_copies() const { return host_copies_; }
  std::uint64_t copied_bytes() const { return copied_bytes_; }

 private:
  void add_locality(std::size_t kind, const instruction& i, std::uint32_t gpu);

  address_ranges ranges_;
  std::vector<of_gpu> gpus_;
  std::vector<std::uint64_t> matrix_;
  totals totals_;
  std::map<std::pair<action, std::uint32_t>, std::uint64_t> widths_;
  std::array<std::uint64_t, access_kinds> distinct_{};
  std::array<std::array<std::uint64_t, 3>, access_kinds> touched_{};
  std::array<std::uint64_t, run_sizes> runs_{};
  std::uint64_t host_copies_ = 0;
  std::uint64_t copied_bytes_ = 0;
};

}  // namespace interlace::sim::trace
