// Reserved addresses, and physical memory that is mapped to these addresses, for stand-ins of the
// driver. The physical memory is in memory files, so its contents stay while it is not mapped. An
// access to addresses without memory ends the program.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>

namespace interlace::fake {

class pages {
 public:
  using address = unsigned long long;
  static constexpr std::size_t granularity = 4096;
  static constexpr int success = 0, invalid_value = 1, out_of_memory = 2;

  struct mapping {
    std::size_t bytes = 0;
    unsigned long long physical = 0;
    int gpu = 0;
  };

  // The number of bytes of physical memory of each GPU.
  std::size_t capacity = std::size_t{1} << 30;

  int reserve(address* made, std::size_t bytes) {
    if (bytes == 0 || bytes % granularity != 0) return invalid_value;
    void* const at =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return out_of_memory;
    *made = reinterpret_cast<address>(at);
    reserved_[*made] = bytes;
    return success;
  }
  int free_reserved(address at, std::size_t bytes) {
    const auto found = reserved_.find(at);
    if (found == reserved_.end() || found->second != bytes || mapped_.count(at) != 0)
      return invalid_value;
    (void)munmap(reinterpret_cast<void*>(at), bytes);
    reserved_.erase(found);
    return success;
  }
  int create(unsigned long long* made, std::size_t bytes, int gpu) {
    if (bytes == 0 || bytes % granularity != 0) return invalid_value;
    if (used_[gpu] + bytes > capacity) return out_of_memory;
    const int file = memfd_create("physical", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return out_of_memory;
    used_[gpu] += bytes;
    *made = ++last_;
    physical_[last_] = {file, bytes, gpu};
    return success;
  }
  // Frees physical memory. Refuses to free memory that is still mapped, because a real driver would
  // keep such memory until it is unmapped.
  int release(unsigned long long handle) {
    const auto found = physical_.find(handle);
    if (found == physical_.end()) return invalid_value;
    for (const auto& [at, one] : mapped_)
      if (one.physical == handle) return invalid_value;
    (void)close(found->second.file);
    used_[found->second.gpu] -= found->second.bytes;
    physical_.erase(found);
    return success;
  }
  int map(address at, std::size_t bytes, unsigned long long handle) {
    const auto found = physical_.find(handle);
    const auto place = reserved_.find(at);
    if (found == physical_.end() || found->second.bytes != bytes || place == reserved_.end() ||
        place->second != bytes || mapped_.count(at) != 0)
      return invalid_value;
    mapped_[at] = {bytes, handle, found->second.gpu};
    return success;
  }
  // Gives access to mapped memory. No GPU can use the memory before this call.
  int set_access(address at, std::size_t bytes) {
    const auto found = mapped_.find(at);
    if (found == mapped_.end() || found->second.bytes != bytes) return invalid_value;
    (void)mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
               physical_.at(found->second.physical).file, 0);
    return success;
  }
  int unmap(address at, std::size_t bytes) {
    const auto found = mapped_.find(at);
    if (found == mapped_.end() || found->second.bytes != bytes) return invalid_value;
    (void)mmap(reinterpret_cast<void*>(at), bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    mapped_.erase(found);
    return success;
  }

  const mapping* find(address at) const {
    auto next = mapped_.upper_bound(at);
    if (next == mapped_.begin()) return nullptr;
    --next;
    return at < next->first + next->second.bytes ? &next->second : nullptr;
  }
  std::size_t used(int gpu) const {
    const auto found = used_.find(gpu);
    return found == used_.end() ? 0 : found->second;
  }
  std::size_t reservations() const { return reserved_.size(); }
  std::size_t physical() const { return physical_.size(); }
  std::size_t mappings() const { return mapped_.size(); }

 private:
  struct physical_memory {
    int file = -1;
    std::size_t bytes = 0;
    int gpu = 0;
  };
  std::map<address, std::size_t> reserved_;
  std::map<unsigned long long, physical_memory> physical_;
  std::map<address, mapping> mapped_;
  std::map<int, std::size_t> used_;
  unsigned long long last_ = 0;
};

}  // namespace interlace::fake
