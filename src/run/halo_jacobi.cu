#include "run/halo_jacobi.hpp"

#include "run/measure.hpp"

INTERLACE_RUN_ON_GPUS(interlace::run::halo_jacobi_problem);
