#include "run/jacobi.hpp"

#include "run/measure.hpp"

INTERLACE_RUN_ON_GPUS(interlace::run::jacobi_problem);
