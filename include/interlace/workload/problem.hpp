// The struct at the end of a workload's header.
//
// src/workload/NAME.hpp ends in a struct NAME_problem, which has the workload's data and
// parameters. From this struct the build generates the code that runs on every node, and the
// function run_NAME of the Python modules. The struct has
//
//   summary                               a description, for the documentation of run_NAME
//   arguments                             an array with the names of make's parameters
//   make(...)                             a problem from arrays (array_view), numbers and words;
//                                         throws usage_error if they do not fit together. Arrays
//                                         are not copied, so they must outlive the problem
//   launching_kernels                     a kernel_list: every kernel that writes a region
//   elements()                            number of elements of the region that the boundaries of a
//                                         request divide into parts
//   on(node, region_options)              the workload on a node, a class with
//     reset()                               restores the state before the first iteration
//     enqueue_iteration(track_residual)
//     result(device) -> std::vector<float>  the values that this device holds
//     residual() -> double                  residual of the last iteration, if that iteration
//                                         tracked it
//
// src/workload/unified/NAME.hpp is a program that sees several GPUs as one. It also ends in such a
// struct, whose arrays are copies. In place of the last three members the struct has
//
//   on(node, unified_placement)           the program on a node, a class with
//     enqueue()
//     another() -> bool                     optional, called after each run: whether enqueue must
//                                           be called again
//     result() -> std::vector<float>
#pragma once

namespace interlace::workload {

// Kernels that launch the copies of their chunks themselves, with the mechanism `device-launch`.
template <class... Kernel>
struct kernel_list {};

}  // namespace interlace::workload
