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

  // Reads whole pages from the disk, unless the page cache has all of the bytes. So the memory also
  // receives the rest of the first and the last page. The requested bytes must have the same offset
  // in a page of the memory as in a page of the file. Returns the number of bytes that were read.
  // The caller reads the rest through the page cache, which also reports errors.
  std::uint64_t read(std::uint64_t offset, char* to, std::uint64_t bytes);

 private:
  bool cached(std::uint64_t offset, std::uint64_t bytes) const;

  int direct_ = -1;
  std::atomic<int> error_{0};
  // A mapping of the file, which is used only to ask the kernel which pages are in the page cache.
  // Null if the kernel does not tell this user which pages these are.
  char* mapped_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace interlace::checkpoint
