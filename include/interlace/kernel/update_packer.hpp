// Packs updates of partitioned arrays in blocks that run lane by lane (the mechanism `packed`).
//
// As on a GPU, each warp has a packet for each bin in shared memory. There is a bin for each owner
// or, if parts have windows, for each window of each owner. An update takes the next place in its
// bin's packet; a match of the warp's lanes finds this place. The warp that fills a packet sends
// the packet: it takes a slot of the queue by an atomic addition in its own memory, and stores the
// packet in the slot, 16 bytes for each lane. Before sending, the warp combines updates of the same
// element. If combining frees at least a quarter of the packet, the packet stays and fills again.
// If combining frees less than a sixteenth, the warp sends its next packets without combining.
//
// Lanes run one after another here, so their updates wait until all lanes of the warp have run. The
// warp then packs the first update of each lane, the second update of each lane, and so on. A GPU
// packs at the place of the update. The GPU makes the same accesses, but these accesses come
// between the kernel's other accesses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "interlace/base/errors.hpp"
#include "interlace/kernel.hpp"
#include "interlace/kernel/access.hpp"

namespace interlace::kernel {

class update_packer {
 public:
  // Takes an update of another device's element. `offset` is the index of the element in its
  // owner's part.
  template <class T, combine Op>
  void add(const partitioned<T, Op>& view, std::uint32_t lane, std::uint32_t owner,
           std::uint32_t offset, T value) {
    if (!used_) begin(view);
    if (queues_.sent != view.queues.sent) {
      throw model_error(
          "a kernel packs updates of two partitioned arrays; launch one kernel for each array");
    }
    if (lanes_.size() <= lane) lanes_.resize(lane + std::size_t{1});
    update u{queues_.bin(owner, offset), offset, {}};
    std::memcpy(u.value, &value, sizeof(T));
    lanes_[lane].push_back(u);
    waits_ = true;
  }
  // Whether lanes have updates that are not packed yet.
  bool waits() const { return waits_; }
  // Whether the block has packed anything.
  bool used() const { return used_; }

  // Packs the updates of a warp's lanes.
  template <class Observer>
  void pack(Observer& observer, const block_place& place, std::uint32_t warp) {
    const std::uint32_t first = warp * place.warp_width;
    const std::uint32_t last = std::min(place.threads, first + place.warp_width);
    const auto at = [&](std::uint32_t lane) -> std::vector<update>& { return lanes_[lane]; };
    lanes_.resize(std::max<std::size_t>(lanes_.size(), place.threads));
    if (used_) fit((place.threads + place.warp_width - 1) / place.warp_width);
    std::size_t rounds = 0;
    for (std::uint32_t lane = first; lane < last; ++lane)
      rounds = std::max(rounds, at(lane).size());
    for (std::size_t round = 0; round < rounds; ++round) {
      turn_.clear();
      for (std::uint32_t lane = first; lane < last; ++lane) {
        if (round < at(lane).size()) turn_.push_back({lane, at(lane)[round]});
      }
      if constexpr (Observer::active) {
        // The accesses are a match, and a shuffle that gives each lane its place in the packet.
        observer.on_shuffle(warp, 2, operation::integer, 12);
      }
      while (!turn_.empty()) put_turn(observer, place, warp);
    }
    for (std::uint32_t lane = first; lane < last; ++lane) at(lane).clear();
    waits_ = std::any_of(lanes_.begin(), lanes_.end(), [](const auto& l) { return !l.empty(); });
  }

  // Sends the packets that are not full.
  template <class Observer>
  void finish(Observer& observer, const block_place& place) {
    for (std::uint32_t warp = 0; warp * place.warp_width < place.threads; ++warp) {
      for (std::uint32_t bin = 0; bin < bins_; ++bin) {
        if (filled(warp, bin) != 0) send(observer, place, warp, bin);
      }
    }
  }

  // Forgets everything, so that the next block can use the object.
  void reset() {
    if (!used_ && !waits_) return;
    used_ = false;
    waits_ = false;
    for (auto& l : lanes_) l.clear();
    std::fill(filled_.begin(), filled_.end(), 0U);
    std::fill(uncombined_.begin(), uncombined_.end(), 0U);
  }

 private:
  struct update {
    std::uint32_t bin = 0;
    std::uint32_t offset = 0;
    unsigned char value[8] = {};
  };
  struct lane_update {
    std::uint32_t lane = 0;
    update what;
  };

  template <class T, combine Op>
  void begin(const partitioned<T, Op>& view) {
    used_ = true;
    queues_ = view.queues;
    device_ = view.device;
    devices_ = view.devices;
    bins_ = devices_ * queues_.windows;
    counts_ = view.counts;
    value_bytes_ = sizeof(T);
    capacity_ = queues_.capacity(sizeof(T));
    offsets_at_ = queues_.offsets_at(sizeof(T));
    stores_ = Op == combine::store;
    for (std::uint32_t d = 0; d < devices_; ++d) {
      parts_[d] = reinterpret_cast<unsigned char*>(view.parts[d]);
    }
    combine_ = [](unsigned char* into, const unsigned char* from) {
      T a;
      T b;
      std::memcpy(&a, into, sizeof(T));
      std::memcpy(&b, from, sizeof(T));
      a = combine_values<T, Op>(a, b);
      std::memcpy(into, &a, sizeof(T));
    };
  }

  struct alignas(128) line {
    unsigned char bytes[128];
  };

  void fit(std::uint32_t warps) {
    const std::size_t packets = std::size_t{warps} * bins_;
    if (filled_.size() < packets) filled_.resize(packets, 0);
    if (uncombined_.size() < warps) uncombined_.resize(warps, 0);
    const std::size_t lines = packets * queues_.packet_bytes / sizeof(line);
    if (lines_.size() < lines) lines_.resize(lines);
  }
  std::uint32_t& filled(std::uint32_t warp, std::uint32_t bin) {
    return filled_[std::size_t{warp} * bins_ + bin];
  }
  unsigned char* packet(std::uint32_t warp, std::uint32_t bin) {
    return lines_.front().bytes + (std::size_t{warp} * bins_ + bin) * queues_.packet_bytes;
  }
  // The counters for packets to other devices. For packets of the device's own elements the result
  // is null.
  update_counts* counts_of(std::uint32_t bin) const {
    return bin / queues_.windows == device_ ? nullptr : counts_;
  }
  unsigned char* value_at(unsigned char* packet, std::uint32_t k) const {
    return packet + update_queues::header_bytes + std::size_t{k} * value_bytes_;
  }
  unsigned char* offset_at(unsigned char* packet, std::uint32_t k) const {
    return packet + offsets_at_ + std::size_t{k} * sizeof(std::uint32_t);
  }
  static std::uint32_t word(const unsigned char* p) {
    std::uint32_t w = 0;
    std::memcpy(&w, p, sizeof w);
    return w;
  }

  // Names for the packer's accesses. They stand for places in a kernel's source.
  enum class step : std::uint8_t { value, offset, slot, read, write, single };
  static site_id site_of(step s) {
    static constexpr char places[8] = {};
    return static_cast<site_id>(
        reinterpret_cast<std::uintptr_t>(&places[static_cast<std::size_t>(s)]));
  }
  template <class Observer>
  static void note(Observer& observer, access_kind kind, memory_space space, const void* address,
                   std::uint32_t bytes, step s) {
    access a;
    a.kind = kind;
    a.space = space;
    a.bytes = bytes;
    a.address = address;
    a.site = site_of(s);
    a.primary = false;
    observer.on_access(a);
  }

  // Puts updates of `turn_` into packets that have room, and sends full packets. Updates without
  // room stay in `turn_`.
  template <class Observer>
  void put_turn(Observer& observer, const block_place& place, std::uint32_t warp) {
    if constexpr (Observer::active) observer.begin_segment();
    std::size_t left = 0;
    for (const lane_update& u : turn_) {
      std::uint32_t& n = filled(warp, u.what.bin);
      if (n == capacity_) {
        turn_[left++] = u;
        continue;
      }
      unsigned char* to = packet(warp, u.what.bin);
      unsigned char* value = value_at(to, n);
      unsigned char* offset = offset_at(to, n);
      std::memcpy(value, u.what.value, value_bytes_);
      std::memcpy(offset, &u.what.offset, sizeof u.what.offset);
      ++n;
      if constexpr (Observer::active) {
        observer.begin_lane(u.lane);
        note(observer, access_kind::store, memory_space::shared, value, value_bytes_, step::value);
        note(observer, access_kind::store, memory_space::shared, offset, 4, step::offset);
      }
    }
    turn_.resize(left);
    if constexpr (Observer::active) observer.on_barrier(false);
    for (std::uint32_t bin = 0; bin < bins_; ++bin) {
      if (filled(warp, bin) != capacity_) continue;
      if (!queues_.combines || !make_room(observer, warp, bin)) {
        send(observer, place, warp, bin);
      }
    }
  }

  // Combines updates of the same element. Returns true if the combining freed at least a quarter of
  // the packet.
  template <class Observer>
  bool make_room(Observer& observer, std::uint32_t warp, std::uint32_t bin) {
    if (uncombined_[warp] != 0) {
      --uncombined_[warp];
      return false;
    }
    unsigned char* p = packet(warp, bin);
    std::uint32_t& n = filled(warp, bin);
    if constexpr (Observer::active) {
      // Each lane compares its updates with all earlier updates.
      observer.on_shuffle(warp, 2, operation::integer, 3 * n);
    }
    std::uint32_t kept = 0;
    for (std::uint32_t k = 0; k < n; ++k) {
      const std::uint32_t offset = word(offset_at(p, k));
      std::uint32_t same = 0;
      while (same < kept && word(offset_at(p, same)) != offset) ++same;
      if (same < kept) {
        combine_(value_at(p, same), value_at(p, k));
        continue;
      }
      std::memmove(value_at(p, kept), value_at(p, k), value_bytes_);
      std::memcpy(offset_at(p, kept), &offset, sizeof offset);
      ++kept;
    }
    const std::uint32_t freed = n - kept;
    if (update_counts* counts = counts_of(bin)) counts->combined += freed;
    n = kept;
    if (freed * 16 < capacity_) uncombined_[warp] = update_queues::uncombined;
    return freed * 4 >= capacity_;
  }

  template <class Observer>
  void send(Observer& observer, const block_place& place, std::uint32_t warp, std::uint32_t bin) {
    const std::uint32_t owner = bin / queues_.windows;
    unsigned char* p = packet(warp, bin);
    const std::uint32_t n = std::exchange(filled(warp, bin), 0U);
    const std::uint32_t window = bin % queues_.windows;
    std::memset(p, 0, update_queues::header_bytes);
    std::memcpy(p, &n, sizeof n);
    std::memcpy(p + sizeof n, &window, sizeof window);
    const std::uint32_t first = warp * place.warp_width;
    if constexpr (Observer::active) {
      observer.begin_segment();
      observer.begin_lane(first);
      note(observer, access_kind::atomic, memory_space::local, queues_.sent + owner, 4, step::slot);
      observer.on_acquire_release();
    }
    if (queues_.sent[owner] >= queues_.packets) {
      send_single(observer, place, warp, bin, n);
      return;
    }
    const std::uint32_t slot = queues_.sent[owner]++;
    unsigned char* to = queues_.to[owner] + std::size_t{slot} * queues_.packet_bytes;
    std::uint32_t bytes = queues_.packet_bytes;
    if (n == capacity_) {
      copy(observer, place, warp, p, to, bytes);
    } else {
      const std::uint32_t values = (update_queues::header_bytes + n * value_bytes_ + 15) / 16 * 16;
      const std::uint32_t offsets = (n * 4 + 15) / 16 * 16;
      copy(observer, place, warp, p, to, values);
      copy(observer, place, warp, p + offsets_at_, to + offsets_at_, offsets);
      bytes = values + offsets;
    }
    if (update_counts* counts = counts_of(bin)) {
      ++counts->packets;
      counts->packet_bytes += bytes;
    }
  }

  // Copies bytes, in multiples of 16, from shared memory.
  template <class Observer>
  static void copy(Observer& observer, const block_place& place, std::uint32_t warp,
                   const unsigned char* from, unsigned char* to, std::uint32_t bytes) {
    std::memcpy(to, from, bytes);
    if constexpr (Observer::active) {
      constexpr std::uint32_t each = 16;
      const std::uint32_t first = warp * place.warp_width;
      const std::uint32_t lanes = std::min(place.threads, first + place.warp_width) - first;
      for (std::uint32_t at = 0; at < bytes; at += lanes * each) {
        observer.begin_segment();
        for (std::uint32_t k = 0; k < lanes && at + k * each < bytes; ++k) {
          observer.begin_lane(first + k);
          note(observer, access_kind::load, memory_space::shared, from + at + k * each, each,
               step::read);
          note(observer, access_kind::store, memory_space::local, to + at + k * each, each,
               step::write);
        }
        observer.on_barrier(false);
      }
    }
  }

  // Updates the owner's memory directly, because the owner's queue is full.
  template <class Observer>
  void send_single(Observer& observer, const block_place& place, std::uint32_t warp,
                   std::uint32_t bin, std::uint32_t n) {
    const std::uint32_t owner = bin / queues_.windows;
    unsigned char* p = packet(warp, bin);
    const std::uint32_t first = warp * place.warp_width;
    const std::uint32_t lanes = std::min(place.threads, first + place.warp_width) - first;
    for (std::uint32_t at = 0; at < n; at += lanes) {
      if constexpr (Observer::active) observer.begin_segment();
      for (std::uint32_t k = at; k < std::min(n, at + lanes); ++k) {
        unsigned char* element = parts_[owner] + std::size_t{word(offset_at(p, k))} * value_bytes_;
        combine_(element, value_at(p, k));
        if constexpr (Observer::active) {
          observer.begin_lane(first + k - at);
          note(observer, stores_ ? access_kind::store : access_kind::atomic, memory_space::local,
               element, value_bytes_, step::single);
        }
      }
      if constexpr (Observer::active) observer.on_barrier(false);
    }
    if (update_counts* counts = counts_of(bin)) counts->without_room += n;
  }

  bool used_ = false;
  bool waits_ = false;
  update_queues queues_;
  std::uint32_t device_ = 0;
  std::uint32_t devices_ = 0;
  std::uint32_t bins_ = 0;  // number of packets of a warp
  update_counts* counts_ = nullptr;
  std::uint32_t value_bytes_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t offsets_at_ = 0;
  bool stores_ = false;
  unsigned char* parts_[max_devices] = {};
  void (*combine_)(unsigned char* into, const unsigned char* from) = nullptr;
  std::vector<std::vector<update>> lanes_;  // for each lane, the updates that wait
  std::vector<lane_update> turn_;
  std::vector<std::uint32_t> filled_;  // [warp][bin]: number of updates in the packet
  // [warp]: number of full packets that the warp still sends without combining
  std::vector<std::uint32_t> uncombined_;
  std::vector<line> lines_;  // [warp][bin][packet_bytes]
};

}  // namespace interlace::kernel
