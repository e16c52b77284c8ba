// What the header of a workload ends in.
//
// src/workload/NAME.hpp ends in a struct NAME_problem: the workload's data and parameters. The
// build makes from it what runs on every node, and the function run_NAME of the Python modules. It
// has
//
//   summary                               what runs, for the documentation of run_NAME
//   arguments                             an array with the names of make's parameters
//   make(...)                             a problem from arrays (array_view), numbers and words;
//                                         throws usage_error where they do not fit together. Arrays
//                                         are used where they are, so they must outlive the problem
//   launching_kernels                     a kernel_list: every kernel that writes a region
//   elements()                            of the region whose boundaries a request has
//   on(node, region_options)              the workload on a node, a class with
//     reset()                               the state before the first iteration again
//     enqueue_iteration(track_residual)
//     result(device) -> std::vector<float>  as that device holds it
//     residual() -> double                  of the last iteration, if it was tracked
//
// src/workload/unified/NAME.hpp, a program that sees several GPUs as one, ends in such a struct
// too. Its arrays are copies, and instead of the last three it has
//
//   on(node, unified_placement)           the program on a node, a class with
//     enqueue()
//     another() -> bool                     optional: whether enqueue has more, after each run
//     result() -> std::vector<float>
#pragma once

namespace interlace::workload {

// Kernels that launch the copies of their chunks themselves under device-launch.
template <class... Kernel>
struct kernel_list {};

}  // namespace interlace::workload
