#include "run/launching.hpp"

#include "cuda/launching.cuh"
#include "workload/als.hpp"
#include "workload/als_sgd.hpp"
#include "workload/ct.hpp"
#include "workload/diffusion.hpp"
#include "workload/eqwp.hpp"
#include "workload/halo_jacobi.hpp"
#include "workload/hit.hpp"
#include "workload/jacobi.hpp"
#include "workload/overlap.hpp"
#include "workload/pagerank.hpp"
#include "workload/sssp.hpp"

namespace interlace::run {

void add_launching_workloads() {
  using workload::gradient;
  using workload::normal_equations;
  using workload::renew_rows;
  cuda::add_launching_kernels<
      workload::overlap_producer, workload::rank_update<workload::edge_units>,
      workload::rank_update<workload::row_warps>, workload::jacobi_update,
      workload::path_update<workload::edge_units>, workload::path_update<workload::row_warps>,
      workload::project_rays, workload::renew_pixels<1, 1>, workload::renew_pixels<1, 2>,
      workload::renew_pixels<1, 4>, workload::renew_pixels<4, 4>, renew_rows<normal_equations<16>>,
      renew_rows<normal_equations<32>>, renew_rows<gradient<16>>, renew_rows<gradient<32>>,
      workload::renew_rows_by_lane<16>, workload::renew_rows_by_lane<32>,
      workload::diffusion_stage<workload::heat_change>,
      workload::diffusion_stage<workload::burgers_change>,
      workload::halo_jacobi_step<workload::ring_rows>,
      workload::renew_stresses<workload::point_runs>,
      workload::renew_stresses<workload::point_tiles>,
      workload::renew_velocities<workload::point_runs>,
      workload::renew_velocities<workload::point_tiles>,
      workload::send_planes<workload::point_runs>, workload::send_planes<workload::point_tiles>,
      workload::send_lines<workload::point_runs>, workload::send_lines<workload::point_tiles>>();
}

}  // namespace interlace::run
