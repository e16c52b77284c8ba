#include "cuda/transfer/block_memory.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "cuda/transfer/memory_view.hpp"

namespace interlace::cuda {
namespace {

// The most ranges to look at. Each range takes a question to the driver.
constexpr std::size_t most_ranges = 256;

class places_of_side {
 public:
  // Inspects the memory of one side. `known` may be null, and `peers` empty.
  places_of_side(const driver_table& driver, known_allocations* known, CUctx_st* context, int gpu,
                 const peer_contexts& peers)
      : driver_(driver), known_(known), context_(context), gpu_(gpu), peers_(peers) {}

  // The memory that was inspected last, or nothing if it is not usable.
  plan::block_extent usable() const {
    if (!any_ || last_.ends != block_ends::one_gpu) return {};
    return {last_.begin, last_.end};
  }
  // Inspects the memory of a block. Returns no value if the memory is usable. Otherwise returns the
  // reason why the memory is not usable.
  std::optional<block_ends> add(device_address address, std::uint64_t bytes) {
    if (address < last_.begin || address >= last_.end) {
      if (const known_range* const known = find(address)) {
        last_ = *known;
      } else {
        if (ranges_.size() == most_ranges) return block_ends::too_many;
        last_ = ask(address, bytes);
        if (last_.ends == block_ends::pageable) {  // the end of pageable memory is unknown
          pageable_ = true;
          last_ = {};
          return any_ && !host_ ? std::optional(block_ends::mixed) : std::nullopt;
        }
        ranges_.push_back(last_);
      }
    }
    if (last_.ends != block_ends::one_gpu) return last_.ends;
    if ((any_ && last_.host != host_) || (pageable_ && !last_.host)) return block_ends::mixed;
    any_ = true;
    host_ = last_.host;
    if (address + bytes <= last_.end) return std::nullopt;
    // A program sees adjacent mappings as one piece of memory, so the loop also inspects the
    // following mappings.
    const device_address end = last_.end;
    const bool before = pageable_;
    const std::optional<block_ends> rest = add(end, address + bytes - end);
    return pageable_ && !before ? block_ends::outside : rest;
  }

  // Whether the memory that was inspected last reaches to this address.
  bool reaches(device_address end) const { return end <= last_.end; }
  bool host() const { return host_ || pageable_; }
  bool pageable() const { return pageable_; }

 private:
  // The blocks of a batch often alternate among a few allocations, such as the layers of a cache.
  // For such a batch, one lookup finds the range, because addresses in one piece of memory are
  // mostly in the same range.
  const known_range* find(device_address address) {
    std::uint16_t& seen = seen_[(address >> piece_shift) % seen_.size()];
    const auto has = [&](const known_range& one) {
      return address >= one.begin && address < one.end;
    };
    if (seen < ranges_.size() && has(ranges_[seen])) return &ranges_[seen];
    const auto found = std::find_if(ranges_.begin(), ranges_.end(), has);
    if (found == ranges_.end()) return nullptr;
    seen = static_cast<std::uint16_t>(found - ranges_.begin());
    return &*found;
  }

  // One question for many attributes takes less time than two questions for a few attributes each.
  template <std::size_t Count>
  void ask_driver(std::array<int, Count> which, std::array<void*, Count> into,
                  device_address address) const {
    check(driver_,
          driver_.pointer_attributes(static_cast<unsigned>(Count), which.data(), into.data(),
                                     address),
          "cuPointerGetAttributes");
  }

  known_range ask(device_address address, std::uint64_t bytes) const {
    if (known_ == nullptr) return ask_all(address, bytes, nullptr);
    unsigned long long id = 0;
    ask_driver(std::array<int, 1>{pointer_buffer_id}, std::array<void*, 1>{&id}, address);
    const known_range* const known = known_->find(id, context_);
    if (known != nullptr && address >= known->begin && address < known->end) return *known;
    bool lasting = false;
    const known_range found = ask_all(address, bytes, &lasting);
    if (lasting) known_->add(id, context_, found);
    return found;
  }

  // Asks the driver for all facts about an address. If `lasting` is not null, sets
  // `*lasting` to whether the facts hold as long as the allocation exists. A GPU's access to
  // virtual memory and to memory of pools can change.
  known_range ask_all(device_address address, std::uint64_t bytes, bool* lasting) const {
    memory_facts facts;
    device_address on_device = 0;
    device_address begin = 0;
    std::size_t size = 0;
    std::array<int, 9> which{pointer_context,   pointer_memory_type, pointer_is_managed,
                             pointer_device,    pointer_is_plain,    pointer_pool,
                             pointer_on_device, pointer_range_begin, pointer_range_bytes};
    std::array<void*, 9> into{&facts.context, &facts.type, &facts.managed, &facts.gpu, &facts.plain,
                              &facts.pool,    &on_device,  &begin,         &size};
    ask_driver(which, into, address);
    known_range found{.begin = address, .end = address + bytes, .ends = block_ends::pageable};
    if (facts.managed != 0) {
      found.ends = block_ends::managed;
      return found;
    }
    if (facts.type != memory_host && facts.type != memory_device) return found;
    found.host = facts.type == memory_host;
    found.ends = block_ends::one_gpu;
    const bool mapped = !found.host && facts.plain == 0 && facts.pool == nullptr;
    if (mapped)
      ask_driver(std::array<int, 2>{pointer_mapping_base, pointer_mapping_bytes},
                 std::array<void*, 2>{&begin, &size}, address);
    if (on_device != address) found.ends = block_ends::no_access;
    const bool of_peer = !found.host && facts.gpu != gpu_;
    CUctx_st* const owner = of_peer && peers_ ? peers_(facts.gpu) : context_;
    if (of_peer && (!peers_ || owner == nullptr || (facts.plain == 0 && !mapped)))
      found.ends = block_ends::other_gpu;
    else if (!found.host && facts.plain != 0 && facts.context != owner)
      found.ends = block_ends::other_context;
    memory_location place;
    place.id = gpu_;
    unsigned long long access = 0;
    if (mapped && (driver_.memory_access(&access, &place, address) != driver_result::success ||
                   access != access_read_and_write))
      found.ends = block_ends::no_access;
    if (size == 0 || address < begin ||
        address - begin >= size) {  // the driver gives no usable range
      found.ends = block_ends::no_access;
      return found;
    }
    found.begin = begin;
    found.end = begin + size;
    if (lasting != nullptr)
      *lasting = found.ends == block_ends::one_gpu && (found.host || facts.plain != 0);
    return found;
  }

  const driver_table& driver_;
  known_allocations* known_;
  CUctx_st* context_;
  int gpu_;
  const peer_contexts& peers_;
  static constexpr int piece_shift = 21;
  std::vector<known_range> ranges_;
  // for each piece of memory, the range in which it was found last
  std::array<std::uint16_t, 1024> seen_{};
  known_range last_;
  bool any_ = false;
  bool host_ = false;
  bool pageable_ = false;
};

bool inside(const plan::block_extent& all, device_address address, std::uint64_t bytes) {
  return address >= all.begin && address + bytes <= all.end;
}

}  // namespace

block_places find_places(const driver_table& driver, known_allocations& known, CUctx_st* context,
                         const plan::block_list& list, const plan::block_shape& shape,
                         const peer_contexts& peers) {
  int gpu = 0;
  check(driver, driver.current_gpu(&gpu), "cuCtxGetDevice");
  const std::unique_lock lock(known.mutex(), std::try_to_lock);
  known_allocations* const usable = lock.owns_lock() ? &known : nullptr;
  places_of_side to(driver, usable, context, gpu, peers);
  places_of_side from(driver, usable, context, gpu, peers);
  // On most sides of batches, all blocks are in one allocation. On such a side, it is enough to
  // check the extent of all blocks together.
  const auto settled = [](places_of_side& side, const plan::block_extent& all) {
    return !side.add(all.begin, 1) && !side.pageable() && side.reaches(all.end);
  };
  std::optional<block_ends> reason;
  const bool to_settled = settled(to, shape.to);
  const bool from_settled = settled(from, shape.from);
  if (list.count == 0) {
    if (!to_settled) reason = to.add(shape.to.begin, shape.to.end - shape.to.begin);
    if (!from_settled && !reason)
      reason = from.add(shape.from.begin, shape.from.end - shape.from.begin);
  } else if (!to_settled || !from_settled) {
    // Two local extents, because the compiler keeps them in registers while the loop looks at
    // thousands of blocks.
    constexpr plan::block_extent everything{0, std::numeric_limits<std::uint64_t>::max()};
    plan::block_extent in_to = to_settled ? everything : to.usable();
    plan::block_extent in_from = from_settled ? everything : from.usable();
    plan::each_block(
        list, [&](std::size_t, std::uint64_t to_at, std::uint64_t from_at, std::uint64_t bytes) {
          if (bytes == 0) return true;
          const device_address target = list.to.base + to_at * list.to.scale;
          const device_address source = list.from.base + from_at * list.from.scale;
          if (!inside(in_to, target, bytes)) {
            reason = to.add(target, bytes);
            in_to = to.usable();
          }
          if (!reason && !inside(in_from, source, bytes)) {
            reason = from.add(source, bytes);
            in_from = from.usable();
          }
          return !reason;
        });
  }
  if (!reason && (to.pageable() || from.pageable())) reason = block_ends::pageable;
  return {reason.value_or(block_ends::one_gpu), to.host(), from.host(), to.pageable(),
          from.pageable()};
}

}  // namespace interlace::cuda
