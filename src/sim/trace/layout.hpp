// The bytes of a trace file, as docs/reference/trace-formats.md describes them. Writer and reader
// share this file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace interlace::sim::trace {

inline constexpr std::array<std::uint8_t, 8> magic{'I', 'L', 'T', 'R', 'A', 'C', 'E', '\n'};
inline constexpr std::uint32_t version = 1;

// The file header: magic, version, payload bytes and a CRC. The CRC covers the 16 bytes before it
// and the payload.
inline constexpr std::size_t file_head_bytes = 20;
// The chunk header: 'I' 'C', stream, 0, payload bytes, records and a CRC. The CRC covers the 12
// bytes before it and the payload.
inline constexpr std::size_t chunk_head_bytes = 16;
// The approximate size of a full chunk.
inline constexpr std::size_t chunk_bytes = std::size_t{64} << 10U;
// The reader refuses larger chunks.
inline constexpr std::size_t max_chunk_bytes = std::size_t{1} << 20U;
inline constexpr std::size_t max_name_bytes = std::size_t{16} << 10U;

// Streams 0 to 15 belong to GPUs.
inline constexpr std::uint8_t program_stream = 0xfe;
inline constexpr std::uint8_t end_stream = 0xff;

// A record of a GPU's stream begins with a byte. The low four bits hold the record's kind, and the
// high bits hold flags. Accesses can have all flags. `shared` and `shuffle` can have flag_depends.
// Kinds below 9 are actions.
inline constexpr std::uint8_t kind_mask = 0x0f;
inline constexpr std::uint8_t kind_warp = 9;
inline constexpr std::uint8_t kind_block = 10;
inline constexpr std::uint8_t kind_kernel = 11;
inline constexpr std::uint8_t flag_depends = 0x10;
inline constexpr std::uint8_t flag_all_lanes = 0x20;  // all lanes of the trace's warp width
inline constexpr std::uint8_t flag_strided = 0x40;
// The bytes of a lane and the scope are the same as in the previous access.
inline constexpr std::uint8_t flag_same_shape = 0x80;

// The kinds of the program's records. A record begins with its kind. The kinds have the same order
// as the alternatives of `step`.
enum class step_kind : std::uint8_t { launch, copy, exchange, call, join };

// The values to which encoded differences refer. They are reset at the start of every chunk.
struct previous {
  // For each kind of access, the address of the first lane in the last access of this kind.
  std::array<std::uint64_t, 3> address{};
  std::uint8_t bytes = 0;
  std::uint8_t scope = 0;
};

}  // namespace interlace::sim::trace
