#include "sim/remote/delivery_check.hpp"

#include <string>

#include "interlace/base/errors.hpp"
#include "sim/remote/packetizer.hpp"

namespace interlace::sim {

namespace {

// Widens a line of 64 bytes to the line of 128 bytes that contains it. All lines that are compared
// therefore have 128 bytes.
queued_line widened(std::uint64_t line, byte_mask bytes) {
  if ((line & 64U) != 0) bytes.bits = {0, bytes.bits[0]};
  return {line & ~std::uint64_t{127}, bytes};
}

}  // namespace

void delivery_check::stored(std::uint64_t line, const byte_mask& bytes) {
  const queued_line l = widened(line, bytes);
  line_state& s = lines_[l.line];
  s.stored = s.stored | l.bytes;
}

std::vector<std::uint8_t> delivery_check::encoded(const flushed_window& window,
                                                  const finepack_format& f) const {
  return encode(packetize(window, [&](std::uint64_t a) { return byte_at(a); }), f);
}

void delivery_check::received(std::span<const std::uint8_t> packet, const finepack_format& f,
                              const std::vector<queued_line>& lines) {
  ++packets_;
  const finepack_packet p = decode(packet, f);
  std::map<std::uint64_t, byte_mask> unpacked;
  std::size_t at = 0;
  for (const finepack_store& one : p.stores) {
    for (std::uint32_t b = 0; b < one.bytes; ++b, ++at) {
      const std::uint64_t address = p.base + one.offset + b;
      line_state& s = lines_[address & ~std::uint64_t{127}];
      const auto in_line = static_cast<std::uint32_t>(address & 127U);
      s.received.set(in_line, 1);
      s.with_data.set(in_line, 1);
      s.data[in_line] = p.data[at];
      unpacked[address & ~std::uint64_t{127}].set(in_line, 1);
    }
  }
  std::map<std::uint64_t, byte_mask> said;
  for (const queued_line& half : lines) {
    const queued_line l = widened(half.line, half.bytes);
    said[l.line] = said[l.line] | l.bytes;
  }
  if (said != unpacked)
    throw model_error("a packet's bytes differ from the stores that it was made of");
}

void delivery_check::received(std::uint64_t line, const byte_mask& bytes) {
  const queued_line l = widened(line, bytes);
  line_state& s = lines_[l.line];
  s.received = s.received | l.bytes;
}

void delivery_check::compare() const {
  for (const auto& [line, s] : lines_) {
    const std::string where = "the line at " + std::to_string(line);
    if (!((s.stored & s.received) == s.stored)) {
      throw model_error(where + " was stored to, but not all of it has arrived");
    }
    if (!((s.stored & s.received) == s.received)) {
      throw model_error(where + " received bytes that nobody stored");
    }
    s.with_data.each_run([&, at = line, &state = s](std::uint32_t first, std::uint32_t bytes) {
      for (std::uint32_t b = first; b < first + bytes; ++b) {
        if (state.data[b] != byte_at(at + b)) {
          throw model_error(where + " holds bytes that differ from the bytes that arrived");
        }
      }
    });
  }
}

}  // namespace interlace::sim
