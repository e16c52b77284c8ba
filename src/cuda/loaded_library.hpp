// A third-party library that the program loads at run time. The program does not link the library.
// This class opens the first candidate that exists, and looks up the functions that the program
// calls.
#pragma once

#include <dlfcn.h>

#include <string>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::cuda {

class loaded_library {
 public:
  // Loads the library. The candidates are names that dlopen accepts. `name` is the library's name
  // in messages. `remedy` tells users what to do if the library is missing. Throws usage_error if
  // no candidate can be loaded. The error lists all candidates.
  loaded_library(std::string name, const std::vector<std::string>& candidates, std::string remedy)
      : name_(std::move(name)), remedy_(std::move(remedy)) {
    std::string tried;
    for (const std::string& candidate : candidates) {
      library_ = dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
      file_ = candidate;
      if (library_ != nullptr) return;
      tried += (tried.empty() ? "" : ", ") + candidate;
    }
    throw usage_error(name_ + " cannot be loaded (tried " + tried + "); " + remedy_);
  }
  // Unloads the library unless keep() was called.
  ~loaded_library() {
    if (library_ != nullptr) (void)dlclose(library_);
  }
  loaded_library(const loaded_library&) = delete;
  loaded_library& operator=(const loaded_library&) = delete;

  // Looks up a function. If the library lacks the function, sets the pointer to null and returns
  // false.
  template <class Function>
  bool look_up(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(library_, symbol));
    return function != nullptr;
  }
  // Looks up a function that the program cannot do without. Throws usage_error if the library lacks
  // the function.
  template <class Function>
  void need(const char* symbol, Function& function) const {
    if (!look_up(symbol, function))
      throw usage_error(name_ + " cannot be used: " + file_ + " has no " + symbol + "; " + remedy_);
  }
  // Keeps the library loaded until the process ends. A program that calls the library's functions
  // at the end of the process must call this function.
  void keep() { library_ = nullptr; }

 private:
  std::string name_;
  std::string remedy_;
  std::string file_;
  void* library_ = nullptr;
};

}  // namespace interlace::cuda
