#include "sim/gpu/recorder.hpp"

#include <algorithm>
#include <array>

#include "base/errors.hpp"

namespace interlace::sim {

void recorder::begin_block(const settings& s, std::vector<warp_program>& programs) {
  settings_ = &s;
  programs_ = &programs;
  for (warp_program& p : programs) p.clear();
  warp_ = none;
  first_id_ = 0;
  published_ = false;
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

void recorder::begin_lane(std::uint32_t lane) {
  const std::uint32_t warp = lane / settings_->warp_width;
  if (warp != warp_) {
    flush();
    warp_ = warp;
  }
  lane_ = lane % settings_->warp_width;
  cursor_ = none;
  loops_.clear();
}

std::uint32_t recorder::find(std::uint64_t key) const {
  const std::size_t mask = table_.size() - 1;
  for (std::size_t slot = key >> table_shift_;; slot = (slot + 1) & mask) {
    const std::uint32_t id = table_[slot];
    if (id == none || nodes_[id].key == key) return id;
  }
}

void recorder::insert_key(std::uint32_t id) {
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = nodes_[id].key >> table_shift_;
  while (table_[slot] != none) slot = (slot + 1) & mask;
  table_[slot] = id;
}

void recorder::grow_table() {
  table_.assign(table_.size() * 2, none);
  --table_shift_;
  for (std::uint32_t id = 0; id < nodes_.size(); ++id) insert_key(id);
}

std::uint32_t recorder::reach(std::uint64_t key, instruction_kind kind) {
  // Lanes mostly follow the lane before them.
  std::uint32_t id = cursor_ == none ? head_ : nodes_[cursor_].next;
  while (true) {
    if (id == none || nodes_[id].key != key) id = find(key);
    if (id == none) break;
    if (nodes_[id].last_lane != lane_) {
      cursor_ = id;
      return id;
    }
    // The lane comes here again outside of any range loop: another instance of the instruction.
    key = mix(key + 1);
    id = nodes_[id].next;
  }
  id = static_cast<std::uint32_t>(nodes_.size());
  if (nodes_.size() * 2 >= table_.size()) grow_table();
  node n;
  n.key = key;
  n.kind = kind;
  std::uint32_t& link = cursor_ == none ? head_ : nodes_[cursor_].next;
  n.next = link;
  link = id;
  nodes_.push_back(n);
  addresses_.resize(nodes_.size() * settings_->warp_width);
  insert_key(id);
  cursor_ = id;
  return id;
}

std::uint32_t recorder::on_access(const kernel::access& a) {
  using kernel::access_kind;
  using kernel::memory_space;
  instruction_kind kind = instruction_kind::load;
  if (a.space == memory_space::shared) {
    kind = instruction_kind::shared;
  } else if (a.kind == access_kind::store) {
    kind = instruction_kind::store;
  } else if (a.kind == access_kind::atomic || a.kind == access_kind::reduce) {
    kind = instruction_kind::atomic;
  }
  std::uint64_t address =
      a.space == memory_space::shared
          ? reinterpret_cast<std::uintptr_t>(a.address)
          : static_cast<std::uint64_t>(static_cast<const std::byte*>(a.address) -
                                       settings_->address_base);
  bool up_to_date = true;
  if (a.space == memory_space::replicated && !settings_->subscribed.empty() &&
      settings_->subscribed[a.region] != nullptr) {
    subscriptions& s = *settings_->subscribed[a.region];
    if (kind == instruction_kind::load) {
      up_to_date = s.load(settings_->device, a.element);
      if (!up_to_date) address = s.at_owner(settings_->device, a.element, address);
    } else if (!a.primary &&
               !s.receives(static_cast<std::uint32_t>(address >> settings_->slot_bits),
                           a.element)) {
      return kernel::no_instruction;
    }
  }
  if (a.space == memory_space::replicated && settings_->regions[a.region] != nullptr) {
    if (kind != instruction_kind::load) {
      if (a.primary) settings_->regions[a.region]->wrote(a.element);
    } else if (up_to_date) {
      settings_->regions[a.region]->read(settings_->device, a.element);
    }
  }
  // What is stored was computed from what was loaded before it.
  const std::uint32_t before = cursor_;
  const std::uint32_t id = reach(key_of(a.site), kind);
  node& n = nodes_[id];
  n.last_lane = lane_;
  n.bytes = static_cast<std::uint8_t>(a.bytes);
  n.space = a.space;
  std::uint32_t depends = a.depends;
  if (a.kind == access_kind::store && before != none) depends = before + first_id_;
  if (depends != none && depends >= first_id_) n.depends = depends - first_id_;
  n.lanes |= std::uint64_t{1} << lane_;
  addresses_[std::size_t{id} * settings_->warp_width + n.count++] = address;
  return id + first_id_;
}

void recorder::on_compute(const operations& work, kernel::site_id site) {
  const std::uint32_t id = reach(key_of(site), instruction_kind::compute);
  node& n = nodes_[id];
  // Counts lie where an access has its addresses. The warp takes as long as its longest lane.
  std::uint64_t* most = &addresses_[std::size_t{id} * settings_->warp_width];
  const std::array<std::uint32_t, operation_kinds> counts{work.fp32, work.fp64, work.integer,
                                                          work.special};
  if (n.last_lane == none) std::fill_n(most, operation_kinds, 0);
  n.last_lane = lane_;
  for (std::size_t k = 0; k < operation_kinds; ++k) {
    most[k] = std::max<std::uint64_t>(most[k], counts[k]);
  }
  if (settings_->totals == nullptr) return;
  for (std::size_t k = 0; k < operation_kinds; ++k) settings_->totals->operations[k] += counts[k];
}

void recorder::enter_loop(kernel::site_id site) {
  loop l;
  l.base = mix(key_of(site) + 1);
  l.key = mix(l.base);
  loops_.push_back(l);
}

void recorder::next_iteration() {
  loop& l = loops_.back();
  ++l.iteration;
  l.key = mix(l.base + l.iteration);
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
  // The value steers what follows.
  const std::uint32_t warp = warp_;
  uniform_ = true;
  flush();
  uniform_ = false;
  if (warp != none) append(warp, instruction_kind::wait, 0);
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

std::uint32_t recorder::bank_cycles(const node& n, const std::uint64_t* addresses) const {
  // 32 banks of 4 bytes; lanes that read the same word share it.
  constexpr std::uint32_t banks = 32;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): only what was written is read
  std::array<std::uint64_t, 64> words;
  const std::uint32_t per_lane = std::max(1U, n.bytes / 4U);
  std::array<std::uint8_t, banks> load{};
  std::uint32_t cycles = 1;
  std::uint32_t distinct = 0;
  const bool broadcast = n.kind == instruction_kind::shared;
  for (std::uint32_t k = 0; k < n.count; ++k) {
    const std::uint64_t word = addresses[k] >> 2U;
    const auto bank = static_cast<std::uint32_t>(word % banks);
    bool seen = false;
    // Only a word of the same bank can be the same word.
    if (broadcast && load[bank] != 0) {
      for (std::uint32_t j = 0; j < distinct && !seen; ++j) seen = words[j] == word;
    }
    if (seen) continue;
    words[distinct++] = word;
    cycles = std::max<std::uint32_t>(cycles, ++load[bank]);
  }
  return cycles * per_lane;
}

void recorder::emit_lines(const node& n, const std::uint64_t* addresses, instruction& out) {
  const std::uint64_t line_mask = settings_->line_bytes - 1;
  lines_.clear();
  written_.clear();
  for (std::uint32_t k = 0; k < n.count; ++k) {
    const std::uint64_t line = addresses[k] & ~line_mask;
    std::size_t at = lines_.size();
    while (at > 0 && lines_[at - 1] != line) --at;
    if (at == 0) {
      lines_.push_back(line);
      written_.emplace_back();
      at = lines_.size();
    }
    written_bytes& w = written_[at - 1];
    w.bytes.set(static_cast<std::uint32_t>(addresses[k] & line_mask), n.bytes);
    ++w.lanes;
  }
  if (settings_->totals != nullptr) add_totals(n);
  warp_program& program = (*programs_)[warp_];
  out.first_line = static_cast<std::uint32_t>(program.lines.size());
  out.line_count = static_cast<std::uint16_t>(lines_.size());
  for (std::size_t k = 0; k < lines_.size(); ++k) {
    program.lines.emplace_back(lines_[k], static_cast<std::uint8_t>(written_[k].bytes.units(
                                              settings_->sector_bytes, settings_->line_bytes)));
  }
  if (n.kind == instruction_kind::load) return;
  out.first_written = static_cast<std::uint32_t>(program.written.size());
  program.written.insert(program.written.end(), written_.begin(), written_.end());
}

void recorder::add_totals(const node& n) const {
  using kernel::traced_access;
  const traced_access kind = n.kind == instruction_kind::load    ? traced_access::load
                             : n.kind == instruction_kind::store ? traced_access::store
                                                                 : traced_access::atomic;
  settings_->totals->of(kind, n.space) +=
      {lines_.size(), uniform_ ? settings_->warp_width : n.count};
}

void recorder::emit_compute(const std::uint64_t* counts, instruction out) {
  for (std::size_t k = 0; k < operation_kinds; ++k) {
    if (counts[k] == 0) continue;
    out.op = static_cast<operation>(k);
    out.count = static_cast<std::uint32_t>(counts[k]);
    (*programs_)[warp_].instructions.push_back(out);
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
    case instruction_kind::wait:
      to.kind = action::wait;
      break;
    case instruction_kind::barrier:
      to.kind = action::barrier;
      break;
    case instruction_kind::publish:
      throw model_error("a launch whose chunks are tracked was to be recorded");
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
    case action::release:  // waits for what the warp has under way
    case action::wait:
      append(warp, instruction_kind::wait, 0);
      return;
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
  n.count = static_cast<std::uint32_t>(__builtin_popcountll(i.lanes));
  // The largest power of two up to a word of 64 bytes that all of them are multiples of: an element
  // does not cross a word.
  std::uint64_t common = i.bytes | 64U;
  for (std::uint32_t k = 0; k < n.count; ++k) common |= i.addresses[k];
  const std::uint64_t piece = common & (0 - common);
  const std::uint64_t* addresses = i.addresses;
  if (piece < i.bytes) {
    pieces_.clear();
    for (std::uint32_t k = 0; k < n.count; ++k) {
      for (std::uint64_t at = 0; at < i.bytes; at += piece) {
        pieces_.push_back(i.addresses[k] + at);
      }
    }
    n.bytes = static_cast<std::uint8_t>(piece);
    n.count = static_cast<std::uint32_t>(pieces_.size());
    addresses = pieces_.data();
  }
  warp_ = warp;
  emit_lines(n, addresses, out);
  (*programs_)[warp].instructions.push_back(out);
  warp_ = none;
}

void recorder::flush() {
  if (nodes_.empty()) return;
  auto& program = (*programs_)[warp_].instructions;
  for (std::uint32_t id = head_; id != none; id = nodes_[id].next) {
    node& n = nodes_[id];
    const std::uint64_t* addresses = &addresses_[std::size_t{id} * settings_->warp_width];
    instruction out;
    out.kind = n.kind;
    n.emitted = static_cast<std::uint32_t>(program.size());
    // A dependence on something behind it can only be an artefact of diverging lanes.
    if (n.depends != none) out.depends = nodes_[n.depends].emitted;
    switch (n.kind) {
      case instruction_kind::load:
      case instruction_kind::store:
      case instruction_kind::atomic:
        emit_lines(n, addresses, out);
        if (n.kind == instruction_kind::store && n.space == kernel::memory_space::replicated &&
            settings_->chunks != nullptr && settings_->counters == nullptr) {
          out.count = 1;
          ++counted_stores_;
        }
        break;
      case instruction_kind::shared:
        out.count = bank_cycles(n, addresses);
        break;
      default:
        emit_compute(addresses, out);
        if (n.emitted == program.size()) n.emitted = none;
        continue;
    }
    program.push_back(out);
    if (settings_->log != nullptr) log(warp_, n, addresses);
  }
  first_id_ += static_cast<std::uint32_t>(nodes_.size());
  if (nodes_.size() * 8 < table_.size()) {
    // Cheaper than clearing a table that one large segment grew.
    for (const node& n : nodes_) {
      const std::size_t mask = table_.size() - 1;
      std::size_t slot = n.key >> table_shift_;
      while (table_[slot] != none) {
        table_[slot] = none;
        slot = (slot + 1) & mask;
      }
    }
  } else {
    std::fill(table_.begin(), table_.end(), none);
  }
  nodes_.clear();
  addresses_.clear();
  head_ = none;
  cursor_ = none;
}

}  // namespace interlace::sim
