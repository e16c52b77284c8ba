#include "run/pagerank.hpp"
#include "sim/node.hpp"

namespace interlace::run {

pagerank_result pagerank_on_sim(const pagerank_request& request,
                                const machine::machine& described) {
  sim::node node(described, request.gpus(), request.check_interrupt);
  return run_pagerank(node, request);
}

}  // namespace interlace::run
