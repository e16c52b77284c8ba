#include "machine/discover.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <numeric>

#include "base/driver_needs.hpp"
#include "machine/validate.hpp"

namespace interlace::machine {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

// The name of a model without the words that differ between tools. For example, "NVIDIA H200" and
// "H200" have the same name here, and so do "Tesla V100-SXM2-16GB" and "NVIDIA V100-SXM2-16GB".
std::string plain_model(const std::string& name) {
  std::string text = lower(name);
  for (const std::string brand : {"nvidia ", "tesla ", "quadro ", "geforce "})
    if (text.rfind(brand, 0) == 0) text.erase(0, brand.size());
  return text;
}

// The major number of the compute capability of a model in a description, or 0 if the model is not
// NVIDIA's.
std::uint32_t generation_of(const std::string& model) {
  const std::string text = plain_model(model);
  static const std::array<std::pair<const char*, std::uint32_t>, 9> families{{{"k40", 3},
                                                                              {"k80", 3},
                                                                              {"p100", 6},
                                                                              {"v100", 7},
                                                                              {"gv100", 7},
                                                                              {"a100", 8},
                                                                              {"h100", 9},
                                                                              {"h200", 9},
                                                                              {"gh200", 9}}};
  for (const auto& [family, major] : families)
    if (text.rfind(family, 0) == 0) return major;
  return 0;
}

// The description that fits the GPU best. It is a description of the same model, or else a
// description of a GPU of the nearest generation.
const machine* template_for(const usable_gpu& unit, const std::vector<machine>& known,
                            bool& same_model) {
  same_model = false;
  const machine* nearest = nullptr;
  std::uint32_t distance = 0;
  for (const machine& described : known) {
    if (plain_model(described.gpu.model) == plain_model(unit.name)) {
      same_model = true;
      return &described;
    }
    const std::uint32_t generation = generation_of(described.gpu.model);
    if (generation == 0) continue;
    const std::uint32_t away = generation > unit.capability_major
                                   ? generation - unit.capability_major
                                   : unit.capability_major - generation;
    if (nearest == nullptr || away < distance) {
      nearest = &described;
      distance = away;
    }
  }
  return nearest;
}

// Changes banks and ways until the size that the driver reports is a whole number of sets.
void fit(cache& level, std::uint64_t bytes) {
  level.bytes = bytes;
  const auto fits = [&](std::uint64_t banks, std::uint64_t ways) {
    return bytes % (banks * ways * level.line_bytes) == 0;
  };
  if (level.line_bytes == 0 || bytes == 0 || fits(level.banks, level.ways)) return;
  for (std::uint32_t banks = level.banks; banks >= 1; --banks) {
    for (const std::uint32_t ways : {16U, 20U, 24U, 12U, 32U, 8U}) {
      if (!fits(banks, ways)) continue;
      level.banks = banks;
      level.ways = ways;
      return;
    }
  }
  level.bytes = bytes / level.line_bytes * level.line_bytes;
  level.banks = 1;
  level.ways = 1;
}

constexpr double giga = 1e9;

struct nvlink_generation {
  protocol_kind kind;
  double bytes_per_s;  // nominal rate of one link in one direction
};

nvlink_generation nvlink_of(std::uint32_t version) {
  switch (version) {
    case 1:
      return {protocol_kind::nvlink1, 20 * giga};
    case 2:
      return {protocol_kind::nvlink2, 25 * giga};
    case 3:
      return {protocol_kind::nvlink3, 25 * giga};
    case 4:
      return {protocol_kind::nvlink4, 25 * giga};
    default:
      return {protocol_kind::nvlink4, 50 * giga};
  }
}

struct pcie_generation {
  protocol_kind kind;
  double lane_bytes_per_s;  // rate of one lane after line coding
};

pcie_generation pcie_of(std::uint32_t generation) {
  switch (generation) {
    case 1:
      return {protocol_kind::pcie3, 0.25 * giga};
    case 2:
      return {protocol_kind::pcie3, 0.5 * giga};
    case 3:
      return {protocol_kind::pcie3, 8 * giga * 128 / 130 / 8};
    case 4:
      return {protocol_kind::pcie4, 16 * giga * 128 / 130 / 8};
    case 5:
      return {protocol_kind::pcie5, 32 * giga * 128 / 130 / 8};
    default:
      return {protocol_kind::pcie6, 64 * giga / 8};
  }
}

std::string name_of(protocol_kind kind) {
  static const std::array<const char*, 8> names{"pcie3",   "pcie4",   "pcie5",   "pcie6",
                                                "nvlink1", "nvlink2", "nvlink3", "nvlink4"};
  return names.at(static_cast<std::size_t>(kind));
}

std::string word(pcie_relation relation) {
  switch (relation) {
    case pcie_relation::same_board:
    case pcie_relation::pix:
      return "PIX";
    case pcie_relation::pxb:
      return "PXB";
    case pcie_relation::phb:
      return "PHB";
    case pcie_relation::node:
      return "NODE";
    case pcie_relation::sys:
      return "SYS";
    case pcie_relation::unknown:
      break;
  }
  return "PCIE";
}

const link* link_like(const machine* described, protocol_kind kind) {
  if (described == nullptr) return nullptr;
  for (const link& edge : described->links)
    if (edge.protocol.kind == kind) return &edge;
  return nullptr;
}

std::string plural(std::size_t count, const std::string& word_for_one) {
  return std::to_string(count) + " " + word_for_one + (count == 1 ? "" : "s");
}

// Does the work of `discover`. Each member function is one step, and adds to the same result.
class explorer {
 public:
  explorer(gpu_driver& driver, const std::vector<machine>& known)
      : driver_(driver), known_(known) {}

  discovery run() {
    const driver_versions versions = driver_.versions();
    result_.driver_version = versions.driver;
    result_.cuda_version = versions.cuda;
    list_installed();
    list_usable();
    describe_gpu();
    describe_devices();
    connect_nvlinks();
    connect_pcie();
    say_what_is_missing();
    result_.found.host.model = driver_.host_model();
    if (template_ != nullptr) result_.found.host = host_of(*template_);
    result_.found.name = "this-node";
    result_.found.title = std::to_string(units_.size()) + " x " + units_.front().name +
                          ", discovered" +
                          (versions.driver.empty() ? "" : ", driver " + versions.driver);
    for (const std::string& problem : validate(result_.found))
      result_.remarks.push_back("The description is incomplete: " + problem + ".");
    return std::move(result_);
  }

 private:
  void list_installed() {
    const std::uint32_t count = driver_.installed_count();
    if (count == 0)
      remark("NVML is not available, so NVLinks and PCIe are not known; PCIe 4 x16 is assumed.");
    for (std::uint32_t index = 0; index < count; ++index) {
      try {
        installed_gpu one = driver_.installed(index);
        one.bus_id = lower(one.bus_id);
        installed_.emplace(one.bus_id, one);
        result_.installed = installed_.size();
      } catch (const gpu_lost& error) {
        lost_ += 1;
        remark("GPU " + std::to_string(index) + " is left out: " + error.what() + ".");
      }
    }
  }

  void list_usable() {
    const std::uint32_t count = driver_.usable_count();
    for (std::uint32_t index = 0; index < count; ++index) {
      try {
        usable_gpu one = driver_.usable(index);
        one.bus_id = lower(one.bus_id);
        if (units_.size() == max_devices) {
          remark("Only the first " + std::to_string(max_devices) + " of " + std::to_string(count) +
                 " GPUs are used.");
          break;
        }
        units_.push_back(std::move(one));
        numbers_.push_back(index);
      } catch (const gpu_lost& error) {
        lost_ += 1;
        remark("CUDA device " + std::to_string(index) + " is left out: " + error.what() + ".");
      }
    }
    const std::optional<std::string> visible = driver_.visible_devices();
    if (units_.empty()) {
      if (lost_ > 0) throw usage_error("no GPU answers; " + result_.remarks.back());
      if (!installed_.empty() && visible)
        throw usage_error(why_gpus_are_hidden(*visible, "all " + plural(installed_.size(), "GPU")));
      throw usage_error(no_gpu());
    }
    if (visible && units_.size() < installed_.size())
      remark("CUDA_VISIBLE_DEVICES=" + *visible + " shows " + std::to_string(units_.size()) +
             " of " + plural(installed_.size(), "GPU") + ".");
    for (const usable_gpu& unit : units_)
      if (unit.name != units_.front().name) {
        remark("The GPUs differ; all are described as " + units_.front().name + ".");
        break;
      }
  }

  const installed_gpu* physical(std::size_t number) const {
    const auto found = installed_.find(units_[number].bus_id);
    return found == installed_.end() ? nullptr : &found->second;
  }

  // Whether a GPU is split into MIG instances. Such instances have neither NVLinks nor peer access.
  bool split(std::size_t number) const {
    const installed_gpu* board = physical(number);
    return board != nullptr && board->mig;
  }

  void describe_gpu() {
    const usable_gpu& unit = units_.front();
    template_ = template_for(unit, known_, result_.same_model);
    gpu& made = result_.found.gpu;
    if (template_ != nullptr) {
      made = template_->gpu;
      result_.template_name = template_->name;
      if (!result_.same_model)
        remark("No machine description is for the GPU model " + unit.name +
               "; values that the driver does not report are those of " + template_->gpu.model +
               " (" + template_->name + ").");
    }
    result_.found.gpu_count = static_cast<std::uint32_t>(units_.size());
    result_.queried = {"gpu.count", "gpu.model"};
    made.model = unit.name;
    const auto take = [&](const char* key, auto& target, auto value) {
      if (value == 0) return;
      target = value;
      result_.queried.emplace_back(key);
    };
    take("gpu.compute_units", made.compute_units, unit.compute_units);
    take("gpu.clock_MHz", made.clock_hz, unit.clock_hz);
    take("gpu.warp_width_lanes", made.warp_width, unit.warp_width);
    take("gpu.warps_per_compute_unit", made.max_warps,
         unit.warp_width == 0 ? 0 : unit.max_threads / unit.warp_width);
    take("gpu.blocks_per_compute_unit", made.max_blocks, unit.max_blocks);
    take("gpu.shared_KiB_per_compute_unit", made.shared_bytes, unit.shared_bytes);
    take("gpu.copy.engines", made.copy_engines, unit.copy_engines);
    take("gpu.dram.capacity_GiB", made.dram.bytes, unit.memory_bytes);
    if (unit.l2_bytes != 0) {
      fit(made.l2, unit.l2_bytes);
      result_.queried.emplace_back("gpu.l2.size_KiB");
    }
    if (!result_.same_model && unit.memory_peak_bytes_per_s > 0) {
      made.dram.bytes_per_s = 0.85 * unit.memory_peak_bytes_per_s;
      remark("Memory bandwidth is taken as 85 % of the peak that the driver reports.");
    }
  }

  void describe_devices() {
    const std::size_t count = units_.size();
    result_.relations.assign(count, std::vector<std::string>(count, "X"));
    for (std::size_t number = 0; number < count; ++number) {
      found_device device;
      device.name = units_[number].name;
      device.bus_id = units_[number].bus_id;
      device.memory_bytes = units_[number].memory_bytes;
      if (const installed_gpu* board = physical(number)) {
        device.pcie_generation = board->pcie_generation;
        device.pcie_width = board->pcie_width;
        device.numa_node = board->numa_node;
        if (!board->mig) device.nvlinks = static_cast<std::uint32_t>(board->nvlinks.size());
      }
      if (split(number))
        remark("gpu" + std::to_string(number) +
               " is an instance of a split GPU (MIG), which has no NVLink and no peer access.");
      result_.devices.push_back(std::move(device));
    }
    for (std::size_t one = 0; one < count; ++one)
      for (std::size_t other = 0; other < count; ++other)
        if (one != other) result_.relations[one][other] = word(near(one, other));
  }

  pcie_relation near(std::size_t one, std::size_t other) {
    if (physical(one) == nullptr || physical(other) == nullptr) return pcie_relation::unknown;
    if (units_[one].bus_id == units_[other].bus_id) return pcie_relation::same_board;
    return driver_.relation(units_[one].bus_id, units_[other].bus_id);
  }

  void connect_nvlinks() {
    const std::size_t count = units_.size();
    std::vector<std::uint32_t> to_switch(count, 0);
    std::vector<std::vector<std::uint32_t>> to_gpu(count, std::vector<std::uint32_t>(count, 0));
    std::uint32_t unknown_remotes = 0;
    for (std::size_t number = 0; number < count; ++number) {
      const installed_gpu* board = physical(number);
      if (board == nullptr || board->mig) continue;
      for (const nvlink_port& port : board->nvlinks) {
        if (port.version != 0) version_ = port.version;
        raw_rate_ = std::max(raw_rate_, port.raw_bytes_per_s);
        if (port.remote == nvlink_remote::gpu) {
          for (std::size_t other = 0; other < count; ++other)
            if (other != number && units_[other].bus_id == lower(port.remote_bus_id))
              to_gpu[number][other] += 1;
        } else {
          if (port.remote == nvlink_remote::unknown) unknown_remotes += 1;
          to_switch[number] += 1;
        }
      }
    }
    if (unknown_remotes > 0)
      remark("NVML does not say where " + plural(unknown_remotes, "NVLink") +
             " end; they are assumed to end at an NVSwitch, as in a virtual machine.");
    // The generation follows from the GPU's own version first, because some drivers report a later
    // version than the GPU has.
    const std::uint32_t major = units_.front().capability_major;
    if (major >= 6) version_ = std::min(major - 5, 5U);
    const nvlink_generation generation = nvlink_of(version_);
    const bool any_link =
        std::any_of(to_switch.begin(), to_switch.end(), [](auto width) { return width > 0; }) ||
        std::any_of(to_gpu.begin(), to_gpu.end(), [](const auto& row) {
          return std::any_of(row.begin(), row.end(), [](auto width) { return width > 0; });
        });
    if (!any_link) return;
    if (version_ > 4) remark("NVLink " + std::to_string(version_) + " is described as NVLink 4.");

    for (std::size_t one = 0; one < count; ++one)
      for (std::size_t other = one + 1; other < count; ++other) {
        const std::uint32_t width = std::min(to_gpu[one][other], to_gpu[other][one]);
        if (width == 0) continue;
        add_nvlink(gpu_end(one), gpu_end(other), width, generation);
        mark_nvlink(one, other, width);
      }
    const auto switched = static_cast<std::size_t>(
        std::count_if(to_switch.begin(), to_switch.end(), [](auto width) { return width > 0; }));
    if (switched == 0) return;
    if (switched == 1 && count > 1) remark("Only one GPU has links to an NVSwitch.");
    network_switch fabric{"nvswitch", 0};
    if (const network_switch* known = known_switch(generation.kind))
      fabric.latency_ps = known->latency_ps;
    else
      fabric.latency_ps = 100'000;
    const endpoint end = add_switch(fabric);
    for (std::size_t one = 0; one < count; ++one) {
      if (to_switch[one] == 0) continue;
      add_nvlink(gpu_end(one), end, to_switch[one], generation);
      for (std::size_t other = 0; other < count; ++other)
        if (other != one && to_switch[other] > 0)
          mark_nvlink(one, other, std::min(to_switch[one], to_switch[other]));
    }
  }

  void mark_nvlink(std::size_t one, std::size_t other, std::uint32_t width) {
    result_.relations[one][other] = "NV" + std::to_string(width);
    result_.relations[other][one] = "NV" + std::to_string(width);
  }

  // The switch at which links of this kind end in the described machine.
  const network_switch* known_switch(protocol_kind kind) const {
    const link* edge = link_like(template_, kind);
    if (edge == nullptr) return nullptr;
    for (const endpoint end : {edge->a, edge->b})
      if (end.kind == endpoint_kind::network_switch) return &template_->switches[end.index];
    return nullptr;
  }

  static endpoint gpu_end(std::size_t number) {
    return {endpoint_kind::gpu, static_cast<std::uint32_t>(number)};
  }

  endpoint add_switch(network_switch made) {
    result_.found.switches.push_back(std::move(made));
    return {endpoint_kind::network_switch,
            static_cast<std::uint32_t>(result_.found.switches.size() - 1)};
  }

  void add_nvlink(endpoint one, endpoint other, std::uint32_t width, nvlink_generation generation) {
    link made;
    made.a = one;
    made.b = other;
    made.width = width;
    made.protocol.kind = generation.kind;
    made.protocol.max_payload_bytes = 256;
    made.latency_ps = other.kind == endpoint_kind::gpu ? 350'000 : 175'000;
    std::string origin;
    const link* like = link_like(template_, generation.kind);
    if (like != nullptr && like->width > 0 && version_ <= 4) {
      made.bytes_per_s = like->bytes_per_s / like->width * width;
      made.protocol = like->protocol;
      if ((like->b.kind == endpoint_kind::gpu) == (other.kind == endpoint_kind::gpu))
        made.latency_ps = like->latency_ps;
      take_copy_rates(made, *like);
      origin = "the rate of a link in " + template_->name + ", times the queried width";
    } else {
      made.bytes_per_s = generation.bytes_per_s * width;
      origin = "assumed: the generation's nominal rate, times the queried width";
    }
    if (raw_rate_ > 0)
      origin +=
          "; NVML reports " + std::to_string(std::lround(raw_rate_ * width / giga)) + " GB/s raw";
    made.queue_bytes = queue_for(made);
    add(std::move(made), std::move(origin));
  }

  void add(link made, std::string origin) {
    made.protocol_name = name_of(made.protocol.kind);
    result_.found.links.push_back(std::move(made));
    result_.link_rates.push_back(std::move(origin));
  }

  // Copies the rates of long copies from a described link of the same kind.
  static void take_copy_rates(link& made, const link& like) {
    const double times = made.bytes_per_s / like.bytes_per_s;
    made.copy_bytes_per_s = like.copy_bytes_per_s * times;
    made.copy_both_bytes_per_s = like.copy_both_bytes_per_s * times;
  }

  // The size of a link's buffer. It is twice the product of bandwidth and latency, rounded to a
  // power of two, but at least 4 KiB.
  static std::uint64_t queue_for(const link& made) {
    const double wanted = 2 * made.bytes_per_s * static_cast<double>(made.latency_ps) / 1e12;
    std::uint64_t bytes = 4096;
    while (static_cast<double>(bytes) < wanted) bytes *= 2;
    return bytes;
  }

  void connect_pcie() {
    const std::size_t count = units_.size();
    // GPUs below one host bridge form a group. The group is connected to one switch.
    std::vector<std::size_t> group(count);
    std::iota(group.begin(), group.end(), std::size_t{0});
    for (std::size_t one = 0; one < count; ++one)
      for (std::size_t other = one + 1; other < count; ++other) {
        const pcie_relation relation = near(one, other);
        if (relation != pcie_relation::same_board && relation != pcie_relation::pix &&
            relation != pcie_relation::pxb)
          continue;
        const std::size_t from = group[other];
        const std::size_t to = group[one];
        std::replace(group.begin(), group.end(), from, to);
      }
    const endpoint host_end{endpoint_kind::host, 0};
    std::map<std::size_t, endpoint> switches;
    for (std::size_t number = 0; number < count; ++number) {
      const auto members = std::count(group.begin(), group.end(), group[number]);
      endpoint up = host_end;
      if (members > 1) {
        auto found = switches.find(group[number]);
        if (found == switches.end()) {
          const endpoint end = add_switch({"pcie" + std::to_string(switches.size()), 150'000});
          found = switches.emplace(group[number], end).first;
          add_pcie(end, host_end, number);
        }
        up = found->second;
      }
      add_pcie(gpu_end(number), up, number);
    }
  }

  void add_pcie(endpoint one, endpoint other, std::size_t number) {
    std::uint32_t generation = 4;
    std::uint32_t width = 16;
    std::string origin = "assumed: PCIe 4 x16, as NVML does not say";
    const installed_gpu* board = physical(number);
    if (board != nullptr && board->pcie_generation > 0 && board->pcie_width > 0) {
      generation = board->pcie_generation;
      width = board->pcie_width;
      origin = "PCIe " + std::to_string(generation) + " x" + std::to_string(width) +
               " by NVML, after line coding";
    }
    const pcie_generation rules = pcie_of(generation);
    link made;
    made.a = one;
    made.b = other;
    made.width = width;
    made.protocol.kind = rules.kind;
    if (const link* like = link_like(template_, rules.kind)) made.protocol = like->protocol;
    made.bytes_per_s = rules.lane_bytes_per_s * width;
    made.latency_ps = 250'000;
    if (const link* like = link_like(template_, rules.kind)) {
      made.latency_ps = like->latency_ps;
      take_copy_rates(made, *like);
    }
    made.queue_bytes = queue_for(made);
    add(std::move(made), std::move(origin));
  }

  void say_what_is_missing() {
    std::vector<std::string> pairs;
    for (std::size_t one = 0; one < units_.size(); ++one)
      for (std::size_t other = one + 1; other < units_.size(); ++other) {
        const bool both = driver_.peer_access(numbers_[one], numbers_[other]) &&
                          driver_.peer_access(numbers_[other], numbers_[one]);
        if (!both) pairs.push_back("gpu" + std::to_string(one) + "-gpu" + std::to_string(other));
      }
    if (pairs.empty()) return;
    std::string list = pairs.front();
    for (std::size_t index = 1; index < std::min<std::size_t>(pairs.size(), 4); ++index)
      list += ", " + pairs[index];
    if (pairs.size() > 4) list += " and " + std::to_string(pairs.size() - 4) + " more";
    remark("No peer access between " + list + ": data between them go through host memory.");
  }

  host host_of(const machine& described) const {
    host made = described.host;
    const std::string model = driver_.host_model();
    if (!model.empty()) made.model = model;
    return made;
  }

  void remark(std::string sentence) { result_.remarks.push_back(std::move(sentence)); }

  gpu_driver& driver_;
  const std::vector<machine>& known_;
  discovery result_;
  std::map<std::string, installed_gpu> installed_;
  std::vector<usable_gpu> units_;
  std::vector<std::uint32_t> numbers_;  // CUDA's numbers of the GPUs in `units_`
  const machine* template_ = nullptr;
  std::uint32_t lost_ = 0;
  std::uint32_t version_ = 0;  // generation of NVLink
  double raw_rate_ = 0;
};

}  // namespace

discovery discover(gpu_driver& driver, const std::vector<machine>& known) {
  return explorer(driver, known).run();
}

}  // namespace interlace::machine
