#include "host/node.hpp"
#include "run/pagerank.hpp"

namespace interlace::run {

pagerank_result pagerank_on_host(const pagerank_request& request) {
  host::node node({.devices = request.gpus(), .warp_width = 32, .checks = true});
  return run_pagerank(node, request);
}

}  // namespace interlace::run
