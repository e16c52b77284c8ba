#include "base/agreement.hpp"

#include <exception>
#include <string_view>

#include "base/cut_text.hpp"
#include "interlace/base/errors.hpp"

namespace interlace {

namespace {
constexpr char brings = 'o';
constexpr char fails = 'e';
}  // namespace

std::vector<std::string> agree(const gather_function& gather, std::uint32_t rank,
                               std::uint32_t size, const std::function<std::string()>& make) {
  std::string own;
  std::exception_ptr error;
  try {
    own = brings + make();
  } catch (const std::exception& e) {
    error = std::current_exception();
    own = fails + std::string(e.what());
  }
  std::vector<std::string> all = gather(own);
  if (all.size() != size || all[rank] != own) {
    if (error != nullptr) std::rethrow_exception(error);
    throw usage_error("the all-gather does not give every rank's bytes in rank order: " +
                      std::to_string(all.size()) + " entries for " + std::to_string(size) +
                      " ranks, or another rank's bytes in the place of rank " +
                      std::to_string(rank));
  }
  if (error != nullptr) std::rethrow_exception(error);
  for (std::uint32_t r = 0; r < size; ++r) {
    if (all[r].empty() || all[r][0] != brings) {
      throw usage_error("rank " + std::to_string(r) +
                        " cannot take part: " + (all[r].empty() ? "" : all[r].substr(1)));
    }
    all[r].erase(0, 1);
  }
  return all;
}

void require_same(const std::vector<std::string>& of_ranks, const std::string& what) {
  for (std::size_t r = 1; r < of_ranks.size(); ++r) {
    if (of_ranks[r] == of_ranks[0]) continue;
    std::string_view first = of_ranks[0];
    std::string_view other = of_ranks[r];
    std::string_view wanted;
    std::string_view got;
    do {
      wanted = cut_text(first, '\n');
      got = cut_text(other, '\n');
    } while (wanted == got && !(first.empty() && other.empty()));
    throw usage_error("the ranks do not agree on " + what + ": rank 0 says '" +
                      std::string(wanted) + "' and rank " + std::to_string(r) + " '" +
                      std::string(got) + "'");
  }
}

}  // namespace interlace
