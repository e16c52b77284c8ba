#include "checkpoint/direct_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "checkpoint/layout.hpp"

namespace interlace::checkpoint {

direct_file::direct_file(int descriptor) {
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  direct_ = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (direct_ < 0) {
    error_ = errno;
    return;
  }
  struct stat status {};
  const bool known = fstat(direct_, &status) == 0 && status.st_size > 0;
  // For files of other users, mincore gives no answer and reports every page as cached.
  if (!known || (status.st_uid != geteuid() && access(path.c_str(), W_OK) != 0)) return;
  bytes_ = static_cast<std::uint64_t>(status.st_size);
  void* const mapped = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, direct_, 0);
  if (mapped != MAP_FAILED) mapped_ = static_cast<char*>(mapped);
}

direct_file::~direct_file() {
  if (mapped_ != nullptr) (void)munmap(mapped_, bytes_);
  if (direct_ >= 0) (void)close(direct_);
}

bool direct_file::cached(std::uint64_t offset, std::uint64_t bytes) const {
  if (mapped_ == nullptr || offset + bytes > bytes_) return false;
  const std::uint64_t begin = offset / page_bytes * page_bytes;
  std::vector<unsigned char> there((offset + bytes - begin + page_bytes - 1) / page_bytes);
  if (mincore(mapped_ + begin, offset + bytes - begin, there.data()) != 0) return false;
  return std::all_of(there.begin(), there.end(), [](unsigned char page) { return page % 2 == 1; });
}

std::uint64_t direct_file::read(std::uint64_t offset, char* to, std::uint64_t bytes) {
  std::uint64_t done = 0;
  if (error_ != 0 || cached(offset, bytes)) return done;
  while (done < bytes) {
    const std::uint64_t before = (offset + done) % page_bytes;
    const std::uint64_t wanted = (before + bytes - done + page_bytes - 1) / page_bytes * page_bytes;
    const ssize_t got =
        pread(direct_, to + done - before, wanted, static_cast<off_t>(offset + done - before));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL) error_ = errno;  // this file system needs larger blocks
    if (got <= static_cast<ssize_t>(before)) break;
    done = std::min(bytes, done + static_cast<std::uint64_t>(got) - before);
  }
  return done;
}

}  // namespace interlace::checkpoint
