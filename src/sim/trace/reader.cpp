#include "sim/trace/reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "interlace/base/errors.hpp"
#include "sim/trace/coding.hpp"

namespace interlace::sim::trace {

namespace {

constexpr std::uint32_t operation_names = 4;
// The most bytes of a trace's program. There is a limit because the whole program is held in
// memory. One step of the program takes a few bytes of the file.
constexpr std::uint64_t most_program_bytes = std::uint64_t{256} << 20U;

descriptor open_file(const std::string& path) {
  descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw usage_error(path + " cannot be read: " + std::generic_category().message(errno));
  return file;
}

// Decodes numbers from bytes. On an error it calls `fail` with the position and the reason. `fail`
// throws.
template <class Fail>
class decoder {
 public:
  decoder(const std::vector<std::uint8_t>& bytes, const Fail& fail) : bytes_(bytes), fail_(fail) {}

  std::size_t at() const { return at_; }
  bool done() const { return at_ == bytes_.size(); }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) fail_(at_, "a record is cut off");
      const std::uint8_t b = bytes_[at_++];
      if (shift == 63 && b > 1) break;
      value |= std::uint64_t{b & 0x7fU} << shift;
      if (b < 0x80) return value;
    }
    fail_(at_, "a number has more than 64 bits");
    return 0;
  }
  std::uint32_t small(std::uint64_t limit, const char* what) {
    const std::size_t begin = at_;
    const std::uint64_t value = varint();
    if (value >= limit) {
      fail_(begin, std::string(what) + " is " + std::to_string(value) + "; it must be below " +
                       std::to_string(limit));
    }
    return static_cast<std::uint32_t>(value);
  }
  std::string text() {
    const std::uint32_t size = small(max_name_bytes + 1, "the length of a text");
    if (size > bytes_.size() - at_) fail_(at_, "a text is cut off");
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += size;
    return {begin, begin + size};
  }
  std::vector<std::uint32_t> after(std::uint64_t tasks) {
    const std::size_t begin = at_;
    const std::uint64_t count = varint();
    if (count > bytes_.size() - at_) fail_(begin, "a list of tasks is cut off");
    std::vector<std::uint32_t> found(count);
    for (std::uint32_t& task : found) task = small(tasks, "the number of a task before");
    return found;
  }
  stretch memory(const header& h) {
    stretch s;
    s.gpu = small(h.gpus, "the GPU of a stretch");
    const std::size_t begin = at_;
    s.address = varint();
    s.bytes = varint();
    const bool known = std::any_of(h.ranges.begin(), h.ranges.end(), [&](const range& r) {
      return r.gpu == s.gpu && r.page_bytes == 0 && r.begin <= s.address && s.address < r.end &&
             s.bytes <= r.end - s.address;
    });
    if (!known) fail_(begin, "a stretch is outside of the address ranges of its GPU");
    return s;
  }

 private:
  const std::vector<std::uint8_t>& bytes_;
  const Fail& fail_;
  std::size_t at_ = 0;
};

template <class Decoder>
step read_step(Decoder& d, const header& h, std::uint64_t tasks) {
  switch (static_cast<step_kind>(d.small(5, "the kind of a step"))) {
    case step_kind::launch: {
      launch l;
      l.gpu = d.small(h.gpus, "a launch's GPU");
      l.blocks = d.varint();
      l.threads = d.small(max_threads + 1, "the threads of a block");
      l.shared_bytes = d.small(std::uint64_t{1} << 32U, "the shared memory of a block");
      l.name = d.text();
      l.after = d.after(tasks);
      return l;
    }
    case step_kind::copy: {
      copy c;
      c.from = d.small(host + 1, "a copy's source");
      c.to = d.small(host + 1, "a copy's destination");
      c.by = static_cast<copy_start>(d.small(2, "who starts a copy"));
      c.from_address = d.varint();
      c.to_address = d.varint();
      c.bytes = d.varint();
      c.after = d.after(tasks);
      return c;
    }
    case step_kind::exchange: {
      exchange x;
      x.payload = d.small(std::uint64_t{1} << 32U, "an exchange's payload");
      x.instant = d.small(2, "a flag") != 0;
      for (std::uint32_t g = 0; g < h.gpus; ++g) x.after.push_back(d.after(tasks));
      if (!x.instant) return x;
      for (std::uint64_t left = d.varint(); left != 0; --left) x.appears.push_back(d.memory(h));
      return x;
    }
    case step_kind::call: {
      call c;
      c.gpu = d.small(h.gpus, "a call's GPU");
      c.name = d.text();
      c.bytes_read = d.varint();
      c.bytes_written = d.varint();
      for (std::uint64_t& n : c.operations) n = d.varint();
      c.after = d.after(tasks);
      return c;
    }
    case step_kind::join:
      break;
  }
  return join{};
}

// The memory that a step takes. A launch takes memory in two lists, the list of steps and the list
// of launches.
std::uint64_t bytes_of(const step& s) {
  std::uint64_t bytes = sizeof(step);
  if (const auto* l = std::get_if<launch>(&s))
    bytes += 2 * (sizeof(launch) + l->name.size() + sizeof(std::uint32_t) * l->after.size());
  if (const auto* c = std::get_if<copy>(&s)) bytes += sizeof(std::uint32_t) * c->after.size();
  if (const auto* c = std::get_if<call>(&s))
    bytes += c->name.size() + sizeof(std::uint32_t) * c->after.size();
  if (const auto* x = std::get_if<exchange>(&s)) {
    bytes += sizeof(stretch) * x->appears.size();
    for (const auto& after : x->after)
      // NOLINTNEXTLINE(bugprone-sizeof-container): the vector itself, and its elements
      bytes += sizeof(after) + sizeof(std::uint32_t) * after.size();
  }
  return bytes;
}

}  // namespace

bool begins_as_trace(const std::string& beginning) {
  return beginning.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), beginning.begin(),
                    [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
}

reader::reader(const std::string& path) : reader(open_file(path), path) {}

reader::reader(descriptor file, std::string name) : file_(std::move(file)), name_(std::move(name)) {
  struct stat there {};
  if (fstat(file_.get(), &there) != 0 || !S_ISREG(there.st_mode)) {
    throw usage_error(name_ + " is not a regular file; give the name of a regular file");
  }
  size_ = static_cast<std::uint64_t>(there.st_size);
  read_header();
  index_chunks();
}

void reader::fail(std::uint64_t offset, const std::string& what) const {
  throw usage_error(name_ + ", byte " + std::to_string(offset) + ": " + what);
}

void reader::get(std::uint64_t offset, std::uint8_t* to, std::size_t size) const {
  while (size != 0) {
    const ssize_t n = pread(file_.get(), to, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      throw usage_error(name_ + " cannot be read: " + std::generic_category().message(errno));
    if (n == 0) fail(offset, "the file ends here; it is cut off, get it again");
    to += n;
    offset += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
}

void reader::read_header() {
  std::array<std::uint8_t, file_head_bytes> head{};
  if (size_ < head.size())
    fail(size_, "the file ends in its header; it is not a trace, or it is cut off");
  get(0, head.data(), head.size());
  if (!std::equal(magic.begin(), magic.end(), head.begin())) {
    fail(0, "the file does not begin as a trace of Interlace; convert it with trace convert");
  }
  if (get_word(&head[8]) != version) {
    fail(8, "the trace is of version " + std::to_string(get_word(&head[8])) +
                ", and this Interlace reads version " + std::to_string(version));
  }
  const std::uint32_t size = get_word(&head[12]);
  if (size > max_chunk_bytes) fail(12, "the header's length cannot be right; get the file again");
  std::vector<std::uint8_t> payload(size);
  get(head.size(), payload.data(), size);
  if (crc32(crc32(0, head.data(), 16), payload.data(), size) != get_word(&head[16])) {
    fail(16, "the header's check sum is wrong; the file is damaged, get it again");
  }
  const auto failed = [&](std::size_t at, const std::string& what) {
    fail(file_head_bytes + at, what);
  };
  decoder d(payload, failed);
  header_.gpus = d.small(max_devices + 1, "the number of GPUs");
  header_.warp_width = d.small(max_lanes + 1, "the warp width");
  header_.source = d.text();
  const std::uint32_t ranges = d.small(max_chunk_bytes, "the number of address ranges");
  for (std::uint32_t i = 0; i < ranges; ++i) {
    range r;
    r.begin = d.varint();
    r.end = r.begin + d.varint();
    r.gpu = d.small(max_devices, "the GPU of an address range");
    r.page_bytes = d.varint();
    header_.ranges.push_back(r);
  }
  if (!d.done()) failed(d.at(), "the header has extra bytes at its end");
  try {
    check_header(header_);
  } catch (const usage_error& wrong) {
    fail(file_head_bytes, wrong.what());
  }
  ranges_ = address_ranges(header_);
  first_chunk_ = file_head_bytes + size;
}

void reader::index_chunks() {
  chunks_.resize(header_.gpus);
  std::vector<chunk> program;
  std::uint64_t offset = first_chunk_;
  bool ended = false;
  while (!ended) {
    if (offset == size_) fail(offset, "the file ends without its last chunk; it is cut off");
    std::array<std::uint8_t, chunk_head_bytes> head{};
    if (size_ - offset < head.size()) fail(offset, "the file is cut off in the head of a chunk");
    get(offset, head.data(), head.size());
    const std::uint8_t stream = head[2];
    if (head[0] != 'I' || head[1] != 'C' || head[3] != 0) {
      fail(offset, "no chunk begins here; the file is damaged, get it again");
    }
    const chunk c{offset + head.size(), get_word(&head[4]), get_word(&head[8])};
    if (c.bytes == 0 || c.bytes > max_chunk_bytes || c.records == 0 || c.records > c.bytes) {
      fail(offset + 4, "the length of a chunk cannot be right; the file is damaged, get it again");
    }
    if (c.bytes > size_ - c.payload) {
      fail(size_, "the file ends in the chunk that begins at byte " + std::to_string(offset) +
                      "; it is cut off, get it again");
    }
    if (stream == program_stream) {
      program.push_back(c);
    } else if (stream == end_stream) {
      read_end(c);
      ended = true;
    } else if (stream < header_.gpus) {
      chunks_[stream].push_back(c);
    } else {
      fail(offset + 2, "a chunk is of gpu" + std::to_string(stream) + ", but the trace has " +
                           std::to_string(header_.gpus) + " GPUs");
    }
    offset = c.payload + c.bytes;
  }
  if (offset != size_) fail(offset, "there are more bytes after the last chunk of the trace");
  read_program(program);
}

void reader::load(const chunk& c, std::vector<std::uint8_t>& to) const {
  std::array<std::uint8_t, chunk_head_bytes> head{};
  get(c.payload - head.size(), head.data(), head.size());
  to.resize(c.bytes);
  get(c.payload, to.data(), c.bytes);
  if (crc32(crc32(0, head.data(), 12), to.data(), to.size()) != get_word(&head[12])) {
    fail(c.payload - 4, "the check sum of a chunk is wrong; the file is damaged, get it again");
  }
}

void reader::read_end(const chunk& c) {
  std::vector<std::uint8_t> bytes;
  load(c, bytes);
  const auto failed = [&](std::size_t at, const std::string& what) { fail(c.payload + at, what); };
  decoder d(bytes, failed);
  for (std::uint64_t* v :
       {&stated_.launches, &stated_.copies, &stated_.exchanges, &stated_.calls, &stated_.blocks}) {
    *v = d.varint();
  }
  for (std::uint64_t& v : stated_.instructions) v = d.varint();
  for (std::uint64_t& v : stated_.lanes) v = d.varint();
  for (std::uint64_t& v : stated_.bytes) v = d.varint();
  if (!d.done()) failed(d.at(), "the last chunk has extra bytes at its end");
}

void reader::check_step(std::uint64_t offset, const step& s, std::uint64_t tasks) const {
  if (tasks > 0x7fffffffU) fail(offset, "a trace has too many tasks without a join");
  if (const auto* l = std::get_if<launch>(&s)) {
    if (!possible(*l)) {
      fail(offset, "a launch has " + std::to_string(l->blocks) + " blocks of " +
                       std::to_string(l->threads) + " threads, which is not possible");
    }
  } else if (const auto* c = std::get_if<copy>(&s)) {
    if (c->from == c->to) fail(offset, "source and destination of a copy are in the same memory");
    for (const auto& [at, address] :
         {std::pair{c->from, c->from_address}, std::pair{c->to, c->to_address}}) {
      if (at == host) continue;
      if (at >= header_.gpus) fail(offset, "a copy of a GPU that the trace does not have");
      if (c->bytes == 0 || ranges_.home(address, c->bytes) != at) {
        fail(offset, "a copy of " + std::to_string(c->bytes) + " bytes at address " + hex(address) +
                         ", which are not in memory of gpu" + std::to_string(at));
      }
    }
  }
}

void reader::read_program(const std::vector<chunk>& chunks) {
  std::vector<std::uint8_t> bytes;
  std::uint64_t tasks = 0;   // tasks since the last join
  std::uint64_t memory = 0;  // bytes of memory that the program takes
  for (const chunk& c : chunks) {
    load(c, bytes);
    const auto failed = [&](std::size_t at, const std::string& what) {
      fail(c.payload + at, what);
    };
    decoder d(bytes, failed);
    for (std::uint32_t r = 0; r < c.records; ++r) {
      const std::size_t begin = d.at();
      step s = read_step(d, header_, tasks);
      check_step(c.payload + begin, s, tasks);
      tasks += std::holds_alternative<exchange>(s) ? header_.gpus : 1;
      if (std::holds_alternative<join>(s)) tasks = 0;
      memory += bytes_of(s);
      if (memory > most_program_bytes) {
        fail(c.payload + begin, "the program of the trace takes more than " +
                                    std::to_string(most_program_bytes >> 20U) +
                                    " MiB of memory up to here; split the trace");
      }
      if (const auto* l = std::get_if<launch>(&s)) launches_.push_back(*l);
      program_.push_back(std::move(s));
    }
    if (!d.done()) failed(d.at(), "a chunk has extra bytes after its records");
  }
}

void reader::read_all(sink& to, const std::function<void(std::uint64_t)>& progress) const {
  totals seen;
  for (const step& s : program_) {
    seen.add(s);
    to.program(s);
  }
  std::uint64_t done = 0;
  for (std::uint32_t g = 0; g < header_.gpus; ++g) {
    cursor c(*this, g);
    std::uint64_t reported = 0;
    for (std::uint64_t events = 0; c.next() != cursor::event::end; ++events) {
      if (c.now() == cursor::event::kernel) {
        to.begin_kernel(g, c.kernel());
      } else if (c.now() == cursor::event::block) {
        ++seen.blocks;
        to.begin_block(g, c.block());
      } else {
        seen.add(c.instruction());
        to.add(g, c.warp(), c.instruction());
      }
      if ((events & 0xfffffU) == 0xfffffU && progress) {
        reported = std::max(reported, c.offset());
        progress((done + reported) / header_.gpus);
      }
    }
    done += size_;
  }
  if (!(seen == stated_)) {
    fail(size_, "the end of the trace states " + std::to_string(stated_.accesses()) +
                    " accesses, but there are " + std::to_string(seen.accesses()) +
                    " (or other numbers differ); the file is damaged, get it again");
  }
}

// --- One GPU

cursor::cursor(const reader& from, std::uint32_t gpu)
    : reader_(&from),
      gpu_(gpu),
      all_lanes_(from.header_.warp_width >= max_lanes
                     ? ~std::uint64_t{0}
                     : (std::uint64_t{1} << from.header_.warp_width) - 1) {}

std::uint64_t cursor::offset() const { return payload_ + at_; }

void cursor::fail(const std::string& what) const { reader_->fail(payload_ + record_, what); }

bool cursor::more() {
  while (records_left_ == 0) {
    record_ = at_;
    if (at_ != bytes_.size()) fail("a chunk has extra bytes after its records");
    const auto& chunks = reader_->chunks_[gpu_];
    if (chunk_ == chunks.size()) return false;
    const reader::chunk& c = chunks[chunk_++];
    reader_->load(c, bytes_);
    payload_ = c.payload;
    records_left_ = c.records;
    at_ = 0;
    before_ = {};
  }
  record_ = at_;
  --records_left_;
  return true;
}

std::uint8_t cursor::byte() {
  if (at_ == bytes_.size()) fail("a record is cut off");
  return bytes_[at_++];
}

std::uint64_t cursor::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint8_t b = byte();
    if (shift == 63 && b > 1) break;
    value |= std::uint64_t{b & 0x7fU} << shift;
    if (b < 0x80) return value;
  }
  fail("a number has more than 64 bits");
}

std::uint32_t cursor::small(std::uint64_t limit, const char* what) {
  const std::uint64_t value = varint();
  if (value >= limit) {
    fail(std::string(what) + " is " + std::to_string(value) + "; it must be below " +
         std::to_string(limit));
  }
  return static_cast<std::uint32_t>(value);
}

void cursor::begin_kernel() {
  const auto& launches = reader_->launches_;
  const std::uint32_t id = small(launches.size(), "the number of a launch");
  if (launches[id].gpu != gpu_) {
    fail("a kernel of gpu" + std::to_string(launches[id].gpu) + " is among the kernels of gpu" +
         std::to_string(gpu_));
  }
  if (kernel_ != no_dependence && id <= kernel_) {
    fail("kernel " + std::to_string(id) + " comes after kernel " + std::to_string(kernel_));
  }
  kernel_ = id;
  warps_ = (launches[id].threads + reader_->header_.warp_width - 1) / reader_->header_.warp_width;
  next_block_ = 0;
  in_block_ = false;
}

void cursor::begin_block() {
  if (kernel_ == no_dependence) fail("a block comes before its kernel");
  const std::uint64_t blocks = reader_->launches_[kernel_].blocks;
  const std::uint64_t skipped = varint();
  if (next_block_ >= blocks || skipped >= blocks - next_block_) {
    fail("a block past the " + std::to_string(blocks) + " of kernel " + std::to_string(kernel_));
  }
  block_ = next_block_ + skipped;
  next_block_ = block_ + 1;
  in_block_ = true;
  warp_ = no_dependence;
  numbers_.assign(warps_, 0);
}

void cursor::read_depends(bool there) {
  instruction_.depends = no_dependence;
  if (!there) return;
  const std::uint64_t distance = varint();
  const std::uint32_t number = numbers_[warp_];
  if (distance == 0 || distance > number)
    fail("an instruction depends on an instruction that is not before it");
  instruction_.depends = number - static_cast<std::uint32_t>(distance);
}

void cursor::read_access(std::uint8_t tag) {
  trace::instruction& i = instruction_;
  if ((tag & flag_same_shape) == 0) {
    before_.bytes = byte();
    before_.scope = byte();
    if (before_.scope > static_cast<std::uint8_t>(scope::system)) fail("an unknown scope");
  }
  if (before_.bytes == 0 || before_.bytes > max_lane_bytes) {
    fail("an access of " + std::to_string(before_.bytes) + " bytes for each lane");
  }
  i.bytes = before_.bytes;
  i.scope = static_cast<scope>(before_.scope);
  i.lanes = (tag & flag_all_lanes) != 0 ? all_lanes_ : varint();
  if (i.lanes == 0 || (i.lanes & ~all_lanes_) != 0)
    fail("an access has lanes that the warp does not have");
  read_depends((tag & flag_depends) != 0);
  const auto lanes = static_cast<unsigned>(__builtin_popcountll(i.lanes));
  const std::uint8_t kind = tag & kind_mask;
  std::uint64_t address = before_.address[kind] + unfold(varint());
  before_.address[kind] = address;
  addresses_[0] = address;
  if ((tag & flag_strided) != 0) {
    const std::uint64_t stride = unfold(varint());
    for (unsigned k = 1; k < lanes; ++k) addresses_[k] = address += stride;
  } else {
    for (unsigned k = 1; k < lanes; ++k) addresses_[k] = address += unfold(varint());
  }
  i.addresses = addresses_.data();
  if (reader_->ranges_.refuses(i, false)) {
    reader_->ranges_.check(i, reader_->name_ + ", byte " + std::to_string(payload_ + record_),
                           false);
  }
}

void cursor::read_action(std::uint8_t tag) {
  if (!in_block_ || warp_ == no_dependence) fail("an instruction is outside of a warp");
  const std::uint8_t kind = tag & kind_mask;
  instruction_ = {};
  instruction_.kind = static_cast<action>(kind);
  const auto flags = static_cast<std::uint8_t>(tag & ~kind_mask);
  switch (instruction_.kind) {
    case action::load:
    case action::store:
    case action::atomic:
      read_access(tag);
      break;
    case action::release: {
      const std::uint8_t scope = byte();
      if (flags != 0 || scope > static_cast<std::uint8_t>(scope::system)) fail("an unknown record");
      instruction_.scope = static_cast<trace::scope>(scope);
      break;
    }
    case action::compute:
      instruction_.operation = byte();
      if (flags != 0 || instruction_.operation >= operation_names) fail("an unknown operation");
      instruction_.count = small(std::uint64_t{1} << 32U, "a count");
      break;
    case action::shared:
    case action::shuffle:
      if ((flags & ~flag_depends) != 0) fail("an unknown record");
      read_depends((flags & flag_depends) != 0);
      instruction_.count = small(std::uint64_t{1} << 32U, "a count");
      break;
    case action::wait:
    case action::barrier:
      if (flags != 0) fail("an unknown record");
      break;
  }
  if (++numbers_[warp_] == no_dependence) fail("a warp has too many instructions");
}

cursor::event cursor::next() {
  while (more()) {
    const std::uint8_t tag = byte();
    const std::uint8_t kind = tag & kind_mask;
    if (kind < actions) {
      read_action(tag);
      return now_ = event::instruction;
    }
    if (tag == kind_warp) {
      if (!in_block_) fail("a warp is outside of a block");
      warp_ = small(warps_, "the number of a warp");
    } else if (tag == kind_block) {
      begin_block();
      return now_ = event::block;
    } else if (tag == kind_kernel) {
      begin_kernel();
      return now_ = event::kernel;
    } else {
      fail("an unknown record");
    }
  }
  return now_ = event::end;
}

}  // namespace interlace::sim::trace
