// The library's work when a process starts, when a process forks, and before the engine starts.
#pragma once

namespace interlace::preload {

// Each part of the library repairs its own state around a fork. The child does not have the threads
// that hold locks in the parent.
void take_over_before_fork() noexcept;
void take_over_after_fork(bool child) noexcept;
void stand_ins_forked() noexcept;
void kernels_forked() noexcept;  // called in the child, which has no context of its parent

// Notes which primary contexts the program itself retains. The library calls this function before
// the engine starts.
void remember_own_contexts() noexcept;

}  // namespace interlace::preload
