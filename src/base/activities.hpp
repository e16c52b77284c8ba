// Tells `interlace ps` what this process does. python/interlace/base/activities.py does the same in
// Python programs.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace interlace {

struct activity {
  std::string what;    // for example "a group of 2 devices"
  double since = 0;    // seconds since 1970
  std::string note{};  // remarks, one on each line
};

// Seconds since 1970.
double seconds_now();

// A length of time for people, such as "3 s", "2 min 5 s" or "1 h 4 min".
std::string duration_text(double seconds);

// While this object exists, `interlace ps` shows an activity of this process. During this time,
// SIGQUIT prints the activities to standard error, unless the program uses or ignores that signal.
//
// A thread waits at a socket that only the process's user can open. The thread starts with the
// first activity and ends with the last activity. The thread costs nothing while nobody asks. A
// process that cannot have a socket still works, but `interlace ps` does not show it.
class shown_activity {
 public:
  // `describe` returns the activity. The thread calls it for each answer. An exception from
  // `describe` becomes a remark.
  explicit shown_activity(std::function<activity()> describe);
  // Waits for the end of a call of `describe` that is running.
  ~shown_activity();
  shown_activity(const shown_activity&) = delete;
  shown_activity& operator=(const shown_activity&) = delete;
  shown_activity(shown_activity&&) = delete;
  shown_activity& operator=(shown_activity&&) = delete;

 private:
  std::function<activity()> describe_;
};

}  // namespace interlace
