// Fuzzes the reader of safetensors headers and the reader of indexes. The first byte of an input
// selects the reader of the remaining bytes.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/header.hpp"
#include "fuzzer.hpp"

namespace {

using namespace interlace;  // NOLINT: this file is a whole program

constexpr std::uint64_t data_bytes = 48;

const std::vector<checkpoint::dtype_bits>& dtypes() {
  static const std::vector<checkpoint::dtype_bits> all{{"F4", 4}, {"U8", 8}, {"F32", 32}};
  return all;
}

void need(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

// Checks an accepted header: the tensors must fill the data, and no two tensors may have the same
// name.
void try_header(std::string_view text) {
  const auto found = checkpoint::parse_header("m", text, 8 + text.size() + data_bytes, dtypes());
  std::uint64_t end = 0;
  std::vector<std::string> names;
  for (const checkpoint::header_tensor& one : found.tensors) {
    need(one.begin == end, "a tensor does not begin at the end of the previous tensor");
    need(one.dtype < dtypes().size(), "a dtype is not in the list of dtypes");
    need(one.end - one.begin == checkpoint::tensor_bytes(one.shape, dtypes()[one.dtype]),
         "the size of a tensor does not match its shape");
    end = one.end;
    names.push_back(one.name);
  }
  need(end == data_bytes, "tensors do not fill the data");
  need(found.data_begin == 8 + text.size(), "the data begins elsewhere");
  std::sort(names.begin(), names.end());
  need(std::adjacent_find(names.begin(), names.end()) == names.end(), "a name is there twice");
}

// Checks an accepted index: each file must be in the folder.
void try_index(std::string_view text) {
  for (const auto& [tensor, file] : checkpoint::parse_index(text)) {
    const std::string path = "/" + file + "/";
    need(!file.empty(), "a file has no name");
    for (const char* part : {"/../", "/./", "//"}) {
      need(path.find(part) == std::string::npos, "a file is outside of the folder");
    }
    need(file.find('\0') == std::string::npos, "a name has a zero byte");
  }
}

void try_input(const std::string& input) {
  if (input.empty()) return;
  const std::string_view text = std::string_view(input).substr(1);
  if (input.front() % 2 == 0) {
    try_header(text);
  } else {
    try_index(text);
  }
}

}  // namespace

interlace::fuzz::target interlace::fuzz::make_target() {
  return {{R"(H{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
           R"("b.c":{"dtype":"U8","shape":[24],"data_offsets":[24,48]}})",
           R"(H{"__metadata__":{"format":"pt","\u00e9\ud83d\ude00":"\n"},)"
           R"("x":{"shape":[96,1],"dtype":"F4","data_offsets":[0,48]},)"
           R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[48,48]}}  )",
           R"(I{"metadata":{"total_size":4.5e3,"more":[null,true,{}]},)"
           R"("weight_map":{"a":"m-1.safetensors","b":"sub/m-2.safetensors"}})"},
          {"{",
           "}",
           "[",
           "]",
           ",",
           ":",
           "\"",
           "\\u",
           "\\ud800",
           "18446744073709551615",
           "0",
           "-0",
           "1e3",
           "null",
           "true",
           "../",
           "/",
           "..",
           "\"dtype\":",
           "\"shape\":[",
           "\"a\":",
           "\"data_offsets\":[0,24]",
           "\"weight_map\":",
           "__metadata__",
           "F32",
           "F4",
           "48",
           "24",
           "\xc3\xa9",
           "\xf0\x9f\x98\x80",
           " "},
          nullptr,
          try_input};
}
