// Converts the requests and the results of workload runs between Python and C++.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>

#include "interlace/run/workload.hpp"

namespace interlace::python {

using boundaries_in = nanobind::ndarray<const std::uint64_t, nanobind::ndim<1>, nanobind::c_contig,
                                        nanobind::device::cpu>;

// Returns the part of a request that all workloads have, for a problem with `elements` elements.
// Throws usage_error. The name of a mechanism may end in "-without-transfers"
// (region_options::transfers).
run::request make_request(const std::string& mechanism, const boundaries_in& boundaries,
                          std::uint64_t elements, std::uint32_t iterations, double tolerance,
                          std::uint32_t split_ranges, std::uint64_t chunk_bytes,
                          std::uint32_t agent_threads, const std::string& variant);

// Returns a dictionary of the result. The keys are time_s, copy_s, iterations, residual, values,
// wire, timeline, accesses, remote_transactions, stores, work, sent_bytes and epoch_s.
nanobind::dict make_result(run::result result);

// Returns a dictionary of the measurement. The keys are those of make_result, with the values of
// the last repeat, and also cpu_s, times_s, remarks, data_tx_bytes and raw_tx_bytes.
nanobind::dict make_measurement(run::measurement measured);

// Registers the translation of errors. In Python, usage_error, model_error and device_error become
// the classes of interlace.base.errors.
void translate_errors();

}  // namespace interlace::python
