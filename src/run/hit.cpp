#include "run/hit.hpp"

#include "run/on_cpu.hpp"

INTERLACE_RUN_ON_CPU(interlace::run::hit_problem);
