#include "python/bind_update_packets.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "kernel/update_packet.hpp"
#include "python/bytes_text.hpp"

namespace nb = nanobind;

namespace interlace::python {

namespace {

// A pair (element, value).
using plain_update = std::pair<std::uint64_t, std::uint64_t>;

nb::bytes encode(std::uint64_t base, const std::vector<plain_update>& updates,
                 std::uint32_t offset_bytes, std::uint32_t value_bytes, std::uint16_t tag) {
  std::vector<kernel::packed_update> all;
  all.reserve(updates.size());
  for (const auto& [element, value] : updates) all.push_back({element, value});
  const auto packet = kernel::encode_packet(base, all, {offset_bytes, value_bytes}, tag);
  return nb::bytes(packet.data(), packet.size());
}

std::vector<plain_update> decode(const nb::bytes& packet, std::uint64_t elements) {
  const auto text = text_of(packet);
  const std::vector<std::uint8_t> bytes(text.begin(), text.end());
  std::vector<plain_update> updates;
  for (const kernel::packed_update& u : kernel::decode_packet(bytes, elements)) {
    updates.emplace_back(u.element, u.value);
  }
  return updates;
}

}  // namespace

void bind_update_packets(nb::module_& module) {
  module.def("encode_updates", &encode, nb::arg("base"), nb::arg("updates"),
             nb::arg("offset_bytes"), nb::arg("value_bytes"), nb::arg("tag"),
             "Returns the packet that carries these (element, value) pairs.");
  module.def("decode_updates", &decode, nb::arg("packet"), nb::arg("elements"),
             "Returns the (element, value) pairs of a packet for an array of `elements` elements.");
}

}  // namespace interlace::python
