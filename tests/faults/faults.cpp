// A library that is preloaded into a program. It makes one operation of the program fail, or makes
// this operation and all later operations fail, or kills the program at this operation.
// tests/python/test_faults.py does this for each operation of a command. For
// tests/python/test_power_loss.py, this library records the program's operations on files.
//
// The library ignores operations on the descriptors 0 to 2, because these descriptors belong to the
// terminal. It ignores requests for memory unless one module makes them, because Python itself does
// not survive every lack of memory. The test passes the addresses of this module.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <new>

#include <fcntl.h>

#include "journal.hpp"

namespace {

// These values have the order of KINDS in test_faults.py.
enum kind : unsigned {
  write_ = 1,
  read_ = 2,
  open_ = 4,
  sync_ = 8,
  name_ = 16,
  size_ = 32,
  map_ = 64,
  thread_ = 128,
  memory_ = 256
};
enum mode : unsigned { once, from_then_on, killed };

// Numbers that all processes of a command share.
struct shared {
  std::atomic<unsigned> kinds;  // 0 means that the library ignores all operations
  std::atomic<unsigned> how;
  // The number of the operation that fails, counted from 1. If it is 0, no operation fails.
  std::atomic<std::uint64_t> at;
  std::atomic<std::uint64_t> seen;
  std::atomic<std::uintptr_t> module_begin;
  std::atomic<std::uintptr_t> module_end;
};

shared& state() {
  static shared* const found = [] {
    auto* const real = reinterpret_cast<decltype(&mmap)>(dlsym(RTLD_NEXT, "mmap"));
    return static_cast<shared*>(
        real(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }();
  return *found;
}

bool fails(kind of) {
  shared& s = state();
  if ((s.kinds.load() & of) == 0) return false;
  const std::uint64_t number = ++s.seen;
  const std::uint64_t at = s.at.load();
  if (at == 0 || number < at || (s.how != from_then_on && number != at)) return false;
  if (s.how == killed) kill(getpid(), SIGKILL);
  return true;
}

template <class Function>
Function next(Function /*like*/, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool called_by_module(const void* from) {
  const auto at = reinterpret_cast<std::uintptr_t>(from);
  return state().module_begin <= at && at < state().module_end;
}

bool is_ours(int descriptor) { return descriptor > 2; }

}  // namespace

#define NEXT(function) static auto* const real = next(&function, #function)

extern "C" {

void faults_arm(unsigned kinds, unsigned how, std::uint64_t at, std::uintptr_t begin,
                std::uintptr_t end) {
  shared& s = state();
  s.how = how;
  s.at = at;
  s.seen = 0;
  s.module_begin = begin;
  s.module_end = end;
  s.kinds = kinds;
}
std::uint64_t faults_seen() { return state().seen; }
void faults_disarm() { state().kinds = 0; }

#define FAIL(kind, descriptor, error)       \
  if (is_ours(descriptor) && fails(kind)) { \
    errno = error;                          \
    return -1;                              \
  }

void journal_begin(const char* file, const char* folder) {
  journal::here().folder = folder;
  journal::here().file = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
}
void journal_end() {
  const int file = journal::here().file;
  journal::here().file = -1;
  close(file);
}

ssize_t write(int to, const void* bytes, size_t size) {
  NEXT(write);
  FAIL(write_, to, ENOSPC)
  const journal::operation one;
  const ssize_t done = real(to, bytes, size);
  if (done > 0 && journal::is_written()) {
    const off_t end = lseek(to, 0, SEEK_CUR);
    if (end >= done) journal::wrote(to, bytes, done, end - done);
  }
  return done;
}
ssize_t pwrite(int to, const void* bytes, size_t size, off_t offset) {
  NEXT(pwrite);
  FAIL(write_, to, ENOSPC)
  const journal::operation one;
  const ssize_t done = real(to, bytes, size, offset);
  if (done > 0) journal::wrote(to, bytes, done, offset);
  return done;
}
ssize_t pwrite64(int to, const void* bytes, size_t size, off_t offset) {
  return pwrite(to, bytes, size, offset);
}
ssize_t writev(int to, const iovec* parts, int count) {
  NEXT(writev);
  if (!journal::is_written()) return real(to, parts, count);
  ssize_t done = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t more = write(to, parts[i].iov_base, parts[i].iov_len);
    if (more < 0) return done > 0 ? done : more;
    done += more;
  }
  return done;
}
ssize_t read(int from, void* bytes, size_t size) {
  NEXT(read);
  FAIL(read_, from, EIO)
  return real(from, bytes, size);
}
ssize_t pread(int from, void* bytes, size_t size, off_t offset) {
  NEXT(pread);
  FAIL(read_, from, EIO)
  return real(from, bytes, size, offset);
}
ssize_t pread64(int from, void* bytes, size_t size, off_t offset) {
  return pread(from, bytes, size, offset);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t rights = va_arg(rest, mode_t);
  va_end(rest);
  NEXT(openat);
  FAIL(open_, 3, EMFILE)
  const journal::operation one;
  journal::place before;
  if (journal::is_written()) before = journal::place_of(folder, path);
  const int file = real(folder, path, flags, rights);
  journal::opened(file, flags, before);
  return file;
}
int openat64(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t rights = va_arg(rest, mode_t);
  va_end(rest);
  return openat(folder, path, flags, rights);
}
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t rights = va_arg(rest, mode_t);
  va_end(rest);
  return openat(AT_FDCWD, path, flags, rights);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t rights = va_arg(rest, mode_t);
  va_end(rest);
  return openat(AT_FDCWD, path, flags, rights);
}
int fsync(int file) {
  NEXT(fsync);
  FAIL(sync_, file, EIO)
  const journal::operation one;
  const int result = real(file);
  if (result == 0) journal::synced(file);
  return result;
}
int ftruncate(int file, off_t size) {
  NEXT(ftruncate);
  FAIL(size_, file, ENOSPC)
  const journal::operation one;
  const int result = real(file, size);
  if (result == 0) journal::has_size(file, size);
  return result;
}
int ftruncate64(int file, off_t size) { return ftruncate(file, size); }
int posix_fallocate(int file, off_t offset, off_t size) {
  NEXT(posix_fallocate);
  if (fails(size_)) return ENOSPC;
  const journal::operation one;
  const int result = real(file, offset, size);
  struct stat status {};
  if (result == 0 && fstat(file, &status) == 0) journal::has_size(file, status.st_size);
  return result;
}
int posix_fallocate64(int file, off_t offset, off_t size) {
  return posix_fallocate(file, offset, size);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  NEXT(renameat);
  FAIL(name_, 3, EDQUOT)
  const journal::operation one;
  if (!journal::is_written()) return real(from_folder, from, to_folder, to);
  const journal::place before = journal::place_of(from_folder, from);
  const int result = real(from_folder, from, to_folder, to);
  if (result == 0) journal::renamed(before, journal::place_of(to_folder, to));
  return result;
}
int rename(const char* from, const char* to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  NEXT(linkat);
  FAIL(name_, 3, EDQUOT)
  const journal::operation one;
  const int result = real(from_folder, from, to_folder, to, flags);
  if (result == 0 && journal::is_written()) journal::named(journal::place_of(to_folder, to));
  return result;
}
int unlinkat(int folder, const char* path, int flags) {
  NEXT(unlinkat);
  const journal::operation one;
  journal::place before;
  if (journal::is_written()) before = journal::place_of(folder, path);
  const int result = real(folder, path, flags);
  if (result == 0) journal::gone(before);
  return result;
}
int unlink(const char* path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char* path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
int mkdirat(int folder, const char* path, mode_t rights) {
  NEXT(mkdirat);
  const journal::operation one;
  const int result = real(folder, path, rights);
  if (result == 0 && journal::is_written()) journal::made(journal::place_of(folder, path));
  return result;
}
int mkdir(const char* path, mode_t rights) { return mkdirat(AT_FDCWD, path, rights); }
void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
  NEXT(mmap);
  if (called_by_module(__builtin_return_address(0)) && fails(map_)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return real(at, size, protection, flags, file, offset);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*run)(void*), void* with) {
  NEXT(pthread_create);
  return fails(thread_) ? EAGAIN : real(thread, how, run, with);
}

}  // extern "C"

void* operator new(std::size_t size) {
  if (called_by_module(__builtin_return_address(0)) && fails(memory_)) throw std::bad_alloc();
  if (void* const found = std::malloc(size == 0 ? 1 : size)) return found;
  throw std::bad_alloc();
}
