// A program for the tests of the preloaded library. It runs without a driver, and looks up symbols
// in every way. Every lookup must give the same result as without the preloaded library.
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <initializer_list>

extern "C" __attribute__((visibility("default"))) int scopes_probe() { return 1; }
// These functions are in a library that follows this program in the search order. The program and
// the library each define a scopes_probe. The functions report which of the two definitions each
// lookup finds.
extern "C" int scopes_next_of_library();
extern "C" void* scopes_default_of_library(const char* name);

namespace {

int wrong = 0;

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "%s\n", what);
  ++wrong;
}

int call(void* function) {
  return function == nullptr ? -1 : reinterpret_cast<int (*)()>(function)();
}

}  // namespace

int main(int count, char** words) {
  expect(call(dlsym(RTLD_DEFAULT, "scopes_probe")) == 1,
         "RTLD_DEFAULT does not find the definition of the program");
  expect(call(dlsym(RTLD_NEXT, "scopes_probe")) == 2,
         "RTLD_NEXT does not find the definition of the library");
  expect(scopes_next_of_library() == -1, "something follows the library");
  expect(call(scopes_default_of_library("scopes_probe")) == 1, "the library's RTLD_DEFAULT");
  void* self = dlopen(nullptr, RTLD_NOW);
  expect(call(dlsym(self, "scopes_probe")) == 1, "the program's handle");
  expect(dlsym(RTLD_DEFAULT, "dlsym") != nullptr, "no dlsym");
  expect(dlerror() == nullptr, "dlerror reports an error, but there was none");

  for (const char* name : {"cuMemcpyAsync", "cuGetProcAddress_v2", "cuMemcpyHtoDAsync_v2"}) {
    for (void* handle : {RTLD_DEFAULT, RTLD_NEXT, self}) {
      (void)dlerror();
      expect(dlsym(handle, name) == nullptr, "a driver's function without a driver");
      const char* why = dlerror();
      expect(why != nullptr && std::strstr(why, name) != nullptr, "no reason for that");
    }
  }
  // The module depends on a library that only the module sees.
  if (count > 1) {
    void* module = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    expect(module != nullptr, "no module");
    if (module != nullptr) {
      auto* look = reinterpret_cast<void* (*)(const char*)>(dlsym(module, "module_default"));
      expect(look != nullptr && look("module_only") != nullptr, "a module's own scope");
      expect(dlsym(RTLD_DEFAULT, "module_only") == nullptr,
             "the program sees the symbols of a local module");
      expect(dlsym(module, "module_only") != nullptr, "a module's symbol");
      expect(dlsym(module, "cuMemcpyAsync") == nullptr, "a module has a driver's function");
    }
  }
  return wrong == 0 ? 0 : 1;
}
