// Reads of a file around the page cache.
#pragma once

#include <atomic>
#include <cstdint>

namespace interlace::checkpoint {

// A second descriptor of an open file. Several threads may read at the same time.
class direct_file {
 public:
  // The descriptor remains the caller's.
  explicit direct_file(int descriptor);
  ~direct_file();
  direct_file(const direct_file&) = delete;
  direct_file& operator=(const direct_file&) = delete;

  // Why the file cannot be read around the page cache; 0 without a reason.
  int error() const { return error_; }

  // Reads the bytes that the page cache has from there, and the other bytes from the disk, in whole
  // pages. Those also bring the pages' bytes before and behind the wanted ones into the memory,
  // which must have the same place in a page as the bytes have in the file. Returns the number of
  // bytes that were read. The caller reads the rest through the page cache, and learns of errors.
  std::uint64_t read(std::uint64_t offset, char* to, std::uint64_t bytes);

 private:
  const int cached_;
  int direct_ = -1;
  std::atomic<int> error_{0};
};

}  // namespace interlace::checkpoint
