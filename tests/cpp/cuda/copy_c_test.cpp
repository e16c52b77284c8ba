// The interface for C: a C program makes copies on a driver whose GPUs are host memory.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace copy_c_test {
namespace {

struct ended {
  int status = 0;
  std::string text;
};

ended run(const std::string& environment, const std::string& words) {
  const std::string line = "env ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 " +
                           environment + " " COPY_PROGRAM " " + words + " 2>&1";
  ended found;
  FILE* pipe = popen(line.c_str(), "r");
  std::array<char, 512> text{};
  while (fgets(text.data(), text.size(), pipe) != nullptr) found.text += text.data();
  found.status = pclose(pipe);
  return found;
}

TEST(CopyC, EveryByteIsRightByStreamsAndGraphs) {
  for (int seed = 1; seed <= 3; ++seed) {
    const std::string number = std::to_string(seed);
    const ended program =
        run("LD_LIBRARY_PATH=" FAKE_DRIVER_FOLDER " FAKE_SEED=" + number, "copies " + number);
    EXPECT_EQ(program.status, 0) << program.text;
    EXPECT_NE(program.text.find("every byte is right on "), std::string::npos) << program.text;
  }
}

// Copies must not need a driver function that is newer than CUDA 12.2, nor a newer version of a
// driver function.
TEST(CopyC, EveryByteIsRightOnADriverForCuda12_2) {
  const ended program = run("LD_LIBRARY_PATH=" FAKE_DRIVER_FOLDER " FAKE_CUDA=12020", "copies 4");
  EXPECT_EQ(program.status, 0) << program.text;
  EXPECT_NE(program.text.find("every byte is right on "), std::string::npos) << program.text;
}

TEST(CopyC, ADriverThatIsTooOldIsNamed) {
  const ended program = run("LD_LIBRARY_PATH=" FAKE_DRIVER_FOLDER " FAKE_CUDA=11080", "copies 1");
  EXPECT_NE(program.status, 0);
  EXPECT_NE(program.text.find("the NVIDIA driver is for CUDA 11.8, and copies need a driver for "
                              "CUDA 12.2 (535) or later"),
            std::string::npos)
      << program.text;
}

TEST(CopyC, WithoutADriverEveryFunctionSaysSo) {
  if (std::system("ldconfig -p 2>/dev/null | grep -q libcuda.so.1") == 0)
    GTEST_SKIP() << "there is a driver";
  const ended program = run("", "nothing");
  EXPECT_EQ(program.status, 0) << program.text;
}

TEST(CopyC, AWrongVariableIsNamed) {
  const ended program =
      run("LD_LIBRARY_PATH=" FAKE_DRIVER_FOLDER " INTERLACE_COPY=fast", "copies 1");
  EXPECT_NE(program.status, 0);
  EXPECT_NE(program.text.find("INTERLACE_COPY='fast' is not a way to copy"), std::string::npos)
      << program.text;
}

}  // namespace
}  // namespace copy_c_test
