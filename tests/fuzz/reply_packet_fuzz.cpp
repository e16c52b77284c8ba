// Feeds invalid packets to the decoder of reply packets and then to the de-coalescer: seeded
// mutations of encoded packets.
//
//   reply_packet_fuzz [SECONDS [SEED]]      1 second and seed 1 by default
//
// For any input, decode either throws model_error or gives a packet that encodes to the same bytes.
// The de-coalescer takes each piece or throws model_error. Anything else ends the program with exit
// code 1 and the bytes. A sanitizer ends it by itself.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "interlace/base/errors.hpp"
#include "sim/remote/reply_coalescer.hpp"
#include "sim/remote/reply_packet.hpp"

namespace {

using interlace::sim::decode_reply;
using interlace::sim::encode_reply;
using interlace::sim::reply_decoalescer;
using interlace::sim::reply_format;
using interlace::sim::reply_packet;

using bytes = std::vector<std::uint8_t>;

bytes seeded_packet(std::mt19937_64& random, const reply_format& f) {
  reply_packet p;
  p.coalesced = random() % 4 != 0;
  const std::uint64_t n = p.coalesced ? 1 + random() % f.most_pieces() : 1;
  for (std::uint64_t k = 0; k < n; ++k) p.ids.push_back(static_cast<std::uint16_t>(random() % 40));
  const std::uint64_t size = p.coalesced ? n * f.piece_bytes : f.line_bytes;
  for (std::uint64_t k = 0; k < size; ++k) p.data.push_back(static_cast<std::uint8_t>(random()));
  return encode_reply(p, f);
}

void mutate(std::mt19937_64& random, bytes& b) {
  for (std::uint64_t n = random() % 5; n > 0 && !b.empty(); --n) {
    const std::size_t at =
        random() % 2 == 0 ? random() % std::min<std::size_t>(b.size(), 4) : random() % b.size();
    const auto place = b.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 5) {
      case 0:
        *place = static_cast<std::uint8_t>(*place ^ 1U << random() % 8);
        break;
      case 1:
        *place = static_cast<std::uint8_t>(random());
        break;
      case 2:
        b.resize(at);
        break;
      case 3:
        b.insert(place, static_cast<std::size_t>(random() % 8),
                 static_cast<std::uint8_t>(random()));
        break;
      default:
        b.erase(place);
    }
  }
}

int report(const bytes& b, const reply_format& f, const char* what) {
  std::fprintf(stderr, "reply_packet_fuzz: %s, lines of %u, pieces of %u, packets of %u:", what,
               f.line_bytes, f.piece_bytes, f.packet_bytes);
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
  std::uint64_t pieces = 0;
  while (std::chrono::steady_clock::now() < end) {
    for (int k = 0; k < 100; ++k, ++tried) {
      reply_format f;
      f.line_bytes = random() % 2 == 0 ? 64 : 128;
      f.piece_bytes = 4U << random() % 3;
      f.packet_bytes = static_cast<std::uint32_t>(f.bytes_of_pieces(1) + random() % 100);
      bytes b = seeded_packet(random, f);
      mutate(random, b);
      try {
        const reply_packet p = decode_reply(b, f);
        if (encode_reply(p, f) != b) return report(b, f, "decoded, but encodes to other bytes");
        ++accepted;
        reply_decoalescer taker;
        for (std::uint16_t id = 0; id < 40; ++id) {
          taker.expect(id, static_cast<std::uint32_t>(1 + random() % 0xffff));
        }
        if (!p.coalesced) continue;
        for (const std::uint16_t id : p.ids) {
          if (taker.arrived(id).number > 15) return report(b, f, "a piece outside of its line");
          ++pieces;
        }
      } catch (const interlace::model_error&) {
        continue;
      } catch (const std::exception& e) {
        return report(b, f, e.what());
      }
    }
  }
  std::printf("%llu packets, %llu of them accepted, %llu pieces taken\n",
              static_cast<unsigned long long>(tried), static_cast<unsigned long long>(accepted),
              static_cast<unsigned long long>(pieces));
  if (accepted == 0 || accepted == tried || pieces == 0) {
    std::fprintf(stderr, "reply_packet_fuzz: it tried nothing; give it more time\n");
    return 1;
  }
  return 0;
}
