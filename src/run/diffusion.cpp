#include "run/diffusion.hpp"

#include "run/on_cpu.hpp"

INTERLACE_RUN_ON_CPU(interlace::run::diffusion_problem);
