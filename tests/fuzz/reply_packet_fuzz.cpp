// Fuzzes the decoder of reply packets, and then the de-coalescer. The first three bytes of an input
// are the format: the size of a line, the size of a piece, and the largest packet.
#include <random>
#include <stdexcept>

#include "fuzzer.hpp"
#include "sim/remote/reply_coalescer.hpp"
#include "sim/remote/reply_packet.hpp"

namespace {

using namespace interlace;  // NOLINT: this file is a whole program
using sim::reply_format;
using sim::reply_packet;

constexpr std::size_t format_bytes = 3;
constexpr std::uint16_t lines = 40;

reply_format format_of(const std::string& input) {
  const auto byte = [&](std::size_t k) { return static_cast<std::uint8_t>(input[k]); };
  reply_format f;
  f.line_bytes = byte(0) % 2 == 0 ? 64 : 128;
  f.piece_bytes = 4U << byte(1) % 3U;
  f.packet_bytes = static_cast<std::uint32_t>(f.bytes_of_pieces(1)) + byte(2) % 100U;
  return f;
}

std::string seeded_input(std::mt19937_64& random) {
  std::string input(format_bytes, '\0');
  for (char& c : input) c = static_cast<char>(random());
  const reply_format f = format_of(input);
  reply_packet p;
  p.coalesced = random() % 4 != 0;
  const std::uint64_t n = p.coalesced ? 1 + random() % f.most_pieces() : 1;
  for (std::uint64_t k = 0; k < n; ++k) {
    p.ids.push_back(static_cast<std::uint16_t>(random() % lines));
  }
  const std::uint64_t size = p.coalesced ? n * f.piece_bytes : f.line_bytes;
  for (std::uint64_t k = 0; k < size; ++k) p.data.push_back(static_cast<std::uint8_t>(random()));
  const std::vector<std::uint8_t> bytes = encode_reply(p, f);
  return input.append(bytes.begin(), bytes.end());
}

void try_input(const std::string& input) {
  if (input.size() < format_bytes) throw model_error("no format");
  const std::vector<std::uint8_t> bytes(input.begin() + format_bytes, input.end());
  const reply_format f = format_of(input);
  const reply_packet p = decode_reply(bytes, f);
  if (encode_reply(p, f) != bytes)
    throw std::runtime_error("the decoded packet does not encode to the same bytes");
  if (!p.coalesced) return;
  sim::reply_decoalescer taker;
  for (std::uint16_t id = 0; id < lines; ++id) {
    taker.expect(id, 1 + static_cast<std::uint8_t>(input[2]) * 257U % 0xffffU);
  }
  for (const std::uint16_t id : p.ids) {
    if (taker.arrived(id).number > 15) throw std::runtime_error("a piece outside of its line");
  }
}

}  // namespace

interlace::fuzz::target interlace::fuzz::make_target() {
  std::mt19937_64 random(1);
  std::vector<std::string> sound;
  while (sound.size() < 200) {
    std::string input = seeded_input(random);
    try {
      try_input(input);  // the de-coalescer refuses pieces for which no load waits
      sound.push_back(std::move(input));
    } catch (const model_error&) {
      continue;
    }
  }
  return {sound, {}, nullptr, try_input};
}
