#include "checkpoint/header.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "checkpoint/json_text.hpp"
#include "interlace/base/errors.hpp"

namespace interlace::checkpoint {

namespace {

constexpr std::string_view metadata_name = "__metadata__";
constexpr std::array<std::string_view, 3> keys{"dtype", "shape", "data_offsets"};

std::string listed(std::span<const std::uint64_t> numbers) {
  std::string made = "[";
  for (const std::uint64_t number : numbers) {
    if (made.size() > 1) made += ", ";
    made += std::to_string(number);
  }
  return made + "]";
}

// Throws usage_error if a name occurs twice. The error names the first such name.
void check_names(std::vector<std::string_view> names, const std::string& begin) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw usage_error(begin + in_quotes(*twice) + " occurs twice");
}

class header_reader {
 public:
  header_reader(const std::string& file, std::string_view text, std::span<const dtype_bits> dtypes)
      : file_(file), text_(text), dtypes_(dtypes), json_(text) {}

  // Reads the header. Sorts the tensors by their position in the data.
  header read() {
    if (!text_.starts_with('{')) {
      throw usage_error(file_ + " is not a safetensors file: its header does not begin with {");
    }
    try {
      json_.check_utf8();
      json_.object([&](std::string name) {
        if (name == metadata_name) {
          metadata();
        } else {
          tensor(std::move(name));
        }
      });
      json_.end();
    } catch (const json_error& e) {
      throw usage_error(file_ + ": its header is not JSON at byte " +
                        std::to_string(header_prefix + e.at()) + " of the file: " + e.what());
    }
    std::vector<std::string_view> names;
    names.reserve(made_.tensors.size() + metadata_objects_);
    for (const header_tensor& each : made_.tensors) names.push_back(each.name);
    names.insert(names.end(), metadata_objects_, metadata_name);
    check_names(std::move(names), file_ + ": its header is wrong: ");
    if (!problem_.empty()) throw usage_error(file_ + ": " + problem_);
    std::sort(made_.tensors.begin(), made_.tensors.end(),
              [](const header_tensor& a, const header_tensor& b) {
                return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
              });
    return std::move(made_);
  }

 private:
  // Keeps the first problem. The problem is reported after the end of the text, because errors of
  // syntax and repeated names take precedence.
  void note(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }

  void metadata() {
    ++metadata_objects_;
    if (json_.peek() != '{') {
      (void)json_.value();
      note(std::string(metadata_name) + " is not an object");
      return;
    }
    json_.object([&](std::string key) {
      if (json_.peek() == '"') {
        std::string text = json_.string();
        made_.metadata.emplace_back(std::move(key), std::move(text));
        return;
      }
      (void)json_.value();
      note(std::string(metadata_name) + " has something other than a text as " + in_quotes(key));
    });
    std::vector<std::string_view> names;
    for (const auto& [key, text] : made_.metadata) names.push_back(key);
    check_names(std::move(names),
                file_ + ": its header is wrong: in " + std::string(metadata_name) + ", ");
  }

  void tensor(std::string name) {
    header_tensor& made = made_.tensors.emplace_back();
    made.name = std::move(name);
    const auto wrong = [&](const std::string& what) {
      note("tensor " + in_quotes(made.name) + " " + what);
    };
    if (json_.peek() != '{') {
      (void)json_.value();
      wrong("is not an object");
      return;
    }
    std::array<bool, keys.size()> there{};
    std::string other;  // a key that the header may not have
    std::string dtype;  // an unknown dtype as messages quote it; empty if the dtype is known
    std::optional<std::string> shape_problem;
    std::vector<std::uint64_t> offsets;
    bool offsets_are_counts = true;
    json_.object([&](const std::string& key) {
      const auto at = std::find(keys.begin(), keys.end(), key);
      if (at == keys.end()) {
        if (other.empty()) other = in_quotes(key);
        (void)json_.value();
        return;
      }
      bool& seen = there[static_cast<std::size_t>(at - keys.begin())];
      if (seen) {
        throw usage_error(file_ + ": its header is wrong: in tensor " + in_quotes(made.name) +
                          ", " + in_quotes(key) + " occurs twice");
      }
      seen = true;
      if (key == keys[0]) {
        dtype = read_dtype(made);
      } else if (key == keys[1]) {
        shape_problem = read_shape(made);
      } else {
        offsets_are_counts = read_counts(offsets, 3);
      }
    });
    for (std::size_t k = 0; k < keys.size(); ++k) {
      if (!there[k]) {
        wrong("has no " + std::string(keys[k]));
        return;
      }
    }
    if (!other.empty()) {
      wrong("has the key " + other + ", which is none of dtype, shape, data_offsets");
    } else if (!dtype.empty()) {
      wrong("has the dtype " + dtype + "; the dtype must be one of " + dtype_names());
    } else if (shape_problem) {
      wrong(*shape_problem);
    } else if (!offsets_are_counts || offsets.size() != 2) {
      wrong("has data_offsets that are not two whole numbers from 0");
    } else {
      made.begin = offsets[0];
      made.end = offsets[1];
      check_size(made, wrong);
    }
  }

  // Reads a dtype. If there is no such dtype, returns its quoted text for a message.
  std::string read_dtype(header_tensor& made) {
    if (json_.peek() != '"') {
      const std::string_view raw = json_.value();
      return std::string(raw.substr(0, 80));
    }
    const std::string name = json_.string();
    const auto found = std::find_if(dtypes_.begin(), dtypes_.end(),
                                    [&](const dtype_bits& each) { return each.first == name; });
    if (found == dtypes_.end()) return in_quotes(name);
    made.dtype = static_cast<std::uint32_t>(found - dtypes_.begin());
    return {};
  }

  std::optional<std::string> read_shape(header_tensor& made) {
    if (!read_counts(made.shape, most_dimensions + 1)) {
      return "has a shape that is not a list of whole numbers from 0";
    }
    if (made.shape.size() > most_dimensions) {
      return "has more than " + std::to_string(most_dimensions) + " dimensions";
    }
    made.shape.shrink_to_fit();
    return std::nullopt;
  }

  // Reads a list of counts and keeps the first `most` of them. Returns false if the value is not a
  // list of counts.
  bool read_counts(std::vector<std::uint64_t>& into, std::size_t most) {
    if (json_.peek() != '[') {
      (void)json_.value();
      return false;
    }
    bool counts = true;
    json_.array([&] {
      const auto number = json_.count();
      counts = counts && number.has_value();
      if (number && into.size() < most) into.push_back(*number);
    });
    return counts;
  }

  template <class Wrong>
  void check_size(const header_tensor& made, const Wrong& wrong) const {
    if (made.begin > made.end) {
      wrong("ends at byte " + std::to_string(made.end) + " of the data, before it begins, at " +
            std::to_string(made.begin));
      return;
    }
    try {
      const dtype_bits& dtype = dtypes_[made.dtype];
      const std::uint64_t size = tensor_bytes(made.shape, dtype);
      if (size != made.end - made.begin) {
        wrong("has " + std::to_string(made.end - made.begin) + " bytes of data, and " +
              dtype.first + " of shape " + listed(made.shape) + " takes " + std::to_string(size) +
              " bytes");
      }
    } catch (const usage_error& e) {
      wrong(e.what());
    }
  }

  std::string dtype_names() const {
    std::string names;
    for (const dtype_bits& each : dtypes_) names += (names.empty() ? "" : ", ") + each.first;
    return names;
  }

  const std::string& file_;
  std::string_view text_;
  std::span<const dtype_bits> dtypes_;
  json_text json_;
  header made_;
  std::size_t metadata_objects_ = 0;
  std::string problem_;
};

// Whether a path stays in its folder. No part of the path may be empty, "." or "..".
bool stays_inside(std::string_view path) {
  if (path.find('\0') != std::string_view::npos) return false;
  for (;;) {
    const std::size_t end = path.find('/');
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == std::string_view::npos) return true;
    path.remove_prefix(end + 1);
  }
}

}  // namespace

std::uint64_t tensor_bytes(std::span<const std::uint64_t> shape, const dtype_bits& dtype) {
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : shape) {
    if (__builtin_mul_overflow(elements, extent, &elements)) {
      throw usage_error("has a shape with more elements than 64 bits can count: " + listed(shape));
    }
  }
  const std::string of = dtype.first + " of shape " + listed(shape);
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(elements, std::uint64_t{dtype.second}, &bits)) {
    throw usage_error("has more bits than 64 bits can count: " + of);
  }
  if (bits % 8 != 0) throw usage_error("does not end at a byte: " + of);
  return bits / 8;
}

header parse_header(const std::string& file, std::string_view text, std::uint64_t file_bytes,
                    std::span<const dtype_bits> dtypes) {
  header made = header_reader(file, text, dtypes).read();
  std::uint64_t end = 0;
  const std::string* before = nullptr;
  for (const header_tensor& each : made.tensors) {
    if (each.begin < end) {
      throw usage_error(file + ": tensor " + in_quotes(each.name) + " begins at byte " +
                        std::to_string(each.begin) + " of the data, within " + in_quotes(*before) +
                        ", which ends at " + std::to_string(end));
    }
    if (each.begin > end) {
      throw usage_error(file + ": bytes " + std::to_string(end) + " to " +
                        std::to_string(each.begin) + " of the data, before tensor " +
                        in_quotes(each.name) + ", belong to no tensor");
    }
    end = each.end;
    before = &each.name;
  }
  made.data_begin = header_prefix + text.size();
  const std::uint64_t there = file_bytes - std::min(file_bytes, made.data_begin);
  if (there < end) {
    const auto cut = std::find_if(made.tensors.begin(), made.tensors.end(),
                                  [&](const header_tensor& each) { return each.end > there; });
    throw usage_error(file + " is cut: its tensors take " + std::to_string(end) + " bytes, but " +
                      std::to_string(there) + " bytes are there, and they end before the end of " +
                      in_quotes(cut->name));
  }
  if (there > end) {
    throw usage_error(file + ": " + std::to_string(there - end) +
                      " bytes after the last tensor belong to no tensor; its header or its length "
                      "is wrong");
  }
  return made;
}

std::vector<std::pair<std::string, std::string>> parse_index(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> files;
  constexpr std::string_view map_name = "weight_map";
  std::size_t maps = 0;
  std::string problem;
  const auto note = [&](const std::string& what) {
    if (problem.empty()) problem = what;
  };
  json_text json(text);
  try {
    json.check_utf8();
    if (json.peek() != '{') throw usage_error(" is no index: it is not an object of JSON");
    json.object([&](const std::string& key) {
      if (key != map_name || ++maps > 1 || json.peek() != '{') {
        if (key == map_name && maps == 1) note(": its weight_map is not an object");
        (void)json.value();
        return;
      }
      json.object([&](std::string tensor) {
        if (json.peek() != '"') {
          (void)json.value();
          note(": tensor " + in_quotes(tensor) + " has no name of a file");
          return;
        }
        std::string file = json.string();
        if (!stays_inside(file)) {
          note(": tensor " + in_quotes(tensor) + " is in the file " + in_quotes(file) +
               ", which is not in the folder of the index");
        }
        files.emplace_back(std::move(tensor), std::move(file));
      });
    });
    json.end();
  } catch (const json_error& e) {
    throw usage_error(" is not JSON at byte " + std::to_string(e.at()) + ": " + e.what());
  }
  if (maps > 1) throw usage_error(": 'weight_map' occurs twice");
  if (!problem.empty()) throw usage_error(problem);
  if (files.empty()) throw usage_error(" is no index: it has no weight_map that names a file");
  std::vector<std::string_view> names;
  names.reserve(files.size());
  for (const auto& [tensor, file] : files) names.push_back(tensor);
  check_names(std::move(names), ": tensor ");
  return files;
}

}  // namespace interlace::checkpoint
