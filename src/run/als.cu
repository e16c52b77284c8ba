#include "run/als.hpp"

#include "run/measure.hpp"

INTERLACE_RUN_ON_GPUS(interlace::run::als_problem);
