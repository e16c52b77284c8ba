// Several devices on one GPU: what has to run at once there, and why it can.
//
// Each device has its own memory, streams and graphs, and devices meet by flags as on GPUs of their
// own. But they share what the GPU has once: its host-side launch lock, its hardware queues, and
// the places of its multiprocessors. A wait must never hold back what it waits for in any of them.
//
// Order of launches. The work of all devices between two meetings is one part: first what each
// device computes and sends (kernels, agents, copies, waits for chunks), then the meeting of each
// device, a kernel that waits for the others. A node launches part after part, from one thread, and
// a graph never holds more than what one device does in one part. So whatever is launched waits
// only for (a) what was launched before it, (b) its own part's kernel of the same device, or (c) in
// a meeting, for the meetings of the same part. By induction over the launches:
//
// - A launch that waits for room, and with it every other launch to the GPU, waits for work of kind
//   (a): it gets room. A graph of the whole run would hold meetings whose partners are not launched
//   yet, and would wait for room for ever.
// - A queue that takes its work in order may hold streams or graph branches of several devices.
//   Whatever stands in it ahead of a launch is of kind (a), so it ends.
// - Kind (b), an agent or a stream that waits for chunks, is within one device: it needs what a
//   device on a GPU of its own needs, two streams at once.
// - Kind (c) needs a queue for each device's main stream. `require_queues` asks for one for every
//   stream of the devices.
//
// Places. Blocks of kernels wait for nobody, so their places come free. Blocks of agents stay until
// their kernel has run, and those of a meeting until all devices have come. `why_not_at_once`
// refuses what could fill all multiprocessors with them, wherever the GPU puts them.
//
// Known for one node, and for one region of a group, is what runs at once. Two nodes of a process
// and several regions of a group may run at once or in turn, as their callers' threads and streams
// have it. Their places are not added up (docs/how-to/shared-gpu.md): a wait without a place ends
// at the deadline, with an error. Streams are made with a region, so queues of all regions are
// added up.
//
// A program with regions of its own enqueues for itself, and keeps the same order itself.
//
// Processes without MPS take turns on a GPU by time slice. Each process has queues and places of
// its own while its turn lasts, and a wait may last until the turns of all others have passed. So a
// group of processes multiplies its deadline by `group_state::turns`, the number of processes on
// one GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace interlace::cuda {

// Streams of a device on a shared GPU: the main one, and one for its agent or its copies.
inline constexpr std::uint32_t streams_of_device = 2;

// Whether a GPU stands for several of the devices.
bool shares_gpu(const std::vector<int>& ordinals);

// How many devices a GPU stands for.
std::uint32_t devices_on(const std::vector<int>& ordinals, int gpu);

// Hardware queues that a process has on each GPU, by the value of CUDA_DEVICE_MAX_CONNECTIONS.
std::uint32_t hardware_queues(const char* setting);

// Throws usage_error if a GPU stands for several devices and has too few queues for so many streams
// of each.
void require_queues(const std::vector<int>& ordinals, std::uint32_t streams);

// What a multiprocessor of a GPU has, and how many there are.
struct gpu_places {
  std::uint32_t processors = 0;
  std::uint32_t threads = 0;
  std::uint32_t blocks = 0;
  std::uint32_t registers = 0;
  std::uint32_t shared_bytes = 0;
  std::uint32_t reserved_shared_bytes = 0;  // of each block, besides its own
};

struct block_needs {
  std::uint32_t threads = 0;
  std::uint32_t registers = 0;  // of a thread
  std::uint32_t shared_bytes = 0;
};

struct grid_needs {
  std::uint32_t blocks = 0;
  block_needs block;
};

// Why a GPU may not hold the agents of so many devices, their meetings and a block of the kernel at
// once, as words behind "cannot run"; empty if it does, wherever it puts the blocks.
std::string why_not_at_once(const gpu_places& gpu, const grid_needs& agent,
                            const block_needs& kernel, std::uint32_t devices);

}  // namespace interlace::cuda
