// How all ranks agree on one checkpoint to resume from.
//
// clang-format off
//  1. look    Each rank looks for the checkpoints in its own folder or store. It reports their
//             names, how far each is, and the identity of its content. If ranks can read one
//             another's files, it also reports which files it has.
//  2. choose  Rank 0 has the reports of all. A checkpoint is whole if it was published and either
//             all ranks see it or each of its files is on some rank. If it is not whole, a part was
//             lost, the save ended before the checkpoint was published everywhere, or a disk does
//             not return a part. Parts alone are no checkpoint, unless they are marked as
//             published. If they are marked, the machine that published the checkpoint is missing.
//             If no rank sees any checkpoint, the run begins anew. If some ranks see checkpoints
//             and none of these is whole, no rank may begin, since that would abandon these
//             checkpoints. With AgreeJob::may_lack_all this is no error, because the caller looks
//             in other places first.
//  3. decide  Rank 0's choice is the decision for all ranks (consult.h). If a rank fails or does
//             not come, the decision is against this call. No rank decides for itself.
// clang-format on
#include "checkpoint/ranks/agree_over_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "checkpoint/ranks/consult.h"
#include "core/text/json.h"
#include "core/text/json_text.h"

namespace cairn {
namespace {

using Seen = std::vector<SeenCheckpoint>;
using Agreed = std::vector<AgreedCheckpoint>;

std::string text_of(const Seen& seen) {
  Json list = Json::array();
  for (const SeenCheckpoint& one : seen) {
    Json files = Json::array();
    for (const SeenCheckpoint::File& file : one.files) {
      files.push_back({file.name, file.bytes, file.machine});
    }
    list.push_back({one.name, one.order, one.identity, one.is_published, files, one.has,
                    one.was_published, one.publisher, one.problem, one.status});
  }
  return json_text(list, -1);
}

std::string text_of(const Agreed& agreed) {
  Json list = Json::array();
  for (const AgreedCheckpoint& one : agreed) {
    Json files = Json::array();
    for (const AgreedCheckpoint::File& file : one.files) {
      files.push_back({file.name, file.bytes, file.rank});
    }
    list.push_back({one.name, one.order, one.identity, files, one.lacks, one.status});
  }
  return json_text(list, -1);
}

// Parses what another rank wrote with text_of(). Throws MeetingError.
template <class Read>
auto parse(const std::string& text, const Read& read) {
  std::vector<decltype(read(Json()))> all;
  try {
    for (const Json& one : Json::parse(text)) {
      all.push_back(read(one));
    }
  } catch (const Json::exception& e) {
    throw MeetingError(
        "a rank's list of checkpoints cannot be read (do all ranks run the same version of "
        "cairn?): " +
        std::string(e.what()));
  }
  return all;
}

Seen parse_seen(const std::string& text) {
  return parse(text, [](const Json& one) {
    SeenCheckpoint seen{.name = one.at(0).get<std::string>(),
                        .order = one.at(1).get<std::vector<std::int64_t>>(),
                        .identity = one.at(2).get<std::string>(),
                        .is_published = one.at(3).get<bool>()};
    for (const Json& file : one.at(4)) {
      seen.files.push_back({file.at(0).get<std::string>(), file.at(1).get<std::uint64_t>(),
                            file.at(2).get<std::string>()});
    }
    seen.has = one.at(5).get<std::vector<std::string>>();
    seen.was_published = one.at(6).get<bool>();
    seen.publisher = one.at(7).get<std::string>();
    seen.problem = one.at(8).get<std::string>();
    seen.status = one.at(9).get<int>();
    return seen;
  });
}

Agreed parse_agreed(const std::string& text) {
  return parse(text, [](const Json& one) {
    AgreedCheckpoint agreed{.name = one.at(0).get<std::string>(),
                            .order = one.at(1).get<std::vector<std::int64_t>>(),
                            .identity = one.at(2).get<std::string>(),
                            .files = {},
                            .lacks = one.at(4).get<std::string>(),
                            .status = one.at(5).get<int>()};
    for (const Json& file : one.at(3)) {
      agreed.files.push_back({file.at(0).get<std::string>(), file.at(1).get<std::uint64_t>(),
                              file.at(2).get<std::int64_t>()});
    }
    return agreed;
  });
}

// All reports of one name with one content.
struct Sighting {
  // The report of the first rank that sees `.metadata`. If no rank sees it, the report of the first
  // rank.
  SeenCheckpoint seen;
  std::int64_t rank = 0;                    // the rank of `seen`
  std::map<std::string, std::int64_t> has;  // by file: a rank that has it
  std::set<std::int64_t> seen_by;
};

class Sightings {
 public:
  void add(std::int64_t rank, Seen seen) {
    for (SeenCheckpoint& one : seen) {
      Sighting& sighting = find(one, rank);
      for (const std::string& name : one.has) {
        sighting.has.try_emplace(name, rank);
      }
      sighting.seen_by.insert(rank);
      if (one.was_published) sighting.seen.was_published = true;
      if (one.is_published && !sighting.seen.is_published) {
        sighting.seen = std::move(one);
        sighting.rank = rank;
      }
    }
    ++ranks_;
  }

  // Step 2. Returns one checkpoint for each name: the first whole one. If none is whole, prefers
  // one that a disk does not return, since the disk explains what the others lack.
  Agreed chosen() const {
    std::vector<const Sighting*> published;
    for (const Sighting& one : all_) {
      if (one.seen.is_published || one.seen.was_published) published.push_back(&one);
    }
    Agreed agreed;
    for (const Sighting* one : published) {
      AgreedCheckpoint found = made_of(*one);
      const auto same = std::ranges::find(agreed, found.name, &AgreedCheckpoint::name);
      if (same == agreed.end()) {
        agreed.push_back(std::move(found));
      } else if (!same->lacks.empty() && (found.lacks.empty() || !one->seen.problem.empty())) {
        *same = std::move(found);
      }
    }
    std::ranges::stable_sort(agreed, std::greater<>(), [](const AgreedCheckpoint& one) {
      return std::pair(one.order, one.name);
    });
    return agreed;
  }

 private:
  Sighting& find(const SeenCheckpoint& one, std::int64_t rank) {
    const auto found = std::ranges::find_if(all_, [&](const Sighting& other) {
      return one.name == other.seen.name && one.order == other.seen.order &&
             one.identity == other.seen.identity && one.problem == other.seen.problem;
    });
    if (found != all_.end()) return *found;
    return all_.emplace_back(Sighting{.seen = one, .rank = rank, .has = {}, .seen_by = {}});
  }

  AgreedCheckpoint made_of(const Sighting& one) const {
    AgreedCheckpoint made{.name = one.seen.name,
                          .order = one.seen.order,
                          .identity = one.seen.identity,
                          .files = {},
                          .lacks = {},
                          .status = one.seen.status};
    if (!one.seen.problem.empty()) {
      made.lacks = fmt::format("rank {} cannot read it: {}", one.rank, one.seen.problem);
      return made;
    }
    if (!one.seen.is_published) {
      made.lacks = fmt::format("no machine of this job has its .metadata (written on {})",
                               one.seen.publisher);
      return made;
    }
    std::vector<const SeenCheckpoint::File*> missing;
    for (const SeenCheckpoint::File& file : one.seen.files) {
      const auto who = one.has.find(file.name);
      if (who == one.has.end()) missing.push_back(&file);
      if (who != one.has.end()) made.files.push_back({file.name, file.bytes, who->second});
    }
    if (!missing.empty()) made.lacks = text_of_missing(missing);
    for (std::int64_t rank = 0; one.seen.files.empty() && rank < ranks_; ++rank) {
      if (one.seen_by.contains(rank)) continue;
      made.lacks = fmt::format("rank {} does not see it", rank);
      break;
    }
    return made;
  }

  static std::string text_of_missing(const std::vector<const SeenCheckpoint::File*>& missing) {
    constexpr std::size_t kMaxNamed = 4;
    std::string names;
    std::set<std::string> machines;
    for (std::size_t i = 0; i < missing.size(); ++i) {
      if (i < kMaxNamed) names += (i == 0 ? "" : ", ") + missing[i]->name;
      if (!missing[i]->machine.empty()) machines.insert(missing[i]->machine);
    }
    if (missing.size() > kMaxNamed) {
      names += fmt::format(" and {} more", missing.size() - kMaxNamed);
    }
    std::string where;
    for (const std::string& machine : machines) {
      where += (where.empty() ? "" : ", ") + machine;
    }
    return fmt::format("no machine of this job has {}{}", names,
                       where.empty() ? "" : " (written on " + where + ")");
  }

  std::vector<Sighting> all_;
  std::int64_t ranks_ = 0;
};

// For rank 0.
Agreed choose(RollCall& call, Seen own, bool may_lack_all) {
  Sightings sightings;
  sightings.add(call.me().rank, std::move(own));
  for (std::int64_t rank = 1; rank < call.me().world_size; ++rank) {
    sightings.add(rank, parse_seen(call.wait_for("report/" + std::to_string(rank))));
    call.unwatch(rank);
  }
  Agreed agreed = sightings.chosen();
  if (const Verdict why = why_none_is_whole(agreed); !may_lack_all && !why.is_good()) {
    decide_against(call, why);
  }
  call.forget_earlier_calls();
  // Set before the decision, so that a rank that knows of the decision finds the key.
  call.set("done", text_of(agreed));
  decide_for(call);
  return agreed;
}

// For the other ranks.
Agreed learn(RollCall& call, const Seen& own) {
  call.set("report/" + std::to_string(call.me().rank), text_of(own));
  try {
    call.wait_for_decision();
  } catch (const RollCall::Unknown&) {
    // The decision stands, and rank 0 is not needed any more.
  }
  const auto text = call.find("done");
  if (!text) throw MeetingError("the meeting place has lost what the ranks agreed on");
  return parse_agreed(*text);
}

}  // namespace

std::vector<AgreedCheckpoint> agree_over_ranks(RankTable& table, const AgreeJob& job) {
  return consult(table, fmt::format("{} on {} ranks", job.what, table.me.world_size),
                 "looking for checkpoints", [&](RollCall& call) {
                   Seen own = job.look([&call] { call.keep_alive(); });
                   return call.is_leader() ? choose(call, std::move(own), job.may_lack_all)
                                           : learn(call, own);
                 });
}

const AgreedCheckpoint* find_furthest(const std::vector<AgreedCheckpoint>& agreed) {
  const auto found = std::ranges::find_if(agreed, &std::string::empty, &AgreedCheckpoint::lacks);
  return found == agreed.end() ? nullptr : &*found;
}

Verdict why_none_is_whole(const std::vector<AgreedCheckpoint>& agreed) {
  if (agreed.empty() || find_furthest(agreed) != nullptr) return {};
  Verdict verdict{.kind = Verdict::Kind::kUsage};
  std::string all;
  for (const AgreedCheckpoint& one : agreed) {
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", one.name, one.lacks);
    if (one.status == 0 || verdict.status != 0) continue;
    verdict.kind = Verdict::Kind::kFailed;
    verdict.status = one.status;
  }
  const char* const advice = verdict.status == 0
                                 ? "Start the job where their parts are, bring the parts back, or "
                                   "remove the checkpoints everywhere to begin anew"
                                 : "Repair the disk or server that does not return them, or put "
                                   "them aside, and start again";
  verdict.why = fmt::format(
      "there are checkpoints, but none that all ranks can go on from ({}). {}", all, advice);
  return verdict;
}

}  // namespace cairn
