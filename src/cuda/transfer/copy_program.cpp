#include "cuda/transfer/copy_program.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "cuda/transfer/cache_key.hpp"

namespace interlace::cuda {
namespace {

// A copy node of a graph is a box whose rows are shorter than 2 GiB.
constexpr std::uint64_t longest_copy = std::uint64_t{1} << 30U;

void append_location(std::string& text, const plan::location& place) {
  append(text, static_cast<std::uint64_t>(place.memory));
  append(text, place.index);
  append(text, place.offset);
}

std::string shape_of(const copy_program& made) {
  std::string text;
  append(text, made.bytes);
  append(text, made.buffers.size());
  for (const auto& one : made.buffers) {
    append(text, static_cast<std::uint64_t>(one.place));
    append(text, one.bytes);
  }
  append(text, made.slots.size());
  for (const auto& one : made.slots) append(text, static_cast<std::uint64_t>(one.gpu));
  for (const auto& one : made.copies) {
    append_location(text, one.from);
    append_location(text, one.to);
    append(text, one.bytes);
    append(text, one.slot);
    append(text, one.after.size());
    for (const std::uint32_t on : one.after) append(text, on);
  }
  return text;
}

}  // namespace

copy_program make_program(const plan::plan& made, const std::vector<int>& gpus) {
  copy_program program;
  program.bytes = made.messages.front().bytes;
  program.predicted_s = made.predicted_s;
  program.direct_s = made.direct_s;
  const auto number = [&](std::uint32_t gpu) { return gpus.at(gpu); };
  for (const plan::staging_buffer& buffer : made.buffers)
    program.buffers.push_back(
        {buffer.place.kind == machine::endpoint_kind::gpu ? number(buffer.place.index) : host_place,
         buffer.bytes});
  for (const plan::slot& slot : made.slots)
    program.slots.push_back({number(slot.gpu), 0, false, false});
  std::vector<std::uint32_t> last_piece;  // of each step
  for (const plan::step& step : made.steps) {
    std::vector<std::uint32_t> after;
    for (const std::uint32_t on : step.after) {
      after.push_back(last_piece[on]);
      program.copies[last_piece[on]].awaited = true;
    }
    for (std::uint64_t at = 0; at < step.bytes; at += longest_copy) {
      copy_program::copy piece{step.from, step.to,          std::min(longest_copy, step.bytes - at),
                               step.slot, std::move(after), false};
      piece.from.offset += at;
      piece.to.offset += at;
      after.clear();
      program.copies.push_back(std::move(piece));
    }
    last_piece.push_back(static_cast<std::uint32_t>(program.copies.size() - 1));
    copy_program::slot& slot = program.slots[step.slot];
    if (slot.bytes == 0) slot.first_waits = !step.after.empty();
    slot.bytes += step.bytes;
  }
  for (const copy_program::copy& one : program.copies)
    program.slots[one.slot].last_awaited = one.awaited;
  program.shape = std::make_shared<const std::string>(shape_of(program));
  program.shape_hash = std::hash<std::string>()(*program.shape);
  return program;
}

}  // namespace interlace::cuda
