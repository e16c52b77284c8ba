// The errors that functions of Interlace throw.
#pragma once

#include <stdexcept>
#include <string>

namespace interlace {

// The input is not usable. The message is one sentence that names the input and says what to do.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A kernel or a mechanism broke a rule of the memory model (bounds, ownership, shared memory).
class model_error : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// A device, the driver or the operating system failed, or a deadline passed.
class device_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace interlace
