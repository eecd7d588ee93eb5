#include "checkpoint/ranks/roll_call/rank_decision.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <sstream>
#include <string>

namespace cairn {
namespace {

const std::string kDecisions = "decisions";
constexpr std::size_t kDecisionsKept = 8;

// The value of the key "decisions" has one line for each decision, "<number> <verdict>", the latest
// first.
using Decisions = std::map<std::int64_t, std::string, std::greater<>>;

Decisions parse_decisions(const std::string& text) {
  Decisions decisions;
  std::istringstream lines(text);
  std::int64_t number = 0;
  for (std::string verdict; lines >> number && std::getline(lines >> std::ws, verdict);) {
    decisions[number] = verdict;
  }
  return decisions;
}

std::string text_of(const Decisions& decisions) {
  std::string text;
  std::size_t count = 0;
  for (const auto& [number, verdict] : decisions) {
    if (++count <= kDecisionsKept) text += fmt::format("{} {}\n", number, verdict);
  }
  return text;
}

// The decision on `number`, if there is one.
std::optional<Verdict> decision_on(std::int64_t number, const Decisions& decisions) {
  const auto found = decisions.find(number);
  if (found != decisions.end()) return parse_verdict(found->second);
  if (decisions.size() < kDecisionsKept || number > decisions.rbegin()->first) return std::nullopt;
  return Verdict{.kind = Verdict::Kind::kFailed,
                 .rank = 0,
                 .why = "went on long ago with the other ranks, without this one"};
}

std::string read_decisions(const RankTable& table) {
  const auto found = table.ask([&] { return table.meeting->find(kDecisions); });
  if (!found) throw MeetingError("the meeting place is not open: rank 0 did not come");
  return *found;
}

}  // namespace

void open_table(Meeting& meeting) { meeting.set(kDecisions, "\n"); }

std::optional<Verdict> RankDecision::look() {
  const auto decided = decision_on(number_, parse_decisions(read_decisions(table_)));
  if (decided) is_good_ = decided->is_good();
  return decided;
}

Verdict RankDecision::settle(const Verdict& verdict) {
  for (std::string stands = read_decisions(table_);;) {
    Decisions all = parse_decisions(stands);
    if (const auto decided = decision_on(number_, all)) {
      is_good_ = decided->is_good();
      return *decided;
    }
    all[number_] = cairn::text_of(verdict);
    const std::string proposal = text_of(all);
    const auto now =
        table_.ask([&] { return table_.meeting->exchange(kDecisions, stands, proposal); });
    if (!now) throw MeetingError("the meeting place has lost its content");
    stands = *now;
  }
}

}  // namespace cairn
