#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/transfer/collective.hpp"
#include "cuda/transfer/copy_batch.hpp"
#include "cuda/transfer/copy_engine.hpp"
#include "interlace/copy.hpp"

namespace interlace {
namespace {

cuda::device_address address(const void* pointer) {
  return reinterpret_cast<cuda::device_address>(pointer);
}

std::vector<cuda::device_address> addresses_of(std::span<const void* const> pointers) {
  std::vector<cuda::device_address> made;
  made.reserve(pointers.size());
  for (const void* one : pointers) made.push_back(address(one));
  return made;
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

void copier::copy_batch_async(std::span<const batch_copy> copies, CUstream_st* stream) {
  std::vector<cuda::batch_part> parts;
  parts.reserve(copies.size());
  for (const batch_copy& one : copies)
    parts.push_back({.to = address(one.dst), .from = address(one.src), .bytes = one.bytes});
  engine_->copy_batch(parts, stream);
}

blocks_way copier::copy_blocks_async(const block_batch& batch, CUstream_st* stream) {
  return engine_->copy_blocks(batch, stream);
}

void copier::all_gather_async(std::span<const void* const> send, std::span<void* const> receive,
                              std::size_t bytes, CUstream_st* stream) {
  engine_->copy_batch(cuda::all_gather_copies(addresses_of(send), addresses_of(receive), bytes),
                      stream);
}

void copier::all_to_all_async(std::span<const void* const> send, std::span<void* const> receive,
                              std::size_t bytes, CUstream_st* stream) {
  engine_->copy_batch(cuda::all_to_all_copies(addresses_of(send), addresses_of(receive), bytes),
                      stream);
}

void copier::all_reduce_async(std::span<const void* const> send, std::span<void* const> receive,
                              std::size_t count, reduced_type type, reduce_by by,
                              CUstream_st* stream) {
  engine_->all_reduce({.send = addresses_of(send),
                       .receive = addresses_of(receive),
                       .count = count,
                       .type = type,
                       .by = by},
                      stream);
}

void copier::prepare() { engine_->prepare(); }

copy_statistics copier::statistics() const { return engine_->statistics(); }

copier& process_copier() {
  // This object is never destroyed, because the driver may shut down before the process's last
  // objects are destroyed.
  static auto* const own = new copier();
  return *own;
}

void copy_async(void* dst, const void* src, std::size_t bytes, CUstream_st* stream) {
  process_copier().copy_async(dst, src, bytes, stream);
}

void copy_batch_async(std::span<const batch_copy> copies, CUstream_st* stream) {
  process_copier().copy_batch_async(copies, stream);
}

blocks_way copy_blocks_async(const block_batch& batch, CUstream_st* stream) {
  return process_copier().copy_blocks_async(batch, stream);
}

void all_gather_async(std::span<const void* const> send, std::span<void* const> receive,
                      std::size_t bytes, CUstream_st* stream) {
  process_copier().all_gather_async(send, receive, bytes, stream);
}

void all_to_all_async(std::span<const void* const> send, std::span<void* const> receive,
                      std::size_t bytes, CUstream_st* stream) {
  process_copier().all_to_all_async(send, receive, bytes, stream);
}

void all_reduce_async(std::span<const void* const> send, std::span<void* const> receive,
                      std::size_t count, reduced_type type, reduce_by by, CUstream_st* stream) {
  process_copier().all_reduce_async(send, receive, count, type, by, stream);
}

}  // namespace interlace
