#include "cuda/transfer/copy_routes.hpp"

#include <algorithm>

#include "plan/resources.hpp"

namespace interlace::cuda {
namespace {

using machine::endpoint;
using machine::endpoint_kind;

constexpr std::size_t through_gpus = 1;
constexpr std::size_t through_host = 2;

}  // namespace

copy_routes::copy_routes(const contexts& of, const copy_machine& on, const copy_options& options)
    : contexts_(of), machine_(on) {
  index_of_gpu_.resize(static_cast<std::size_t>(contexts_.count()));
  for (std::uint32_t index = 0; index < machine_.gpus.size(); ++index)
    index_of_gpu_.at(static_cast<std::size_t>(machine_.gpus[index])) = index;
  const plan::resources resources(machine_.described);
  for (std::size_t from = 0; from < place_count(); ++from)
    for (std::size_t to = 0; to < place_count(); ++to) {
      const auto leg = resources.copy(place_at(from), place_at(to));
      direct_bytes_per_s_.push_back(leg ? leg->bytes_per_s : 0);
    }
  for (std::size_t kinds = 0; kinds < relays_.size(); ++kinds)
    for (std::size_t from = 0; from < place_count(); ++from)
      for (std::size_t to = 0; to < place_count(); ++to)
        relays_[kinds].push_back(find_relays(from, to, options, kinds));
}

std::optional<endpoint> copy_routes::place_of(const memory_facts& facts) const {
  if (facts.managed != 0) return std::nullopt;
  if (facts.type == memory_host) return endpoint{endpoint_kind::host, 0};
  if (facts.type != memory_device) return std::nullopt;
  const auto index = index_of_gpu_.at(static_cast<std::size_t>(facts.gpu));
  if (!index) return std::nullopt;
  return endpoint{endpoint_kind::gpu, *index};
}

std::vector<endpoint> copy_routes::places() const {
  std::vector<endpoint> all;
  for (std::size_t number = 0; number < place_count(); ++number) all.push_back(place_at(number));
  return all;
}

bool copy_routes::connected(endpoint from, endpoint to) const {
  if (!accessible(place_number(from), place_number(to))) return false;
  return from == to || direct_bytes_per_s_[pair_number(from, to)] > 0;
}

std::uint64_t copy_routes::direct_ns(endpoint from, endpoint to, std::uint64_t bytes) const {
  const double rate = direct_bytes_per_s_[pair_number(from, to)];
  return rate > 0 ? static_cast<std::uint64_t>(static_cast<double>(bytes) / rate * 1e9) : 0;
}

const std::vector<endpoint>& copy_routes::relays(endpoint from, endpoint to,
                                                 const plan::copy_choice& choice) const {
  const std::size_t kinds = (choice.gpus ? through_gpus : 0) + (choice.host ? through_host : 0);
  return relays_[kinds][pair_number(from, to)];
}

std::size_t copy_routes::place_number(endpoint place) const {
  return place.kind == endpoint_kind::host ? machine_.gpus.size() : place.index;
}

endpoint copy_routes::place_at(std::size_t number) const {
  if (number == machine_.gpus.size()) return {endpoint_kind::host, 0};
  return {endpoint_kind::gpu, static_cast<std::uint32_t>(number)};
}

// Whether the memory of two places can be copied at all. The two places may be the same GPU.
bool copy_routes::accessible(std::size_t one, std::size_t other) const {
  const std::size_t host = machine_.gpus.size();
  if (one == host || other == host) return one != other;
  const int first = machine_.gpus[one];
  const int second = machine_.gpus[other];
  return contexts_.context_of(first) != nullptr && contexts_.context_of(second) != nullptr &&
         contexts_.peers(first, second);
}

// The places that the copy engines of both ends can reach without another relay.
std::vector<endpoint> copy_routes::find_relays(std::size_t from, std::size_t to,
                                               const copy_options& options,
                                               std::size_t kinds) const {
  const std::size_t host = machine_.gpus.size();
  const auto allowed = [&](int place) {
    return !options.relays || std::find(options.relays->begin(), options.relays->end(), place) !=
                                  options.relays->end();
  };
  std::vector<endpoint> found;
  if (from == to || !accessible(from, to)) return found;
  for (std::size_t gpu = 0; gpu < host; ++gpu)
    if ((kinds & through_gpus) != 0 && gpu != from && gpu != to && allowed(machine_.gpus[gpu]) &&
        accessible(gpu, gpu) && accessible(from, gpu) && accessible(gpu, to))
      found.push_back(place_at(gpu));
  if ((kinds & through_host) != 0 && from != host && to != host && allowed(copy_through_host))
    found.push_back(place_at(host));
  return found;
}

}  // namespace interlace::cuda
