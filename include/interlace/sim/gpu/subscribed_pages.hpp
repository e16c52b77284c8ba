// Knows, for each page of one region, the devices that hold an up-to-date replica of the page.
// These can be fewer devices than the subscribers that the region names. A recorder asks this
// object about each access.
#pragma once

#include <cstdint>

namespace interlace::sim {

class subscribed_pages {
 public:
  virtual ~subscribed_pages() = default;
  // Notes that a device loads an element. Returns false if the device has no up-to-date replica of
  // the element.
  virtual bool load(std::uint32_t device, std::uint64_t element) = 0;
  // Whether stores to an element go to `device`, which is one of the subscribers that the region
  // names.
  virtual bool receives(std::uint32_t device, std::uint64_t element) const = 0;
  // The address of the element in the owner's memory. In the memory of `device`, the element is at
  // `address`.
  virtual std::uint64_t at_owner(std::uint32_t device, std::uint64_t element,
                                 std::uint64_t address) const = 0;
  // Notes that the region was exchanged.
  virtual void end_epoch() = 0;
};

}  // namespace interlace::sim
