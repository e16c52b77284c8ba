// What a GPU asks of those who treat its kernels' accesses to other GPUs' memory in a way of their
// own: three small interfaces, of which a GPU has none, one or several.
//
// Without them a load is a request and a reply of what the L1 misses, a store leaves as packets of
// its own, and pages stay where they were placed. A GPU then calls nothing of this.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/engine/event_queue.hpp"
#include "sim/fabric/message.hpp"
#include "sim/gpu/page_waiter.hpp"
#include "sim/gpu/program.hpp"

namespace interlace::sim {

// Stores wait between a GPU and its links.
class store_queues {
 public:
  virtual ~store_queues() = default;
  // What a warp stores to a line leaves the compute unit `unit` for another GPU and is at the
  // queues at `time`. gpu::store_taken says when the queues have it.
  virtual void store(picoseconds time, std::uint32_t unit, std::uint32_t to, line_access l,
                     const written_bytes& written) = 0;
  // So does a load or an atomic, whose message is ready; it follows the stores to its line.
  virtual void pass(picoseconds time, const message& m) = 0;
};

// Loads of other GPUs' lines do not take the plain way.
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
    plain,     // it takes the plain way
    taken,     // it is on another one, and gpu::wait_for was called
    no_entry,  // it would be, but has to wait for an entry of the compute unit
  };
  virtual answer issue(const load& l) = 0;
  // An entry that gpu::take_entry gave has its data and is free.
  virtual void entry_done(std::uint32_t unit, std::uint32_t token) = 0;

  // A miss of the L1 goes to another GPU at `time`; false where no request is needed for it.
  virtual bool needs_request(picoseconds time, std::uint32_t unit, std::uint32_t entry,
                             line_access l) = 0;
  // The reply has come; true where the rules hand it to those that wait for it.
  virtual bool takes_reply(std::uint32_t unit, std::uint32_t entry, line_access l) = 0;
  // A request from another GPU asks for a part of a line, in the words of its own rules.
  struct part {
    std::uint32_t to = 0;
    std::uint32_t unit = 0;
    std::uint32_t entry = 0;
    std::uint32_t wanted = 0;
    line_access line{0, 0};
  };
  virtual void reply(const part& p) = 0;

  // What the L1s see.
  virtual void saw_local() = 0;
  virtual void saw_remote_store() = 0;
  virtual void saw_remote_load(line_access l, std::uint32_t words, std::optional<bool> hit) = 0;

  // What is left at the end of a run; null: nothing.
  virtual const char* left() const = 0;
};

// Pages of unified memory move.
class page_rules {
 public:
  explicit page_rules(bool watches_accesses) : watches_accesses_(watches_accesses) {}
  virtual ~page_rules() = default;

  // Asked where addresses are not translated: false where the instruction waits for the line's
  // page. It goes on by gpu::issue_waiting.
  virtual bool may_access(page_waiter who, std::uint64_t line) = 0;
  // An instruction has accessed a line. Called where this is so:
  bool watches_accesses() const { return watches_accesses_; }
  virtual void accessed(std::uint64_t line) = 0;
  // A request for another GPU's line; false where it is held, and sent later by gpu::leave.
  virtual bool leaves(const message& request) = 0;
  virtual void came_back(std::uint64_t line) = 0;  // its reply

  // What is left at the end of a run; null: nothing.
  virtual const char* left() const = 0;

 private:
  bool watches_accesses_;
};

}  // namespace interlace::sim
