// Makes one operation of a program fail, or all from one on, or kills the program there. It is
// preloaded. The test in tests/python/test_faults.py arms it for each operation of a command.
//
// Operations on the descriptors 0 to 2 do not count: they are the terminal's. Memory and
// mappings count where the module asks for them whose addresses the test gives: Python itself does
// not survive a lack of memory everywhere.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <new>

#include <fcntl.h>

namespace {

// The order is that of KINDS in test_faults.py.
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

// The processes of a command share the numbers.
struct shared {
  std::atomic<unsigned> kinds;  // 0: nothing counts
  std::atomic<unsigned> how;
  std::atomic<std::uint64_t> at;  // the operation that fails, from 1; 0: none
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

ssize_t write(int to, const void* bytes, size_t size) {
  NEXT(write);
  FAIL(write_, to, ENOSPC)
  return real(to, bytes, size);
}
ssize_t pwrite(int to, const void* bytes, size_t size, off_t offset) {
  NEXT(pwrite);
  FAIL(write_, to, ENOSPC)
  return real(to, bytes, size, offset);
}
ssize_t pwrite64(int to, const void* bytes, size_t size, off_t offset) {
  return pwrite(to, bytes, size, offset);
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
int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t rights = va_arg(rest, mode_t);
  va_end(rest);
  NEXT(open);
  FAIL(open_, 3, EMFILE)
  return real(path, flags, rights);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t rights = va_arg(rest, mode_t);
  va_end(rest);
  return open(path, flags, rights);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t rights = va_arg(rest, mode_t);
  va_end(rest);
  NEXT(openat);
  FAIL(open_, 3, EMFILE)
  return real(folder, path, flags, rights);
}
int openat64(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t rights = va_arg(rest, mode_t);
  va_end(rest);
  return openat(folder, path, flags, rights);
}
int fsync(int file) {
  NEXT(fsync);
  FAIL(sync_, file, EIO)
  return real(file);
}
int ftruncate(int file, off_t size) {
  NEXT(ftruncate);
  FAIL(size_, file, ENOSPC)
  return real(file, size);
}
int ftruncate64(int file, off_t size) { return ftruncate(file, size); }
int posix_fallocate(int file, off_t offset, off_t size) {
  NEXT(posix_fallocate);
  return fails(size_) ? ENOSPC : real(file, offset, size);
}
int posix_fallocate64(int file, off_t offset, off_t size) {
  return posix_fallocate(file, offset, size);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  NEXT(renameat);
  FAIL(name_, 3, EDQUOT)
  return real(from_folder, from, to_folder, to);
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  NEXT(linkat);
  FAIL(name_, 3, EDQUOT)
  return real(from_folder, from, to_folder, to, flags);
}
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
