// Reads of a file that bypass the page cache.
#pragma once

#include <atomic>
#include <cstdint>

namespace interlace::checkpoint {

// A second descriptor of an open file, for direct reads. Several threads may read at the same time.
class direct_file {
 public:
  explicit direct_file(int descriptor);
  ~direct_file();
  direct_file(const direct_file&) = delete;
  direct_file& operator=(const direct_file&) = delete;

  // The reason (errno) why direct reads of the file are not possible, or 0 if they are possible.
  int error() const { return error_; }

  // Reads whole pages from the disk, unless the page cache has all of the bytes. The memory
  // therefore also receives the bytes before and after the requested bytes in the first and the
  // last page. The requested bytes must have the same offset in a page of the memory as in a page
  // of the file. Returns the number of bytes that were read. The caller reads the bytes that are
  // missing through the page cache. That read also reports errors.
  std::uint64_t read(std::uint64_t offset, char* to, std::uint64_t bytes);

 private:
  bool cached(std::uint64_t offset, std::uint64_t bytes) const;

  int direct_ = -1;
  std::atomic<int> error_{0};
  // A mapping of the file. It is used only to ask the kernel which pages are in the page cache. It
  // is null if there is no mapping, or if the kernel does not answer this question for the
  // process's user.
  char* mapped_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace interlace::checkpoint
