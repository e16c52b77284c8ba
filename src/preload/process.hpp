// What every process that loads the library does at its start, at a fork and ahead of the engine.
#pragma once

namespace interlace::preload {

// Around a fork each part brings its own state in order: whoever held a lock in the parent is not
// in the child.
void take_over_before_fork() noexcept;
void take_over_after_fork(bool child) noexcept;
void stand_ins_forked() noexcept;

// Which primary contexts are the program's own, ahead of the engine.
void remember_own_contexts() noexcept;

}  // namespace interlace::preload
