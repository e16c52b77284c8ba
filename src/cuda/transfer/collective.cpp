#include "cuda/transfer/collective.hpp"

#include <cstddef>
#include <limits>
#include <string>

#include "interlace/base/errors.hpp"

namespace interlace::cuda {
namespace {

void check(const char* what, std::span<const device_address> send,
           std::span<const device_address> receive, std::uint64_t bytes) {
  const std::string name = what;
  if (send.size() != receive.size())
    throw usage_error(name + " has " + std::to_string(send.size()) + " buffers to send and " +
                      std::to_string(receive.size()) +
                      " to receive; give one of each kind for every participant");
  if (bytes == 0) return;
  if (!send.empty() && bytes > std::numeric_limits<std::uint64_t>::max() / 2 / send.size())
    throw usage_error(name + " of " + std::to_string(bytes) + " bytes is larger than any memory");
  for (std::size_t at = 0; at < send.size(); ++at)
    if (send[at] == 0 || receive[at] == 0)
      throw usage_error(std::string(send[at] == 0 ? "send" : "receive") + " buffer " +
                        std::to_string(at) + " of " + name + " is a null pointer");
}

void add(std::vector<batch_part>& copies, const batch_part& one) {
  if (one.bytes != 0 && one.to != one.from) copies.push_back(one);
}

}  // namespace

std::vector<batch_part> all_gather_copies(std::span<const device_address> send,
                                          std::span<const device_address> receive,
                                          std::uint64_t bytes) {
  check("an all-gather", send, receive, bytes);
  std::vector<batch_part> copies;
  for (std::size_t from = 0; from < send.size(); ++from)
    for (const device_address to : receive) add(copies, {to + from * bytes, send[from], bytes});
  return copies;
}

std::vector<batch_part> all_to_all_copies(std::span<const device_address> send,
                                          std::span<const device_address> receive,
                                          std::uint64_t bytes) {
  check("an all-to-all", send, receive, bytes);
  std::vector<batch_part> copies;
  for (std::size_t from = 0; from < send.size(); ++from)
    for (std::size_t to = 0; to < receive.size(); ++to)
      add(copies, {receive[to] + from * bytes, send[from] + to * bytes, bytes});
  return copies;
}

}  // namespace interlace::cuda
