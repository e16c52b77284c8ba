// Fuzzes the decoder of FinePack's packets. The first three bytes of an input are the format: the
// size of a sub-header and the largest payload.
#include <algorithm>
#include <random>
#include <stdexcept>

#include "fuzzer.hpp"
#include "sim/remote/finepack_packet.hpp"

namespace {

using namespace interlace;  // NOLINT: this file is a whole program
using sim::finepack_format;
using sim::finepack_packet;

constexpr std::size_t format_bytes = 3;

finepack_format format_of(const std::string& input) {
  const auto byte = [&](std::size_t k) { return static_cast<std::uint8_t>(input[k]); };
  finepack_format f;
  f.subheader_bytes = 2 + byte(0) % 5U;
  f.payload_bytes = 16 + (byte(1) + 256U * byte(2)) % 512U;
  return f;
}

std::string seeded_input(std::mt19937_64& random) {
  std::string input(format_bytes, '\0');
  for (char& c : input) c = static_cast<char>(random());
  const finepack_format f = format_of(input);
  finepack_packet p;
  p.tag = static_cast<std::uint8_t>(random());
  p.base = (random() >> random() % 40) & ~std::uint64_t{3};
  std::uint64_t left = f.payload_bytes;
  for (std::uint64_t k = random() % 70; left > f.subheader_bytes; --k) {
    const auto longest = std::min<std::uint64_t>(
        {left - f.subheader_bytes, f.window_bytes(), std::uint64_t{1} << random() % 11});
    const std::uint64_t size = 1 + random() % longest;
    p.stores.push_back(
        {random() % (f.window_bytes() - size + 1), static_cast<std::uint32_t>(size)});
    for (std::uint64_t b = 0; b < size; ++b) p.data.push_back(static_cast<std::uint8_t>(random()));
    left -= f.subheader_bytes + size;
    if (k == 0) break;
  }
  std::vector<std::uint8_t> bytes;
  try {
    bytes = encode(p, f);
  } catch (const model_error&) {
    p.base = 0;  // with its original base, a store could end beyond the last address
    bytes = encode(p, f);
  }
  return input.append(bytes.begin(), bytes.end());
}

void try_input(const std::string& input) {
  if (input.size() < format_bytes) throw model_error("no format");
  const std::vector<std::uint8_t> bytes(input.begin() + format_bytes, input.end());
  const finepack_format f = format_of(input);
  if (encode(decode(bytes, f), f) != bytes) {
    throw std::runtime_error("the decoded packet does not encode to the same bytes");
  }
}

}  // namespace

interlace::fuzz::target interlace::fuzz::make_target() {
  std::mt19937_64 random(1);
  std::vector<std::string> sound;
  for (int k = 0; k < 200; ++k) sound.push_back(seeded_input(random));
  return {sound, {}, nullptr, try_input};
}
