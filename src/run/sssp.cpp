#include "run/sssp.hpp"

#include "run/on_cpu.hpp"

INTERLACE_RUN_ON_CPU(interlace::run::sssp_problem);
