#include "run/eqwp.hpp"

#include "run/measure.hpp"

INTERLACE_RUN_ON_GPUS(interlace::run::eqwp_problem);
