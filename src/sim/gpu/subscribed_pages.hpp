// Of one region, which devices hold a replica of a page that is kept up to date, where that is not
// all that the region names. A recorder asks it about each access.
#pragma once

#include <cstdint>

namespace interlace::sim {

class subscribed_pages {
 public:
  virtual ~subscribed_pages() = default;
  // A device loads an element; false if it has no replica of it that is kept up to date.
  virtual bool load(std::uint32_t device, std::uint64_t element) = 0;
  // Whether stores to an element go to a device that the region names.
  virtual bool receives(std::uint32_t device, std::uint64_t element) const = 0;
  // Where the owner has what a device has at `address`.
  virtual std::uint64_t at_owner(std::uint32_t device, std::uint64_t element,
                                 std::uint64_t address) const = 0;
  // The region was exchanged.
  virtual void end_epoch() = 0;
};

}  // namespace interlace::sim
