// What became of something that all ranks do, as it travels between them: the same on all.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/error.h"

namespace cairn {

// A rank died, hangs, or failed, and so nothing was saved on any of them; or nobody knows whether
// it was. The message is the same on all ranks. What was saved before is still there, and training
// can go on.
class RankFailure : public StorageError {
 public:
  RankFailure(const std::string& message, std::int64_t rank, int status, bool retryable)
      : StorageError(message, status, retryable), rank_(rank) {}
  // Which one.
  std::int64_t rank() const { return rank_; }

 private:
  std::int64_t rank_;
};

struct Verdict {
  // What the error is on all ranks.
  enum class Kind { kNone, kFailed, kExists, kUsage, kCancelled };
  Kind kind = Kind::kNone;
  std::int64_t rank = 0;  // whose fault
  std::string why = {};
  int status = 0;  // as StorageError's
  bool is_retryable = false;

  bool is_good() const { return kind == Kind::kNone; }
};

std::string text_of(const Verdict& verdict);
// MeetingError for what is none: another version of cairn takes part, say.
Verdict parse_verdict(const std::string& text);

// What the exception that is being handled means for all, when `rank` had it while `doing` that.
Verdict verdict_of_current(std::int64_t rank, const std::string& doing);

// Throws what a bad one says; `context` begins the message.
[[noreturn]] void throw_verdict(const Verdict& verdict, const std::string& context);

}  // namespace cairn
