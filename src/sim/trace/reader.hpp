// Reads trace files. Opening a file checks the structure of the whole file. The contents of a chunk
// are checked when the chunk is read. Memory holds the program, the position of each chunk, and one
// chunk for each cursor.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/processes.hpp"
#include "sim/trace/address_ranges.hpp"
#include "sim/trace/instruction.hpp"
#include "sim/trace/layout.hpp"

namespace interlace::sim::trace {

// Whether a file begins like a trace file.
bool begins_as_trace(const std::string& beginning);

class reader {
 public:
  // The constructors throw usage_error if the file is not a complete trace. The error names the
  // file and a byte position.
  explicit reader(const std::string& path);
  reader(descriptor file, std::string name);

  const header& head() const { return header_; }
  const address_ranges& ranges() const { return ranges_; }
  const std::vector<step>& program() const { return program_; }
  const std::vector<launch>& launches() const { return launches_; }
  const totals& stated() const { return stated_; }  // the totals that the end of the file states
  std::uint64_t bytes() const { return size_; }

  // Passes the whole trace on: first the program, and then the GPUs one after another. Throws
  // usage_error if the contents are invalid or differ from the totals at the end of the file. The
  // function calls `progress` from time to time with the number of bytes read so far. `progress`
  // may throw.
  void read_all(sink& to, const std::function<void(std::uint64_t)>& progress) const;

  [[noreturn]] void fail(std::uint64_t offset, const std::string& what) const;

 private:
  friend class cursor;
  struct chunk {
    std::uint64_t payload = 0;  // the position of the payload
    std::uint32_t bytes = 0;
    std::uint32_t records = 0;
  };

  void read_header();
  void index_chunks();
  void read_program(const std::vector<chunk>& chunks);
  void check_step(std::uint64_t offset, const step& s, std::uint64_t tasks) const;
  void read_end(const chunk& c);
  void get(std::uint64_t offset, std::uint8_t* to, std::size_t size) const;
  void load(const chunk& c, std::vector<std::uint8_t>& to) const;

  descriptor file_;
  std::string name_;
  std::uint64_t size_ = 0;
  std::uint64_t first_chunk_ = 0;
  header header_;
  address_ranges ranges_{header_};
  std::vector<step> program_;
  std::vector<launch> launches_;
  totals stated_;
  std::vector<std::vector<chunk>> chunks_;  // the chunks of each GPU
};

// Walks through the recorded work of one GPU.
class cursor {
 public:
  enum class event : std::uint8_t { kernel, block, instruction, end };

  // The reader must outlive the cursor.
  cursor(const reader& from, std::uint32_t gpu);

  event now() const { return now_; }
  event next();
  // These functions return the kernel, block, warp and instruction of the last event of each kind.
  std::uint32_t kernel() const { return kernel_; }
  std::uint64_t block() const { return block_; }
  std::uint32_t warp() const { return warp_; }
  const trace::instruction& instruction() const { return instruction_; }
  std::uint64_t offset() const;  // the file position of the next record

 private:
  bool more();
  [[noreturn]] void fail(const std::string& what) const;
  std::uint8_t byte();
  std::uint64_t varint();
  std::uint32_t small(std::uint64_t limit, const char* what);
  void read_access(std::uint8_t tag);
  void read_action(std::uint8_t tag);
  void begin_kernel();
  void begin_block();
  void read_depends(bool there);

  const reader* reader_;
  std::uint32_t gpu_;
  std::size_t chunk_ = 0;  // number of the next chunk
  std::uint64_t payload_ = 0;
  std::vector<std::uint8_t> bytes_;
  std::size_t at_ = 0;
  std::size_t record_ = 0;  // the position where the record begins
  std::uint32_t records_left_ = 0;
  previous before_;

  event now_ = event::end;
  std::uint32_t kernel_ = no_dependence;
  std::uint64_t block_ = 0;
  std::uint64_t next_block_ = 0;
  bool in_block_ = false;
  std::uint32_t warp_ = no_dependence;
  std::uint32_t warps_ = 0;  // number of warps in a block of the kernel
  trace::instruction instruction_;
  std::array<std::uint64_t, max_lanes> addresses_{};
  std::vector<std::uint32_t> numbers_;  // number of instructions of each warp so far
  std::uint64_t all_lanes_;
};

}  // namespace interlace::sim::trace
