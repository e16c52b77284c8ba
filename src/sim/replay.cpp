#include "sim/replay.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/sim/node.hpp"
#include "sim/mechanism/region_mechanisms.hpp"

namespace interlace::sim {

namespace {

constexpr std::uint32_t slot_bits = 36;  // the same value as in an arena
constexpr std::uint64_t slot_bytes = std::uint64_t{1} << slot_bits;
constexpr std::uint64_t most_idle_blocks = std::uint64_t{1} << 28U;
constexpr std::uint64_t granule = std::uint64_t{2} << 20U;  // the alignment of ranges

// Maps each range of the trace to a range of simulated memory.
class placement {
 public:
  explicit placement(const trace::reader& from) : ranges_(from.ranges()) {
    const std::uint32_t gpus = from.head().gpus;
    map_.slot_bits = slot_bits;
    map_.devices = gpus;
    std::vector<std::uint64_t> used(gpus + 1, 0);
    for (const trace::range& r : ranges_.all()) {
      const std::uint32_t slot = r.page_bytes == 0 ? r.gpu : gpus;
      const std::uint64_t begin =
          (used[slot] + granule - 1) / granule * granule + r.begin % granule;
      if (r.end - r.begin > slot_bytes || begin > slot_bytes - (r.end - r.begin)) {
        throw usage_error("the address ranges of gpu" + std::to_string(r.gpu) +
                          " are more than the " + std::to_string(slot_bytes >> 30U) +
                          " GiB that a simulated GPU can hold");
      }
      used[slot] = begin + (r.end - r.begin);
      // The address in simulated memory is the address in the range plus this value, modulo 2^64.
      shift_.push_back((std::uint64_t{slot} << slot_bits) + begin - r.begin);
      if (r.page_bytes == 0) continue;
      map_.homes.resize((used[slot] + map_.page_bytes - 1) / map_.page_bytes, 0);
      for (std::uint64_t a = r.begin / map_.page_bytes * map_.page_bytes; a < r.end;
           a += map_.page_bytes) {
        const std::uint64_t inside = std::max(a, r.begin) - r.begin;
        map_.homes[(begin + inside) / map_.page_bytes] =
            static_cast<std::uint8_t>(inside / r.page_bytes % gpus);
      }
    }
  }

  const address_map& map() const { return map_; }
  std::uint64_t operator()(std::uint64_t address) const {
    return address + shift_[ranges_.number(ranges_.find(address))];
  }

 private:
  trace::address_ranges ranges_;
  // For each range, the simulated address minus the address in the trace.
  std::vector<std::uint64_t> shift_;
  address_map map_;
};

// The recorded work of one GPU, block by block.
class gpu_stream {
 public:
  gpu_stream(const trace::reader& from, std::uint32_t gpu, const placement& where)
      : cursor_(from, gpu), where_(where) {
    cursor_.next();
  }

  void run_block(std::uint32_t launch, std::uint64_t index, recorder& record, trace::totals& done) {
    using event = trace::cursor::event;
    if (cursor_.now() == event::kernel && cursor_.kernel() == launch) cursor_.next();
    // The trace leaves out blocks that have no instructions.
    if (cursor_.now() != event::block || cursor_.kernel() != launch || cursor_.block() != index) {
      return;
    }
    ++done.blocks;
    while (cursor_.next() == event::instruction) {
      trace::instruction i = cursor_.instruction();
      done.add(i);
      if (trace::is_access(i.kind)) {
        const auto lanes = static_cast<std::size_t>(__builtin_popcountll(i.lanes));
        for (std::size_t k = 0; k < lanes; ++k) placed_[k] = where_(i.addresses[k]);
        i.addresses = placed_.data();
      }
      record.add(cursor_.warp(), i);
    }
  }

 private:
  trace::cursor cursor_;
  const placement& where_;
  std::array<std::uint64_t, trace::max_lanes> placed_{};
};

class replayer {
 public:
  replayer(const trace::reader& from, const machine::machine& described, store_path path,
           const std::function<void()>& check_interrupt)
      : from_(from),
        path_(path),
        where_(from),
        simulation_(first_gpus(described, from.head().gpus), where_.map(), check_interrupt) {
    streams_.reserve(from.head().gpus);
    for (std::uint32_t g = 0; g < from.head().gpus; ++g) streams_.emplace_back(from, g, where_);
    check_memory();
    check_launches();
  }

  replayed run() {
    for (const trace::step& s : from_.program()) {
      done_.totals.add(s);
      std::visit([this](const auto& one) { add(one); }, s);
    }
    if (!tasks_.empty()) add(trace::join{});
    if (!(done_.totals == from_.stated())) {
      throw model_error("the trace has " + std::to_string(from_.stated().accesses()) +
                        " accesses, and " + std::to_string(done_.totals.accesses()) +
                        " were replayed");
    }
    done_.time_s = seconds_of(time_);
    done_.counters = simulation_.counters();
    done_.copies = simulation_.copies();
    done_.exchanges = simulation_.flags();
    return done_;
  }

 private:
  void check_memory() const {
    const std::uint32_t gpus = from_.head().gpus;
    std::vector<std::uint64_t> needed(gpus, 0);
    for (const trace::range& r : from_.ranges().all()) {
      for (std::uint32_t g = 0; g < gpus; ++g) {
        if (r.page_bytes != 0) needed[g] += (r.end - r.begin) / gpus;
        if (r.page_bytes == 0 && r.gpu == g) needed[g] += r.end - r.begin;
      }
      const std::uint64_t page = simulation_.described().gpu.tlb.page_bytes;
      if (r.page_bytes == 0 || r.page_bytes >= page) continue;
      throw usage_error("the trace has pages of " + std::to_string(r.page_bytes) +
                        " bytes; machine " + simulation_.described().name +
                        " translates addresses by pages of " + std::to_string(page));
    }
    const std::uint64_t there = simulation_.described().gpu.dram.bytes;
    for (std::uint32_t g = 0; g < gpus; ++g) {
      if (needed[g] <= there) continue;
      throw usage_error("the trace's ranges on gpu" + std::to_string(g) + " have " +
                        std::to_string(needed[g]) + " bytes; a GPU of machine " +
                        simulation_.described().name + " has " + std::to_string(there));
    }
  }
  void check_launches() const {
    const machine::gpu& g = simulation_.described().gpu;
    std::uint64_t blocks = 0;
    for (const trace::launch& l : from_.launches()) {
      blocks += l.blocks;
      if (blocks > from_.stated().blocks && blocks - from_.stated().blocks > most_idle_blocks) {
        throw usage_error("the kernels of the trace have more than " +
                          std::to_string(most_idle_blocks) +
                          " blocks without instructions, and each of them takes time to replay");
      }
      const std::uint32_t warps = warps_of(l);
      if (warps <= g.max_warps && l.shared_bytes <= g.shared_bytes) continue;
      throw usage_error("the trace has a kernel whose blocks have " + std::to_string(warps) +
                        " warps and " + std::to_string(l.shared_bytes) +
                        " bytes of shared memory; a compute unit of machine " +
                        simulation_.described().name + " holds " + std::to_string(g.max_warps) +
                        " and " + std::to_string(g.shared_bytes));
    }
  }
  std::uint32_t warps_of(const trace::launch& l) const {
    const std::uint32_t width = from_.head().warp_width;
    return (l.threads + width - 1) / width;
  }

  // Returns the tasks that belong to task numbers of the trace. A task that the replay leaves out
  // is not in the result.
  std::vector<task_id> after(const std::vector<std::uint32_t>& tasks) const {
    std::vector<task_id> found;
    for (const std::uint32_t t : tasks) {
      if (tasks_[t] != none) found.push_back(tasks_[t]);
    }
    return found;
  }

  void add(const trace::launch& l) {
    const machine::gpu& g = simulation_.described().gpu;
    recorder::settings record;
    record.warp_width = g.warp_width;
    record.line_bytes = g.l1.line_bytes;
    record.sector_bytes = g.l1.sector_bytes;
    record.device = l.gpu;
    record.stores_inline = true;
    const grid shape{l.blocks, warps_of(l) * g.warp_width, l.shared_bytes};
    tasks_.push_back(simulation_.add_kernel(
        l.gpu, shape, record,
        [this, id = launches_++, gpu = l.gpu](std::uint64_t index, recorder& r,
                                              kernel::block_memory&) {
          streams_[gpu].run_block(id, index, r, done_.totals);
        },
        after(l.after), nullptr, path_));
  }
  void add(const trace::copy& c) {
    if (c.from == trace::host || c.to == trace::host) {
      ++done_.host_copies;
      tasks_.push_back(none);
      return;
    }
    simulation::copy_request request;
    request.by =
        c.by == trace::copy_start::by_host ? simulation::mover::host : simulation::mover::engine;
    request.from = c.from;
    request.address = where_(c.from_address);
    request.bytes = c.bytes;
    request.to.push_back({c.to, where_(c.to_address)});
    tasks_.push_back(simulation_.add_copy(std::move(request), after(c.after)));
  }
  void add(const trace::exchange& x) {
    std::vector<std::vector<task_id>> before;
    for (const auto& tasks : x.after) before.push_back(after(tasks));
    std::vector<trace::stretch> appears = x.appears;
    for (trace::stretch& s : appears) s.address = where_(s.address);
    for (const task_id t :
         simulation_.add_exchange(before, x.payload, x.instant, std::move(appears), {})) {
      tasks_.push_back(t);
    }
  }
  void add(const trace::call& c) {
    kernel::library_call call;
    call.name = c.name;
    call.bytes_read = c.bytes_read;
    call.bytes_written = c.bytes_written;
    call.operations = {c.operations[0], c.operations[1], c.operations[2], c.operations[3]};
    call.on_cpu = [] {};
    tasks_.push_back(simulation_.add_call(c.gpu, std::move(call), {}, after(c.after)));
  }
  void add(const trace::join&) {
    time_ += simulation_.run();
    tasks_.clear();
  }

  const trace::reader& from_;
  store_path path_;
  placement where_;
  simulation simulation_;
  std::vector<gpu_stream> streams_;
  std::vector<task_id> tasks_;  // the tasks since the last join
  std::uint32_t launches_ = 0;
  picoseconds time_ = 0;
  replayed done_;
};

}  // namespace

// A trace records neither pages nor which devices read a page. A replay therefore cannot serve
// mechanisms that send stores by page.
bool replays(kernel::mechanism how) { return kernel::row_of(how).stores_to_readers; }

replayed replay(const trace::reader& from, const machine::machine& described, kernel::mechanism how,
                const std::function<void()>& check_interrupt) {
  if (!replays(how)) {
    throw usage_error(std::string("a trace cannot be replayed with ") +
                      kernel::mechanism_name(how) +
                      "; give the mechanism by which its stores go to other GPUs: " +
                      kernel::mechanisms_with(&kernel::mechanism_row::stores_to_readers));
  }
  const store_path path = simulated(how).path();
  check_store_path(described, path);
  return replayer(from, described, path, check_interrupt).run();
}

}  // namespace interlace::sim
