// The places of a machine (its GPUs and the host), and the routes between places that copies can
// use. A route has the rate of its connection. The class also knows the places through which a
// message can be relayed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cuda/transfer/contexts.hpp"
#include "cuda/transfer/copy_machine.hpp"
#include "cuda/transfer/memory_view.hpp"
#include "interlace/copy.hpp"
#include "interlace/machine/machine.hpp"
#include "plan/copy_profile.hpp"

namespace interlace::cuda {

class copy_routes {
 public:
  // `of` and `on` must outlive this object.
  copy_routes(const contexts& of, const copy_machine& on, const copy_options& options);

  // The place of the memory at an address. There is no value if the memory has no place, or if it
  // can be in several places.
  std::optional<machine::endpoint> place_of(const memory_facts& facts) const;
  // All places: first the GPUs, then the host.
  std::vector<machine::endpoint> places() const;
  // Whether a copy engine can copy directly from one place to the other place.
  bool connected(machine::endpoint from, machine::endpoint to) const;
  // The time of a message that does not share the direct path with another message. The result is 0
  // if there is no direct path.
  std::uint64_t direct_ns(machine::endpoint from, machine::endpoint to, std::uint64_t bytes) const;
  // The places that may relay a message under this choice.
  const std::vector<machine::endpoint>& relays(machine::endpoint from, machine::endpoint to,
                                               const plan::copy_choice& choice) const;

  // The number of pairs. Pairs of places have numbers from 0 to pair_count() - 1.
  std::size_t pair_count() const { return place_count() * place_count(); }
  std::size_t pair_number(machine::endpoint from, machine::endpoint to) const {
    return place_number(from) * place_count() + place_number(to);
  }

 private:
  // The host is the last place.
  std::size_t place_count() const { return machine_.gpus.size() + 1; }
  std::size_t place_number(machine::endpoint place) const;
  machine::endpoint place_at(std::size_t number) const;
  bool accessible(std::size_t one, std::size_t other) const;
  std::vector<machine::endpoint> find_relays(std::size_t from, std::size_t to,
                                             const copy_options& options, std::size_t kinds) const;

  const contexts& contexts_;
  const copy_machine& machine_;
  std::vector<std::optional<std::uint32_t>> index_of_gpu_;  // the index is CUDA's number of the GPU
  std::vector<double> direct_bytes_per_s_;  // one for each pair; 0 if there is no direct path
  // The relays for each pair of places. The first index says which kinds of relays are allowed (bit
  // 0: GPUs, bit 1: the host). The second index is the number of the pair.
  std::array<std::vector<std::vector<machine::endpoint>>, 4> relays_;
};

}  // namespace interlace::cuda
