// A workload in a separate library, which the Python package loads at run time.
//
// Such a library exports one C function. The function describes the workload to the package, and
// makes problems from arguments that come from Python. The library needs no Python header. The
// structs in this header have no stable layout, so the package refuses a library that was built for
// another version.
//
// The source file of a library has one of these two forms:
//
//   #include "NAME.hpp"
//   #include <interlace/run/module_on_cpu.hpp>
//   INTERLACE_MODULE_ON_CPU(interlace::workload::NAME_problem)
//
//   #include "NAME.hpp"
//   #include <interlace/run/module_on_gpus.hpp>
//   INTERLACE_MODULE_ON_GPUS(interlace::workload::NAME_problem)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "interlace/base/array_view.hpp"
#include "interlace/base/errors.hpp"
#include "interlace/run/workload.hpp"
#include "interlace/version.hpp"

namespace interlace::run {

// The type of a parameter of `make` (interlace/workload/problem.hpp).
enum class argument_kind : std::uint8_t { number, whole, truth, text, array };

enum class element_kind : std::uint8_t { floating, signed_whole, unsigned_whole };

struct parameter {
  const char* name = nullptr;
  argument_kind kind = argument_kind::number;
  // The type of the elements, if the argument is an array.
  element_kind element = element_kind::floating;
  std::uint32_t element_bytes = 0;
  std::uint32_t rank = 0;
};

inline constexpr std::size_t max_rank = 4;

// A value for a parameter. Only the member for the parameter's kind is set. An array belongs to the
// caller and must outlive the problem.
struct argument {
  double number = 0;
  std::int64_t whole = 0;
  bool truth = false;
  std::string text;
  const void* data = nullptr;
  std::array<std::size_t, max_rank> extents{};
};

// The result of a call. A library returns errors in this struct, because no exception may leave a
// library.
struct outcome {
  enum class kind : std::uint8_t { good, interrupted, usage, model, device, other };
  kind what = kind::good;
  std::string message;
};

using interrupted_function = std::function<bool()>;  // the function must not throw

class module_problem {
 public:
  module_problem() = default;
  virtual ~module_problem() = default;
  module_problem(const module_problem&) = delete;
  module_problem& operator=(const module_problem&) = delete;
  module_problem(module_problem&&) = delete;
  module_problem& operator=(module_problem&&) = delete;

  virtual std::uint64_t elements() const = 0;
  // Runs on the described machine, or on the reference node if `described` is null. Does not read
  // `check_interrupt` of the request.
  virtual outcome run(const request& asked, const machine::machine* described,
                      const interrupted_function& interrupted, result& found) const noexcept = 0;
  virtual outcome measure(const request& asked, std::uint32_t warmup, std::uint32_t repeats,
                          const interrupted_function& interrupted,
                          measurement& found) const noexcept = 0;
};

struct module_description {
  const char* version = INTERLACE_VERSION;
  // The sizes of the types that pass between the library and the package. The sizes differ if the
  // standard libraries of the two compilers are not compatible.
  std::array<std::size_t, 5> layout{sizeof(std::string), sizeof(machine::machine), sizeof(request),
                                    sizeof(result), sizeof(measurement)};
  const char* summary = nullptr;
  const parameter* parameters = nullptr;
  std::size_t parameter_count = 0;
  outcome (*make)(const argument* arguments,
                  std::unique_ptr<module_problem>& made) noexcept = nullptr;
};

// The name of the C function of a library, and the function's type.
inline constexpr const char* module_function_name = "interlace_workload";
using module_function = const module_description* (*)();

// --- for the sources of workload libraries ------------------------------------------------------

namespace module_detail {

struct interruption {};

template <class T>
struct taken {
  static constexpr bool is_text = std::is_same_v<T, std::string>;
  static_assert(std::is_arithmetic_v<T> || is_text,
                "a parameter of `make` is a number, a bool, a std::string or an array_view");
  static constexpr parameter describe(const char* name) {
    parameter p{name};
    p.kind = is_text                       ? argument_kind::text
             : std::is_same_v<T, bool>     ? argument_kind::truth
             : std::is_floating_point_v<T> ? argument_kind::number
                                           : argument_kind::whole;
    return p;
  }
  static T made(const argument& a, const char* name) {
    if constexpr (is_text) {
      return a.text;
    } else if constexpr (std::is_same_v<T, bool>) {
      return a.truth;
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(a.number);
    } else {
      if (!std::in_range<T>(a.whole)) {
        throw usage_error(std::string(name) + " is " + std::to_string(a.whole) +
                          ", which the parameter's type cannot hold");
      }
      return static_cast<T>(a.whole);
    }
  }
};

template <class T, std::size_t Rank>
struct taken<array_view<T, Rank>> {
  static_assert(std::is_arithmetic_v<T> && Rank >= 1 && Rank <= max_rank);
  static constexpr parameter describe(const char* name) {
    parameter p{name, argument_kind::array};
    p.element = std::is_floating_point_v<T> ? element_kind::floating
                : std::is_signed_v<T>       ? element_kind::signed_whole
                                            : element_kind::unsigned_whole;
    p.element_bytes = sizeof(T);
    p.rank = Rank;
    return p;
  }
  static array_view<T, Rank> made(const argument& a, const char* /*name*/) {
    std::array<std::size_t, Rank> extents{};
    for (std::size_t k = 0; k < Rank; ++k) extents[k] = a.extents[k];
    return {static_cast<const T*>(a.data), extents};
  }
};

template <class F>
outcome guarded(F&& f) noexcept {
  using kind = outcome::kind;
  try {
    try {
      std::forward<F>(f)();
      return {};
    } catch (const interruption&) {
      return {kind::interrupted, {}};
    } catch (const usage_error& e) {
      return {kind::usage, e.what()};
    } catch (const model_error& e) {
      return {kind::model, e.what()};
    } catch (const device_error& e) {
      return {kind::device, e.what()};
    } catch (const std::exception& e) {
      return {kind::other, e.what()};
    }
  } catch (...) {
    return {kind::other, {}};
  }
}

inline request with_interrupts(request asked, const interrupted_function& interrupted) {
  asked.check_interrupt = [&interrupted] {
    if (interrupted()) throw interruption{};
  };
  return asked;
}

// Creates problems for a library. `Base<Problem>` runs a `Problem`, and is derived from
// module_problem.
template <class Problem, template <class> class Base>
struct description {
  template <class... Parameter, std::size_t... K>
  static constexpr auto parameters_of(Problem (*)(Parameter...), std::index_sequence<K...>) {
    static_assert(sizeof...(Parameter) == sizeof...(K), "each parameter of `make` has a name");
    return std::array<parameter, sizeof...(K)>{
        taken<std::remove_cvref_t<Parameter>>::describe(Problem::arguments[K])...};
  }
  template <class... Parameter, std::size_t... K>
  static Problem problem_of(const argument* given, Problem (*make)(Parameter...),
                            std::index_sequence<K...>) {
    return make(taken<std::remove_cvref_t<Parameter>>::made(given[K], Problem::arguments[K])...);
  }
  using places = std::make_index_sequence<Problem::arguments.size()>;

  static outcome make(const argument* given, std::unique_ptr<module_problem>& made) noexcept {
    return guarded([&] {
      made = std::make_unique<Base<Problem>>(problem_of(given, &Problem::make, places{}));
    });
  }
  static const module_description* of() {
    static constexpr auto parameters = parameters_of(&Problem::make, places{});
    static const module_description all{.summary = Problem::summary,
                                        .parameters = parameters.data(),
                                        .parameter_count = parameters.size(),
                                        .make = &make};
    return &all;
  }
};

}  // namespace module_detail

}  // namespace interlace::run

// NOLINTBEGIN(cppcoreguidelines-macro-usage): a C function cannot have template arguments
#define INTERLACE_MODULE(problem, base)                                               \
  extern "C" [[gnu::visibility("default")]] const interlace::run::module_description* \
  interlace_workload() {                                                              \
    return interlace::run::module_detail::description<problem, base>::of();           \
  }
// NOLINTEND(cppcoreguidelines-macro-usage)
