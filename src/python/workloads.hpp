// Runs of workloads: what Python asks for, and what it is told.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>

#include "run/workload.hpp"

namespace interlace::python {

using boundaries_in = nanobind::ndarray<const std::uint64_t, nanobind::ndim<1>, nanobind::c_contig,
                                        nanobind::device::cpu>;

// What a run of any workload takes besides its problem, which has `elements`; throws usage_error.
// A mechanism's name may end in "-without-transfers" (region_options::transfers).
run::request make_request(const std::string& mechanism, const boundaries_in& boundaries,
                          std::uint64_t elements, std::uint32_t iterations, double tolerance,
                          std::uint32_t split_ranges, std::uint64_t chunk_bytes,
                          std::uint32_t agent_threads, const std::string& variant);

// time_s, copy_s, iterations, residual, values, wire, timeline, accesses, remote_transactions,
// stores, work, sent_bytes, epoch_s.
nanobind::dict make_result(run::result result);

// What make_result tells of the last repeat; cpu_s, times_s, remarks, data_tx_bytes, raw_tx_bytes.
nanobind::dict make_measurement(run::measurement measured);

// usage_error, model_error and device_error reach Python as the classes of interlace.base.errors.
void translate_errors();

// Raises what a signal handler of Python's raises, Ctrl-C's KeyboardInterrupt above all.
void check_signals();

}  // namespace interlace::python
