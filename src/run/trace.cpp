#include "run/trace.hpp"

#include <algorithm>
#include <optional>

#include "interlace/base/errors.hpp"
#include "sim/replay.hpp"
#include "sim/trace/accel_sim.hpp"
#include "sim/trace/mem_trace.hpp"
#include "sim/trace/mgpusim.hpp"
#include "sim/trace/reader.hpp"
#include "sim/trace/statistics.hpp"
#include "sim/trace/writer.hpp"

namespace interlace::run {

namespace {

namespace trace = sim::trace;

constexpr std::size_t most_names = 100;

trace::header header_of(const trace_source& from) {
  trace::header h;
  h.gpus = from.head.gpus;
  h.warp_width = from.format == "mgpusim" ? 1 : 32;
  h.source = from.format + " " + from.name;
  for (const trace_range& r : from.head.ranges) {
    h.ranges.push_back({r.begin, r.end, r.gpu, r.page_bytes});
  }
  if (from.format == "mgpusim" && h.ranges.empty()) h.ranges = trace::mgpusim_ranges(h.gpus);
  trace::check_header(h);
  return h;
}

trace_head head_of(const trace::header& h) {
  trace_head found{h.gpus, h.warp_width, {}, h.source};
  for (const trace::range& r : h.ranges) {
    found.ranges.push_back({r.begin, r.end, r.gpu, r.page_bytes});
  }
  return found;
}

// Counts all records. If there is a file, also passes the records on to the file.
class counting final : public trace::sink {
 public:
  counting(const trace::header& h, trace::writer* file) : header_(h), seen_(h), file_(file) {}

  void program(const trace::step& s) override {
    seen_.program(s);
    if (const auto* l = std::get_if<trace::launch>(&s)) {
      const bool known = std::find(names_.begin(), names_.end(), l->name) != names_.end();
      if (!known && !l->name.empty() && names_.size() < most_names) names_.push_back(l->name);
    }
    if (file_ != nullptr) file_->program(s);
  }
  void begin_kernel(std::uint32_t gpu, std::uint32_t launch) override {
    if (file_ != nullptr) file_->begin_kernel(gpu, launch);
  }
  void begin_block(std::uint32_t gpu, std::uint64_t index) override {
    seen_.begin_block(gpu, index);
    if (file_ != nullptr) file_->begin_block(gpu, index);
  }
  void add(std::uint32_t gpu, std::uint32_t warp, const trace::instruction& i) override {
    seen_.add(gpu, warp, i);
    if (file_ != nullptr) file_->add(gpu, warp, i);
  }

  trace_statistics result() const {
    trace_statistics s;
    s.head = head_of(header_);
    for (const auto& g : seen_.gpus()) {
      s.gpus.push_back({g.launches, g.blocks, g.own, g.remote, g.own_bytes, g.remote_bytes});
    }
    const trace::totals& all = seen_.all();
    s.matrix = seen_.matrix();
    s.copies = all.copies;
    s.exchanges = all.exchanges;
    s.calls = all.calls;
    s.host_copies = seen_.host_copies();
    s.copied_bytes = seen_.copied_bytes();
    s.instructions = all.instructions;
    s.lanes = all.lanes;
    s.bytes = all.bytes;
    for (const auto& [key, n] : seen_.widths()) {
      s.widths[{static_cast<std::uint32_t>(key.first), key.second}] = n;
    }
    s.distinct_bytes = seen_.distinct_bytes();
    s.touched = seen_.touched();
    s.remote_runs = seen_.remote_runs();
    s.names = names_;
    return s;
  }

 private:
  trace::header header_;
  trace::statistics seen_;
  trace::writer* file_;
  std::vector<std::string> names_;
};

class conversion final : public trace_conversion {
 public:
  conversion(const trace_source& from, const std::string& path)
      : header_(header_of(from)),
        file_(path.empty() ? nullptr : std::make_unique<trace::writer>(path, header_)),
        to_(header_, file_.get()) {
    if (from.format == "accel-sim") {
      accel_sim_.emplace(to_, header_);
    } else if (from.format == "nvbit") {
      for (const auto& [id, gpu] : from.contexts) {
        if (gpu >= header_.gpus)
          throw usage_error("a context belongs to a GPU that the map does not have");
      }
      mem_trace_.emplace(to_, header_, from.name, from.contexts);
    } else if (from.format == "mgpusim") {
      mgpusim_.emplace(to_, header_, from.name, from.component);
    } else {
      throw usage_error("unknown format '" + from.format + "'; give accel-sim, nvbit or mgpusim");
    }
  }

  void copy(const listed_step& step, const std::string& list) override {
    accel_sim().copy({step.is_copy, step.to_gpu, step.address, step.bytes, step.file, step.line},
                     list);
  }
  void begin_file(const std::string& name, std::uint32_t gpu) override {
    accel_sim().begin_file(name, gpu);
  }
  void feed(std::string_view text) override {
    if (accel_sim_) accel_sim_->feed(text);
    if (mem_trace_) mem_trace_->feed(text);
    if (mgpusim_) mgpusim_->feed(text);
  }
  void end_file() override {
    if (accel_sim_) accel_sim_->end_file();
    if (mem_trace_) mem_trace_->finish();
    if (mgpusim_) mgpusim_->finish();
  }
  std::uint64_t lines() const override {
    return accel_sim_ ? accel_sim_->lines() : mem_trace_ ? mem_trace_->lines() : mgpusim_->lines();
  }
  trace_statistics finish() override {
    if (file_) file_->finish();
    return to_.result();
  }

 private:
  trace::accel_sim& accel_sim() {
    if (!accel_sim_) throw usage_error("only accel-sim has several files");
    return *accel_sim_;
  }

  trace::header header_;
  std::unique_ptr<trace::writer> file_;
  counting to_;
  std::optional<trace::accel_sim> accel_sim_;
  std::optional<trace::mem_trace> mem_trace_;
  std::optional<trace::mgpusim> mgpusim_;
};

}  // namespace

bool is_trace_file(const std::string& beginning) { return trace::begins_as_trace(beginning); }

trace_statistics read_statistics(const std::string& path,
                                 const std::function<void(std::uint64_t)>& progress) {
  const trace::reader from(path);
  counting seen(from.head(), nullptr);
  from.read_all(seen, progress);
  trace_statistics s = seen.result();
  s.file_bytes = from.bytes();
  return s;
}

std::vector<listed_step> read_kernels_list(std::string_view text, const std::string& file) {
  std::vector<listed_step> steps;
  for (const trace::listed& l : trace::read_kernels_list(text, file)) {
    steps.push_back({l.is_copy, l.to_gpu, l.address, l.bytes, l.file, l.line});
  }
  return steps;
}

std::unique_ptr<trace_conversion> convert_trace(const trace_source& from, const std::string& path) {
  return std::make_unique<conversion>(from, path);
}

trace_replay replay_trace(const std::string& path, const machine::machine& described,
                          const std::string& mechanism,
                          const std::function<void()>& check_interrupt) {
  const trace::reader from(path);
  const sim::replayed r =
      sim::replay(from, described, kernel::parse_mechanism(mechanism), check_interrupt);
  trace_replay found;
  found.time_s = r.time_s;
  found.instructions = r.totals.accesses();
  found.lanes = r.totals.lanes[0] + r.totals.lanes[1] + r.totals.lanes[2];
  found.accesses = r.counters.accesses;
  found.remote_transactions = r.counters.remote_transactions();
  found.l1_hits = r.counters.l1_hits;
  found.l1_misses = r.counters.l1_misses;
  found.stores = {r.counters.stored_payload(), r.counters.stored_wire()};
  found.reads = {r.counters.read_payload, r.counters.read_wire};
  found.copies = {r.copies.payload, r.copies.wire};
  found.exchanges = {r.exchanges.payload, r.exchanges.wire};
  found.host_copies = r.host_copies;
  return found;
}

}  // namespace interlace::run
