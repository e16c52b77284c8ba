// Reads the traces of Accel-Sim's tracer, versions 4 and 5, after Accel-Sim's post-processing has
// grouped them. The input is the file kernelslist.g and the .traceg files that it names.
// docs/reference/trace-formats.md says how each line is translated.
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
  bool to_gpu = false;        // copies only: whether the copy goes to the GPU or from the GPU
  std::uint64_t address = 0;  // for copies only: the address in the GPU's memory
  std::uint64_t bytes = 0;
  std::string file;        // for kernels only: the name of the trace file
  std::uint64_t line = 0;  // number of the line in the list
};

// Throws usage_error if the text is not a kernelslist.g. The error names the file and the line.
std::vector<listed> read_kernels_list(std::string_view text, const std::string& file);

class accel_sim {
 public:
  // Passes the contents of the files to `to`. `h` is the header of `to`. Both must outlive the
  // reader.
  accel_sim(sink& to, const header& h);

  // Handles a copy in the list. Throws usage_error if the copy's memory is in no range. The error
  // begins with the name of the list and the line.
  void copy(const listed& l, const std::string& list);
  // To read one file, begin it, feed pieces of its text, and end it. These functions throw
  // usage_error, which names the file and the line.
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
  bool in_block_ = false;  // whether the block's index is known

  std::uint32_t warp_ = 0;
  // The number of instructions that the file states for the warp.
  std::uint64_t stated_ = no_dependence;
  std::uint64_t taken_ = 0;
  std::uint32_t emitted_ = 0;
  std::uint32_t waited_ = 0;  // number of instructions that waits cover so far
  std::array<std::uint32_t, registers> loaded_by_{};
  std::array<std::uint32_t, operation_kinds> computed_{};
  std::array<std::uint64_t, width> addresses_{};
};

}  // namespace interlace::sim::trace
