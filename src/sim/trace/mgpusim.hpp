// Reads MGPUSim's mem.trace (version 2, -trace-mem). docs/traces.md says what becomes of what.
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

// GPU g of the trace, which MGPUSim counts from 1, has 4 GiB from (g + 1) << 32.
std::vector<range> mgpusim_ranges(std::uint32_t gpus);

class mgpusim {
 public:
  // Takes the accesses that components receive whose names have `wanted` in them. Goes to `to`,
  // whose header this is; both outlive the reader.
  mgpusim(sink& to, const header& h, std::string name, std::string wanted);

  // Pieces of the text, and its end. They throw usage_error with file and line.
  void feed(std::string_view text);
  void finish();

  std::uint64_t lines() const { return splitter_.number(); }

 private:
  // Accesses that one component received one after another.
  static constexpr std::size_t most_accesses = 4096;
  struct received {
    action kind = action::load;
    std::uint8_t bytes = 0;
    std::uint64_t address = 0;
  };
  struct component {
    std::uint32_t gpu = no_dependence;  // none: it is not one of those wanted
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
  std::vector<std::uint64_t> blocks_;  // so far, of each GPU
  std::uint64_t accesses_ = 0;
};

}  // namespace interlace::sim::trace
