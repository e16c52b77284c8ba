// Records the operations on files in one folder and its subfolders, in order. Each record is a
// line. If a line names a number of bytes, these bytes follow the line.
// tests/python/test_power_loss.py reads the records.
//
//   new INODE                    a new file, which has no name yet
//   write INODE OFFSET SIZE      SIZE bytes follow
//   size INODE SIZE              the file was cut or extended to SIZE bytes
//   sync INODE                   fsync of a file or a folder
//   name FOLDER INODE NAME       from now on, NAME in the folder is this file
//   folder FOLDER INODE NAME     a new folder, with the name NAME in FOLDER
//   rename FOLDER FOLDER INODE NAME/NAME    a file moves from the first name to the second
//   gone FOLDER NAME             the name NAME in the folder was removed
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <mutex>
#include <string>

namespace journal {

struct state {
  std::recursive_mutex lock;
  int file = -1;  // the file for the records; negative if there is none
  std::string folder;
};
inline state& here() {
  static state* const s = new state;
  return *s;
}

inline bool is_written() { return here().file >= 0; }

// Locks an operation together with its record. The records are therefore in the order of the
// operations.
class operation {
 public:
  operation() {
    if (is_written()) held_ = std::unique_lock<std::recursive_mutex>(here().lock);
  }

 private:
  std::unique_lock<std::recursive_mutex> held_;
};

inline bool is_below(const std::string& path) {
  const std::string& folder = here().folder;
  return path.compare(0, folder.size(), folder) == 0 &&
         (path.size() == folder.size() || path[folder.size()] == '/');
}

// Returns the path of a descriptor, or the path of the current folder for AT_FDCWD.
inline std::string path_of(int descriptor) {
  char buffer[4096];
  const std::string link = descriptor == AT_FDCWD ? std::string("/proc/self/cwd")
                                                  : "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = readlink(link.c_str(), buffer, sizeof(buffer));
  return size < 0 ? std::string() : std::string(buffer, static_cast<std::size_t>(size));
}

inline std::uint64_t inode(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

// A name in a folder. A path with several components is split into the folder and the last
// component.
struct place {
  std::string folder, name;
  std::uint64_t folder_inode = 0, inode = 0;  // an inode of 0 means that nothing has this name
  bool counts = false;
};
inline place place_of(int folder, const char* path) {
  place found;
  std::string whole = path;
  if (whole.empty()) return found;
  if (whole[0] != '/') whole = path_of(folder) + "/" + whole;
  const std::size_t cut = whole.find_last_of('/');
  found.folder = whole.substr(0, cut);
  found.name = whole.substr(cut + 1);
  struct stat status {};
  if (stat(found.folder.c_str(), &status) != 0) return found;
  found.folder_inode = status.st_ino;
  found.counts = is_below(found.folder);
  if (lstat(whole.c_str(), &status) == 0) found.inode = status.st_ino;
  return found;
}

inline void put(const std::string& line, const void* bytes = nullptr, std::size_t size = 0) {
  const std::string whole =
      line + "\n" + std::string(static_cast<const char*>(bytes), bytes == nullptr ? 0 : size);
  // If a record cannot be written, the program ends here, because the test would miss the record.
  if (syscall(SYS_write, here().file, whole.data(), whole.size()) !=
      static_cast<long>(whole.size())) {
    abort();
  }
}

inline std::string words(const char* what, std::initializer_list<std::uint64_t> numbers,
                         const std::string& name = "") {
  std::string line = what;
  for (const std::uint64_t n : numbers) line += " " + std::to_string(n);
  return name.empty() ? line : line + " " + name;
}

inline void wrote(int file, const void* bytes, std::size_t size, std::uint64_t offset) {
  if (!is_written() || !is_below(path_of(file))) return;
  put(words("write", {inode(file), offset, size}), bytes, size);
}
inline void has_size(int file, std::uint64_t size) {
  if (is_written() && is_below(path_of(file))) put(words("size", {inode(file), size}));
}
inline void synced(int file) {
  if (is_written() && is_below(path_of(file))) put(words("sync", {inode(file)}));
}
inline void named(const place& to) {
  if (is_written() && to.counts) put(words("name", {to.folder_inode, to.inode}, to.name));
}
inline void made(const place& to) {
  if (is_written() && to.counts) put(words("folder", {to.folder_inode, to.inode}, to.name));
}
inline void renamed(const place& from, const place& to) {
  if (!is_written() || !to.counts) return;
  put(words("rename", {from.folder_inode, to.folder_inode, from.inode}, from.name + "/" + to.name));
}
inline void gone(const place& from) {
  if (is_written() && from.counts) put(words("gone", {from.folder_inode}, from.name));
}
// Records that a file was opened. `before` describes what had this name before the call.
inline void opened(int file, int flags, const place& before) {
  if (!is_written() || file < 0 || !is_below(path_of(file))) return;
  if ((flags & O_TMPFILE) == O_TMPFILE) {
    put(words("new", {inode(file)}));
  } else if (before.inode == 0 && (flags & O_CREAT) != 0) {
    put(words("new", {inode(file)}));
    put(words("name", {before.folder_inode, inode(file)}, before.name));
  } else if ((flags & O_TRUNC) != 0) {
    put(words("size", {inode(file), 0}));
  }
}

}  // namespace journal
