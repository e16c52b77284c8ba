// Reads MGPUSim's mem.trace (version 2, -trace-mem). docs/reference/trace-formats.md says how each
// line is translated.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/trace/address_ranges.hpp"
#include "sim/trace/instruction.hpp"
#include "sim/trace/line_splitter.hpp"

namespace interlace::sim::trace {

// The ranges of the GPUs' memory. MGPUSim counts GPUs from 1. GPU g of the trace owns the 4 GiB
// from address (g + 1) << 32 on.
std::vector<range> mgpusim_ranges(std::uint32_t gpus);

class mgpusim {
 public:
  // Passes accesses to `to`, if a component whose name contains `wanted` received them. `h` is the
  // header of `to`. Both must outlive the reader.
  mgpusim(sink& to, const header& h, std::string name, std::string wanted);

  // Call feed with the pieces of the text, and then finish. Both throw usage_error, which names the
  // file and the line.
  void feed(std::string_view text);
  void finish();

  std::uint64_t lines() const { return splitter_.number(); }

 private:
  // The most consecutive accesses of one component that make up one block.
  static constexpr std::size_t most_accesses = 4096;
  struct received {
    action kind = action::load;
    std::uint8_t bytes = 0;
    std::uint64_t address = 0;
  };
  struct component {
    std::uint32_t gpu = no_dependence;  // no_dependence if the component is not wanted
    std::vector<received> accesses;
  };

  [[noreturn]] void fail(const std::string& what) const;
  void take(std::string_view line);
  component& component_of(std::string_view name);
  void flush(component& c);

  sink& to_;
  address_ranges ranges_;
  std::uint32_t gpus_;
  std::string name_;
  std::string wanted_;
  line_splitter splitter_;
  std::map<std::string, component, std::less<>> components_;
  std::vector<std::uint64_t> blocks_;  // for each GPU, the number of blocks so far
  std::uint64_t accesses_ = 0;
};

}  // namespace interlace::sim::trace
