#include "run/pagerank.hpp"

#include "run/measure.hpp"

INTERLACE_RUN_ON_GPUS(interlace::run::pagerank_problem);
