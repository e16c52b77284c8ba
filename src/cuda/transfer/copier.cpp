#include <cstdint>
#include <memory>

#include "cuda/transfer/copy_engine.hpp"
#include "interlace/copy.hpp"

namespace interlace {
namespace {

cuda::device_address address(const void* pointer) {
  return reinterpret_cast<cuda::device_address>(pointer);
}

}  // namespace

copier::copier(const copy_options& options)
    : engine_(std::make_unique<cuda::copy_engine>(cuda::real_driver(), options)) {}
copier::~copier() = default;
copier::copier(copier&&) noexcept = default;
copier& copier::operator=(copier&&) noexcept = default;

void copier::copy_async(void* dst, const void* src, std::size_t bytes, CUstream_st* stream) {
  engine_->copy(address(dst), address(src), bytes, stream);
}

void copier::prepare() { engine_->prepare(); }

copy_statistics copier::statistics() const { return engine_->statistics(); }

copier& process_copier() {
  // Never destroyed: the driver may be gone before the process's last objects.
  static auto* const own = new copier();
  return *own;
}

void copy_async(void* dst, const void* src, std::size_t bytes, CUstream_st* stream) {
  process_copier().copy_async(dst, src, bytes, stream);
}

}  // namespace interlace
