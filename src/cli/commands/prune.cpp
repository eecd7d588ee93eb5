// cairn prune: removes the checkpoints of a run that no rule keeps.
//
//  1. List the folder; structure and sizes of each checkpoint are checked, and whether it holds the
//     state that it says it holds; the newest of each series in full.
//  2. decide() (checkpoint/folder/retention.h) says what stays, and why.
//  3. With --yes, remove the others, the oldest first, each durably, before the next is touched.
//  One
//     that changed since step 1, or that somebody has begun to write, is left.
//  4. Print each decision with its reasons. Without --yes that is all.
#include <algorithm>
#include <memory>
#include <string>

#include "cairn/error.h"
#include "cairn/exit_code.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "checkpoint/folder/retention.h"
#include "checkpoint/open/saved_metrics.h"
#include "cli/shell/command.h"
#include "cli/shell/duration.h"
#include "cli/shell/keep_best.h"
#include "cli/view/clock_text.h"
#include "cli/view/joined.h"
#include "cli/view/progress_bar.h"
#include "cli/view/table.h"
#include "core/json.h"
#include "core/printable.h"
#include "io/read_fault.h"
#include "storage/listing.h"
#include "storage/own_files.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

struct PruneArgs {
  std::string folder;
  RetentionRules rules;  // the numbers; the texts below become the others
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
  bool is_gone = false;  // another program removed it while it was looked at
};

struct Outcome {
  std::vector<Candidate> candidates;
  std::vector<std::size_t> blocked_by;
  std::string error;  // of the removal that ended the work
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

// Notes what `look` says is wrong with the candidate, and what it throws about the content. Errors
// that say nothing about it end the work, before anything was removed.
template <class Look>
void unless_unusable(ObjectStore& store, Candidate& candidate, const Look& look) {
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

Candidate candidate_of(const std::shared_ptr<ObjectStore>& store, ListedCheckpoint listed,
                       bool wants_metrics) {
  Candidate candidate;
  candidate.item = {.series = listed.info.run_name + "\n" + listed.info.kind,
                    .timestamp = listed.info.timestamp,
                    .made = listed.modified,
                    .day = local_day(listed.modified),
                    .is_good = listed.condition == Condition::kGood,
                    .held_by = holder_of(*store, listed)};
  candidate.listed = std::move(listed);
  if (wants_metrics && candidate.item.is_good) {
    unless_unusable(*store, candidate, [&] {
      const auto source = open_source(candidate.listed.path, {.store = store});
      candidate.item.metrics = saved_metrics(source->read());
      return std::string();
    });
  }
  return candidate;
}

// Step 1: the furthest of each series, with all of its position.
void verify_newest(std::vector<Candidate>& candidates, const OpenOptions& opening) {
  std::map<std::string, Timestamp> newest;  // listings end with the furthest
  for (const Candidate& candidate : candidates) {
    const RetentionItem& item = candidate.item;
    if (item.is_good && item.timestamp) newest.insert_or_assign(item.series, *item.timestamp);
  }
  for (Candidate& candidate : candidates) {
    const auto found = newest.find(candidate.item.series);
    if (!candidate.item.is_good || found == newest.end()) continue;
    if (candidate.item.timestamp != found->second) continue;
    unless_unusable(*opening.store, candidate, [&] {
      const VerifyReport report =
          open_source(candidate.listed.path, opening)->verify(Verify::kFull);
      return report.ok() ? std::string() : report.summary();
    });
  }
}

std::vector<Candidate> find_candidates(const std::shared_ptr<ObjectStore>& store,
                                       const PruneArgs& options, const Console& console) {
  ProgressBar bar(console, {.what = "check " + options.folder});
  const auto on_progress = [&bar](std::uint64_t bytes) { bar.add(bytes); };
  FolderListing listing =
      list_checkpoints(options.folder, {.verify = options.verify ? Verify::kFull : Verify::kQuick,
                                        .check_state = true,
                                        .on_progress = on_progress,
                                        .store = store});
  std::vector<Candidate> candidates;
  for (ListedCheckpoint& listed : listing.checkpoints) {
    candidates.push_back(candidate_of(store, std::move(listed), !options.best.empty()));
  }
  if (!options.verify) verify_newest(candidates, {.store = store, .on_progress = on_progress});
  std::erase_if(candidates, [](const Candidate& candidate) { return candidate.is_gone; });
  return candidates;
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

// Step 3, for one.
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
  Outcome outcome;
  if (options.yes) store->remove_leftovers(options.folder);
  outcome.candidates = find_candidates(store, options, console);
  std::vector<RetentionItem> items;
  for (const Candidate& candidate : outcome.candidates) {
    items.push_back(candidate.item);
  }
  RetentionPlan plan =
      decide(items, rules_of(options, outcome.candidates), std::chrono::system_clock::now());
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

// What is gone, or would go.
bool goes(const Candidate& candidate, const PruneArgs& options) {
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
    const bool is_gone = goes(candidate, options);
    ++(is_gone ? sums.remove : sums.keep);
    if (is_gone) sums.bytes += candidate.listed.bytes;
  }
  return sums;
}

void print(const Outcome& outcome, const PruneArgs& options, Console& console) {
  Table table({"", "NAME", ">SIZE", "WHY"});
  for (const Candidate& candidate : outcome.candidates) {
    const bool is_gone = goes(candidate, options);
    table.add({is_gone ? Cell(options.yes ? "removed" : "remove", &Console::red)
                       : Cell(options.yes ? "kept" : "keep", &Console::green),
               candidate.listed.name, console.bytes(candidate.listed.bytes),
               joined(candidate.decision.reasons, "; ")});
  }
  if (!outcome.candidates.empty()) table.print(console);
  const Sums sums = sums_of(outcome, options);
  console.out << (options.yes ? "kept " : "would keep ") << sums.keep
              << (options.yes ? ", removed " : ", remove ") << sums.remove
              << (options.yes ? ", freed " : ", free ") << console.bytes(sums.bytes)
              << (options.yes ? "\n" : " (nothing done; add --yes)\n");
  for (const std::size_t i : outcome.blocked_by) {
    const ListedCheckpoint& listed = outcome.candidates[i].listed;
    console.err << "cairn: nothing older is removed, because " << printable_line(listed.name)
                << " does not verify: " << printable_line(listed.problem)
                << "; put it aside to go on\n";
  }
  if (!outcome.error.empty()) console.err << "cairn: " << printable(outcome.error) << "\n";
}

void print_json(const Outcome& outcome, const PruneArgs& options, Console& console) {
  Json rows = Json::array();
  for (const Candidate& candidate : outcome.candidates) {
    rows.push_back({{"name", candidate.listed.name},
                    {"path", candidate.listed.path},
                    {"bytes", candidate.listed.bytes},
                    {"keep", candidate.decision.keep},
                    {"reasons", candidate.decision.reasons},
                    {"removed", candidate.is_removed}});
  }
  Json blocked_by = Json::array();
  for (const std::size_t i : outcome.blocked_by) {
    const ListedCheckpoint& listed = outcome.candidates[i].listed;
    blocked_by.push_back({{"name", listed.name}, {"problem", listed.problem}});
  }
  const Sums sums = sums_of(outcome, options);
  console.print_json({{"folder", options.folder},
                      {"done", options.yes},
                      {"keep", sums.keep},
                      {"remove", sums.remove},
                      {"free_bytes", sums.bytes},
                      {"checkpoints", std::move(rows)},
                      {"blocked_by", std::move(blocked_by)},
                      {"error", outcome.error.empty() ? Json() : Json(outcome.error)},
                      {"exit_code", static_cast<int>(outcome.code)}});
}

int run_prune(PruneArgs options, Console& console) {
  const RetentionRules& rules = options.rules;
  if (rules.last == 0 && rules.daily == 0 && rules.weekly == 0 && options.every.empty() &&
      options.best.empty() && options.within.empty()) {
    throw UsageError("say what to keep: --keep-last 3, for example (see cairn prune --help)");
  }
  const auto store = store_of(options.folder, nullptr);
  options.folder = shown_place(options.folder);
  const Outcome outcome = prune(store, options, console);
  if (console.json) {
    print_json(outcome, options, console);
  } else {
    print(outcome, options, console);
  }
  return outcome.code;
}

void add_count(CLI::App& app, const char* name, std::uint64_t& count, const char* what) {
  app.add_option(name, count, what)
      ->type_name("N")
      ->check(CLI::Validator(CLI::NonNegativeNumber).description(""));
}

}  // namespace

Run define_prune(CLI::App& app) {
  const auto options = std::make_shared<PruneArgs>();
  app.add_option("FOLDER", options->folder, "a folder of checkpoints")->required();
  add_count(app, "--keep-last", options->rules.last, "keep the furthest N");
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
                 "what --keep-best takes for good: min, max, or auto: by the metric's name")
      ->check(CLI::IsMember({"auto", "min", "max"}));
  app.add_option("--keep-within", options->within, "keep what was made within, such as 7d or 36h")
      ->type_name("DURATION");
  app.add_flag("--verify", options->verify, "check every byte of all, not only of the newest");
  app.add_flag("--yes", options->yes, "remove; without it only the plan is printed");
  app.footer(
      "What any rule chooses is kept. Always kept are the newest good checkpoint, what a link in "
      "the folder points at, what another process is writing, what does not verify, and NAME when "
      "a file NAME.pin stands beside it. Nothing older is removed while the newest one does not "
      "verify. Runs and kinds (full, weights) in one folder are judged apart.");
  return [options](Console& console) { return run_prune(*options, console); };
}

}  // namespace cairn::cli
