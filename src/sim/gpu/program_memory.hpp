// The memory of the programs of a GPU's warps. A run visits hundreds of megabytes of programs in no
// particular order. With small pages, address translation would take a large part of the run's
// time, so this memory asks for huge pages.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <vector>

namespace interlace::sim {

// Serves one thread at a time. Freed blocks are reused. All memory is returned at the end.
class program_memory final : public std::pmr::memory_resource {
 public:
  program_memory() = default;

 private:
  struct free_block {
    free_block* next = nullptr;
  };
  struct deleter {
    void operator()(std::byte* p) const;
  };

  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  // The sizes of blocks are 4, 5, 6 or 7 times a power of two bytes. A vector that doubles its size
  // therefore wastes little.
  static std::size_t class_of(std::size_t bytes);
  static std::size_t bytes_of(std::size_t size_class);

  static constexpr std::size_t classes = 4 * 20;
  std::array<free_block*, classes> free_{};
  std::vector<std::unique_ptr<std::byte[], deleter>> chunks_;
  std::size_t left_ = 0;  // number of free bytes at the end of the last chunk
};

}  // namespace interlace::sim
