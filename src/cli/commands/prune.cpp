// cairn prune: removes the checkpoints of a run that no rule keeps.
//
//  1. List the folder. Check structure and sizes of each checkpoint, and that the checkpoint holds
//     the state that it claims. Check the newest checkpoint of each series in full. In a store that
//     is far away, and without --yes, names are trusted (open_kept()): only checkpoints that the
//     rules would keep are opened. With --yes every checkpoint is opened before any is removed.
//  2. decide() (checkpoint/folder/retention.h) chooses what stays, and why.
//  3. With --yes, remove the other checkpoints, the oldest first. Each removal is durable before
//     the next begins. A checkpoint that changed since step 1, or that a process has begun to
//     write, stays.
//  4. Print each decision with its reasons. Without --yes nothing else is done.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "checkpoint/folder/retention.h"
#include "checkpoint/names/position_in_name.h"
#include "checkpoint/open/saved_metrics.h"
#include "checkpoint/open/training_info.h"
#include "cli/shell/command.h"
#include "cli/shell/duration.h"
#include "cli/shell/folders.h"
#include "cli/shell/keep_best.h"
#include "cli/shell/size_option.h"
#include "cli/view/clock_text.h"
#include "cli/view/joined.h"
#include "cli/view/progress_bar.h"
#include "cli/view/table.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "io/read_fault.h"
#include "storage/listing.h"
#include "storage/local/own_files.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

struct PruneArgs {
  FolderArgs where;
  std::string folder;    // one of `where.folders`, without secrets, for messages
  RetentionRules rules;  // the numeric rules; the texts below are parsed into the other rules
  std::vector<std::string> every;
  std::vector<std::string> best;
  std::string mode = "auto";
  std::string within;
  bool verify = false;
  bool yes = false;
};

struct Candidate {
  ListedCheckpoint listed;
  RetentionItem item;
  Decision decision;
  bool is_removed = false;
  bool is_gone = false;  // another program removed it during the check
};

bool is_opened(const Candidate& candidate) {
  return candidate.listed.condition != Condition::kNotLookedInto;
}

struct Outcome {
  std::string folder;
  std::vector<Candidate> candidates = {};
  std::vector<std::string> folders = {};  // FolderListing::folders
  FoldersBelow below = {};                // empty with -r
  std::vector<std::size_t> blocked_by = {};
  std::string error = {};  // the error of the removal that ended the work
  ExitCode code = kDone;
};

std::string holder_of(ObjectStore& store, const ListedCheckpoint& listed) {
  if (listed.is_pinned) return "pinned";
  if (!listed.links.empty()) return listed.links.front() + " points at it";
  if (store.is_being_written(listed.path)) return "a process is writing it";
  if (!listed.is_folder) return "";
  const auto foreign = foreign_file_in(store, listed.path);
  return foreign ? "it holds " + *foreign + ", which is no part of a checkpoint" : "";
}

// Records in the candidate the problem that `look` returns, or an exception about the content.
// Other exceptions end the work, before anything is removed.
template <class Look>
void check_candidate(ObjectStore& store, Candidate& candidate, const Look& look) {
  std::string problem;
  bool is_damaged = true;
  try {
    problem = look();
  } catch (const std::exception& e) {
    if (read_fault_of(e) == ReadFault::kNow) throw;
    problem = read_problem(e);
    is_damaged = dynamic_cast<const CorruptError*>(&e) != nullptr;
  }
  if (problem.empty()) return;
  candidate.is_gone = was_removed(store, candidate.listed.path);
  candidate.listed.problem = problem;
  candidate.listed.condition = is_damaged ? Condition::kDamaged : Condition::kRefused;
  candidate.item.is_good = false;
}

std::string series_of(const ListedCheckpoint& listed) {
  return listed.info.run_name + "\n" + listed.info.kind;
}

Candidate candidate_of(const std::shared_ptr<ObjectStore>& store, ListedCheckpoint listed,
                       bool wants_metrics) {
  Candidate candidate;
  candidate.item = {.series = series_of(listed),
                    .timestamp = listed.info.timestamp,
                    .made = listed.modified,
                    .day = local_day(listed.modified),
                    .bytes = listed.bytes,
                    .is_good = listed.condition == Condition::kGood ||
                               listed.condition == Condition::kNotLookedInto,
                    .held_by = holder_of(*store, listed)};
  candidate.listed = std::move(listed);
  if (wants_metrics && candidate.item.is_good) {
    check_candidate(*store, candidate, [&] {
      const auto source = open_source(candidate.listed.path, {.store = store});
      candidate.item.metrics = saved_metrics(source->read());
      return std::string();
    });
  }
  return candidate;
}

// Whether names and the listing tell what the rules need. Never with --yes: before a removal each
// checkpoint is opened, because its run has to be known, and because it has to verify.
bool trusts_names(const ObjectStore& store, const PruneArgs& options) {
  if (!store.may_be_far() || options.yes || options.verify || !options.best.empty()) return false;
  return std::ranges::all_of(options.every, [](const std::string& interval) {
    const TimeUnit unit = Time(interval).unit();
    return unit == TimeUnit::kBatch || unit == TimeUnit::kEpoch;
  });
}

// Does step 1 if names are trusted.
class NamedCandidates {
 public:
  NamedCandidates(std::vector<Candidate>& candidates, const ListOptions& listing)
      : candidates_(candidates), listing_(listing) {}

  // Opens the checkpoints that the rules keep. Their contents can change what the rules keep, so
  // this decides again until all kept checkpoints have been opened.
  void open_kept(const RetentionRules& rules, std::chrono::system_clock::time_point now) {
    for (;;) {
      assume_series();
      std::vector<RetentionItem> items;
      for (const Candidate& candidate : candidates_) {
        items.push_back(candidate.item);
      }
      const RetentionPlan plan = decide(items, rules, now);
      if (!plan.blocked_by.empty()) return;  // all are kept
      bool has_opened = false;
      for (std::size_t i = 0; i < candidates_.size(); ++i) {
        if (!plan.decisions[i].keep || is_opened(candidates_[i])) continue;
        open(candidates_[i]);
        has_opened = true;
      }
      std::erase_if(candidates_, [](const Candidate& candidate) { return candidate.is_gone; });
      if (!has_opened) return;
    }
  }

 private:
  // Assumes that checkpoints with names of one form belong to one series. If opened checkpoints
  // show that a form has several series, the names do not tell the series. Then this function opens
  // all checkpoints of that form.
  void assume_series() {
    std::map<std::string, std::set<std::string>> series;
    for (const Candidate& candidate : candidates_) {
      if (is_opened(candidate) && candidate.item.is_good) {
        series[form_of(candidate)].insert(candidate.item.series);
      }
    }
    for (Candidate& candidate : candidates_) {
      if (is_opened(candidate)) continue;
      const std::string form = form_of(candidate);
      const auto known = series.find(form);
      if (known != series.end() && known->second.size() > 1) {
        open(candidate);
      } else {
        candidate.item.series = known == series.end() ? form : *known->second.begin();
      }
    }
  }

  static std::string form_of(const Candidate& candidate) {
    const auto named = position_in_name(candidate.listed.name);
    return named ? named->form : candidate.listed.name;
  }

  void open(Candidate& candidate) {
    const std::optional<Timestamp> claim = candidate.item.timestamp;
    auto listed = look_into(candidate.listed, listing_);
    candidate.is_gone = !listed;
    if (!listed) return;
    candidate = candidate_of(listing_.store, *std::move(listed), /*wants_metrics=*/false);
    const auto& held = candidate.item.timestamp;
    if (held && claim && held->batch < claim->batch) count_false_name(candidate);
  }

  void count_false_name(const Candidate& candidate) {
    constexpr std::size_t kMax = 16;
    if (++false_names_ < kMax) return;
    throw UsageError(fmt::format(
        "{}: {} files were opened whose names promise more than they hold ({} holds epoch {}, "
        "batch {}), so that names do not tell what to keep. --verify opens all of them",
        parent_path(candidate.listed.path), kMax, candidate.listed.name,
        candidate.item.timestamp->epoch, candidate.item.timestamp->batch));
  }

  std::vector<Candidate>& candidates_;
  const ListOptions& listing_;
  std::size_t false_names_ = 0;
};

// Step 1: verifies the furthest checkpoint of each series.
void verify_newest(std::vector<Candidate>& candidates, const OpenOptions& opening) {
  std::map<std::string, Timestamp> newest;
  for (const Candidate& candidate : candidates) {
    const RetentionItem& item = candidate.item;
    if (!item.is_good || !item.timestamp) continue;
    Timestamp& furthest = newest.try_emplace(item.series, *item.timestamp).first->second;
    if (position(furthest) < position(*item.timestamp)) furthest = *item.timestamp;
  }
  for (Candidate& candidate : candidates) {
    const auto found = newest.find(candidate.item.series);
    if (!candidate.item.is_good || found == newest.end()) continue;
    if (candidate.item.timestamp != found->second) continue;
    check_candidate(*opening.store, candidate, [&] {
      const VerifyReport report =
          open_source(candidate.listed.path, opening)->verify(Verify::kFull);
      return report.ok() ? std::string() : report.summary();
    });
  }
}

RetentionRules rules_of(const PruneArgs& options, const std::vector<Candidate>& candidates) {
  RetentionRules rules = options.rules;
  for (const std::string& interval : options.every) {
    rules.every.emplace_back(interval);
  }
  if (!options.within.empty()) rules.within = parse_duration(options.within);
  std::set<std::string> metrics;
  for (const Candidate& candidate : candidates) {
    for (const auto& [name, value] : candidate.item.metrics) {
      metrics.insert(name);
    }
  }
  for (const std::string& text : options.best) {
    rules.best.push_back(parse_keep_best(text, metrics, options.mode));
  }
  return rules;
}

// Does step 1. Fills Outcome::candidates and Outcome::folders.
Outcome find_candidates(const std::shared_ptr<ObjectStore>& store, const PruneArgs& options,
                        const Console& console, std::chrono::system_clock::time_point now) {
  ProgressBar bar(console, {.what = "check " + options.folder});
  const ListOptions how = {.verify = options.verify ? Verify::kFull : Verify::kQuick,
                           .trust_names = trusts_names(*store, options),
                           .check_state = true,
                           .on_progress = [&bar](std::uint64_t bytes) { bar.add(bytes); },
                           .store = store};
  FolderListing listing = list_checkpoints(options.folder, how);
  Outcome outcome{.folder = options.folder, .folders = std::move(listing.folders)};
  std::vector<Candidate>& candidates = outcome.candidates;
  for (ListedCheckpoint& listed : listing.checkpoints) {
    if (is_put_aside(listed.path)) continue;  // It is no part of the run any more.
    candidates.push_back(candidate_of(store, std::move(listed), !options.best.empty()));
  }
  if (how.trust_names) {
    NamedCandidates(candidates, how).open_kept(rules_of(options, candidates), now);
  }
  if (!options.verify) verify_newest(candidates, {.store = store, .on_progress = how.on_progress});
  std::erase_if(candidates, [](const Candidate& candidate) { return candidate.is_gone; });
  return outcome;
}

// Does step 3 for one checkpoint.
void remove(ObjectStore& store, Candidate& candidate) {
  const auto info = store.stat(candidate.listed.path, /*follow=*/false);
  const char* why = nullptr;
  if (!info) {
    why = "it is gone already";
  } else if (info->version != candidate.listed.version) {
    why = "it changed meanwhile";
  } else if (store.is_being_written(candidate.listed.path)) {
    why = "a process is writing it";
  } else {
    const std::string& path = candidate.listed.path;
    candidate.is_removed =
        candidate.listed.is_folder ? remove_checkpoint_folder(store, path) : store.remove(path);
    if (!candidate.is_removed) {
      why = store.stat(path, /*follow=*/false) ? "a process is writing it" : "it is gone already";
    }
  }
  if (why != nullptr) candidate.decision = {.keep = true, .reasons = {why}};
}

void remove_all(ObjectStore& store, Outcome& outcome) {
  for (Candidate& candidate : outcome.candidates) {
    if (candidate.decision.keep) continue;
    try {
      remove(store, candidate);
    } catch (const Error& e) {
      outcome.error = e.what();
      outcome.code = exit_code_of(e);
      return;
    }
  }
}

Outcome prune(const std::shared_ptr<ObjectStore>& store, const PruneArgs& options,
              const Console& console) {
  if (options.yes) store->remove_leftovers(options.folder);
  const auto now = std::chrono::system_clock::now();
  Outcome outcome = find_candidates(store, options, console, now);
  std::vector<RetentionItem> items;
  for (const Candidate& candidate : outcome.candidates) {
    items.push_back(candidate.item);
  }
  RetentionPlan plan = decide(items, rules_of(options, outcome.candidates), now);
  for (std::size_t i = 0; i < items.size(); ++i) {
    outcome.candidates[i].decision = std::move(plan.decisions[i]);
  }
  outcome.blocked_by = std::move(plan.blocked_by);
  for (const std::size_t i : outcome.blocked_by) {
    const bool is_damaged = outcome.candidates[i].listed.condition == Condition::kDamaged;
    outcome.code = is_damaged ? kDamaged : std::max(outcome.code, kFailed);
    if (is_damaged) break;
  }
  if (options.yes) remove_all(*store, outcome);
  return outcome;
}

// Whether the checkpoint is removed, or would be.
bool is_or_would_be_removed(const Candidate& candidate, const PruneArgs& options) {
  return options.yes ? candidate.is_removed : !candidate.decision.keep;
}

struct Sums {
  std::size_t keep = 0;
  std::size_t remove = 0;
  std::uint64_t bytes = 0;
};

Sums sums_of(const Outcome& outcome, const PruneArgs& options) {
  Sums sums;
  for (const Candidate& candidate : outcome.candidates) {
    const bool is_gone = is_or_would_be_removed(candidate, options);
    ++(is_gone ? sums.remove : sums.keep);
    if (is_gone) sums.bytes += candidate.listed.bytes;
  }
  return sums;
}

bool is_empty(const Outcome& outcome) {
  return outcome.candidates.empty() && outcome.error.empty();
}

void tell_unopened(const Outcome& outcome, const Console& console) {
  const auto named =
      std::ranges::count_if(outcome.candidates, [](const auto& c) { return !is_opened(c); });
  if (named == 0) return;
  console.err << "cairn: " << named
              << " were not opened: their names say where they are in training (--yes opens each "
                 "of them before it removes any; --verify does so now)\n";
}

void print(const Outcome& outcome, const PruneArgs& options, Console& console) {
  Table table({"", "NAME", ">SIZE", "WHY"});
  for (const Candidate& candidate : outcome.candidates) {
    if (console.quiet && candidate.item.is_good) continue;
    const bool is_gone = is_or_would_be_removed(candidate, options);
    table.add({is_gone ? Cell(options.yes ? "removed" : "remove", &Console::red)
                       : Cell(options.yes ? "kept" : "keep", &Console::green),
               candidate.listed.name, console.bytes(candidate.listed.bytes),
               joined(candidate.decision.reasons, "; ")});
  }
  table.print(console);
  if (is_empty(outcome)) {
    console.err << "cairn: no checkpoints in " << printable_line(outcome.folder) << "\n";
  } else if (!console.quiet && !outcome.candidates.empty()) {
    const Sums sums = sums_of(outcome, options);
    console.out << (options.yes ? "kept " : "would keep ") << sums.keep
                << (options.yes ? ", removed " : ", remove ") << sums.remove
                << (options.yes ? ", freed " : ", free ") << console.bytes(sums.bytes)
                << (options.yes ? "\n" : " (nothing done; add --yes)\n");
  }
  tell_unopened(outcome, console);
  tell_below(outcome.below, console);
  for (const std::size_t i : outcome.blocked_by) {
    const ListedCheckpoint& listed = outcome.candidates[i].listed;
    console.err << "cairn: nothing older is removed, because "
                << printable_line(join_path(outcome.folder, listed.name))
                << " does not verify: " << printable_line(listed.problem)
                << "; put it aside to go on\n";
  }
  if (!outcome.error.empty()) console.err << "cairn: " << printable(outcome.error) << "\n";
}

Json describe(const Outcome& outcome, const PruneArgs& options) {
  Json rows = Json::array();
  for (const Candidate& candidate : outcome.candidates) {
    rows.push_back({{"name", candidate.listed.name},
                    {"path", candidate.listed.path},
                    {"bytes", candidate.listed.bytes},
                    {"keep", candidate.decision.keep},
                    {"reasons", candidate.decision.reasons},
                    {"looked_into", is_opened(candidate)},
                    {"removed", candidate.is_removed}});
  }
  Json blocked_by = Json::array();
  for (const std::size_t i : outcome.blocked_by) {
    const ListedCheckpoint& listed = outcome.candidates[i].listed;
    blocked_by.push_back({{"name", listed.name}, {"problem", listed.problem}});
  }
  const Sums sums = sums_of(outcome, options);
  return {{"folder", outcome.folder},
          {"done", options.yes},
          {"keep", sums.keep},
          {"remove", sums.remove},
          {"free_bytes", sums.bytes},
          {"checkpoints", std::move(rows)},
          {"blocked_by", std::move(blocked_by)},
          {"folders_below", folders_json(outcome.below)},
          {"error", outcome.error.empty() ? Json() : Json(outcome.error)},
          {"exit_code", static_cast<int>(outcome.code)}};
}

bool is_one_folder(const PruneArgs& options) {
  return options.where.folders.size() == 1 && !options.where.recursive;
}

// Calls prune(), and records the folders below. If several folders are pruned, an error is put into
// the outcome.
Outcome prune_folder(const std::string& place, const PruneArgs& options, const Console& console) {
  const auto store = store_of(place, nullptr);
  PruneArgs one = options;
  one.folder = shown_place(place);
  try {
    Outcome outcome = prune(store, one, console);
    if (!options.where.recursive) {
      outcome.below = find_folders_below(*store, one.folder, outcome.folders);
    }
    return outcome;
  } catch (const Error& e) {
    if (is_one_folder(options)) throw;
    return {.folder = one.folder, .error = e.what(), .code = exit_code_of(e)};
  }
}

// Prunes the named folder, and with -r each folder below it that holds checkpoints, each by itself.
std::vector<Outcome> prune_all(const std::string& place, const PruneArgs& options,
                               const Console& console) {
  std::vector<Outcome> all;
  walk_folders(place, options.where.recursive, [&](const std::string& folder) {
    all.push_back(prune_folder(folder, options, console));
    return all.back().folders;
  });
  if (std::all_of(all.begin(), all.end(), is_empty)) {
    all.front().code = kNotFound;
    return {std::move(all.front())};
  }
  std::erase_if(all, is_empty);
  return all;
}

void check(const PruneArgs& options) {
  const RetentionRules& rules = options.rules;
  if (rules.last == 0 && rules.size == 0 && rules.daily == 0 && rules.weekly == 0 &&
      options.every.empty() && options.best.empty() && options.within.empty()) {
    throw UsageError("say what to keep: --keep-last 3, for example (see cairn prune --help)");
  }
  // Throws for a folder that cannot be listed, before the first folder is pruned.
  for (const std::string& place : options.where.folders) {
    store_of(place, nullptr)->list(shown_place(place));
  }
}

int run_prune(const PruneArgs& options, Console& console) {
  check(options);
  std::vector<Outcome> all;
  for (const std::string& place : options.where.folders) {
    std::ranges::move(prune_all(place, options, console), std::back_inserter(all));
  }
  const bool is_one = is_one_folder(options);
  ExitCode code = kDone;
  Json shown = Json::array();
  for (const Outcome& outcome : all) {
    if (code == kDone) code = outcome.code;
    if (console.json) {
      shown.push_back(describe(outcome, options));
      continue;
    }
    const bool is_titled = !is_one && !console.quiet && !outcome.candidates.empty();
    if (is_titled) console.out << printable_line(outcome.folder) << ":\n";
    print(outcome, options, console);
  }
  if (console.json) {
    console.print_json(
        is_one ? shown[0]
               : Json{{"folders", std::move(shown)}, {"exit_code", static_cast<int>(code)}});
  }
  return code;
}

void add_count(CLI::App& app, const char* name, std::uint64_t& count, const char* what) {
  app.add_option(name, count, what)->type_name("N")->check(zero_or_more(std::string(name) + " 3"));
}

}  // namespace

Run define_prune(CLI::App& app) {
  const auto options = std::make_shared<PruneArgs>();
  add_folders(app, options->where);
  add_count(app, "--keep-last", options->rules.last, "keep the furthest N");
  app.add_option("--keep-size", options->rules.size,
                 "keep the newest that fit into this size together, such as 100GB")
      ->type_name("SIZE")
      ->transform(size_above_zero().description(""));
  add_count(app, "--keep-daily", options->rules.daily,
            "keep the furthest of each of the last N days that have one");
  add_count(app, "--keep-weekly", options->rules.weekly,
            "keep the furthest of each of the last N weeks that have one");
  app.add_option("--keep-every", options->every,
                 "keep the first at or after each multiple, such as 1000ba or 1ep")
      ->type_name("INTERVAL")
      ->expected(1)
      ->take_all();
  app.add_option("--keep-best", options->best,
                 "keep the N (or 1) best by a metric that was saved (save_metrics)")
      ->type_name("METRIC[:N]")
      ->expected(1)
      ->take_all();
  app.add_option("--mode", options->mode,
                 "which values --keep-best keeps: min, max, or auto (by the metric's name)")
      ->check(CLI::IsMember({"auto", "min", "max"}));
  app.add_option("--keep-within", options->within,
                 "keep those made within this time, such as 7d or 36h")
      ->type_name("DURATION");
  app.add_flag("--verify", options->verify,
               "check every byte of all checkpoints, not only of the newest");
  app.add_flag("--yes", options->yes, "remove checkpoints; without --yes only the plan is printed");
  app.footer(
      "A checkpoint is kept if any rule chooses it. Always kept are the newest good checkpoint, "
      "the target of a link in the folder, checkpoints that another process is writing, those that "
      "do not verify, and NAME when a file NAME.pin is beside it. Nothing older is removed while "
      "the newest one does not verify. Runs and kinds (full, weights) in one folder are judged "
      "separately, except by --keep-size. In a store that is far away, the plan opens only what it "
      "keeps, and trusts the names of the others. --yes opens each checkpoint before it removes "
      "any. Exit code 3 when a folder holds no checkpoint.");
  return [options](Console& console) { return run_prune(*options, console); };
}

}  // namespace cairn::cli
