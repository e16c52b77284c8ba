#include "checkpoint/layout.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "interlace/base/errors.hpp"

namespace interlace::checkpoint {

namespace {

bool follows(const segment& before, const segment& after, bool by_tensor) {
  return before.file == after.file && before.gpu == after.gpu &&
         before.offset + before.bytes == after.offset &&
         before.address + before.bytes == after.address &&
         (!by_tensor || before.tensor == after.tensor);
}

std::vector<segment> joined(std::vector<segment> segments, bool by_tensor) {
  std::erase_if(segments, [](const segment& s) { return s.bytes == 0; });
  std::stable_sort(segments.begin(), segments.end(), [](const segment& a, const segment& b) {
    return std::tie(a.gpu, a.file, a.offset) < std::tie(b.gpu, b.file, b.offset);
  });
  std::vector<segment> made;
  for (const segment& s : segments) {
    if (!made.empty() && follows(made.back(), s, by_tensor)) {
      made.back().bytes += s.bytes;
    } else {
      made.push_back(s);
    }
  }
  return made;
}

struct cut_chunk {
  std::vector<part> parts;
  std::uint64_t bytes = 0;

  // Whether the memory of the last part ends exactly at `address`.
  bool continues(std::uintptr_t address) const {
    return !parts.empty() && parts.back().address + parts.back().bytes == address;
  }
};

// Cuts the segments of one memory into chunks.
std::vector<cut_chunk> cut_chunks(const std::vector<segment>& segments, const cut& how) {
  const std::uint64_t most =
      how.by_page ? how.chunk_bytes / page_bytes * page_bytes : how.chunk_bytes;
  const std::uint64_t alignment = how.by_page ? page_bytes : slot_alignment;
  std::vector<cut_chunk> made;
  std::uint64_t filled = most;
  for (segment rest : segments) {
    while (rest.bytes != 0) {
      if (how.by_page || made.empty() || !made.back().continues(rest.address))
        filled = (filled + alignment - 1) / alignment * alignment;
      if (filled >= most) {
        made.emplace_back();
        filled = 0;
      }
      if (how.by_page) filled += rest.offset % page_bytes;
      part p{rest, filled};
      p.bytes = std::min(rest.bytes, most - filled);
      filled += p.bytes;
      made.back().bytes += p.bytes;
      rest.offset += p.bytes;
      rest.address += p.bytes;
      rest.bytes -= p.bytes;
      made.back().parts.push_back(p);
    }
  }
  return made;
}

struct memory {
  std::vector<cut_chunk> chunks;
  std::size_t next = 0;
  std::uint64_t dealt = 0;
  std::uint64_t bytes = 0;

  double progress() const { return static_cast<double>(dealt) / static_cast<double>(bytes); }
};

void add(layout& made, const cut_chunk& c, int gpu, const cut& how) {
  chunk added;
  added.first_part = static_cast<std::uint32_t>(made.parts.size());
  added.parts = static_cast<std::uint32_t>(c.parts.size());
  added.bytes = c.bytes;
  added.gpu = gpu;
  // Parts that are much smaller than a piece share a piece, because threads lock a mutex for each
  // piece. Such parts fill only a quarter of a piece, so that a slice of a tensor has pieces for
  // all threads.
  const std::uint64_t shared = how.by_tensor ? 0 : how.piece_bytes / 4;
  // Whether the last piece has whole parts of this chunk, and can take more of them.
  bool sharing = false;
  for (const part& p : c.parts) {
    made.parts.push_back(p);
    if (gpu == host) made.parts.back().slot_offset = 0;
    if (sharing && made.pieces.back().bytes + p.bytes <= shared) {
      made.pieces.back().bytes += p.bytes;
      ++made.pieces.back().parts;
      continue;
    }
    std::uint64_t end = how.piece_bytes;
    if (how.by_page && gpu != host && how.piece_bytes > p.offset % page_bytes)
      end -= p.offset % page_bytes;
    for (std::uint64_t begin = 0; begin < p.bytes; begin = end, end += how.piece_bytes) {
      made.pieces.push_back({.chunk = static_cast<std::uint32_t>(made.chunks.size()),
                             .part = static_cast<std::uint32_t>(made.parts.size() - 1),
                             .begin = begin,
                             .bytes = std::min(end, p.bytes) - begin});
      ++added.pieces;
    }
    sharing = p.bytes < shared && made.pieces.back().begin == 0;
  }
  made.chunks.push_back(added);
  made.bytes += c.bytes;
}

}  // namespace

layout lay_out(std::vector<segment> segments, const cut& how) {
  if (how.chunk_bytes < (how.by_page ? page_bytes : slot_alignment) || how.piece_bytes == 0) {
    throw usage_error("chunks of " + std::to_string(how.chunk_bytes) + " bytes in pieces of " +
                      std::to_string(how.piece_bytes) +
                      " are not possible; give chunks of at least " +
                      std::to_string(how.by_page ? page_bytes : slot_alignment) +
                      " bytes and pieces of at least 1");
  }
  std::map<int, memory> memories;
  {
    std::map<int, std::vector<segment>> by_gpu;
    for (const segment& s : joined(std::move(segments), how.by_tensor)) by_gpu[s.gpu].push_back(s);
    for (const auto& [gpu, own] : by_gpu) {
      memory& m = memories[gpu];
      m.chunks = cut_chunks(own, how);
      for (const cut_chunk& c : m.chunks) m.bytes += c.bytes;
    }
  }
  layout made;
  while (!memories.empty()) {
    const auto next = std::min_element(
        memories.begin(), memories.end(),
        [](const auto& a, const auto& b) { return a.second.progress() < b.second.progress(); });
    auto& [gpu, m] = *next;
    const cut_chunk& c = m.chunks[m.next++];
    add(made, c, gpu, how);
    m.dealt += c.bytes;
    if (m.next == m.chunks.size()) memories.erase(next);
  }
  return made;
}

}  // namespace interlace::checkpoint
