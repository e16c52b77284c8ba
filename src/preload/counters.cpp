#include "preload/counters.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "preload/entries.hpp"

namespace interlace::preload {
namespace {

constexpr std::string_view names =
    "unknown\n"
    "host to GPU\n"
    "GPU to host\n"
    "GPU to GPU\n"
    "\n"
    "taken over\n"
    "taken over by one kernel\n"
    "\n"
    "smaller than the threshold\n"
    "calls that may wait, between GPUs\n"
    "into a graph that is being captured\n"
    "before the engine had started\n"
    "one path is as fast\n"
    "within one GPU, or within the host\n"
    "host memory that is not page-locked\n"
    "managed memory\n"
    "memory in several places\n"
    "memory that other GPUs cannot reach\n"
    "staging memory in use\n"
    "context that is not a primary context\n"
    "memory that the driver does not know\n"
    "switched off, or of no use\n"
    "batches that the driver moves as fast\n"
    "copies of several dimensions\n"
    "batches whose sources are read during the call\n"
    "batches that ask to overlap with compute\n"
    "batches for the driver to judge\n"
    "batches with overlapping destinations\n"
    "before the kernel had been loaded\n"
    "the engine failed\n"
    "\n"
    "neither end is the host\n"
    "page-locked\n"
    "pageable\n"
    "managed\n"
    "\n";

static_assert(std::count(names.begin(), names.end(), '\n') ==
              direction_count + outcome_count + host_memory_count + 4);

counters_slot unshared;
counters_header* mapped = nullptr;
std::atomic<counters_slot*> claimed{nullptr};
std::atomic<bool> seen{false};
pthread_mutex_t claiming = PTHREAD_MUTEX_INITIALIZER;

char* slots() { return reinterpret_cast<char*>(mapped) + slots_offset; }

counters_slot& slot_at(std::uint64_t index) {
  return *reinterpret_cast<counters_slot*>(slots() + index * slot_bytes);
}

void write_names(char* page) {
  std::string text(names);
  for (std::size_t index = 0; index < entry_count; ++index)
    text.append(facts_of(static_cast<entry>(index)).name).append("\n");
  (void)text.copy(page, slots_offset - names_offset - 1);
}

// Whether a file of this size has room for everything that its header lists.
bool has_room(const counters_header& header, std::size_t size) {
  const std::uint64_t most = size / call_bytes;
  const std::uint64_t slots = header.slots.load();
  const std::uint64_t sites = header.sites.load();
  const std::uint64_t calls = header.calls.load();
  return slots > 0 && slots <= most && sites <= most && calls <= most &&
         slots_offset + slots * slot_bytes + sites * site_bytes + calls * call_bytes <= size;
}

}  // namespace

void counters_open(const char* file) {
  const int saved = errno;
  const int descriptor = open(file, O_RDWR | O_CLOEXEC);
  struct stat facts {};
  if (descriptor >= 0 && fstat(descriptor, &facts) == 0 &&
      static_cast<std::size_t>(facts.st_size) >= slots_offset + slot_bytes) {
    const auto size = static_cast<std::size_t>(facts.st_size);
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (memory != MAP_FAILED) {
      auto* header = static_cast<counters_header*>(memory);
      if (header->magic == counters_magic && has_room(*header, size)) {
        write_names(static_cast<char*>(memory) + names_offset);
        header->loaded.fetch_add(1);
        mapped = header;
      } else {
        munmap(memory, size);
      }
    }
  }
  if (descriptor >= 0) close(descriptor);
  errno = saved;
}

counters_slot& counters() {
  counters_slot* own = claimed.load(std::memory_order_acquire);
  if (own != nullptr) return *own;
  pthread_mutex_lock(&claiming);
  own = claimed.load(std::memory_order_relaxed);
  if (own == nullptr && mapped != nullptr) {
    const std::uint64_t number = mapped->claimed.fetch_add(1);
    own = &slot_at(std::min(number, mapped->slots.load() - 1));
    own->process.store(static_cast<std::uint64_t>(getpid()));
    const std::string_view name = program_invocation_short_name;
    std::memcpy(own->name.data(), name.data(), std::min(name.size(), own->name.size() - 1));
  } else if (own == nullptr) {
    own = &unshared;
  }
  claimed.store(own, std::memory_order_release);
  pthread_mutex_unlock(&claiming);
  return *own;
}

std::uint32_t counters_slot_number() {
  const auto* own = reinterpret_cast<const char*>(&counters());
  return mapped == nullptr ? 0 : static_cast<std::uint32_t>((own - slots()) / slot_bytes);
}

std::span<call_site> call_sites() {
  if (mapped == nullptr) return {};
  char* first = slots() + mapped->slots.load() * slot_bytes;
  return {reinterpret_cast<call_site*>(first), mapped->sites.load()};
}

std::span<seen_call> seen_calls() {
  if (mapped == nullptr) return {};
  char* first = slots() + mapped->slots.load() * slot_bytes + mapped->sites.load() * site_bytes;
  return {reinterpret_cast<seen_call*>(first), mapped->calls.load()};
}

std::uint64_t claim_site() { return mapped->claimed_sites.fetch_add(1); }

std::uint64_t claim_call() { return mapped->claimed_calls.fetch_add(1); }

void counters_seen_driver() {
  if (mapped == nullptr || seen.exchange(true)) return;
  mapped->saw_driver.fetch_add(1);
}

void counters_forked() {
  // A thread of the parent may hold the lock. The child does not have that thread.
  claiming = PTHREAD_MUTEX_INITIALIZER;
  claimed.store(nullptr);
}

void counters_note(const char* sentence) {
  counters_slot& own = counters();
  pthread_mutex_lock(&claiming);
  if (own.note.front() == '\0') {
    const std::string_view text = sentence;
    std::memcpy(own.note.data(), text.data(), std::min(text.size(), own.note.size() - 1));
  }
  pthread_mutex_unlock(&claiming);
}

}  // namespace interlace::preload
