#include "cuda/transfer/traffic_table.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace interlace::cuda {
namespace {

using machine::endpoint;
using machine::endpoint_kind;

// The part of a message's predicted time that counts as use. It is less than the whole time because
// predictions are not exact, and because two messages must not count as overlapping if one starts
// after the other has ended.
std::uint64_t counted_ns(std::uint64_t busy_ns) { return busy_ns / 4 * 3; }
// The longest time for which a pair can be in use. If the table has a larger value, the value does
// not come from this code.
constexpr std::uint64_t most_busy_ns = 60'000'000'000;
// The letters "ILCOPY" and the version of the file's layout.
constexpr std::uint64_t format_of_file = 0x494C434F50590001U;

// Whether a time is recent. The clocks of processors and threads differ slightly, so `then_ns` can
// be after `now_ns`.
bool is_recent(std::uint64_t then_ns, std::uint64_t now_ns, std::uint64_t window_ns) {
  return then_ns != 0 && then_ns < now_ns + window_ns && now_ns < then_ns + window_ns;
}

bool in_use(std::uint64_t until_ns, std::uint64_t now_ns) {
  return until_ns > now_ns && until_ns - now_ns <= most_busy_ns;
}

// A hash of a name (FNV-1a). It is never 0.
std::uint64_t number_of(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3U;
  return hash == 0 ? 1 : hash;
}

std::string reason_of(int error) { return std::generic_category().message(error); }

class open_file {
 public:
  explicit open_file(const std::string& name)
      : number_(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)) {
    if (number_ < 0) throw std::runtime_error(reason_of(errno));
  }
  ~open_file() { close(number_); }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

void* map(std::size_t bytes, int flags, int file) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (mapped == MAP_FAILED) throw std::runtime_error(reason_of(errno));
  return mapped;
}

}  // namespace

// The indices in the memory of a pair's two ends.
struct traffic_table::places {
  std::size_t from = 0;
  std::size_t to = 0;

  std::size_t number() const { return from * ends + to; }
  int kind() const { return from == most_gpus ? 0 : to == most_gpus ? 1 : 2; }
};

traffic_table::traffic_table(const std::vector<std::string>& gpus, const std::string& file) {
  try {
    if (!file.empty()) map_file(file);
    shared_ = memory_ != nullptr && register_gpus(gpus);
    if (memory_ != nullptr && !shared_)
      throw std::runtime_error("all of its places for " + std::to_string(most_gpus) +
                               " GPUs are taken; remove it");
  } catch (const std::runtime_error& error) {
    remark_ = "copies cannot avoid links that other processes use: " + file + ": " + error.what() +
              "; set INTERLACE_COPY_TRAFFIC to another file";
  }
  if (shared_) return;
  if (memory_ != nullptr) munmap(memory_, sizeof(memory));
  memory_ = static_cast<memory*>(map(sizeof(memory), MAP_PRIVATE | MAP_ANONYMOUS, -1));
  register_gpus(gpus);
}

traffic_table::~traffic_table() { munmap(memory_, sizeof(memory)); }

// Several processes can make the file at the same time. Each process can do each step.
void traffic_table::map_file(const std::string& file) {
  const open_file opened(file);
  struct stat facts {};
  if (fstat(opened.number(), &facts) != 0) throw std::runtime_error(reason_of(errno));
  if (!S_ISREG(facts.st_mode)) throw std::runtime_error("it is not a file");
  if (facts.st_uid != geteuid()) throw std::runtime_error("it belongs to another user");
  if (facts.st_size != 0 && static_cast<std::size_t>(facts.st_size) != sizeof(memory))
    throw std::runtime_error("it has other contents; remove it");
  // If the file system is full, this call fails. Without this call, the first access to a page
  // would raise a signal.
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(opened.number(), 0, sizeof(memory));
  if (error != 0) throw std::runtime_error(reason_of(error));
  auto* mapped = static_cast<memory*>(map(sizeof(memory), MAP_SHARED, opened.number()));
  std::uint64_t format = 0;
  if (!mapped->format.compare_exchange_strong(format, format_of_file) && format != format_of_file) {
    munmap(mapped, sizeof(memory));
    throw std::runtime_error("it has other contents; remove it");
  }
  memory_ = mapped;
}

// Registers GPUs. Returns false if there is no room for a GPU. A GPU is never removed.
bool traffic_table::register_gpus(const std::vector<std::string>& gpus) {
  gpus_.assign(gpus.size(), std::nullopt);
  for (std::size_t index = 0; index < gpus.size(); ++index) {
    const std::uint64_t own = number_of(gpus[index]);
    for (std::size_t place = 0; place < most_gpus && !gpus_[index]; ++place) {
      std::uint64_t there = 0;
      if (memory_->gpus[place].compare_exchange_strong(there, own) || there == own)
        gpus_[index] = place;
    }
  }
  return std::all_of(gpus_.begin(), gpus_.end(), [](const auto& place) { return place; });
}

std::optional<std::size_t> traffic_table::place_of(endpoint end) const {
  if (end.kind == endpoint_kind::host) return most_gpus;
  return gpus_.at(end.index);
}

std::optional<traffic_table::places> traffic_table::places_of(const pair& asked) const {
  const auto from = place_of(asked.from);
  const auto to = place_of(asked.to);
  if (!from || !to) return std::nullopt;
  return places{*from, *to};
}

// The number of GPUs that all processes have registered. The entries of these GPUs come first.
std::size_t traffic_table::registered_gpus() const {
  std::size_t count = 0;
  while (count < most_gpus && memory_->gpus[count].load(std::memory_order_relaxed) != 0) ++count;
  return count;
}

// Visits all pairs of places except `own`.
template <class Visit>
void traffic_table::each_other(const places& own, const Visit& visit) const {
  const std::size_t gpus = registered_gpus();
  const auto end_at = [&](std::size_t index) { return index == gpus ? most_gpus : index; };
  for (std::size_t from = 0; from <= gpus; ++from)
    for (std::size_t to = 0; to <= gpus; ++to)
      if (const places other{end_at(from), end_at(to)};
          from != to && other.number() != own.number())
        visit(other);
}

std::vector<endpoint> traffic_table::idle_relays(const pair& asked,
                                                 const std::vector<endpoint>& relays,
                                                 std::uint64_t now_ns) const {
  const auto own = places_of(asked);
  if (!own || relays.empty()) return relays;
  std::array<bool, ends> taken{};
  bool alone = true;
  bool reads_host = false;
  bool writes_host = false;
  std::size_t sharing = 1;
  std::size_t turn = 0;
  each_other(*own, [&](const places& other) {
    const auto& met_ns = memory_->met_ns[own->number()][other.number()];
    if (!is_recent(met_ns.load(std::memory_order_relaxed), now_ns, window_ns)) return;
    alone = false;
    taken[other.from] = taken[other.to] = true;
    reads_host = reads_host || other.from == most_gpus;
    writes_host = writes_host || other.to == most_gpus;
    if (other.kind() != own->kind()) return;
    ++sharing;
    turn += other.number() < own->number() ? 1 : 0;
  });
  if (alone) return relays;
  std::vector<endpoint> left;
  if ((own->from != most_gpus && taken[own->from]) || (own->to != most_gpus && taken[own->to]) ||
      (own->from == most_gpus && writes_host) || (own->to == most_gpus && reads_host))
    return left;
  // The places to share out are the host and the GPUs of all processes, not only the GPUs that this
  // process sees. Every process therefore computes the same shares.
  std::vector<std::size_t> free;
  const std::size_t gpus = registered_gpus();
  for (std::size_t index = 0; index <= gpus; ++index) {
    const std::size_t place = index == gpus ? most_gpus : index;
    if (!taken[place] && place != own->from && place != own->to) free.push_back(place);
  }
  std::array<bool, ends> dealt{};
  const std::size_t whole_rounds = free.size() / sharing * sharing;
  for (std::size_t at = turn; at < whole_rounds; at += sharing) dealt[free[at]] = true;
  std::copy_if(relays.begin(), relays.end(), std::back_inserter(left), [&](endpoint one) {
    const auto place = place_of(one);
    return place && dealt[*place];
  });
  return left;
}

void traffic_table::add_use(const pair& asked, traffic_user by, std::uint64_t now_ns,
                            std::uint64_t busy_ns) {
  const auto own = places_of(asked);
  if (!own) return;
  memory::in_use& use = memory_->uses[own->number()];
  const std::uint64_t before = use.until_ns.load(std::memory_order_relaxed);
  const std::uint64_t begin = in_use(before, now_ns) ? before : now_ns;
  use.by.store(by, std::memory_order_relaxed);
  // This store and the following loads are sequentially consistent. If two threads note uses at the
  // same time, at least one of them therefore sees the other thread's use.
  use.until_ns.store(std::min(begin + counted_ns(busy_ns), now_ns + most_busy_ns));
  each_other(*own, [&](const places& other) {
    const memory::in_use& theirs = memory_->uses[other.number()];
    if (!in_use(theirs.until_ns.load(), now_ns) || theirs.by.load(std::memory_order_relaxed) == by)
      return;
    auto& met_ns = memory_->met_ns;
    met_ns[own->number()][other.number()].store(now_ns, std::memory_order_relaxed);
    met_ns[other.number()][own->number()].store(now_ns, std::memory_order_relaxed);
  });
}

void traffic_table::reduce_use(const pair& asked, std::uint64_t less_ns) {
  if (const auto own = places_of(asked))
    memory_->uses[own->number()].until_ns.fetch_sub(counted_ns(less_ns));
}

std::string standard_traffic_file() {
  return "/dev/shm/interlace-copies-" + std::to_string(geteuid());
}

}  // namespace interlace::cuda
