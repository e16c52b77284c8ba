#include "run/launching.hpp"

#include "cuda/launching.cuh"
#include "workload/als.hpp"
#include "workload/als_sgd.hpp"
#include "workload/ct.hpp"
#include "workload/diffusion.hpp"
#include "workload/eqwp.hpp"
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
      workload::overlap_producer, workload::rank_update, workload::jacobi_update,
      workload::path_update, workload::project_rays, workload::renew_pixels,
      renew_rows<normal_equations<16>>, renew_rows<normal_equations<32>>, renew_rows<gradient<16>>,
      renew_rows<gradient<32>>, workload::diffusion_stage<workload::heat_change>,
      workload::diffusion_stage<workload::burgers_change>, workload::renew_stresses,
      workload::renew_velocities, workload::send_planes, workload::send_lines>();
}

}  // namespace interlace::run
