#include "sim/gpu/program_memory.hpp"

#include <sys/mman.h>

#include <bit>
#include <new>

namespace interlace::sim {

namespace {
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t chunk_bytes = std::size_t{8} << 20;
// Larger blocks are allocated one by one.
constexpr std::size_t largest_block = std::size_t{1} << 20;
constexpr std::size_t smallest_shift = 4;  // the smallest blocks have 4 << 4 = 64 bytes
constexpr std::align_val_t chunk_alignment{huge_page};
}  // namespace

void program_memory::deleter::operator()(std::byte* p) const {
  ::operator delete[](p, chunk_alignment);
}

std::size_t program_memory::class_of(std::size_t bytes) {
  if (bytes <= bytes_of(0)) return 0;
  // The top three bits of bytes - 1 select the class.
  const auto shift = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 3;
  return 4 * (shift - smallest_shift) + ((bytes - 1) >> shift) - 3;
}

std::size_t program_memory::bytes_of(std::size_t size_class) {
  return (4 + size_class % 4) << (smallest_shift + size_class / 4);
}

void* program_memory::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes > largest_block || alignment > alignof(std::max_align_t)) {
    return ::operator new (bytes, std::align_val_t{alignment});
  }
  const std::size_t size_class = class_of(bytes);
  if (free_block* found = free_[size_class]; found != nullptr) {
    free_[size_class] = found->next;
    return found;
  }
  const std::size_t needed = bytes_of(size_class);
  if (needed > left_) {
    chunks_.emplace_back(static_cast<std::byte*>(::operator new[](chunk_bytes, chunk_alignment)));
    // The program ignores an error here, because without huge pages a run only takes longer.
    (void)madvise(chunks_.back().get(), chunk_bytes, MADV_HUGEPAGE);
    left_ = chunk_bytes;
  }
  void* block = chunks_.back().get() + (chunk_bytes - left_);
  left_ -= needed;
  return block;
}

void program_memory::do_deallocate(void* block, std::size_t bytes, std::size_t alignment) {
  if (bytes > largest_block || alignment > alignof(std::max_align_t)) {
    ::operator delete (block, std::align_val_t{alignment});
    return;
  }
  const std::size_t size_class = class_of(bytes);
  free_[size_class] = new (block) free_block{free_[size_class]};
}

}  // namespace interlace::sim
