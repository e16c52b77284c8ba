#include "run/diffusion.hpp"

#include "run/measure.hpp"

INTERLACE_RUN_ON_GPUS(interlace::run::diffusion_problem);
