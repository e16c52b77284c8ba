// A library for the test in scopes.cpp. It follows the program in the search order. If MODULE is
// defined, this file becomes a module that the program opens.
#include <dlfcn.h>

// Looks up a name. The lookup must not be the last call of this function. Otherwise the compiler
// would turn it into a jump, and the lookup would seem to come from this function's caller.
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
