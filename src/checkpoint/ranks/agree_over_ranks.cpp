// How all ranks come to go on from one checkpoint.
//
// clang-format off
//  1. look    Each rank looks for what it can go on from, in its own folder or store, and says what
//             it has found: names, how far each is, and which content it has.
//  2. choose  Rank 0 has what all have found, and takes the furthest that all have. A checkpoint
//             that one of them misses is none: a part was lost, or the save ended before it was
//             published everywhere. When none sees any, the run begins anew; when some do and have
//             none in common, nobody begins: what they have would be left behind.
//  3. decide  What rank 0 has chosen is the decision, for all (roll_call.h). A rank that fails or
//             does not come is one against it. Nobody decides for itself.
// clang-format on
#include "checkpoint/ranks/agree_over_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include <nlohmann/json.hpp>

#include "cairn/error.h"

#include "core/json_text.h"

namespace cairn {
namespace {

using nlohmann::json;
using Seen = std::vector<SeenCheckpoint>;

std::string text_of(const Seen& seen) {
  json list = json::array();
  for (const SeenCheckpoint& one : seen) {
    list.push_back({{"name", one.name},
                    {"order", one.order},
                    {"identity", one.identity},
                    {"is_published", one.is_published}});
  }
  return json_text(list, -1);
}

// MeetingError.
Seen parse_seen(const std::string& text) {
  Seen seen;
  try {
    for (const json& one : json::parse(text)) {
      seen.push_back({.name = one.at("name").get<std::string>(),
                      .order = one.at("order").get<std::vector<std::int64_t>>(),
                      .identity = one.at("identity").get<std::string>(),
                      .is_published = one.at("is_published").get<bool>()});
    }
  } catch (const json::exception& e) {
    throw MeetingError(
        "what a rank has found cannot be read (do all run the same version of "
        "cairn?): " +
        std::string(e.what()));
  }
  return seen;
}

bool is_same(const SeenCheckpoint& one, const SeenCheckpoint& other) {
  return one.name == other.name && one.order == other.order && one.identity == other.identity;
}

// Of those that were published somewhere; nullptr when none was.
const SeenCheckpoint* find_published(const Seen& seen) {
  const auto found = std::ranges::find_if(seen, &SeenCheckpoint::is_published);
  return found == seen.end() ? nullptr : &*found;
}

class Agreement {
 public:
  Agreement(RankTable& table, const AgreeJob& job)
      : job_(job), call_(table, fmt::format("{} on {} ranks", job.what, table.me.world_size)) {}

  std::optional<SeenCheckpoint> run() {
    try {
      return agree();
    } catch (const RollCall::Settled& settled) {
      end_with(settled.verdict);
    } catch (const RollCall::Unknown& unknown) {
      throw_unheard(unknown.rank, "was not heard of any more");
    } catch (const MeetingError& e) {
      throw_unheard(0, e.what());
    } catch (const std::exception&) {
      refuse(verdict_of_current(call_.me().rank, "looking for checkpoints"));
    }
  }

 private:
  std::optional<SeenCheckpoint> agree() {
    call_.begin();
    own_ = job_.look([this] { call_.move_on(); });
    if (!call_.leads()) {
      call_.set("report/" + std::to_string(call_.me().rank), text_of(own_));
      try {
        call_.wait_for_decision();
      } catch (const RollCall::Unknown&) {
        // Decided all the same; rank 0 is not needed any more.
      }
      return learn();
    }
    const auto chosen = choose();
    call_.all_have_come();
    // Before the decision: whoever knows that there is one finds it.
    call_.set("done", text_of(chosen ? Seen{*chosen} : Seen{}));
    const Verdict stands = call_.settle({});
    if (!stands.is_good()) throw RollCall::Settled{stands};
    call_.end();
    return chosen;
  }

  // It was set before the decision.
  std::optional<SeenCheckpoint> learn() {
    const auto text = call_.find("done");
    if (!text) throw MeetingError("the meeting place has forgotten what was agreed on");
    const Seen chosen = parse_seen(*text);
    call_.end();
    return chosen.empty() ? std::nullopt : std::optional(chosen.front());
  }

  // Step 2.
  std::optional<SeenCheckpoint> choose() {
    Seen common = own_;
    std::int64_t lacking = 0;  // the first rank that has none of those that all before it have
    std::optional<SeenCheckpoint> somebodys;
    if (const auto* one = find_published(own_)) somebodys = *one;
    for (std::int64_t rank = 1; rank < call_.me().world_size; ++rank) {
      const Seen seen = parse_seen(call_.wait_for("report/" + std::to_string(rank)));
      call_.unwatch(rank);
      const auto* const published = find_published(seen);
      if (!somebodys && published != nullptr) somebodys = *published;
      const bool had_some = !common.empty();
      keep_common(common, seen);
      if (had_some && common.empty()) lacking = rank;
    }
    std::erase_if(common, [](const SeenCheckpoint& one) { return !one.is_published; });
    if (common.empty() && somebodys) refuse_to_begin_again(lacking, *somebodys);
    if (common.empty()) return std::nullopt;
    return *std::ranges::max_element(
        common, {}, [](const SeenCheckpoint& one) { return std::pair(one.order, one.name); });
  }

  static void keep_common(Seen& common, const Seen& seen) {
    Seen both;
    for (SeenCheckpoint& one : common) {
      const auto found =
          std::ranges::find_if(seen, [&](const auto& other) { return is_same(one, other); });
      if (found == seen.end()) continue;
      one.is_published = one.is_published || found->is_published;
      both.push_back(std::move(one));
    }
    common = std::move(both);
  }

  // One rank has lost what others have.
  [[noreturn]] void refuse_to_begin_again(std::int64_t lacking, const SeenCheckpoint& somebodys) {
    refuse({.kind = Verdict::Kind::kUsage,
            .rank = lacking,
            .why = fmt::format("has none of the checkpoints that the others have ({}), and all "
                               "must go on from one. Give it its part of them, or remove them "
                               "everywhere to begin anew",
                               somebodys.name)});
  }

  [[noreturn]] void refuse(const Verdict& own) {
    Verdict stands = own;
    try {
      stands = call_.settle(own);
    } catch (const MeetingError& e) {
      stands.why += fmt::format(" (and the others could not be told: {})", e.what());
    }
    end_with(stands.is_good() ? own : stands);
  }

  [[noreturn]] void end_with(const Verdict& verdict) {
    call_.end();
    throw_verdict(verdict, call_.what());
  }

  [[noreturn]] void throw_unheard(std::int64_t rank, const std::string& why) const {
    throw RankFailure(fmt::format("{}: rank {}: {}", call_.what(), rank, why), rank, 0,
                      /*retryable=*/true);
  }

  const AgreeJob& job_;
  RollCall call_;
  Seen own_;
};

}  // namespace

std::optional<SeenCheckpoint> agree_over_ranks(RankTable& table, const AgreeJob& job) {
  return Agreement(table, job).run();
}

}  // namespace cairn
