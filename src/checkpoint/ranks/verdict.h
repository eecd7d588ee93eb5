// The outcome of something that all ranks do together, in the form in which it is sent between
// ranks. It is the same on all ranks.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/error.h"

namespace cairn {

// A rank died, hangs or failed. So nothing was saved on any rank, or it is not known whether
// anything was saved. The message, which is the same on all ranks, says which. Earlier saves are
// still there, and training can go on.
class RankFailure : public StorageError {
 public:
  RankFailure(const std::string& message, std::int64_t rank, int status, bool retryable)
      : StorageError(message, status, retryable), rank_(rank) {}
  // The rank that died, hangs or failed.
  std::int64_t rank() const { return rank_; }

 private:
  std::int64_t rank_;
};

struct Verdict {
  // The class of the error on all ranks.
  enum class Kind { kNone, kFailed, kExists, kUsage, kCancelled };
  Kind kind = Kind::kNone;
  std::int64_t rank = 0;  // the rank at fault
  std::string why = {};
  int status = 0;  // as StorageError::status()
  bool is_retryable = false;

  bool is_good() const { return kind == Kind::kNone; }
};

std::string text_of(const Verdict& verdict);
// Throws MeetingError for a text that is not a verdict, for example from another version of cairn.
Verdict parse_verdict(const std::string& text);

// The verdict for the current exception, which `rank` had while `doing` something.
Verdict verdict_of_current(std::int64_t rank, const std::string& doing);

// Throws the error of a bad verdict; `context` begins the message.
[[noreturn]] void throw_verdict(const Verdict& verdict, const std::string& context);

}  // namespace cairn
