// What every process that loads the library does at its start and at a fork.
#pragma once

namespace interlace::preload {

// Around a fork each part brings its own state in order: whoever held a lock in the parent is not
// in the child.
void take_over_before_fork() noexcept;
void take_over_after_fork(bool child) noexcept;
void stand_ins_forked() noexcept;

}  // namespace interlace::preload
