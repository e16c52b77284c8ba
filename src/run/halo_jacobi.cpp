#include "run/halo_jacobi.hpp"

#include "run/on_cpu.hpp"

INTERLACE_RUN_ON_CPU(interlace::run::halo_jacobi_problem);
