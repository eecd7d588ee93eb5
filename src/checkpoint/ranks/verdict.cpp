#include "checkpoint/ranks/verdict.h"

#include <array>
#include <exception>

#include "checkpoint/ranks/meeting.h"
#include "core/text/json.h"
#include "core/text/json_text.h"

namespace cairn {
namespace {

constexpr std::array<const char*, 5> kKinds = {"good", "failed", "exists", "usage", "cancelled"};

Verdict::Kind kind_of(const std::string& word) {
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i] == word) return static_cast<Verdict::Kind>(i);
  }
  throw MeetingError("\"" + word + "\" is not a verdict that this version of cairn knows");
}

}  // namespace

std::string text_of(const Verdict& verdict) {
  return json_text(Json{{"kind", kKinds.at(static_cast<std::size_t>(verdict.kind))},
                        {"rank", verdict.rank},
                        {"why", verdict.why},
                        {"status", verdict.status},
                        {"retryable", verdict.is_retryable}},
                   -1);
}

Verdict parse_verdict(const std::string& text) {
  try {
    const auto json = Json::parse(text);
    return {.kind = kind_of(json.at("kind").get<std::string>()),
            .rank = json.at("rank").get<std::int64_t>(),
            .why = json.at("why").get<std::string>(),
            .status = json.at("status").get<int>(),
            .is_retryable = json.at("retryable").get<bool>()};
  } catch (const Json::exception& e) {
    throw MeetingError(
        "a rank's verdict cannot be read (do all ranks run the same version of cairn?): " +
        std::string(e.what()));
  }
}

Verdict verdict_of_current(std::int64_t rank, const std::string& doing) {
  Verdict verdict{.kind = Verdict::Kind::kFailed, .rank = rank};
  const std::string begin = doing + ": ";
  try {
    throw;
  } catch (const StorageError& e) {
    verdict.why = begin + e.what();
    verdict.status = e.status();
    verdict.is_retryable = e.retryable();
  } catch (const AlreadyExistsError& e) {
    verdict.kind = Verdict::Kind::kExists;
    verdict.why = begin + e.what();
  } catch (const UsageError& e) {
    verdict.kind = Verdict::Kind::kUsage;
    verdict.why = begin + e.what();
  } catch (const CancelledError& e) {
    verdict.kind = Verdict::Kind::kCancelled;
    verdict.why = begin + e.what();
  } catch (const std::exception& e) {
    verdict.why = begin + e.what();
  }
  return verdict;
}

void throw_verdict(const Verdict& verdict, const std::string& context) {
  const std::string text = context + ": rank " + std::to_string(verdict.rank) + ": " + verdict.why;
  switch (verdict.kind) {
    case Verdict::Kind::kExists:
      throw AlreadyExistsError(text);
    case Verdict::Kind::kUsage:
      throw UsageError(text);
    case Verdict::Kind::kCancelled:
      throw CancelledError(text);
    case Verdict::Kind::kNone:
    case Verdict::Kind::kFailed:
      break;
  }
  throw RankFailure(text, verdict.rank, verdict.status, verdict.is_retryable);
}

}  // namespace cairn
