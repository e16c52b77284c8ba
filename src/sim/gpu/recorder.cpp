#include "interlace/sim/gpu/recorder.hpp"

#include <algorithm>
#include <array>

#include "interlace/base/errors.hpp"
#include "sim/trace/instruction.hpp"

namespace interlace::sim {

void recorder::begin_block(const settings& s, std::vector<warp_program>& programs) {
  settings_ = &s;
  programs_ = &programs;
  for (warp_program& p : programs) p.clear();
  lane_bits_ = static_cast<std::uint32_t>(__builtin_ctz(s.warp_width));
  warp_width_ = s.warp_width;
  sector_shift_ = static_cast<std::uint32_t>(__builtin_ctz(s.sector_bytes));
  addresses_.resize(std::max(addresses_.size(), nodes_.size() << lane_bits_));
  address_base_ = reinterpret_cast<std::uintptr_t>(s.address_base);
  warp_ = none;
  first_id_ = 0;
  published_ = false;
  keeps_ = false;
  if (s.log == nullptr) return;
  if (logged_launch_ != s.launch) {
    logged_launch_ = s.launch;
    next_block_ = 0;
    s.log->begin_kernel(s.device, s.launch);
  }
  s.log->begin_block(s.device, next_block_++);
}

void recorder::end_block() { flush(); }

void recorder::begin_segment() {
  flush();
  warp_ = none;
}

std::uint32_t recorder::find(std::uint64_t key) const {
  if (count_ <= small_segment) {
    for (std::uint32_t id = 0; id < count_; ++id) {
      // The first node with the key is the first instance, because nodes are in the order in which
      // they were made.
      if (nodes_[id].key == key) return id;
    }
    return none;
  }
  const std::size_t mask = table_.size() - 1;
  for (std::size_t slot = key * 0x9E3779B97F4A7C15U >> table_shift_;; slot = (slot + 1) & mask) {
    if (table_[slot] >> 32U != segment_) return none;
    const auto id = static_cast<std::uint32_t>(table_[slot]);
    if (nodes_[id].key == key) return id;
  }
}

void recorder::insert_key(std::uint32_t id) {
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = nodes_[id].key * 0x9E3779B97F4A7C15U >> table_shift_;
  while (table_[slot] >> 32U == segment_) slot = (slot + 1) & mask;
  table_[slot] = std::uint64_t{segment_} << 32U | id;
}

void recorder::grow_table() {
  table_.assign(table_.size() * 2, 0);
  --table_shift_;
  for (std::uint32_t id = 0; id + 1 < count_; ++id) {
    if (nodes_[id].instance_before == none) insert_key(id);
  }
}

// Finds the instruction, or inserts it, for a lane that does not follow the previous lane's path.
// `follower` is the node after the cursor.
std::uint32_t recorder::search_all(std::uint32_t follower, std::uint64_t key, instruction_kind kind,
                                   std::uint32_t bytes, kernel::memory_space space) {
  const std::uint32_t first = find(key);
  std::uint32_t before = none;
  if (first != none) {
    std::uint32_t id = first;
    // A lane reaches the instances of a node in the order in which they were made.
    if (nodes_[first].latest != none && came(nodes_[nodes_[first].latest])) {
      id = nodes_[first].latest;
    }
    while (id != none && came(nodes_[id])) {
      before = id;
      id = nodes_[id].instance_behind;
    }
    if (id != none) {
      nodes_[first].latest = id;
      return id;
    }
  }
  const std::uint32_t id = count_++;
  if (nodes_.size() <= count_) {
    nodes_.resize(nodes_.size() * 2);
    addresses_.resize(std::max(addresses_.size(), nodes_.size() << lane_bits_));
  }
  nodes_[count_].key_in_order = 0;
  nodes_[count_].later_in_order = false;
  node& n = nodes_[id];
  n = node{};
  n.key = key;
  const bool in_order = id == cursor_ + 1;
  n.key_in_order = in_order && before == none ? key : 0;
  n.later_in_order = in_order && before != none;
  n.kind = kind;
  n.ends_iteration = false;
  n.bytes = static_cast<std::uint8_t>(bytes);
  n.space = space;
  n.instance_before = before;
  n.next = follower;
  (cursor_ == none ? head_ : nodes_[cursor_].next) = id;
  if (follower != none) {
    nodes_[follower].key_in_order = 0;
    nodes_[follower].later_in_order = false;
  }
  if (before != none) {
    nodes_[before].instance_behind = id;
    nodes_[first].latest = id;
  }
  if (count_ == small_segment + 1) {
    for (std::uint32_t k = 0; k < id; ++k) {
      if (nodes_[k].instance_before == none) insert_key(k);
    }
  }
  if (count_ > small_segment && before == none) {
    if (std::size_t{count_} * 2 >= table_.size()) grow_table();
    insert_key(id);
  }
  return id;
}

recorder::subscriber_note recorder::note_subscriber(std::uint32_t region, std::uint64_t element,
                                                    bool primary, instruction_kind kind,
                                                    std::uint64_t address) const {
  if (settings_->subscribed[region] == nullptr) return {address};
  subscribed_pages& s = *settings_->subscribed[region];
  if (kind == instruction_kind::load) {
    const bool up_to_date = s.load(settings_->device, element);
    if (!up_to_date) address = s.at_owner(settings_->device, element, address);
    return {address, true, up_to_date};
  }
  const auto owner = static_cast<std::uint32_t>(address >> settings_->slot_bits);
  return {address, primary || s.receives(owner, element)};
}

void recorder::append(std::uint32_t warp, instruction_kind kind, std::uint32_t count,
                      operation op) {
  instruction i;
  i.kind = kind;
  i.count = count;
  i.op = op;
  (*programs_)[warp].instructions.push_back(i);
  if (settings_->log != nullptr) log(warp, {}, nullptr);
}

void recorder::on_uniform() {
  // The value of the load decides which instructions follow, so the warp depends on the load.
  const std::uint32_t warp = warp_;
  uniform_ = true;
  flush();
  uniform_ = false;
  if (warp != none) append(warp, instruction_kind::wait, 0);
  warp_ = none;
}

void recorder::on_acquire_release() {
  const std::uint32_t warp = warp_;
  flush();
  append(warp, instruction_kind::wait, ordered_ways);
  warp_ = none;
}

void recorder::on_barrier(bool whole_block) {
  flush();
  warp_ = none;
  if (!whole_block) return;
  for (std::uint32_t w = 0; w < programs_->size(); ++w) append(w, instruction_kind::barrier, 0);
}

void recorder::announce(const std::vector<kernel::element_range>& ranges) {
  on_barrier(settings_->counters != nullptr);
  warp_program& first = programs_->front();
  instruction fence;
  fence.kind = instruction_kind::publish;
  fence.first_line = static_cast<std::uint32_t>(first.published.size());
  fence.count = static_cast<std::uint32_t>(ranges.size());
  first.published.insert(first.published.end(), ranges.begin(), ranges.end());
  first.instructions.push_back(fence);
  if (settings_->counters == nullptr) return;
  const std::uint64_t line_mask = settings_->line_bytes - 1;
  const auto& chunks = *settings_->chunks;
  for (const kernel::element_range& r : ranges) {
    auto c = std::upper_bound(chunks.begin(), chunks.end(), r.begin,
                              [](std::uint64_t e, const kernel::chunk& k) { return e < k.end; });
    for (; c != chunks.end() && c->begin < r.end; ++c) {
      const auto address =
          static_cast<std::uint64_t>(settings_->counters - settings_->address_base) +
          static_cast<std::uint64_t>(c - chunks.begin()) * sizeof(std::uint64_t);
      written_bytes w;
      w.bytes.set(static_cast<std::uint32_t>(address & line_mask), sizeof(std::uint64_t));
      w.lanes = 1;
      w.element_bytes = sizeof(std::uint64_t);
      instruction add;
      add.kind = instruction_kind::atomic;
      add.first_line = static_cast<std::uint32_t>(first.lines.size());
      add.line_count = 1;
      add.first_written = static_cast<std::uint32_t>(first.written.size());
      first.lines.emplace_back(
          address & ~line_mask,
          static_cast<std::uint8_t>(w.bytes.units(settings_->sector_bytes, settings_->line_bytes)));
      first.written.push_back(w);
      first.instructions.push_back(add);
    }
  }
}

void recorder::on_shuffle(std::uint32_t warp, std::uint32_t n, operation kind,
                          std::uint32_t operations) {
  flush();
  warp_ = none;
  append(warp, instruction_kind::shuffle, n);
  if (operations == 0) return;
  append(warp, instruction_kind::compute, operations, kind);
  if (settings_->totals == nullptr) return;
  settings_->totals->operations[static_cast<std::size_t>(kind)] +=
      std::uint64_t{operations} * settings_->warp_width;
}

void recorder::on_vote(std::uint32_t warp) {
  if (!settings_->votes || settings_->log != nullptr) {
    return on_shuffle(warp, 1, operation::integer, 0);
  }
  flush();
  warp_ = none;
  append(warp, instruction_kind::vote, 1);
}

void recorder::on_reduction(std::uint32_t warp, std::uint32_t steps, operation kind) {
  // Traces have no such instruction, and a replay must make the same instructions as the run.
  if (!settings_->reduces || settings_->log != nullptr) {
    return on_shuffle(warp, steps, kind, steps);
  }
  flush();
  warp_ = none;
  append(warp, instruction_kind::reduce, steps, kind);
  if (settings_->totals == nullptr) return;
  settings_->totals->operations[static_cast<std::size_t>(kind)] +=
      std::uint64_t{steps} * settings_->warp_width;
}

bool recorder::begin_repeated(std::uint32_t warp, std::uint32_t lanes, const void* place,
                              std::uint32_t key) {
  // Totals and logs need the addresses of all lanes.
  if (settings_->totals != nullptr || settings_->log != nullptr) return false;
  flush();
  warp_ = none;
  std::pmr::vector<instruction>& program = (*programs_)[warp].instructions;
  repeating_name_ = {place, key, lanes};
  repeating_warp_ = warp;
  repeating_from_ = static_cast<std::uint32_t>(program.size());
  known_ = repeated_.find(repeating_name_);
  if (known_ == nullptr) {
    keeps_ = true;
    repeating_ = {};
    return false;
  }
  program.insert(program.end(), known_->instructions.begin(), known_->instructions.end());
  for (std::size_t k = repeating_from_; k < program.size(); ++k) {
    if (program[k].depends != none) program[k].depends += repeating_from_;
  }
  const std::size_t addresses = known_->accesses.size() * repeated_lanes;
  if (repeated_addresses_.size() < addresses) repeated_addresses_.resize(addresses);
  return true;
}

void recorder::note_repeated(kernel::memory_space space, instruction_kind kind) {
  if (space == kernel::memory_space::shared) return;
  if (kind == instruction_kind::atomic ||
      (kind == instruction_kind::store && space == kernel::memory_space::replicated)) {
    throw model_error(
        "a repeated stretch of a kernel (warp.repeated) stores to a region or has "
        "atomics, whose instructions may differ each time");
  }
  reached_.push_back({cursor_, lane_});
}

void recorder::keep_access(node& n, std::size_t instruction) {
  n.kept = static_cast<std::uint32_t>(repeating_.accesses.size());
  repeating_.accesses.push_back({static_cast<std::uint32_t>(instruction - repeating_from_), n.bytes,
                                 static_cast<std::uint32_t>(__builtin_popcountll(n.lanes))});
}

void recorder::end_repeated() {
  if (!keeps_) return;
  flush();
  warp_ = none;
  keeps_ = false;
  const std::pmr::vector<instruction>& program = (*programs_)[repeating_warp_].instructions;
  repeating_.instructions.assign(program.begin() + repeating_from_, program.end());
  for (instruction& i : repeating_.instructions) {
    if (i.depends != none) i.depends -= repeating_from_;
  }
  repeated_.add(repeating_name_, std::move(repeating_));
}

void recorder::end_repeated(const known_lanes& watched) {
  if (!watched.all_reached()) known_lanes::throw_differs();
  work_ += known_->order.size();
  warp_ = repeating_warp_;
  for (std::size_t k = 0; k < known_->accesses.size(); ++k) {
    const repeated_program::access& a = known_->accesses[k];
    emit_lines(a.bytes, a.lanes, &repeated_addresses_[k * repeated_lanes],
               (*programs_)[warp_].instructions[repeating_from_ + a.instruction]);
  }
  warp_ = none;
}

void recorder::known_lanes::throw_differs() {
  throw model_error("a repeated stretch of a kernel (warp.repeated) differs for the same key");
}

bool recorder::in_steps(const std::uint64_t* addresses, std::uint32_t count, std::uint32_t bytes) {
  if (count > 1 && addresses[1] - addresses[0] != bytes) return false;
  if (addresses[count - 1] - addresses[0] != std::uint64_t{count - 1} * bytes) return false;
  std::uint64_t differ = 0;
  std::uint64_t expected = addresses[0];
  for (std::uint32_t k = 0; k < count; ++k, expected += bytes) differ |= addresses[k] ^ expected;
  return differ == 0;
}

std::uint32_t recorder::bank_cycles(const node& n, const std::uint64_t* addresses) {
  // Shared memory has 32 banks of 4 bytes. Lanes that read the same word share one access.
  constexpr std::uint32_t banks = 32;
  const std::uint32_t per_lane = std::max(1U, n.bytes / 4U);
  const auto count = static_cast<std::uint32_t>(__builtin_popcountll(n.lanes));
  if (n.bytes == 4 && in_steps(addresses, count, 4)) return (count + banks - 1) / banks;
  if (in_steps(addresses, count, 0)) return per_lane;
  // Mostly the words are close to each other. A row is a word of each bank, and a bit stands for a
  // word. A bank takes a cycle for each row in which its word is read.
  constexpr std::size_t rows = 3;
  std::array<std::uint32_t, rows + 1> read{};
  const std::uint64_t first_row = (addresses[0] >> 2U) / banks - 1;
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint64_t word = addresses[k] >> 2U;
    const std::size_t row = std::min<std::size_t>(word / banks - first_row, rows);
    read[row] |= 1U << (word % banks);
  }
  if (read[rows] == 0) {
    const std::uint32_t twice = (read[0] & read[1]) | (read[0] & read[2]) | (read[1] & read[2]);
    return ((read[0] & read[1] & read[2]) != 0 ? 3 : twice != 0 ? 2 : 1) * per_lane;
  }
  // NOLINTBEGIN(cppcoreguidelines-pro-type-member-init): only elements that were written are read
  std::array<std::uint64_t, 64> words;       // the different words so far
  std::array<std::uint8_t, 64> same_bank;    // for each word, the previous word of the same bank
  std::array<std::uint8_t, banks> latest{};  // the latest word of each bank
  // NOLINTEND(cppcoreguidelines-pro-type-member-init)
  std::array<std::uint8_t, banks> load{};
  std::uint32_t cycles = 1;
  std::uint32_t distinct = 0;
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint64_t word = addresses[k] >> 2U;
    const auto bank = static_cast<std::uint32_t>(word % banks);
    bool seen = false;
    std::uint8_t at = latest[bank];
    for (std::uint32_t left = load[bank]; left != 0 && !seen; --left) {
      seen = words[at] == word;
      at = same_bank[at];
    }
    if (seen) continue;
    words[distinct] = word;
    same_bank[distinct] = latest[bank];
    latest[bank] = static_cast<std::uint8_t>(distinct++);
    cycles = std::max<std::uint32_t>(cycles, ++load[bank]);
  }
  return cycles * per_lane;
}

const std::uint64_t* recorder::packed_addresses(const node& n, std::uint32_t id) {
  const std::uint64_t* addresses = &addresses_[std::size_t{id} << lane_bits_];
  // The lanes are the first lanes of the warp, so their addresses are adjacent already.
  if ((n.lanes & (n.lanes + 1)) == 0) return addresses;
  std::size_t count = 0;
  for (std::uint64_t left = n.lanes; left != 0; left &= left - 1) {
    packed_[count++] = addresses[__builtin_ctzll(left)];
  }
  return packed_.data();
}

// Returns true if the elements are adjacent and no element crosses the border of a line or of half
// a line.
bool recorder::fills_lines(std::uint32_t bytes, const std::uint64_t* addresses,
                           std::uint32_t count) {
  return (bytes & (bytes - 1)) == 0 && bytes <= 64 && (addresses[0] & (bytes - 1)) == 0 &&
         in_steps(addresses, count, bytes);
}

void recorder::emit_loads(std::uint32_t bytes, const std::uint64_t* addresses, std::uint32_t count,
                          warp_program& to) {
  const std::uint64_t line_mask = settings_->line_bytes - 1;
  if (in_steps(addresses, count, 0)) count = 1;
  if (fills_lines(bytes, addresses, count)) {
    const std::uint64_t end = addresses[0] + std::uint64_t{count} * bytes;
    for (std::uint64_t at = addresses[0]; at < end;) {
      const std::uint64_t next = std::min(end, (at | line_mask) + 1);
      const std::uint64_t sectors =
          (std::uint64_t{2} << (((next - 1) & line_mask) >> sector_shift_)) -
          (std::uint64_t{1} << ((at & line_mask) >> sector_shift_));
      to.lines.emplace_back(at & ~line_mask, static_cast<std::uint8_t>(sectors));
      at = next;
    }
    return;
  }
  // Only elements that were written are read.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
  std::array<std::uint64_t, 64> lines;  // lines with their sectors, in the format of line_access
  std::size_t found = 0;
  std::uint64_t line = 1;  // differs from every line's address
  std::size_t at = 0;
  // Finds the place of a line's sectors, or adds the line.
  const auto go_to = [&](std::uint64_t to_line) {
    line = to_line;
    at = found;
    while (at > 0 && (lines[at - 1] & ~line_mask) != line) --at;
    if (at == 0) {
      lines[found++] = line;
      at = found;
    }
    --at;
  };
  std::uint64_t bits = 0;
  for (std::uint32_t k = 0; k < count; ++k) bits |= addresses[k];
  // Each element is in one sector.
  const bool in_sector =
      (bytes & (bytes - 1)) == 0 && bytes <= settings_->sector_bytes && (bits & (bytes - 1)) == 0;
  if (in_sector) {
    for (std::uint32_t k = 0; k < count; ++k) {
      if ((addresses[k] & ~line_mask) != line) go_to(addresses[k] & ~line_mask);
      lines[at] |= std::uint64_t{1} << ((addresses[k] & line_mask) >> sector_shift_);
    }
  }
  for (std::uint32_t k = 0; k < count && !in_sector; ++k) {
    const std::uint64_t offset = addresses[k] & line_mask;
    const std::uint64_t last = std::min(offset + bytes - 1, offset | 63U);
    const std::uint64_t sectors = (std::uint64_t{2} << (last >> sector_shift_)) -
                                  (std::uint64_t{1} << (offset >> sector_shift_));
    if (addresses[k] - offset != line) go_to(addresses[k] - offset);
    lines[at] |= sectors;
  }
  for (std::size_t k = 0; k < found; ++k) to.lines.push_back(line_access::unpack(lines[k]));
}

void recorder::emit_writes(std::uint32_t bytes, const std::uint64_t* addresses, std::uint32_t count,
                           warp_program& to) {
  const std::uint64_t line_mask = settings_->line_bytes - 1;
  if (fills_lines(bytes, addresses, count)) {
    const std::uint64_t end = addresses[0] + std::uint64_t{count} * bytes;
    for (std::uint64_t at = addresses[0]; at < end;) {
      const std::uint64_t next = std::min(end, (at | line_mask) + 1);
      written_bytes& w = to.written.emplace_back();
      for (std::uint64_t part = at; part < next; part = (part | 63U) + 1) {
        w.bytes.set(static_cast<std::uint32_t>(part & line_mask),
                    static_cast<std::uint32_t>(std::min(next, (part | 63U) + 1) - part));
      }
      w.lanes = static_cast<std::uint32_t>(next - at) / bytes;
      w.element_bytes = bytes;
      to.lines.emplace_back(at & ~line_mask, static_cast<std::uint8_t>(w.bytes.units(
                                                 settings_->sector_bytes, settings_->line_bytes)));
      at = next;
    }
    return;
  }
  const std::size_t first = to.written.size();
  // Only elements that were written are read.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init)
  std::array<std::uint64_t, 64> lines;
  std::size_t found = 0;
  std::uint64_t line = 1;  // differs from every line's address
  std::size_t at = 0;
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint64_t offset = addresses[k] & line_mask;
    if (addresses[k] - offset != line) {
      line = addresses[k] - offset;
      at = found;
      while (at > 0 && lines[at - 1] != line) --at;
      if (at == 0) {
        lines[found++] = line;
        to.written.emplace_back();
        at = found;
      }
      --at;
    }
    written_bytes& w = to.written[first + at];
    w.bytes.set(static_cast<std::uint32_t>(offset), bytes);
    ++w.lanes;
    w.element_bytes = bytes;
  }
  for (std::size_t k = 0; k < found; ++k) {
    const std::uint32_t sectors =
        to.written[first + k].bytes.units(settings_->sector_bytes, settings_->line_bytes);
    to.lines.emplace_back(lines[k], static_cast<std::uint8_t>(sectors));
  }
}

// Handles the lines from line number `first` on.
void recorder::emit_words(std::uint32_t bytes, const std::uint64_t* addresses, std::uint32_t count,
                          std::size_t first, warp_program& to) const {
  const std::uint64_t line_mask = settings_->line_bytes - 1;
  to.words.resize(first);  // removes words left from before, mainly words of lines without lanes
  to.words.resize(to.lines.size(), 0);
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint64_t offset = addresses[k] & line_mask;
    std::size_t at = first;
    while (to.lines[at].line() != addresses[k] - offset) ++at;
    const std::uint64_t last = std::min(offset + bytes - 1, line_mask);
    to.words[at] |= static_cast<std::uint32_t>((std::uint64_t{2} << (last / 4)) -
                                               (std::uint64_t{1} << (offset / 4)));
  }
}

void recorder::emit_lines(std::uint32_t bytes, std::uint32_t count, const std::uint64_t* addresses,
                          instruction& out) {
  warp_program& program = (*programs_)[warp_];
  const std::size_t before = program.lines.size();
  out.first_line = static_cast<std::uint32_t>(before);
  if (out.kind == instruction_kind::load) {
    emit_loads(bytes, addresses, count, program);
  } else {
    out.first_written = static_cast<std::uint32_t>(program.written.size());
    emit_writes(bytes, addresses, count, program);
  }
  out.line_count = static_cast<std::uint16_t>(program.lines.size() - before);
  if (settings_->watch_words) emit_words(bytes, addresses, count, before, program);
}

void recorder::add_totals(const node& n, std::size_t lines) const {
  using kernel::traced_access;
  const traced_access kind = n.kind == instruction_kind::load    ? traced_access::load
                             : n.kind == instruction_kind::store ? traced_access::store
                                                                 : traced_access::atomic;
  settings_->totals->of(kind, n.space) +=
      {lines, uniform_ ? settings_->warp_width
                       : static_cast<std::uint32_t>(__builtin_popcountll(n.lanes))};
}

void recorder::emit_compute(const std::uint64_t* counts, std::uint32_t depends) {
  for (std::size_t k = 0; k < operation_kinds; ++k) {
    if (counts[k] == 0) continue;
    instruction& out = (*programs_)[warp_].instructions.emplace_back();
    out.kind = instruction_kind::compute;
    out.depends = depends;
    out.op = static_cast<operation>(k);
    out.count = static_cast<std::uint32_t>(counts[k]);
    if (settings_->log != nullptr) log(warp_, {}, nullptr);
  }
}

void recorder::log(std::uint32_t warp, const node& n, const std::uint64_t* addresses) const {
  using trace::action;
  const instruction& from = (*programs_)[warp].instructions.back();
  trace::instruction to;
  to.count = from.count;
  to.depends = from.depends;
  switch (from.kind) {
    case instruction_kind::load:
    case instruction_kind::store:
    case instruction_kind::atomic:
      to.kind = from.kind == instruction_kind::load    ? action::load
                : from.kind == instruction_kind::store ? action::store
                                                       : action::atomic;
      to.bytes = n.bytes;
      to.lanes = n.lanes;
      to.addresses = addresses;
      to.scope = from.kind == instruction_kind::atomic ? trace::scope::device : trace::scope::none;
      break;
    case instruction_kind::shared:
      to.kind = action::shared;
      break;
    case instruction_kind::compute:
      to.kind = action::compute;
      to.operation = static_cast<std::uint8_t>(from.op);
      break;
    case instruction_kind::shuffle:
      to.kind = action::shuffle;
      break;
    case instruction_kind::vote:
    case instruction_kind::reduce:
      throw model_error("a trace cannot record a ballot or a reduction as one instruction");
    case instruction_kind::wait:
      to.kind = action::wait;
      break;
    case instruction_kind::barrier:
      to.kind = action::barrier;
      break;
    case instruction_kind::publish:
      throw model_error("a trace cannot record a launch whose chunks are tracked");
  }
  settings_->log->add(settings_->device, warp, to);
}

void recorder::add(std::uint32_t warp, const trace::instruction& i) {
  using trace::action;
  node n;
  instruction out;
  out.depends = i.depends == trace::no_dependence ? none : i.depends;
  switch (i.kind) {
    case action::load:
      n.kind = instruction_kind::load;
      break;
    case action::store:
      n.kind = instruction_kind::store;
      break;
    case action::atomic:
      n.kind = instruction_kind::atomic;
      break;
    case action::release:  // the release waits for everything that the warp has in flight
      append(warp, instruction_kind::wait, 0);
      return;
    case action::wait: {
      // A load by one lane is recorded like a uniform load if the warp waits for the load at once.
      // A warp waits for an atomic only if the atomic orders memory.
      auto& before = (*programs_)[warp].instructions;
      const bool orders = !before.empty() && before.back().kind == instruction_kind::atomic;
      if (!before.empty() && before.back().kind == instruction_kind::load) {
        before.back().uniform = before.back().count == 1;
      }
      append(warp, instruction_kind::wait, orders ? ordered_ways : 0);
      return;
    }
    case action::compute:
      append(warp, instruction_kind::compute, i.count, static_cast<operation>(i.operation));
      return;
    case action::shuffle:
      append(warp, instruction_kind::shuffle, i.count);
      return;
    case action::barrier:
      append(warp, instruction_kind::barrier, 0);
      return;
    case action::shared:
      out.kind = instruction_kind::shared;
      out.count = i.count;
      (*programs_)[warp].instructions.push_back(out);
      return;
  }
  out.kind = n.kind;
  n.bytes = i.bytes;
  n.lanes = i.lanes;
  if (n.kind == instruction_kind::load) {
    out.count = static_cast<std::uint32_t>(__builtin_popcountll(i.lanes));
  }
  warp_ = warp;
  emit_lines(n.bytes, static_cast<std::uint32_t>(__builtin_popcountll(n.lanes)), i.addresses, out);
  if (settings_->totals != nullptr) add_totals(n, out.line_count);
  (*programs_)[warp].instructions.push_back(out);
  warp_ = none;
}

void recorder::flush() {
  if (count_ == 0) return;
  auto& program = (*programs_)[warp_].instructions;
  for (std::uint32_t id = head_; id != none; id = nodes_[id].next) {
    node& n = nodes_[id];
    n.emitted = static_cast<std::uint32_t>(program.size());
    // Only diverging lanes can cause a dependence on a later instruction. The recorder drops such a
    // dependence.
    const std::uint32_t depends = n.depends == none ? none : nodes_[n.depends].emitted;
    if (n.kind == instruction_kind::compute) {
      emit_compute(&addresses_[std::size_t{id} << lane_bits_], depends);
      if (n.emitted == program.size()) {
        n.emitted = none;
      } else {
        program.back().ends_iteration = n.ends_iteration;
      }
      continue;
    }
    instruction& out = program.emplace_back();
    out.kind = n.kind;
    out.depends = depends;
    const std::uint64_t* addresses = packed_addresses(n, id);
    if (n.kind == instruction_kind::shared) {
      out.count = bank_cycles(n, addresses);
    } else {
      emit_lines(n.bytes, static_cast<std::uint32_t>(__builtin_popcountll(n.lanes)), addresses,
                 out);
      if (settings_->totals != nullptr) add_totals(n, out.line_count);
      if (keeps_) keep_access(n, program.size() - 1);
      out.uniform = uniform_ && n.kind == instruction_kind::load;
      if (n.kind == instruction_kind::store && n.space == kernel::memory_space::replicated &&
          settings_->chunks != nullptr && settings_->counters == nullptr) {
        out.counted = true;
        ++counted_stores_;
      }
    }
    if (settings_->log != nullptr) log(warp_, n, addresses);
  }
  for (const reached& r : reached_) {
    const node& n = nodes_[r.node];
    const std::uint64_t below = n.lanes & ((std::uint64_t{1} << r.lane) - 1);
    repeating_.order.push_back(n.kept * repeated_lanes +
                               static_cast<std::uint32_t>(__builtin_popcountll(below)));
  }
  reached_.clear();
  first_id_ += count_;
  if (count_ > small_segment && ++segment_ == 0) {
    std::fill(table_.begin(), table_.end(), 0);
    segment_ = 1;
  }
  count_ = 0;
  nodes_.front().key_in_order = 0;
  nodes_.front().later_in_order = false;
  head_ = none;
  go_behind(none);
}

}  // namespace interlace::sim
