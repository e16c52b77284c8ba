#include "run/sssp.hpp"

#include "run/measure.hpp"

INTERLACE_RUN_ON_GPUS(interlace::run::sssp_problem);
