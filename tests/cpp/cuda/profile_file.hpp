// Copy profiles for the tests of the copy engine.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace interlace::copy_engine_tests {

// A file with a profile of a machine with four fake GPUs.
class profile_file {
 public:
  explicit profile_file(const std::string& directions, const std::string& driver = "1.0") {
    close(mkstemp(name_.data()));
    std::ofstream(name_)
        << R"({"kind": "interlace copy profile", "format": 1, "machine": {"gpus": 4,)"
        << R"("model": "Fake GPU", "driver": ")" << driver << R"("}, "directions": {)" << directions
        << "}}";
  }
  ~profile_file() { unlink(name_.c_str()); }
  profile_file(const profile_file&) = delete;
  profile_file& operator=(const profile_file&) = delete;
  const std::string& name() const { return name_; }

 private:
  std::string name_ = "/tmp/interlace-profile-XXXXXX";
};

inline std::string classes(const std::string& direction, const std::string& all) {
  return "\"" + direction + R"(": {"classes": [)" + all + "]}";
}

}  // namespace interlace::copy_engine_tests
