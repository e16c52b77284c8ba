#include "base/agreement.hpp"

#include <exception>
#include <sstream>

#include "base/errors.hpp"

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
    throw usage_error(
        "the all-gather does not give every rank's bytes in the order of the ranks: " +
        std::to_string(all.size()) + " entries for " + std::to_string(size) +
        " ranks, or another one in the place of rank " + std::to_string(rank));
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
    std::istringstream first(of_ranks[0]);
    std::istringstream other(of_ranks[r]);
    std::string wanted;
    std::string got;
    do {
      wanted.clear();
      got.clear();
      std::getline(first, wanted);
      std::getline(other, got);
    } while (wanted == got && first && other);
    std::ostringstream text;
    text << "the ranks do not ask for the same " << what << ": rank 0 says '" << wanted
         << "' and rank " << r << " '" << got << "'";
    throw usage_error(text.str());
  }
}

}  // namespace interlace
