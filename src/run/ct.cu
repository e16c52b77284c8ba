#include "run/ct.hpp"

#include "run/measure.hpp"

INTERLACE_RUN_ON_GPUS(interlace::run::ct_problem);
