// Writes a trace file while the trace arrives. Memory holds one chunk for each GPU and one chunk
// for the program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/processes.hpp"
#include "sim/trace/instruction.hpp"
#include "sim/trace/layout.hpp"

namespace interlace::sim::trace {

class writer final : public sink {
 public:
  // Replaces the contents of the file at `path`. The caller has created the file, and renames it
  // after finish(). Throws usage_error if the file cannot be written or if the header is invalid.
  writer(std::string path, const header& h);
  ~writer() override = default;
  writer(const writer&) = delete;
  writer& operator=(const writer&) = delete;

  void program(const step& s) override;
  void begin_kernel(std::uint32_t gpu, std::uint32_t launch) override;
  void begin_block(std::uint32_t gpu, std::uint64_t index) override;
  void add(std::uint32_t gpu, std::uint32_t warp, const instruction& i) override;

  void finish();
  const totals& written() const { return totals_; }

 private:
  struct stream {
    std::vector<std::uint8_t> bytes;
    std::uint32_t records = 0;
    previous before;
    std::uint64_t next_block = 0;        // number of the kernel's next block
    std::uint32_t warp = no_dependence;  // warp of the last record
    // number of instructions of each of the block's warps so far
    std::vector<std::uint32_t> instructions;
  };

  void put_access(stream& s, std::uint8_t kind, const instruction& i, std::uint32_t number) const;
  void end_record(stream& s, std::uint8_t id);
  void flush(stream& s, std::uint8_t id);
  void put(const std::uint8_t* bytes, std::size_t size);
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  descriptor file_;
  std::uint64_t all_lanes_;
  std::vector<stream> gpus_;
  stream program_;
  totals totals_;
};

}  // namespace interlace::sim::trace
