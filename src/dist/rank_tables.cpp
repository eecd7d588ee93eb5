#include "dist/rank_tables.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "cairn/dist/dist.h"
#include "cairn/error.h"

#include "dist/group.h"
#include "dist/store_meeting.h"

namespace cairn::dist {
namespace {

// Far more roll calls than one use of a table makes.
constexpr std::int64_t kRollCallsOfOneUse = std::int64_t{1} << 32;

const std::string kDoing = "meeting to save or to resume";

// From CAIRN_SAVE_SILENCE, in seconds.
std::optional<std::chrono::milliseconds> silence_asked_for() {
  const char* const text = std::getenv("CAIRN_SAVE_SILENCE");
  if (text == nullptr || *text == 0) return std::nullopt;
  const std::string_view all(text);
  int seconds = 0;
  const auto [end, error] = std::from_chars(all.begin(), all.end(), seconds);
  if (error != std::errc() || end != all.end() || seconds < 2 || seconds > 86'400) {
    throw UsageError("CAIRN_SAVE_SILENCE is '" + std::string(all) +
                     "', and must be a whole number of seconds from 2 to 86400");
  }
  return std::chrono::seconds(seconds);
}

}  // namespace

struct RankTables::Table {
  std::string name;
  RankTable table;
  std::shared_ptr<StoreMeeting> meeting;  // The table's place to meet.
  std::atomic<bool> is_free = false;
};

RankTables::RankTables() = default;
RankTables::~RankTables() = default;

// Step 2.
std::size_t RankTables::find_free(const Group& group) const {
  if (tables_.empty()) return 0;
  std::vector<double> free;
  for (const auto& table : tables_)
    free.push_back(table->is_free ? 1 : 0);
  const auto ranks = static_cast<double>(group.launch().world_size);
  const std::vector<double> on_ranks = sum(std::move(free), kDoing);
  return static_cast<std::size_t>(std::ranges::find(on_ranks, ranks) - on_ranks.begin());
}

std::shared_ptr<RankTable> RankTables::take(Group& group) {
  ++uses_;
  const std::size_t place = find_free(group);
  const bool is_new = place == tables_.size();
  if (is_new) {
    tables_.push_back(std::make_shared<Table>());
    tables_.back()->name = "table" + std::to_string(tables_.size());
  }
  const std::shared_ptr<Table> taken = tables_[place];
  if (is_new || !taken->meeting->is_sound()) {
    taken->meeting = group.meet_others(taken->name);
    taken->table.meeting = taken->meeting;
  }
  if (is_new) open(group, taken->table);
  taken->table.number = uses_ * kRollCallsOfOneUse;
  taken->is_free = false;
  return {&taken->table, [taken](RankTable*) { taken->is_free = true; }};
}

void RankTables::open(const Group& group, RankTable& table) {
  table.has_threads = true;
  if (group.launch().rank == 0) open_table(*table.meeting);
  barrier(kDoing);  // After it, the table is open for all.
  const std::vector<std::string> machines = machines_of_ranks();
  table.me = {.rank = group.launch().rank, .world_size = group.launch().world_size};
  table.me.machine = machines.at(static_cast<std::size_t>(table.me.rank));
  table.me.machine_leader = std::ranges::find(machines, table.me.machine) - machines.begin();
}

std::shared_ptr<RankTable> rank_table() {
  Group* const group = required_group();
  if (group == nullptr) throw UsageError("a process alone has no others to meet");
  const auto silence = silence_asked_for();
  auto table = group->tables().take(*group);
  table->patience.silence = silence.value_or(Patience{}.silence);
  return table;
}

}  // namespace cairn::dist
