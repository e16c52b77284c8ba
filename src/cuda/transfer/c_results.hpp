// Turns exceptions into the results of the interfaces for C.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "cuda/transfer/driver_table.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/copy.h"

namespace interlace {

// An error that carries its result. The result cannot be derived from the type of the exception.
class failed : public std::exception {
 public:
  failed(interlace_result result, std::string text) : result_(result), text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  interlace_result result() const { return result_; }

 private:
  interlace_result result_;
  std::string text_;
};

// The sentence about the last failed call of this thread.
const char* last_error() noexcept;
// Sets the sentence that last_error returns, and returns `result`.
interlace_result fail(interlace_result result, const char* text) noexcept;

template <class Work>
interlace_result guarded(const Work& work) noexcept {
  try {
    work();
    return INTERLACE_SUCCESS;
  } catch (const failed& error) {
    return fail(error.result(), error.what());
  } catch (const usage_error& error) {
    return fail(INTERLACE_INVALID_ARGUMENT, error.what());
  } catch (const device_error& error) {
    return fail(INTERLACE_DEVICE_ERROR, error.what());
  } catch (const std::bad_alloc&) {
    return fail(INTERLACE_OUT_OF_MEMORY, "the host has no memory left");
  } catch (const std::exception& error) {
    return fail(INTERLACE_INTERNAL_ERROR, error.what());
  } catch (...) {
    return fail(INTERLACE_INTERNAL_ERROR, "an unknown error occurred");
  }
}

// The driver of this process. Throws `failed` with INTERLACE_NO_GPU if there is no usable driver.
const cuda::driver_table& driver();

}  // namespace interlace
