// Reads the output of NVBit's tool mem_trace. docs/reference/trace-formats.md says how each line is
// translated.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/trace/address_ranges.hpp"
#include "sim/trace/block_grouping.hpp"
#include "sim/trace/instruction.hpp"
#include "sim/trace/line_splitter.hpp"
#include "sim/trace/sass.hpp"

namespace interlace::sim::trace {

class mem_trace {
 public:
  // `contexts` maps contexts (CTX) to GPUs. Other contexts get the remaining GPUs in order of
  // appearance. The object passes everything to `to`, which has the header `h`. `to` and `h` must
  // outlive this object.
  mem_trace(sink& to, const header& h, std::string name,
            std::map<std::uint64_t, std::uint32_t> contexts);

  // Call feed with the pieces of the text, and then finish. Both throw usage_error, which names the
  // file and the line.
  void feed(std::string_view text);
  void finish();

  std::uint64_t lines() const { return splitter_.number(); }

 private:
  static constexpr std::uint32_t width = 32;
  using triple = std::array<std::uint32_t, 3>;
  struct stated {  // a launch's properties as the tool states them
    bool sizes = false;
    triple grid{};
    triple block{};
    std::string name;
  };
  struct context {
    std::uint32_t gpu = 0;
    bool open = false;         // whether a kernel is open
    std::uint64_t launch = 0;  // number of the open kernel's launch
    std::uint64_t first_line = 0;
    std::uint64_t last_task = no_dependence;
    std::unique_ptr<block_grouping> accesses = std::make_unique<block_grouping>();
    std::map<std::uint64_t, stated> launches;  // launches that have not begun
    std::optional<std::uint64_t> ended;        // the last launch that ended
    stated now;
  };

  [[noreturn]] void fail(const std::string& what) const;
  void take(std::string_view line);
  void take_launch(context& c, std::string_view rest);
  void take_access(context& c, std::string_view rest);
  context& context_of(std::uint64_t id);
  void begin_kernel(context& c, std::uint64_t launch);
  void end_kernel(context& c);
  template <class Number>
  Number field(std::string_view& rest, std::string_view before, int base) const;
  triple field_triple(std::string_view& rest, std::string_view before) const;

  sink& to_;
  address_ranges ranges_;
  std::uint32_t gpus_;
  std::string name_;
  std::map<std::uint64_t, std::uint32_t> contexts_given_;
  std::vector<bool> gpu_taken_;
  line_splitter splitter_;
  std::map<std::uint64_t, context> contexts_;
  std::uint64_t accesses_ = 0;  // number of lines with accesses
  std::uint32_t launches_ = 0;
  std::uint32_t tasks_ = 0;
  std::string opcode_name_;  // opcode of the last line, kept because most lines repeat the opcode
  opcode opcode_;
  std::array<std::uint64_t, width> addresses_{};
};

}  // namespace interlace::sim::trace
