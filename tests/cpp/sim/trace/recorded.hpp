// Records a trace as text: one string for the program, and lists of lines for the GPUs.
#pragma once

#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "sim/trace/instruction.hpp"

namespace interlace::test {

class recorded final : public sim::trace::sink {
 public:
  explicit recorded(std::uint32_t count) : gpus(count) {}

  void program(const sim::trace::step& s) override {
    std::ostringstream out;
    std::visit([&](const auto& one) { put(out, one); }, s);
    program_text += out.str() + "\n";
  }
  void begin_kernel(std::uint32_t gpu, std::uint32_t launch) override {
    gpus[gpu].push_back("kernel " + std::to_string(launch));
  }
  void begin_block(std::uint32_t gpu, std::uint64_t index) override {
    gpus[gpu].push_back("block " + std::to_string(index));
  }
  // A line has this form: "w0 load 4 B, lanes f, scope 0: 1000 1004 1008 100c; after 3".
  void add(std::uint32_t gpu, std::uint32_t warp, const sim::trace::instruction& i) override {
    static constexpr const char* names[] = {"load",   "store",   "atomic", "release", "compute",
                                            "shared", "shuffle", "wait",   "barrier"};
    std::ostringstream out;
    out << "w" << warp << " " << names[static_cast<std::size_t>(i.kind)];
    if (sim::trace::is_access(i.kind)) {
      out << " " << int{i.bytes} << " B, lanes " << std::hex << i.lanes << ":";
      for (int k = 0; k < __builtin_popcountll(i.lanes); ++k) out << " " << i.addresses[k];
      out << std::dec;
    }
    if (i.scope != sim::trace::scope::none) out << "; scope " << static_cast<int>(i.scope);
    if (i.kind == sim::trace::action::compute) out << " " << int{i.operation};
    if (i.count != 0) out << " x" << i.count;
    if (i.depends != sim::trace::no_dependence) out << "; after " << i.depends;
    gpus[gpu].push_back(out.str());
  }

  std::string program_text;
  std::vector<std::vector<std::string>> gpus;

 private:
  static void put(std::ostream& out, const std::vector<std::uint32_t>& after) {
    out << " after";
    for (const std::uint32_t task : after) out << " " << task;
  }
  static void put(std::ostream& out, const sim::trace::launch& l) {
    out << "launch gpu" << l.gpu << " " << l.blocks << " x " << l.threads << " shared "
        << l.shared_bytes << " " << l.name;
    put(out, l.after);
  }
  static void put(std::ostream& out, const sim::trace::copy& c) {
    out << "copy " << c.from << " to " << c.to << " by " << static_cast<int>(c.by) << std::hex
        << " " << c.from_address << " " << c.to_address << std::dec << " " << c.bytes;
    put(out, c.after);
  }
  static void put(std::ostream& out, const sim::trace::exchange& x) {
    out << "exchange " << x.payload << " " << x.instant;
    for (const auto& after : x.after) put(out, after);
    for (const auto& s : x.appears) out << " " << s.gpu << ": " << s.address << " + " << s.bytes;
  }
  static void put(std::ostream& out, const sim::trace::call& c) {
    out << "call gpu" << c.gpu << " " << c.name << " " << c.bytes_read << " " << c.bytes_written;
    for (const std::uint64_t n : c.operations) out << " " << n;
    put(out, c.after);
  }
  static void put(std::ostream& out, const sim::trace::join&) { out << "join"; }
};

}  // namespace interlace::test
