// Entries for a server, sent by a thread of their own: training never waits for the server.
//
//  1. add() writes the entry to a file of its own in the folder, under a temporary name first.
//  2. The thread sends the oldest entry. If that may work later, it tries again after a pause that
//     grows, for as long as it takes.
//  3. It removes the file. If the process ends between 2 and 3, the next one sends the entry again.
//
// Entries that are not sent when the process ends stay in the folder, and the next Spool there
// sends them first. If the folder has more than its limit, the oldest entries are removed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "cairn/export.h"

#include "io/threads/cancellation.h"

namespace CAIRN_PUBLIC cairn {
class Logger;
}  // namespace cairn

namespace cairn {

struct SpoolOptions {
  std::string folder;
  // Called in the thread, one entry after another. An entry is tried again after a retryable()
  // StorageError, one that is about rights (401, 403), and a NotFoundError. It is given up after
  // any other error.
  std::function<void(const std::string& entry)> send;
  std::uint64_t max_bytes = std::uint64_t{256} << 20;  // of all entries that wait
  std::chrono::milliseconds first_pause{1000};
  std::chrono::milliseconds longest_pause{60'000};
};

// Thread-safe.
class Spool {
 public:
  // Finds the entries in the folder, which may be missing, and starts the thread. Throws
  // StorageError if the folder cannot be listed.
  explicit Spool(SpoolOptions options);
  // Ends what the thread does, and leaves what is not sent.
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // Does not throw: an entry that cannot be written is counted as lost.
  void add(const std::string& entry) noexcept;
  // Waits until no entry is left, or until the limit. Returns whether none is left.
  bool wait(std::chrono::milliseconds limit);

  struct Report {
    std::size_t waiting = 0;
    std::size_t lost = 0;         // removed or not written, because there was no room
    std::size_t refused = 0;      // given up after an error that would come again
    std::string last_error = {};  // of the last attempt that failed; "" if none did
  };
  Report report() const;
  // A warning of the logger `name` that counts the entries that did not arrive. Empty if there are
  // none.
  std::string problems(const std::string& name) const;
  // The first error of this process, as a warning of the logger `name`. Empty if there was none, or
  // if it was taken.
  std::string take_warning(const std::string& name);
  const std::string& folder() const { return options_.folder; }

 private:
  struct Entry {
    std::string name;
    std::uint64_t bytes;
  };

  void find_entries();
  void run() noexcept;
  bool send_oldest(const Entry& oldest);
  void make_room(std::uint64_t bytes);
  void remove(const Entry& entry);

  const SpoolOptions options_;
  const std::string tag_;     // of this process, in the names of its entries
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Entry> entries_;  // oldest first
  std::uint64_t bytes_ = 0;    // of all entries
  std::uint64_t next_ = 0;     // the number of the next entry
  Report report_;
  bool is_ending_ = false;
  bool has_warned_ = false;
  Cancellation cancellation_{"the program ends"};
  std::thread thread_;
};

// For the logger `name`. The first logs the first error of this process, once. The second waits for
// the server, and logs how many entries did not arrive.
void log_warning(Spool& spool, const std::string& name, Logger& logger);
void finish(Spool& spool, std::chrono::milliseconds limit, const std::string& name, Logger& logger);

}  // namespace cairn
