// The dlsym that programs see. For a driver function that this library replaces, it returns the
// replacement. All other lookups go to the real dlsym, as if this function did not exist.
#include "preload/lookups.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include "preload/counters.hpp"
#include "preload/entries.hpp"

// The linker defines these symbols. They are the beginning and the end of this library.
extern "C" {
extern const char __ehdr_start __attribute__((visibility("hidden")));  // NOLINT: the linker's name
extern const char _end __attribute__((visibility("hidden")));          // NOLINT: the linker's name
}

namespace interlace::preload {

bool within_this_library(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return at >= reinterpret_cast<std::uintptr_t>(&__ehdr_start) &&
         at < reinterpret_cast<std::uintptr_t>(&_end);
}

namespace {

std::string_view folder_of(const char* file) {
  const std::string_view path = file == nullptr ? "" : file;
  return path.substr(0, path.rfind('/') + 1);
}

// Whether the caller is a module of Interlace. The copies of such a module are planned already. The
// modules are in this library's folder. The library for C programs can be anywhere.
bool of_this_package(const void* caller) {
  Dl_info theirs{};
  Dl_info own{};
  if (dladdr(caller, &theirs) == 0 || dladdr(&__ehdr_start, &own) == 0) return false;
  const std::string_view folder = folder_of(own.dli_fname);
  const std::string_view other = folder_of(theirs.dli_fname);
  if (std::string_view(theirs.dli_fname).substr(other.size()) == "libinterlace.so") return true;
  return !folder.empty() && folder == other && theirs.dli_fbase != own.dli_fbase &&
         std::string_view(theirs.dli_fname).substr(folder.size(), 1) == "_";
}

struct found_entry {
  bool any = false;
  entry which = entry::copy;
};

found_entry entry_of_symbol(const char* symbol) {
  if (symbol == nullptr || symbol[0] != 'c' || symbol[1] != 'u') return {};
  for (std::size_t index = 0; index < entry_count; ++index) {
    const auto which = static_cast<entry>(index);
    if (std::strcmp(symbol, facts_of(which).symbol) == 0) return {true, which};
  }
  return {};
}

}  // namespace

// The result of a lookup, or the function to which the caller must jump for the result.
struct answer {
  std::uint64_t known;
  void* value;
};

extern "C" __attribute__((visibility("hidden"), used)) answer interlace_preload_lookup(
    void* handle, const char* symbol, const void* caller) {
  const find_symbol real = next_dlsym();
  const answer pass{.known = 0, .value = reinterpret_cast<void*>(real)};
  const auto [any, which] = entry_of_symbol(symbol);
  if (!any || within_this_library(caller)) return pass;
  if (handle == RTLD_NEXT || handle == RTLD_DEFAULT) {
    // The result depends on the caller, so the real dlsym must answer. The real dlsym can find the
    // functions that this library exports, as for a program that is linked to the driver. But if
    // the caller could find no driver without this library, the caller must not find a driver now.
    if (real(RTLD_NEXT, symbol) != nullptr) return pass;
    if (!within_this_library(real(RTLD_DEFAULT, symbol))) return pass;
    if (handle == RTLD_DEFAULT && driver_function(which) != nullptr) return pass;
    // Here the real dlsym finds no function. It returns null, and sets the message of dlerror.
    return {.known = 1, .value = real(RTLD_NEXT, symbol)};
  }
  // The caller's own lookup is made last, so that dlerror reports the error of that lookup.
  void* const of_driver = driver_function(which);
  void* found = real(handle, symbol);
  if (within_this_library(found)) {  // a lookup in the whole program finds this library's functions
    const bool any_driver = linked_function(which) != nullptr;
    return {.known = 1, .value = any_driver ? real(handle, symbol) : real(RTLD_NEXT, symbol)};
  }
  if (found == nullptr || found != of_driver || of_this_package(caller))
    return {.known = 1, .value = found};
  counters_seen_driver();
  return {.known = 1, .value = stand_in(which)};
}

}  // namespace interlace::preload

// The real dlsym reads its return address to find the caller. This code must therefore jump to the
// real dlsym instead of calling it.
#if !defined(__x86_64__)
#error "the preload library is for x86-64"
#endif
asm(R"(
  .text
  .globl dlsym
  .type dlsym, @function
dlsym:
  .cfi_startproc
  endbr64
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  movq 24(%rsp), %rdx
  call interlace_preload_lookup
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  testq %rax, %rax
  jne 1f
  jmpq *%rdx
1:
  movq %rdx, %rax
  ret
  .cfi_endproc
  .size dlsym, . - dlsym
)");
