// Reads traces of Accel-Sim's tracer, versions 4 and 5, after its post-processing has grouped them:
// kernelslist.g and the .traceg files that it names. docs/reference/trace-formats.md says how each
// line is translated.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "interlace/kernel.hpp"
#include "sim/trace/address_ranges.hpp"
#include "sim/trace/instruction.hpp"
#include "sim/trace/line_splitter.hpp"
#include "sim/trace/sass.hpp"

namespace interlace::sim::trace {

// A line of kernelslist.g.
struct listed {
  bool is_copy = false;
  bool to_gpu = false;        // only for copies: to the GPU (true) or from it (false)
  std::uint64_t address = 0;  // copies only
  std::uint64_t bytes = 0;
  std::string file;        // kernels only
  std::uint64_t line = 0;  // the line's number in the list
};

// Throws usage_error, with file and line, if the text is not such a list.
std::vector<listed> read_kernels_list(std::string_view text, const std::string& file);

class accel_sim {
 public:
  // Passes the files' contents to `to`. `h` is the header of `to`. Both must outlive the reader.
  accel_sim(sink& to, const header& h);

  // Handles a copy of the list. Throws usage_error, which begins with the list's name and line, if
  // the copy's memory is in no range.
  void copy(const listed& l, const std::string& list);
  // Read one file: begin it, feed pieces of its text, end it. These functions throw usage_error
  // with file and line.
  void begin_file(const std::string& name, std::uint32_t gpu);
  void feed(std::string_view text);
  void end_file();

  std::uint64_t lines() const { return lines_ + splitter_.number(); }

 private:
  static constexpr std::uint32_t width = 32;
  static constexpr std::uint32_t registers = 256;
  enum class place : std::uint8_t { head, between, block, warp };

  [[noreturn]] void fail(const std::string& what) const;
  std::string where() const;
  void take(std::string_view line);
  void take_head(std::string_view line);
  void begin_kernel();
  void begin_block(std::string_view indices);
  void begin_warp(std::string_view number);
  void end_warp();
  void take_instruction(std::string_view line);
  void take_addresses(std::string_view& line, std::uint32_t mask);
  void access(const opcode& what, std::uint32_t mask, std::uint32_t source,
              std::optional<std::uint32_t> result);
  void computed(operation kind, bool waits);
  void flush_computed();
  void emit(instruction i);
  template <class Number>
  Number word_number(std::string_view& line, int base, const char* what) const;
  bool in_window(std::uint64_t address, std::uint64_t base) const;

  sink& to_;
  address_ranges ranges_;
  std::uint32_t gpus_;
  std::uint32_t launches_ = 0;
  std::uint32_t tasks_ = 0;
  std::vector<std::uint32_t> last_;  // the last task of each GPU
  std::uint64_t lines_ = 0;          // number of lines of the previous files

  std::string file_;
  line_splitter splitter_;
  place place_ = place::head;
  launch launch_;
  std::array<std::uint32_t, 3> grid_{};
  std::array<std::uint32_t, 3> block_dim_{};
  std::uint32_t version_ = 0;
  bool line_info_ = false;
  std::uint64_t shared_base_ = 0;
  std::uint64_t local_base_ = 0;
  std::uint64_t next_block_ = 0;
  bool in_block_ = false;  // the block's index is known

  std::uint32_t warp_ = 0;
  std::uint64_t stated_ = no_dependence;  // number of the warp's instructions that the file states
  std::uint64_t taken_ = 0;
  std::uint32_t emitted_ = 0;
  std::uint32_t waited_ = 0;  // number of instructions that a wait has covered
  std::array<std::uint32_t, registers> loaded_by_{};
  std::array<std::uint32_t, operation_kinds> computed_{};
  std::array<std::uint64_t, width> addresses_{};
};

}  // namespace interlace::sim::trace
