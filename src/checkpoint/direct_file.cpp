#include "checkpoint/direct_file.hpp"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "checkpoint/layout.hpp"

namespace interlace::checkpoint {

direct_file::direct_file(int descriptor) : cached_(descriptor) {
  const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  direct_ = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (direct_ < 0) error_ = errno;
}

direct_file::~direct_file() {
  if (direct_ >= 0) (void)close(direct_);
}

std::uint64_t direct_file::read(std::uint64_t offset, char* to, std::uint64_t bytes) {
  std::uint64_t done = 0;
  while (done < bytes) {
    const iovec rest{to + done, bytes - done};
    const ssize_t got = preadv2(cached_, &rest, 1, static_cast<off_t>(offset + done), RWF_NOWAIT);
    if (got <= 0) break;
    done += static_cast<std::uint64_t>(got);
  }
  while (done < bytes && error_ == 0) {
    const std::uint64_t before = (offset + done) % page_bytes;
    const std::uint64_t wanted = (before + bytes - done + page_bytes - 1) / page_bytes * page_bytes;
    const ssize_t got =
        pread(direct_, to + done - before, wanted, static_cast<off_t>(offset + done - before));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL) error_ = errno;  // this file system wants larger blocks
    if (got <= static_cast<ssize_t>(before)) break;
    done = std::min(bytes, done + static_cast<std::uint64_t>(got) - before);
  }
  return done;
}

}  // namespace interlace::checkpoint
