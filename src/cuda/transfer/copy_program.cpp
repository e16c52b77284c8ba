#include "cuda/transfer/copy_program.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "cuda/transfer/cache_key.hpp"

namespace interlace::cuda {
namespace {

// The longest copy of a graph node. Such a node describes a box, and the rows of a box must be
// shorter than 2 GiB.
constexpr std::uint64_t longest_copy = std::uint64_t{1} << 30U;

void append_location(std::string& text, const plan::location& place) {
  append(text, static_cast<std::uint64_t>(place.memory));
  append(text, place.index);
  append(text, place.offset);
}

std::string shape_of(const copy_program& made) {
  std::string text;
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

// Adds a copy, cut into pieces that fit in graph nodes.
void add_pieces(copy_program& program, copy_program::copy whole) {
  const std::uint64_t bytes = whole.bytes;
  for (std::uint64_t at = 0; at < bytes; at += longest_copy) {
    whole.bytes = std::min(longest_copy, bytes - at);
    program.copies.push_back(whole);
    whole.from.offset += longest_copy;
    whole.to.offset += longest_copy;
    whole.after.clear();
  }
}

}  // namespace

copy_program make_program(const plan::plan& made, const std::vector<int>& gpus,
                          std::span<const local_copy> local) {
  copy_program program;
  program.predicted_s = made.predicted_s;
  program.direct_s = made.direct_s;
  const auto number = [&](std::uint32_t gpu) { return gpus.at(gpu); };
  for (const plan::staging_buffer& buffer : made.buffers)
    program.buffers.push_back(
        {buffer.place.kind == machine::endpoint_kind::gpu ? number(buffer.place.index) : host_place,
         buffer.bytes});
  for (const plan::slot& slot : made.slots) program.slots.push_back({.gpu = number(slot.gpu)});
  std::vector<std::uint32_t> last_piece;  // for each step, the index of the step's last copy
  for (const plan::step& step : made.steps) {
    std::vector<std::uint32_t> after;
    for (const std::uint32_t on : step.after) {
      after.push_back(last_piece[on]);
      program.copies[last_piece[on]].awaited = true;
    }
    add_pieces(program, {.from = step.from,
                         .to = step.to,
                         .bytes = step.bytes,
                         .slot = step.slot,
                         .after = std::move(after)});
    last_piece.push_back(static_cast<std::uint32_t>(program.copies.size() - 1));
    copy_program::slot& slot = program.slots[step.slot];
    if (slot.bytes == 0) slot.first_waits = !step.after.empty();
    slot.bytes += step.bytes;
  }
  for (const copy_program::copy& one : program.copies)
    program.slots[one.slot].last_awaited = one.awaited;
  std::map<std::uint32_t, std::uint32_t> slot_of;  // for each GPU, the slot of its local copies
  auto index = static_cast<std::uint32_t>(made.messages.size());
  for (const local_copy& one : local) {
    const auto [slot, added] =
        slot_of.try_emplace(one.gpu, static_cast<std::uint32_t>(program.slots.size()));
    if (added) program.slots.push_back({.gpu = number(one.gpu)});
    program.slots[slot->second].bytes += one.bytes;
    add_pieces(program, {.from = {.memory = plan::memory::source, .index = index},
                         .to = {.memory = plan::memory::destination, .index = index},
                         .bytes = one.bytes,
                         .slot = slot->second,
                         .after = {}});
    ++index;
  }
  program.shape = std::make_shared<const std::string>(shape_of(program));
  program.shape_hash = std::hash<std::string>()(*program.shape);
  return program;
}

}  // namespace interlace::cuda
