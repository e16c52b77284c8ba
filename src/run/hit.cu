#include "run/hit.hpp"

#include "cuda/fft.hpp"
#include "run/measure.hpp"

INTERLACE_RUN_ON_GPUS(interlace::run::hit_problem);
