// A part of the test in scopes.cpp. This file becomes the library that follows the program in the
// search order. With MODULE defined, it becomes a module that the program opens.
#include <dlfcn.h>

// Looks up a name. The call must not be the last one of this function. Otherwise the compiler makes
// the call a jump, and the lookup seems to come from this function's caller.
static void* by_default(const char* name) {
  void* volatile found = dlsym(RTLD_DEFAULT, name);
  return found;
}

#if defined(MODULE)
extern "C" int module_only() { return 3; }
extern "C" void* module_default(const char* name) { return by_default(name); }
extern "C" void* module_find(void* handle, const char* name) {
  void* volatile found = dlsym(handle, name);
  return found;
}
#else
extern "C" int scopes_probe() { return 2; }
extern "C" int scopes_next_of_library() {
  void* next = dlsym(RTLD_NEXT, "scopes_probe");
  return next == nullptr ? -1 : reinterpret_cast<int (*)()>(next)();
}
extern "C" void* scopes_default_of_library(const char* name) { return by_default(name); }
#endif
