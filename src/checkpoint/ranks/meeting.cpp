#include "checkpoint/ranks/meeting.h"

#include <map>

#include "io/threads/cancellation.h"

namespace cairn {

namespace {

class MeetingOfOne final : public Meeting {
 public:
  void set(const std::string& key, const std::string& value) override { values_[key] = value; }
  std::optional<std::string> find(const std::string& key) override {
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::string> exchange(const std::string& key, const std::string& from,
                                      const std::string& to) override {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    if (found->second == from) found->second = to;
    return found->second;
  }
  void remove(const std::string& key) override { values_.erase(key); }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace

std::shared_ptr<Meeting> meeting_of_one() { return std::make_shared<MeetingOfOne>(); }

Meeting::Time Meeting::now() { return std::chrono::steady_clock::now(); }

void Meeting::pause(std::chrono::milliseconds time) { pause_here(time); }

}  // namespace cairn
