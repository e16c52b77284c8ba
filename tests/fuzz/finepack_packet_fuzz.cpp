// Feeds invalid packets to the decoder of FinePack packets: seeded mutations of encoded packets.
//
//   finepack_packet_fuzz [SECONDS [SEED]]      1 second and seed 1 by default
//
// For any input, decode either throws model_error or gives a packet that encodes to the same bytes.
// Anything else ends the program with exit code 1 and the bytes. A sanitizer ends it by itself.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "interlace/base/errors.hpp"
#include "sim/remote/finepack_packet.hpp"

namespace {

using interlace::sim::decode;
using interlace::sim::encode;
using interlace::sim::finepack_format;
using interlace::sim::finepack_packet;

using bytes = std::vector<std::uint8_t>;

bytes seeded_packet(std::mt19937_64& random, const finepack_format& f) {
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
  try {
    return encode(p, f);
  } catch (const interlace::model_error&) {
    p.base = 0;  // so near the last address that a store exceeds it
    return encode(p, f);
  }
}

void mutate(std::mt19937_64& random, bytes& b) {
  for (std::uint64_t n = random() % 6; n > 0 && !b.empty(); --n) {
    const std::size_t at =
        random() % 4 == 0 ? random() % std::min<std::size_t>(b.size(), 24) : random() % b.size();
    const auto place = b.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 6) {
      case 0:
        *place = static_cast<std::uint8_t>(*place ^ 1U << random() % 8);
        break;
      case 1:
        *place = static_cast<std::uint8_t>(random());
        break;
      case 2:
        *place = random() % 2 == 0 ? 0 : 0xff;
        break;
      case 3:
        b.resize(at);
        break;
      case 4:
        b.insert(place, static_cast<std::size_t>(random() % 8),
                 static_cast<std::uint8_t>(random()));
        break;
      default:
        b.erase(place);
    }
  }
}

int report(const bytes& b, const finepack_format& f, const char* what) {
  std::fprintf(stderr, "finepack_packet_fuzz: %s, sub-headers of %u, payload of %u:", what,
               f.subheader_bytes, f.payload_bytes);
  for (const std::uint8_t byte : b) std::fprintf(stderr, " %02x", byte);
  std::fputc('\n', stderr);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 1;
  std::mt19937_64 random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::uint64_t tried = 0;
  std::uint64_t accepted = 0;
  while (std::chrono::steady_clock::now() < end) {
    for (int k = 0; k < 100; ++k, ++tried) {
      finepack_format f;
      f.subheader_bytes = static_cast<std::uint32_t>(2 + random() % 5);
      f.payload_bytes = static_cast<std::uint32_t>(16 + random() % 512);
      bytes b = seeded_packet(random, f);
      mutate(random, b);
      if (random() % 8 == 0) f.subheader_bytes = static_cast<std::uint32_t>(2 + random() % 5);
      try {
        const finepack_packet p = decode(b, f);
        if (encode(p, f) != b) return report(b, f, "decoded, but encodes to other bytes");
        ++accepted;
      } catch (const interlace::model_error&) {
        continue;
      } catch (const std::exception& e) {
        return report(b, f, e.what());
      }
    }
  }
  std::printf("%llu packets, %llu of them accepted\n", static_cast<unsigned long long>(tried),
              static_cast<unsigned long long>(accepted));
  if (accepted == 0 || accepted == tried) {
    std::fprintf(stderr, "finepack_packet_fuzz: it tried nothing; give it more time\n");
    return 1;
  }
  return 0;
}
