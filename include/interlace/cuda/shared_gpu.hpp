// Several devices on one GPU. This file explains which work must run at the same time on the GPU,
// and why this is possible.
//
// Each device has its own memory, streams and graphs, and devices meet by flags, as if each device
// had its own GPU. But the devices share resources of the GPU: its host-side launch lock, its
// hardware queues, and the places of its multiprocessors. A wait that occupies such a resource must
// not hold back the work for which it waits.
//
// Order of launches. A part is the work of all devices between two meetings. A part begins with the
// computations and transfers of each device (kernels, agents, copies, waits for chunks). The part
// ends with the meeting of each device, which is a kernel that waits for the other devices. A node
// launches part after part from one thread, and a graph never holds more than one device's work in
// one part. Every launch therefore waits only for three kinds of work: (a) earlier launches, (b)
// the kernel of the same device in the same part, and (c), for a meeting, the other meetings of the
// same part. By induction over the launches, all waits end:
//
// - A launch that waits for room blocks every other launch to the GPU. But this launch waits only
//   for work of kind (a), so it gets room. A graph of the whole run would wait for room forever,
//   because it would hold meetings whose partners are not launched yet.
// - A queue that runs its work in order may hold streams or graph branches of several devices. For
//   each launch in the queue, all earlier work in the queue is of kind (a), and such work ends.
// - Waits of kind (b) are waits of an agent, or of a stream that waits for chunks. They stay within
//   one device, which needs two streams at a time, as on a GPU of its own.
// - Waits of kind (c) need a queue for each device's main stream. `require_queues` requires a queue
//   for every stream of the devices.
//
// Places. A place is the room of a block on a multiprocessor. Blocks of kernels wait for nothing,
// so their places become free. Blocks of agents stay until their kernel has ended, and blocks of a
// meeting stay until all devices have arrived. `why_not_at_once` assumes the worst placement of the
// blocks of agents and meetings. It refuses a configuration if these blocks would fill all
// multiprocessors in this placement.
//
// These checks cover one node, or one region of a group. Two nodes of a process, or several regions
// of a group, may run at the same time or in turn, depending on their callers' threads and streams.
// The checks do not add up the places of such nodes and regions (docs/how-to/shared-gpu.md). A wait
// that finds no place ends at the deadline, with an error. The checks do add up the queues of all
// regions, because a region makes its streams when it is made.
//
// A program with regions of its own enqueues the work itself, and must keep the same order.
//
// Processes without MPS take turns on a GPU by time slices. During its turn, a process has queues
// and places of its own. A wait may last until all other processes have had their turns. A group of
// processes therefore multiplies its deadline by `group_state::turns`, the number of processes on
// one GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace interlace::cuda {

// The number of streams of a device on a shared GPU: the main stream, and one stream for the
// device's agent or copies.
inline constexpr std::uint32_t streams_of_device = 2;

// Whether several of the devices share a GPU.
bool shares_gpu(const std::vector<int>& ordinals);

// The number of devices on GPU `gpu`.
std::uint32_t devices_on(const std::vector<int>& ordinals, int gpu);

// The number of hardware queues that a process has on each GPU, given the value of
// CUDA_DEVICE_MAX_CONNECTIONS.
std::uint32_t hardware_queues(const char* setting);

// Throws usage_error if several devices share a GPU, and the GPU has too few queues for `streams`
// streams of each device.
void require_queues(const std::vector<int>& ordinals, std::uint32_t streams);

// The resources of one multiprocessor of a GPU, and the number of multiprocessors.
struct gpu_places {
  std::uint32_t processors = 0;
  std::uint32_t threads = 0;
  std::uint32_t blocks = 0;
  std::uint32_t registers = 0;
  std::uint32_t shared_bytes = 0;
  // for each block, in addition to the block's own shared memory
  std::uint32_t reserved_shared_bytes = 0;
};

struct block_needs {
  std::uint32_t threads = 0;
  std::uint32_t registers = 0;  // registers of each thread
  std::uint32_t shared_bytes = 0;
};

struct grid_needs {
  std::uint32_t blocks = 0;
  block_needs block;
};

// Returns why a GPU may be unable to hold three things at the same time: the agents of `devices`
// devices, their meetings, and a block of the kernel. The text continues a sentence after "cannot
// run". The text is empty if the GPU can hold all of them, wherever the GPU places the blocks.
std::string why_not_at_once(const gpu_places& gpu, const grid_needs& agent,
                            const block_needs& kernel, std::uint32_t devices);

}  // namespace interlace::cuda
