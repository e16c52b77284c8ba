// Conversions that both extension modules need for run_pagerank.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>

#include "run/pagerank.hpp"

namespace interlace::python {

template <class T>
using array_in =
    nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

// Checks that the arrays describe a graph and its boundaries; throws usage_error. The request
// points into the arrays.
run::pagerank_request make_request(const array_in<std::uint64_t>& offsets,
                                   const array_in<std::uint32_t>& columns,
                                   const array_in<std::uint32_t>& out_degree,
                                   const array_in<std::uint64_t>& boundaries, std::uint32_t gpus,
                                   const std::string& mechanism, double damping,
                                   std::uint32_t iterations, double tolerance,
                                   std::uint32_t split_ranges);

// time_s, copy_s, iterations, residual, ranks, wire, timeline, accesses, remote_transactions.
nanobind::dict make_result(run::pagerank_result result);

// Makes usage_error, model_error and device_error Python exceptions of the module.
void bind_errors(nanobind::module_& module);

// Raises what a signal handler of Python's raises, Ctrl-C's KeyboardInterrupt above all.
void check_signals();

}  // namespace interlace::python
