// c10d's store as the place where ranks meet (checkpoint/ranks/meeting.h).
//
//  1. A call of c10d's has no deadline, and may wait as long as the network does. So calls are made
//     on a separate thread, and the caller waits only for its limit.
//  2. Until that call has ended, no other call can use its connection. The next caller first waits
//     for the end of that call, within the next caller's own limit.
//  3. A call that never ends keeps its thread, which then holds only the connection.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "checkpoint/ranks/meeting.h"

namespace cairn::dist {

class StoreMeeting final : public Meeting {
 public:
  // `most`: how long a call may take before it throws MeetingError.
  explicit StoreMeeting(c10::intrusive_ptr<c10d::Store> store,
                        std::chrono::milliseconds most = std::chrono::seconds(2));
  ~StoreMeeting() override;

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> find(const std::string& key) override;
  std::optional<std::string> exchange(const std::string& key, const std::string& from,
                                      const std::string& to) override;
  void remove(const std::string& key) override;
  // Whether the last call has ended without an error, so that the next caller need not wait for
  // that call.
  bool is_sound() const;

 private:
  using Answer = std::optional<std::string>;
  struct Line;
  static void serve(const std::shared_ptr<Line>& line);
  Answer ask(std::function<Answer(c10d::Store&)> call);

  const std::chrono::milliseconds most_;
  const std::shared_ptr<Line> line_;  // Shared with the thread.
};

}  // namespace cairn::dist
