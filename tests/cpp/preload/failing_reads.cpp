// A library to preload. It makes reads of files fail as on a bad disk, or it sends Ctrl-C (SIGINT)
// to the process during a read.
#include <dlfcn.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace {

std::atomic<long> until_failure{-1};  // if negative, no read fails
std::atomic<long> until_signal{-1};

bool counts_down(std::atomic<long>& left) { return left.load() >= 0 && left.fetch_sub(1) == 0; }

ssize_t read_or_fail(const char* symbol, int file, void* to, std::size_t bytes, long at) {
  if (counts_down(until_failure)) {
    errno = EIO;
    return -1;
  }
  if (counts_down(until_signal)) {
    (void)usleep(5000);  // after this time, the program's main thread waits for the bytes
    (void)kill(getpid(), SIGINT);
    (void)usleep(25000);
  }
  using function = ssize_t (*)(int, void*, std::size_t, long);
  return reinterpret_cast<function>(dlsym(RTLD_NEXT, symbol))(file, to, bytes, at);
}

}  // namespace

extern "C" {
ssize_t pread(int file, void* to, std::size_t bytes, long at) {
  return read_or_fail("pread", file, to, bytes, at);
}
ssize_t pread64(int file, void* to, std::size_t bytes, long at) {
  return read_or_fail("pread64", file, to, bytes, at);
}
// Makes one positioned read fail, after `after` more such reads. If `after` is negative, no read
// fails.
void fail_read(long after) { until_failure = after; }
// Sends Ctrl-C during the positioned read that follows `after` more such reads.
void interrupt_read(long after) { until_signal = after; }
}
