#include "cuda/transfer/copy_accounts.hpp"

#include <cstdio>
#include <utility>

namespace interlace::cuda {

copy_accounts::copy_accounts(std::function<void(const std::string&)> report)
    : report_(std::move(report)) {
  if (report_) return;
  report_ = [](const std::string& sentence) {
    static std::mutex mutex;
    static auto* const said = new std::set<std::string>();
    const std::lock_guard lock(mutex);
    if (said->insert(sentence).second) std::fprintf(stderr, "interlace: %s\n", sentence.c_str());
  };
}

copy_statistics copy_accounts::counted() const {
  copy_statistics now;
  now.direct = direct_.load();
  now.streams = streams_.load();
  now.graphs = graphs_.load();
  now.captured = captured_.load();
  now.bytes = bytes_.load();
  return now;
}

void copy_accounts::report(const std::string& sentence) {
  {
    const std::lock_guard lock(reports_mutex_);
    if (!reported_.insert(sentence).second) return;
  }
  report_(sentence);
}

}  // namespace interlace::cuda
