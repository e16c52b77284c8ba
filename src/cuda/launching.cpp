#include "interlace/cuda/launching.hpp"

#include <map>
#include <mutex>
#include <typeindex>

namespace interlace::cuda {

namespace {

struct table {
  std::mutex mutex;
  std::map<std::type_index, launching_kernel> kernels;
};
table& known() {
  static table t;
  return t;
}

}  // namespace

void add_launching_kernel(const std::type_info& kernel, launching_kernel k) {
  const std::lock_guard lock(known().mutex);
  known().kernels[kernel] = k;
}

launching_kernel find_launching_kernel(const std::type_info& kernel) {
  const std::lock_guard lock(known().mutex);
  const auto found = known().kernels.find(kernel);
  return found == known().kernels.end() ? launching_kernel{} : found->second;
}

}  // namespace interlace::cuda
