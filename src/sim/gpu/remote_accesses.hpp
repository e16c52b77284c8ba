// Interfaces between a GPU and the objects that handle the accesses of its kernels to other GPUs'
// memory in special ways. There are three small interfaces. A GPU can have an object of each
// interface, or of some interfaces, or none.
//
// Without such an object, the GPU calls no function of these interfaces. In this case, an L1 miss
// is a request and a reply, a store leaves as packets of its own, and pages stay where they were
// placed.
#pragma once

#include <cstdint>
#include <optional>

#include "interlace/sim/gpu/program.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/fabric/message.hpp"
#include "sim/gpu/page_waiter.hpp"

namespace interlace::sim {

// Queues of stores between a GPU and its links.
class store_queues {
 public:
  virtual ~store_queues() = default;
  // Takes a warp's store to a line of GPU `to`. The store leaves the compute unit `unit` and
  // reaches the queues at `time`. Once the queues have taken the store, they call gpu::store_taken.
  virtual void store(picoseconds time, std::uint32_t unit, std::uint32_t to, line_access l,
                     const written_bytes& written) = 0;
  // Takes the message `m` of a load or an atomic, which reaches the queues at `time`. The message
  // must not overtake stores to its line.
  virtual void pass(picoseconds time, const message& m) = 0;
};

// Handles loads of other GPUs' lines in a special way.
class load_rules {
 public:
  virtual ~load_rules() = default;

  // A warp's load of a line of another GPU.
  struct load {
    std::uint32_t unit = 0;
    std::uint32_t warp = 0;
    instruction* what = nullptr;
    line_access line{0, 0};
  };
  enum class answer : std::uint8_t {
    plain,  // the load is handled in the plain way
    taken,  // the rules handle the load and have called gpu::wait_for
    // The rules would handle the load, but the load must wait for an entry of the compute unit.
    no_entry,
  };
  virtual answer issue(const load& l) = 0;
  // The GPU calls this function when the data for an entry from gpu::take_entry has arrived and the
  // entry is free.
  virtual void entry_done(std::uint32_t unit, std::uint32_t token) = 0;

  // The GPU calls this function when an L1 miss goes to another GPU at `time`. The result is false
  // if the miss needs no request.
  virtual bool needs_request(picoseconds time, std::uint32_t unit, std::uint32_t entry,
                             line_access l) = 0;
  // The GPU calls this function when the reply has arrived. The result is true if the rules
  // themselves pass the reply on to the instructions that wait for it.
  virtual bool takes_reply(std::uint32_t unit, std::uint32_t entry, line_access l) = 0;
  // A part of a line that another GPU requests. `wanted` is the number that the rules of the
  // requesting GPU passed to gpu::request.
  struct part {
    std::uint32_t to = 0;
    std::uint32_t unit = 0;
    std::uint32_t entry = 0;
    std::uint32_t wanted = 0;
    line_access line{0, 0};
  };
  virtual void reply(const part& p) = 0;

  // The GPU calls saw_local for an access to its own memory, saw_remote_store for a remote store,
  // and saw_remote_load for a remote load.
  virtual void saw_local() = 0;
  virtual void saw_remote_store() = 0;
  virtual void saw_remote_load(line_access l, std::uint32_t words, std::optional<bool> hit) = 0;

  // A text that names what is left over at the end of a run, or null if nothing is left over.
  virtual const char* left() const = 0;
};

// Moves pages of unified memory.
class page_rules {
 public:
  explicit page_rules(bool watches_accesses) : watches_accesses_(watches_accesses) {}
  virtual ~page_rules() = default;

  // The GPU calls this function before an access if addresses are not translated. The result is
  // false if the instruction must wait for the line's page. gpu::issue_waiting resumes the
  // instruction later.
  virtual bool may_access(page_waiter who, std::uint64_t line) = 0;
  // Whether the GPU must call `accessed` after each access of an instruction to a line.
  bool watches_accesses() const { return watches_accesses_; }
  virtual void accessed(std::uint64_t line) = 0;
  // The GPU calls this function for a request for another GPU's line. The result is false if the
  // request must be held back. gpu::leave sends a request that was held back.
  virtual bool leaves(const message& request) = 0;
  virtual void came_back(std::uint64_t line) = 0;  // the reply for the line came back

  // A text that names what is left over at the end of a run, or null if nothing is left over.
  virtual const char* left() const = 0;

 private:
  bool watches_accesses_;
};

}  // namespace interlace::sim
