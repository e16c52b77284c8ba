// Fuzzes the plain decoder of update packets, and the functions with which kernels read such
// packets. The first 8 bytes of an input are the number of elements of the array.
#include <cstring>
#include <random>
#include <stdexcept>

#include "fuzzer.hpp"
#include "kernel/update_packet.hpp"

namespace {

using namespace interlace;  // NOLINT: this file is a whole program
using kernel::packed_update;

constexpr std::size_t elements_bytes = 8;

std::string seeded_input(std::mt19937_64& random) {
  constexpr std::uint32_t sizes[] = {2, 3, 4, 5, 6, 8};
  const kernel::packet_format f{sizes[random() % 6], random() % 2 == 0 ? 4U : 8U};
  const std::uint64_t window = f.last_offset() >> random() % 12;
  const std::uint64_t base = random() >> (8 + random() % 50);
  std::vector<packed_update> updates(random() % 70);
  for (packed_update& u : updates) {
    u.element = base + (window == ~std::uint64_t{0} ? random() >> 8U : random() % (window + 1));
    u.value = f.value_bytes == 8 ? random() : random() >> 32U;
  }
  const auto bytes = encode_packet(base, updates, f, static_cast<std::uint16_t>(random()));
  const std::uint64_t elements = ~std::uint64_t{0};
  std::string input(elements_bytes, '\0');
  std::memcpy(input.data(), &elements, elements_bytes);
  return input.append(bytes.begin(), bytes.end());
}

// Reads a packet with the functions that kernels call.
std::vector<packed_update> read_as_kernels_do(const std::vector<std::uint8_t>& bytes,
                                              std::uint64_t elements) {
  std::vector<kernel::packet_header> room(bytes.size() / kernel::packet_alignment);  // aligned
  std::memcpy(room.data(), bytes.data(), bytes.size());
  const kernel::packet_header h = kernel::get_header(room.data());
  if (h.count != 0 && check_header(h, bytes.size(), elements) != kernel::packet_fault::none)
    throw std::runtime_error("the plain decoder accepts a packet that kernels refuse");
  std::vector<packed_update> updates;
  updates.reserve(h.count);
  for (std::uint64_t k = 0; k < h.count; ++k) {
    updates.push_back({h.base + kernel::packet_offset(room.data(), h, k),
                       h.value_bytes == 8
                           ? kernel::packet_value<std::uint64_t>(room.data(), h, k)
                           : kernel::packet_value<std::uint32_t>(room.data(), h, k)});
  }
  return updates;
}

void try_input(const std::string& input) {
  if (input.size() < elements_bytes) throw model_error("no number of elements");
  std::uint64_t elements = 0;
  std::memcpy(&elements, input.data(), elements_bytes);
  const std::vector<std::uint8_t> bytes(input.begin() + elements_bytes, input.end());
  const auto updates = kernel::decode_packet(bytes, elements);
  if (read_as_kernels_do(bytes, elements) != updates)
    throw std::runtime_error("kernels read different updates from those of the plain decoder");
  std::vector<kernel::packet_header> room(1);
  std::memcpy(room.data(), bytes.data(), sizeof(kernel::packet_header));
  const kernel::packet_header h = room[0];
  if (kernel::encode_packet(h.base, updates, h.format(), h.tag) != bytes)
    throw std::runtime_error("the decoded packet does not encode to the same bytes");
}

}  // namespace

interlace::fuzz::target interlace::fuzz::make_target() {
  std::mt19937_64 random(1);
  std::vector<std::string> sound;
  sound.reserve(200);
  for (int k = 0; k < 200; ++k) sound.push_back(seeded_input(random));
  return {sound, {}, nullptr, try_input};
}
