#include "preload/counters.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace interlace::preload {
namespace {

constexpr std::string_view names =
    "unknown\n"
    "host to GPU\n"
    "GPU to host\n"
    "GPU to GPU\n"
    "\n"
    "taken over\n"
    "smaller than the threshold\n"
    "calls that wait for their copy\n"
    "into a graph that is being captured\n"
    "before the engine had started\n"
    "one path is as fast\n"
    "within one GPU, or within the host\n"
    "host memory that is not page-locked\n"
    "managed memory\n"
    "memory in several places\n"
    "memory that other GPUs cannot reach\n"
    "staging memory in use\n"
    "context that is not a primary one\n"
    "memory that the driver does not know\n"
    "switched off, or of no use\n"
    "the engine failed\n";

static_assert(std::count(names.begin(), names.end(), '\n') == direction_count + 1 + outcome_count);

counters_slot unshared;
counters_header* mapped = nullptr;
std::atomic<counters_slot*> claimed{nullptr};
std::atomic<bool> seen{false};
pthread_mutex_t claiming = PTHREAD_MUTEX_INITIALIZER;

counters_slot& slot_at(std::uint64_t index) {
  char* base = reinterpret_cast<char*>(mapped);
  return *reinterpret_cast<counters_slot*>(base + slots_offset + index * slot_bytes);
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
      const std::uint64_t slots = header->slots.load();
      if (header->magic == counters_magic && slots > 0 &&
          slots <= (size - slots_offset) / slot_bytes) {
        std::memcpy(static_cast<char*>(memory) + names_offset, names.data(), names.size());
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

void counters_seen_driver() {
  if (mapped == nullptr || seen.exchange(true)) return;
  mapped->saw_driver.fetch_add(1);
}

void counters_forked() {
  // A thread of the parent, which the child does not have, can hold the lock.
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
