// The workloads, as both extension modules bind them.
//
// A workload is a function here, defined in workload_NAME.cpp, that checks its arrays and makes a
// problem which points into them, and a line in each_workload.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>

#include "run/als.hpp"
#include "run/ct.hpp"
#include "run/diffusion.hpp"
#include "run/eqwp.hpp"
#include "run/halo_jacobi.hpp"
#include "run/hit.hpp"
#include "run/jacobi.hpp"
#include "run/pagerank.hpp"
#include "run/sssp.hpp"
#include "run/workload.hpp"

namespace interlace::python {

template <class T>
using array_in =
    nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
template <class T>
using matrix_in =
    nanobind::ndarray<const T, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
template <class T>
using grid_in =
    nanobind::ndarray<const T, nanobind::ndim<3>, nanobind::c_contig, nanobind::device::cpu>;

// Throws usage_error for one that is too large.
workload::grid_shape shape_of(const grid_in<float>& grid);

run::pagerank_problem pagerank_problem(const array_in<std::uint64_t>& offsets,
                                       const array_in<std::uint32_t>& columns,
                                       const array_in<std::uint32_t>& out_degree, double damping,
                                       const std::string& kernel, const std::string& subscribe);
run::jacobi_problem jacobi_problem(const matrix_in<float>& diagonals, const array_in<float>& right,
                                   bool halo);
run::sssp_problem sssp_problem(const array_in<std::uint64_t>& offsets,
                               const array_in<std::uint32_t>& columns,
                               const array_in<float>& weights, std::uint64_t source,
                               const std::string& kernel, const std::string& subscribe);
run::als_problem als_problem(
    const array_in<std::uint64_t>& user_offsets, const array_in<std::uint32_t>& user_items,
    const array_in<float>& user_values, const array_in<std::uint64_t>& item_offsets,
    const array_in<std::uint32_t>& item_users, const array_in<float>& item_values,
    const matrix_in<float>& start_users, const matrix_in<float>& start_items,
    const std::string& method, double lambda, double rate, std::uint32_t steps,
    const std::string& kernel, const std::string& subscribe);
run::ct_problem ct_problem(const matrix_in<float>& measured, const matrix_in<float>& weights,
                           const matrix_in<float>& curvature, std::uint32_t subsets, double beta,
                           const std::string& subscribe);
run::diffusion_problem diffusion_problem(const grid_in<float>& start, const std::string& equation,
                                         double rate, double speed);
run::eqwp_problem eqwp_problem(const grid_in<float>& velocity, const matrix_in<float>& medium,
                               const std::string& kernel);
run::halo_jacobi_problem halo_jacobi_problem(std::uint64_t rows, std::uint64_t columns);
run::hit_problem hit_problem(const grid_in<float>& velocity, double viscosity, double step,
                             const std::string& kernel);

// Calls visit(name of the function, its summary, function that makes the problem, its arguments).
template <class Visit>
void each_workload(const Visit& visit) {
  using nanobind::arg;
  visit("run_pagerank", "Run PageRank; the result as a dict.", &pagerank_problem, arg("offsets"),
        arg("columns"), arg("out_degree"), arg("damping"), arg("kernel"), arg("subscribe"));
  visit("run_jacobi", "Run the Jacobi iteration; the result as a dict.", &jacobi_problem,
        arg("diagonals"), arg("right"), arg("halo"));
  visit("run_sssp", "Run shortest paths; the result as a dict.", &sssp_problem, arg("offsets"),
        arg("columns"), arg("weights"), arg("source"), arg("kernel"), arg("subscribe"));
  visit("run_als", "Run matrix factorisation; the result as a dict.", &als_problem,
        arg("user_offsets"), arg("user_items"), arg("user_values"), arg("item_offsets"),
        arg("item_users"), arg("item_values"), arg("start_users"), arg("start_items"),
        arg("method"), arg("lambda_"), arg("rate"), arg("steps"), arg("kernel"), arg("subscribe"));
  visit("run_ct", "Run a tomographic reconstruction; the result as a dict.", &ct_problem,
        arg("measured"), arg("weights"), arg("curvature"), arg("subsets"), arg("beta"),
        arg("subscribe"));
  visit("run_diffusion", "Run the heat or Burgers' equation; the result as a dict.",
        &diffusion_problem, arg("start"), arg("equation"), arg("rate"), arg("speed"));
  visit("run_eqwp", "Run the propagation of seismic waves; the result as a dict.", &eqwp_problem,
        arg("velocity"), arg("medium"), arg("kernel"));
  visit("run_halo_jacobi", "Run Jacobi with halos round a ring; the result as a dict.",
        &halo_jacobi_problem, arg("rows"), arg("columns"));
  visit("run_hit", "Run homogeneous isotropic turbulence; the result as a dict.", &hit_problem,
        arg("velocity"), arg("viscosity"), arg("step"), arg("kernel"));
}

// Whether values go to the devices that read them ("needed"), and not to everybody ("all"). Throws
// usage_error for other words.
bool to_readers(const std::string& subscribe);

// Throws usage_error if `offsets` are not those of rows of `columns`, each below `limit`.
void check_rows(const array_in<std::uint64_t>& offsets, const array_in<std::uint32_t>& columns,
                std::size_t limit, const char* what);

// What a run of any workload takes besides its problem, which has `elements`; throws usage_error.
// A mechanism's name may end in "-without-transfers" (region_options::transfers).
run::request make_request(const std::string& mechanism, const array_in<std::uint64_t>& boundaries,
                          std::uint64_t elements, std::uint32_t iterations, double tolerance,
                          std::uint32_t split_ranges, std::uint64_t chunk_bytes,
                          std::uint32_t agent_threads, const std::string& variant);

// time_s, copy_s, iterations, residual, values, wire, timeline, accesses, remote_transactions,
// stores, work, sent_bytes, epoch_s.
nanobind::dict make_result(run::result result);

// usage_error, model_error and device_error reach Python as the classes of interlace.base.errors.
void translate_errors();

// Raises what a signal handler of Python's raises, Ctrl-C's KeyboardInterrupt above all.
void check_signals();

}  // namespace interlace::python
