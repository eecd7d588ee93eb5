// c10d's store as the place where ranks meet (checkpoint/ranks/meeting.h).
//
//  1. A call of c10d's may wait for as long as the network likes: it has no deadline for an answer.
//     So calls are made by a thread of their own, and who asked waits for so long and no longer.
//  2. Until that call has ended none can follow on its connection. The next one waits for it first,
//     out of its own time.
//  3. A call that never ends keeps its thread, which then holds nothing but the connection.
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
  // `most`: how long a call takes before it is a MeetingError.
  explicit StoreMeeting(c10::intrusive_ptr<c10d::Store> store,
                        std::chrono::milliseconds most = std::chrono::seconds(2));
  ~StoreMeeting() override;

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> find(const std::string& key) override;
  std::optional<std::string> exchange(const std::string& key, const std::string& from,
                                      const std::string& to) override;
  void remove(const std::string& key) override;
  // Whether the last call has ended, and well: who uses it again need not wait for an old one.
  bool is_sound() const;

 private:
  using Answer = std::optional<std::string>;
  struct Line;
  static void serve(const std::shared_ptr<Line>& line);
  Answer ask(std::function<Answer(c10d::Store&)> call);

  const std::chrono::milliseconds most_;
  const std::shared_ptr<Line> line_;  // the thread's, too
};

}  // namespace cairn::dist
