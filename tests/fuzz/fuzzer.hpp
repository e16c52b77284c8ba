// Code that drives the fuzzers of readers and decoders. It changes valid inputs and gives each
// changed input to a reader. It stops at the first input that the reader neither accepts nor
// refuses with an expected exception.
//
// Without libFuzzer, the changes are random:
//
//   NAME_fuzz [SECONDS [SEED]]    prints how many inputs were tried and how many were accepted
//   NAME_fuzz --input FILE        tries one input
//
// A finding is written to NAME_fuzz-finding in the working folder. If a sanitizer ends the process,
// there is no such file, but the same seed finds the input again.
//
// If clang compiles with INTERLACE_SANITIZE=address,undefined,fuzzer-no-link, libFuzzer drives the
// fuzzers. libFuzzer prefers inputs that reach code that no earlier input has reached. The command
// is NAME_fuzz FOLDER [OPTION]..., with the options of libFuzzer. The program first writes the
// sound inputs to FOLDER.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "interlace/base/errors.hpp"

namespace interlace::fuzz {

class mutation {
 public:
  // Changes the inputs. Some changes insert one of `words`, which should occur in the format's
  // texts.
  mutation(std::vector<std::string> inputs, std::vector<std::string> words, std::uint64_t seed)
      : inputs_(std::move(inputs)), words_(std::move(words)), random_(seed) {}

  void seed(std::uint64_t seed) { random_.seed(seed); }
  std::string next() { return changed(inputs_[below(inputs_.size())]); }
  std::string changed(std::string input) {
    for (std::size_t n = 1 + below(6); n != 0; --n) change(input);
    return input;
  }
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random_() % n); }
  // Keeps an accepted input. Changes of it can lead to more cases.
  void keep(std::string input) {
    if (inputs_.size() < 200) inputs_.push_back(std::move(input));
  }

 private:
  void change(std::string& input) {
    const std::size_t at = below(input.size() + 1);
    const std::size_t size = below(std::min<std::size_t>(input.size() - at, 64) + 1);
    switch (below(9)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<char>(below(256));
        break;
      case 2:
        input.erase(at, size);
        break;
      case 3:
        input.insert(at, input.substr(below(input.size()), size));
        break;
      case 4:
        if (below(4) == 0) input.resize(at);
        break;
      case 5:
        if (!words_.empty()) input.insert(at, words_[below(words_.size())]);
        break;
      case 6:
        if (!words_.empty()) input.replace(at, size, words_[below(words_.size())]);
        break;
      case 7: {
        const std::string& other = inputs_[below(inputs_.size())];
        input.replace(at, size, other.substr(below(other.size()), below(200)));
        break;
      }
      default:
        if (at < input.size()) input[at] = "\0\x7f\x80\xff"[below(4)];
    }
    constexpr std::size_t most = std::size_t{1} << 16U;
    if (input.size() > most) input.resize(most);
  }

  std::vector<std::string> inputs_;
  std::vector<std::string> words_;
  std::mt19937_64 random_;
};

// The inputs that a fuzzer changes, and the reader that it tests.
struct target {
  std::vector<std::string> sound;  // inputs that the reader accepts
  std::vector<std::string> words;  // words of the format, if it is a text
  // Repairs a changed input that a reader would otherwise refuse at once. For example, it corrects
  // check sums. If this function is empty, inputs stay as they are.
  std::function<std::string(std::string, mutation&)> finish;
  // Tries an input. This function must return normally, or throw usage_error or model_error, within
  // five seconds. Anything else is a finding.
  std::function<void(const std::string&)> read;
};
target make_target();  // each fuzzer defines this function

class driver {
 public:
  driver(int argc, char** argv) : name_(argv[0]) {
    name_.erase(0, name_.rfind('/') + 1);
    file_ = name_ + "-finding";
    if (argc > 2 && std::string_view(argv[1]) == "--input") {
      single_ = argv[2];
    } else {
      if (argc > 1) seconds_ = std::strtod(argv[1], nullptr);
      if (argc > 2) seed_ = std::strtoull(argv[2], nullptr, 10);
    }
  }

  int run(const target& what) {
    const auto& read = what.read;
    mutation mutate(what.sound, what.words, seed_);
    if (!single_.empty()) {
      std::ifstream stream(single_, std::ios::binary);
      return try_one({std::istreambuf_iterator<char>(stream), {}}, read) == outcome::finding;
    }
    for (const std::string& sound : what.sound) {
      if (try_one(sound, read) == outcome::taken) continue;
      std::fprintf(stderr, "%s: a sound input was refused\n", name_.c_str());
      return 1;
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds_);
    std::uint64_t tried = 0;
    std::uint64_t taken = 0;
    while (std::chrono::steady_clock::now() < end) {
      std::string input = mutate.next();
      if (what.finish) input = what.finish(std::move(input), mutate);
      const outcome result = try_one(input, read);
      if (result == outcome::finding) return 1;
      ++tried;
      if (result != outcome::taken) continue;
      ++taken;
      if (mutate.below(50) == 0) mutate.keep(std::move(input));
    }
    if (taken == 0 || taken == tried) {
      std::fprintf(stderr, "%s: no input was tried; give more seconds\n", name_.c_str());
      return 1;
    }
    std::printf("%s: %llu inputs, %llu accepted, the rest refused; seed %llu\n", name_.c_str(),
                static_cast<unsigned long long>(tried), static_cast<unsigned long long>(taken),
                static_cast<unsigned long long>(seed_));
    return 0;
  }

 private:
  enum class outcome { taken, refused, finding };

  outcome try_one(const std::string& input, const std::function<void(const std::string&)>& read) {
    const auto begin = std::chrono::steady_clock::now();
    outcome what = outcome::taken;
    std::string reason;
    current() = {&file_, &input};
    std::set_terminate(save);
    try {
      read(input);
    } catch (const usage_error&) {
      what = outcome::refused;
    } catch (const model_error&) {
      what = outcome::refused;
    } catch (const std::exception& error) {
      what = outcome::finding;
      reason = error.what();
    }
    current() = {};
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (taken.count() > 5) {
      what = outcome::finding;
      reason = "it took " + std::to_string(taken.count()) + " s";
    }
    if (what == outcome::finding) {
      std::fprintf(stderr, "%s: %s; the input is in %s\n", name_.c_str(), reason.c_str(),
                   file_.c_str());
      std::ofstream(file_, std::ios::binary) << input;
    }
    return what;
  }

  struct being_tried {
    const std::string* file = nullptr;
    const std::string* input = nullptr;
  };
  static being_tried& current() {
    static being_tried one;
    return one;
  }
  [[noreturn]] static void save() {
    if (current().file != nullptr) {
      std::ofstream(*current().file, std::ios::binary) << *current().input;
    }
    std::abort();
  }

  std::string name_;
  std::string file_;  // the path of the file for findings
  std::string single_;
  double seconds_ = 1;
  std::uint64_t seed_ = 1;
};

}  // namespace interlace::fuzz

#ifdef INTERLACE_LIBFUZZER

inline const interlace::fuzz::target& the_target() {
  static const interlace::fuzz::target made = interlace::fuzz::make_target();
  return made;
}

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int k = 1; k < *argc; ++k) {
    if ((*argv)[k][0] == '-') continue;
    std::size_t number = 0;
    for (const std::string& sound : the_target().sound) {
      std::ofstream(std::string((*argv)[k]) + "/sound-" + std::to_string(number++),
                    std::ios::binary)
          << sound;
    }
    break;  // libFuzzer writes to the first folder
  }
  return 0;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    the_target().read(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const interlace::usage_error&) {
    return 0;
  } catch (const interlace::model_error&) {
    return 0;
  }
  return 0;  // any other exception ends the process, and libFuzzer keeps the input
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                    unsigned int seed) {
  const interlace::fuzz::target& what = the_target();
  static interlace::fuzz::mutation mutate(what.sound, what.words, seed);
  mutate.seed(seed);  // the inputs are copied only once, not for each call
  std::string input;
  if (!what.words.empty() && mutate.below(4) == 0) {
    input = mutate.changed(std::string(reinterpret_cast<const char*>(data), size));
  } else {
    size = LLVMFuzzerMutate(data, size, most);
    input.assign(reinterpret_cast<const char*>(data), size);
  }
  if (what.finish) input = what.finish(std::move(input), mutate);
  input.resize(std::min(input.size(), most));
  std::copy(input.begin(), input.end(), reinterpret_cast<char*>(data));
  return input.size();
}

}  // extern "C"

#else

int main(int argc, char** argv) {
  return interlace::fuzz::driver(argc, argv).run(interlace::fuzz::make_target());
}

#endif
