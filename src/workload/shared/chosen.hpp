// A workload object whose type a problem selects at run time. The object has the interface that a
// run needs.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

namespace interlace::workload {

template <class... Work>
class chosen {
 public:
  // Constructs a work of type Which from `args`.
  template <class Which, class... Args>
  explicit chosen(std::in_place_type_t<Which> which, Args&&... args)
      : work_(which, std::forward<Args>(args)...) {}

  void reset() {
    std::visit([](auto& w) { w.reset(); }, work_);
  }
  void enqueue_iteration(bool track_residual) {
    std::visit([&](auto& w) { w.enqueue_iteration(track_residual); }, work_);
  }
  std::vector<float> result(std::uint32_t device) const {
    return std::visit([&](const auto& w) { return w.result(device); }, work_);
  }
  double residual() const {
    return std::visit([](const auto& w) { return w.residual(); }, work_);
  }

 private:
  std::variant<Work...> work_;
};

}  // namespace interlace::workload
