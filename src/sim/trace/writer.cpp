#include "sim/trace/writer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "interlace/base/errors.hpp"
#include "sim/trace/address_ranges.hpp"
#include "sim/trace/coding.hpp"

namespace interlace::sim::trace {

namespace {

void put_text(std::vector<std::uint8_t>& to, const std::string& text) {
  const std::size_t size = std::min(text.size(), max_name_bytes);
  put_varint(to, size);
  to.insert(to.end(), text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size));
}

void put_after(std::vector<std::uint8_t>& to, const std::vector<std::uint32_t>& after) {
  put_varint(to, after.size());
  for (const std::uint32_t task : after) put_varint(to, task);
}

// Writes a step. Everything except the characters of texts is a varint.
struct put_step {
  std::vector<std::uint8_t>& to;

  void kind(step_kind k) const { to.push_back(static_cast<std::uint8_t>(k)); }
  void operator()(const launch& l) const {
    kind(step_kind::launch);
    for (const std::uint64_t v : {std::uint64_t{l.gpu}, l.blocks, std::uint64_t{l.threads},
                                  std::uint64_t{l.shared_bytes}}) {
      put_varint(to, v);
    }
    put_text(to, l.name);
    put_after(to, l.after);
  }
  void operator()(const copy& c) const {
    kind(step_kind::copy);
    for (const std::uint64_t v :
         {std::uint64_t{c.from}, std::uint64_t{c.to}, static_cast<std::uint64_t>(c.by),
          c.from_address, c.to_address, c.bytes}) {
      put_varint(to, v);
    }
    put_after(to, c.after);
  }
  void operator()(const exchange& x) const {
    kind(step_kind::exchange);
    put_varint(to, x.payload);
    put_varint(to, x.instant ? 1 : 0);
    for (const auto& after : x.after) put_after(to, after);
    if (!x.instant) return;
    put_varint(to, x.appears.size());
    for (const stretch& s : x.appears) {
      for (const std::uint64_t v : {std::uint64_t{s.gpu}, s.address, s.bytes}) put_varint(to, v);
    }
  }
  void operator()(const call& c) const {
    kind(step_kind::call);
    put_varint(to, c.gpu);
    put_text(to, c.name);
    put_varint(to, c.bytes_read);
    put_varint(to, c.bytes_written);
    for (const std::uint64_t n : c.operations) put_varint(to, n);
    put_after(to, c.after);
  }
  void operator()(const join&) const { kind(step_kind::join); }
};

}  // namespace

writer::writer(std::string path, const header& h)
    : path_(std::move(path)),
      all_lanes_(h.warp_width >= max_lanes ? ~std::uint64_t{0}
                                           : (std::uint64_t{1} << h.warp_width) - 1),
      gpus_(h.gpus) {
  check_header(h);
  std::vector<std::uint8_t> payload;
  put_varint(payload, h.gpus);
  put_varint(payload, h.warp_width);
  put_text(payload, h.source);
  put_varint(payload, h.ranges.size());
  for (const range& r : h.ranges) {
    for (const std::uint64_t v : {r.begin, r.end - r.begin, std::uint64_t{r.gpu}, r.page_bytes}) {
      put_varint(payload, v);
    }
  }
  if (payload.size() > max_chunk_bytes) {
    throw usage_error(path_ + ": " + std::to_string(h.ranges.size()) +
                      " address ranges are more than a trace can have; combine some");
  }
  // O_NONBLOCK is set because opening a pipe without a reader would otherwise wait.
  file_ = descriptor(open(path_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK));
  if (!file_) fail("cannot be written");
  struct stat there {};
  if (fstat(file_.get(), &there) != 0 || !S_ISREG(there.st_mode)) {
    throw usage_error(path_ + " is not a regular file; give the name of a regular file");
  }
  std::array<std::uint8_t, file_head_bytes> head{};
  std::copy(magic.begin(), magic.end(), head.begin());
  put_word(&head[8], version);
  put_word(&head[12], static_cast<std::uint32_t>(payload.size()));
  put_word(&head[16], crc32(crc32(0, head.data(), 16), payload.data(), payload.size()));
  put(head.data(), head.size());
  put(payload.data(), payload.size());
}

void writer::fail(const char* what) const {
  throw usage_error(path_ + " " + what + ": " + std::generic_category().message(errno));
}

void writer::put(const std::uint8_t* bytes, std::size_t size) {
  while (size != 0) {
    const ssize_t n = ::write(file_.get(), bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot be written");
    bytes += n;
    size -= static_cast<std::size_t>(n);
  }
}

void writer::flush(stream& s, std::uint8_t id) {
  if (s.records == 0) return;
  std::array<std::uint8_t, chunk_head_bytes> head{};
  head[0] = 'I';
  head[1] = 'C';
  head[2] = id;
  put_word(&head[4], static_cast<std::uint32_t>(s.bytes.size()));
  put_word(&head[8], s.records);
  put_word(&head[12], crc32(crc32(0, head.data(), 12), s.bytes.data(), s.bytes.size()));
  put(head.data(), head.size());
  put(s.bytes.data(), s.bytes.size());
  s.bytes.clear();
  s.records = 0;
  s.before = {};
}

void writer::end_record(stream& s, std::uint8_t id) {
  ++s.records;
  if (s.bytes.size() >= chunk_bytes) flush(s, id);
}

void writer::program(const step& s) {
  if (const auto* l = std::get_if<launch>(&s); l != nullptr && !possible(*l)) {
    throw usage_error(path_ + ": a launch of " + std::to_string(l->blocks) + " blocks of " +
                      std::to_string(l->threads) + " threads; a trace takes up to " +
                      std::to_string(max_blocks) + " blocks of 1 to " +
                      std::to_string(max_threads) + " threads");
  }
  // A record must fit in one chunk, because the reader limits the size of a chunk.
  const std::size_t before = program_.bytes.size();
  std::visit(put_step{program_.bytes}, s);
  if (program_.bytes.size() - before > max_chunk_bytes - chunk_bytes) {
    throw usage_error(path_ + ": a step of the program depends on too many others for a trace");
  }
  totals_.add(s);
  end_record(program_, program_stream);
}

void writer::begin_kernel(std::uint32_t gpu, std::uint32_t launch) {
  stream& s = gpus_[gpu];
  s.bytes.push_back(kind_kernel);
  put_varint(s.bytes, launch);
  s.next_block = 0;
  s.warp = no_dependence;
  end_record(s, static_cast<std::uint8_t>(gpu));
}

void writer::begin_block(std::uint32_t gpu, std::uint64_t index) {
  stream& s = gpus_[gpu];
  if (index < s.next_block) throw model_error("a trace's blocks must come in ascending order");
  s.bytes.push_back(kind_block);
  put_varint(s.bytes, index - s.next_block);
  s.next_block = index + 1;
  s.warp = no_dependence;
  s.instructions.clear();
  ++totals_.blocks;
  end_record(s, static_cast<std::uint8_t>(gpu));
}

void writer::put_access(stream& s, std::uint8_t kind, const instruction& i,
                        std::uint32_t number) const {
  if (i.bytes == 0 || i.bytes > max_lane_bytes) {
    throw usage_error(path_ + ": an access of " + std::to_string(i.bytes) +
                      " bytes for each lane; a trace takes 1 to " + std::to_string(max_lane_bytes));
  }
  const auto lanes = static_cast<unsigned>(__builtin_popcountll(i.lanes));
  const std::uint64_t stride = lanes > 1 ? i.addresses[1] - i.addresses[0] : 0;
  bool strided = lanes > 1;
  for (unsigned k = 2; k < lanes && strided; ++k) {
    strided = i.addresses[k] - i.addresses[k - 1] == stride;
  }
  const auto scope = static_cast<std::uint8_t>(i.scope);
  const bool same = i.bytes == s.before.bytes && scope == s.before.scope;
  const bool depends = i.depends != no_dependence;
  const bool all = i.lanes == all_lanes_;
  unsigned tag = kind;
  if (depends) tag |= flag_depends;
  if (all) tag |= flag_all_lanes;
  if (strided) tag |= flag_strided;
  if (same) tag |= flag_same_shape;
  s.bytes.push_back(static_cast<std::uint8_t>(tag));
  if (!same) {
    s.bytes.push_back(i.bytes);
    s.bytes.push_back(scope);
    s.before.bytes = i.bytes;
    s.before.scope = scope;
  }
  if (!all) put_varint(s.bytes, i.lanes);
  if (depends) put_varint(s.bytes, number - i.depends);
  put_signed(s.bytes, i.addresses[0] - s.before.address[kind]);
  s.before.address[kind] = i.addresses[0];
  if (strided) {
    put_signed(s.bytes, stride);
    return;
  }
  for (unsigned k = 1; k < lanes; ++k) put_signed(s.bytes, i.addresses[k] - i.addresses[k - 1]);
}

void writer::add(std::uint32_t gpu, std::uint32_t warp, const instruction& i) {
  stream& s = gpus_[gpu];
  if (warp >= s.instructions.size()) s.instructions.resize(warp + 1, 0);
  if (warp != s.warp) {
    s.bytes.push_back(kind_warp);
    put_varint(s.bytes, warp);
    s.warp = warp;
    end_record(s, static_cast<std::uint8_t>(gpu));
  }
  const std::uint32_t number = s.instructions[warp]++;
  const auto kind = static_cast<std::uint8_t>(i.kind);
  switch (i.kind) {
    case action::load:
    case action::store:
    case action::atomic:
      put_access(s, kind, i, number);
      break;
    case action::release:
      s.bytes.push_back(kind);
      s.bytes.push_back(static_cast<std::uint8_t>(i.scope));
      break;
    case action::compute:
      s.bytes.push_back(kind);
      s.bytes.push_back(i.operation);
      put_varint(s.bytes, i.count);
      break;
    case action::shared:
    case action::shuffle:
      s.bytes.push_back(
          static_cast<std::uint8_t>(kind | (i.depends != no_dependence ? flag_depends : 0U)));
      if (i.depends != no_dependence) put_varint(s.bytes, number - i.depends);
      put_varint(s.bytes, i.count);
      break;
    case action::wait:
    case action::barrier:
      s.bytes.push_back(kind);
      break;
  }
  totals_.add(i);
  end_record(s, static_cast<std::uint8_t>(gpu));
}

void writer::finish() {
  for (std::size_t g = 0; g < gpus_.size(); ++g) flush(gpus_[g], static_cast<std::uint8_t>(g));
  flush(program_, program_stream);
  stream end;
  for (const std::uint64_t v :
       {totals_.launches, totals_.copies, totals_.exchanges, totals_.calls, totals_.blocks}) {
    put_varint(end.bytes, v);
  }
  for (const std::uint64_t v : totals_.instructions) put_varint(end.bytes, v);
  for (const std::uint64_t v : totals_.lanes) put_varint(end.bytes, v);
  for (const std::uint64_t v : totals_.bytes) put_varint(end.bytes, v);
  end.records = 1;
  flush(end, end_stream);
  file_ = {};
}

}  // namespace interlace::sim::trace
