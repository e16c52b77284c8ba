#include "preload/process.hpp"

#include <pthread.h>

#include "preload/counters.hpp"
#include "preload/settings.hpp"
#include "preload/watched_call.hpp"

namespace interlace::preload {
namespace {

void before_fork() { take_over_before_fork(); }

void in_parent() { take_over_after_fork(false); }

void in_child() {
  counters_forked();
  watched_calls_forked();
  stand_ins_forked();
  kernels_forked();
  take_over_after_fork(true);
}

// Runs when the process starts. If the process does not copy on GPUs, the library does nothing
// after this function.
__attribute__((constructor)) void begin() {
  counters_open(process_settings().counters.c_str());
  watching = !call_sites().empty() || !seen_calls().empty();
  pthread_atfork(before_fork, in_parent, in_child);
}

}  // namespace
}  // namespace interlace::preload
