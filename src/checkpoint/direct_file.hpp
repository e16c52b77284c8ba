// Reads of a file around the page cache.
#pragma once

#include <atomic>
#include <cstdint>

namespace interlace::checkpoint {

// A second descriptor of an open file. Several threads may read at the same time.
class direct_file {
 public:
  explicit direct_file(int descriptor);
  ~direct_file();
  direct_file(const direct_file&) = delete;
  direct_file& operator=(const direct_file&) = delete;

  // The reason (errno) why the file cannot be read around the page cache; 0 if it can.
  int error() const { return error_; }

  // Reads from the disk, in whole pages, unless the page cache has all of the bytes. So the memory
  // also gets the bytes of these pages before and after the requested ones. The memory must begin
  // at the same offset in a page as the bytes do in the file. Returns the number of bytes that were
  // read. The caller reads the rest through the page cache, which also reports errors.
  std::uint64_t read(std::uint64_t offset, char* to, std::uint64_t bytes);

 private:
  bool cached(std::uint64_t offset, std::uint64_t bytes) const;

  int direct_ = -1;
  std::atomic<int> error_{0};
  // A mapping of the file, which is used only to ask the kernel which pages are in the page cache.
  // Null if the kernel does not tell this user.
  char* mapped_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace interlace::checkpoint
