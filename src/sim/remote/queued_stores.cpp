#include "sim/remote/queued_stores.hpp"

namespace interlace::sim {

queued_stores::queued_stores(gpu& of, event_queue& queue, fabric& links)
    : gpu_(of),
      queue_(queue),
      fabric_(links),
      egress_(of.index(), of.config(), of.addresses().devices, queue, links, of.counted().stores),
      unpacker_(of.config()) {}

void queued_stores::begin(store_path path) {
  egress_.begin(path);
  gpu_.queue_stores(path == store_path::packets ? nullptr : &egress_);
}

bool queued_stores::release() {
  ending_ = !egress_.release();
  return !ending_;
}

void queued_stores::handle(const event& e) {
  egress_.handle(e);
  free_taken();
}

void queued_stores::departed(const message& m) {
  egress_.departed(m);
  free_taken();
}

void queued_stores::free_taken() {
  for (const std::uint32_t unit : egress_.freed()) gpu_.store_taken(unit);
  egress_.freed().clear();
  if (!ending_) return;
  ending_ = false;
  gpu_.end_kernel_again();
}

void queued_stores::unpack(const message& m, const flushed_window& from) {
  const machine::cache& l2 = gpu_.config().l2;
  for (const queued_line& l : from.lines) {
    const auto sectors = static_cast<std::uint8_t>(l.bytes.units(l2.sector_bytes, l2.line_bytes));
    const picoseconds out =
        unpacker_.take(queue_.now(), static_cast<std::uint32_t>(__builtin_popcount(sectors)));
    gpu_.store_arrives(out + gpu_.port_to_l2(), line_access(l.line, sectors));
  }
  if (unpacker_.entered() > queue_.now()) fabric_.hold_last(m.from, m.to, unpacker_.entered());
}

}  // namespace interlace::sim
