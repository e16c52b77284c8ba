// Interfaces of a GPU to the objects that handle its kernels' accesses to other GPUs' memory in
// special ways. There are three small interfaces, and a GPU has none, one or several of them.
//
// Without them, an L1 miss is a request and a reply, a store leaves as packets of its own, and
// pages stay where they were placed. The GPU then calls no function of these interfaces.
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
  // A warp's store to a line of GPU `to` leaves the compute unit `unit` and reaches the queues at
  // `time`. Once the queues have taken the store, they call gpu::store_taken.
  virtual void store(picoseconds time, std::uint32_t unit, std::uint32_t to, line_access l,
                     const written_bytes& written) = 0;
  // A load or an atomic reaches the queues at `time`; its message is `m`. The message must not
  // overtake stores to its line.
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
    plain,     // the load is handled in the plain way
    taken,     // the rules handle the load, and have called gpu::wait_for
    no_entry,  // the rules would handle it, but it must wait for an entry of the compute unit
  };
  virtual answer issue(const load& l) = 0;
  // The data for an entry from gpu::take_entry has arrived, and the entry is free.
  virtual void entry_done(std::uint32_t unit, std::uint32_t token) = 0;

  // An L1 miss goes to another GPU at `time`. Returns false if the miss needs no request.
  virtual bool needs_request(picoseconds time, std::uint32_t unit, std::uint32_t entry,
                             line_access l) = 0;
  // The reply has arrived. Returns true if the rules themselves pass it on to the instructions that
  // wait for it.
  virtual bool takes_reply(std::uint32_t unit, std::uint32_t entry, line_access l) = 0;
  // A request of another GPU for a part of a line. That GPU's rules encode the part.
  struct part {
    std::uint32_t to = 0;
    std::uint32_t unit = 0;
    std::uint32_t entry = 0;
    std::uint32_t wanted = 0;
    line_access line{0, 0};
  };
  virtual void reply(const part& p) = 0;

  // The GPU calls this for loads that reach an L1.
  virtual void saw_local() = 0;
  virtual void saw_remote_store() = 0;
  virtual void saw_remote_load(line_access l, std::uint32_t words, std::optional<bool> hit) = 0;

  // A text that names what is left over at the end of a run. Null: nothing is left over.
  virtual const char* left() const = 0;
};

// Moves pages of unified memory.
class page_rules {
 public:
  explicit page_rules(bool watches_accesses) : watches_accesses_(watches_accesses) {}
  virtual ~page_rules() = default;

  // Called if addresses are not translated. Returns false if the instruction must wait for the
  // line's page; gpu::issue_waiting resumes it.
  virtual bool may_access(page_waiter who, std::uint64_t line) = 0;
  // The GPU calls this when an instruction has accessed a line, if watches_accesses() is true.
  bool watches_accesses() const { return watches_accesses_; }
  virtual void accessed(std::uint64_t line) = 0;
  // The GPU calls this for a request for another GPU's line. Returns false to hold the request;
  // gpu::leave sends it later.
  virtual bool leaves(const message& request) = 0;
  virtual void came_back(std::uint64_t line) = 0;  // the reply

  // A text that names what is left over at the end of a run. Null: nothing is left over.
  virtual const char* left() const = 0;

 private:
  bool watches_accesses_;
};

}  // namespace interlace::sim
