#include "interlace/kernel/type_name.hpp"

#include <cxxabi.h>

#include <cctype>
#include <cstddef>
#include <cstdlib>

namespace interlace::kernel {

namespace {

// The position where the last name in `text` begins. The name includes its template arguments. It
// begins after the last character that cannot be part of a name.
std::size_t last_name(const std::string& text) {
  std::size_t begin = text.size();
  int depth = 0;
  while (begin > 0) {
    const char c = text[begin - 1];
    if (c == '>' || c == ')' || c == '}') ++depth;
    if (c == '<' || c == '(' || c == '{') {
      if (depth == 0) break;
      --depth;
    }
    const bool word = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '#';
    if (depth == 0 && !word && c != '<' && c != '(' && c != '{') break;
    --begin;
  }
  return begin;
}

}  // namespace

std::string readable_type_name(const char* type_name) {
  int status = 0;
  char* text = abi::__cxa_demangle(type_name, nullptr, nullptr, &status);
  std::string name = status == 0 && text != nullptr ? text : type_name;
  std::free(text);  // NOLINT: the demangler allocated it
  return name;
}

std::string short_type_name(const char* type_name) {
  const std::string whole = readable_type_name(type_name);
  std::string name;
  for (std::size_t k = 0; k < whole.size(); ++k) {
    if (whole[k] == ':' && k + 1 < whole.size() && whole[k + 1] == ':') {
      name.erase(last_name(name));
      ++k;
    } else if (whole.compare(k, 3, "> >") == 0) {
      name += whole[k++];
    } else {
      name += whole[k];
    }
  }
  return name;
}

}  // namespace interlace::kernel
