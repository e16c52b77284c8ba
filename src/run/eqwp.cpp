#include "run/eqwp.hpp"

#include "run/on_cpu.hpp"

INTERLACE_RUN_ON_CPU(interlace::run::eqwp_problem);
