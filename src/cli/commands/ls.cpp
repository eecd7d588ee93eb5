// cairn ls: lists the checkpoints of a run in a table.
#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cli/runs/listed_folder.h"
#include "cli/shell/command.h"
#include "cli/shell/folders.h"
#include "cli/view/clock_text.h"
#include "cli/view/table.h"
#include "core/text/json.h"
#include "core/text/printable.h"

namespace cairn::cli {
namespace {

struct LsArgs {
  FolderArgs where;
  ListingArgs listing;
};

std::string counter(const ListedCheckpoint& listed, std::int64_t Timestamp::*which) {
  return listed.info.timestamp ? std::to_string((*listed.info.timestamp).*which) : "-";
}

std::string tags(const ListedCheckpoint& listed) {
  std::string text = is_latest(listed) ? "latest" : "";
  if (listed.is_pinned) text += text.empty() ? "pinned" : ", pinned";
  return text;
}

Cell checked(const ListedCheckpoint& listed, const LsArgs& options) {
  if (listed.condition == Condition::kDamaged) return {"DAMAGED", &Console::red};
  if (listed.condition == Condition::kRefused) return {"not read", &Console::red};
  if (listed.condition == Condition::kNotLookedInto) return {"not opened", &Console::dim};
  return options.listing.verify ? Cell("full", &Console::green) : Cell("quick");
}

void tell_passed_over(const ListedFolder& looked, const Console& console) {
  const FolderListing& listing = looked.listing;
  if (listing.passed_over > 0) {
    console.err << "cairn: passed over " << listing.passed_over << " that "
                << (listing.passed_over == 1 ? "is no checkpoint" : "are no checkpoints") << "\n";
  }
  if (listing.not_looked_into > 0) {
    console.err << "cairn: " << (looked.trusts_names ? "" : "looked into the newest files; ")
                << listing.not_looked_into << (looked.trusts_names ? "" : " more")
                << " are known by name only (--all opens them)\n";
  }
}

void print(const ListedFolder& looked, const LsArgs& options, Console& console) {
  const FolderListing& listing = looked.listing;
  Table table({"TIME", ">EPOCH", ">BATCH", ">SIZE", "KIND", "CHECKED", "NAME", "TAGS"});
  for (const ListedCheckpoint& listed : listing.checkpoints) {
    table.add({local_time_text(listed.modified), counter(listed, &Timestamp::epoch),
               counter(listed, &Timestamp::batch), console.bytes(listed.bytes),
               listed.info.kind.empty() ? "-" : listed.info.kind, checked(listed, options),
               listed.name + (listed.is_folder ? "/" : ""), tags(listed)});
  }
  table.print_report(console);
  for (const ListedCheckpoint& listed : listing.checkpoints) {
    if (listed.problem.empty()) continue;
    console.out << printable_line(listed.name) << ": " << printable_line(listed.problem) << "\n";
  }
  if (listing.checkpoints.empty()) {
    console.err << "cairn: no checkpoints in " << printable_line(looked.folder) << "\n";
  }
  if (!console.quiet) tell_passed_over(looked, console);
  tell_below(looked.below, console);
}

Json describe(const ListedFolder& looked, const LsArgs& options) {
  Json rows = Json::array();
  for (const ListedCheckpoint& listed : looked.listing.checkpoints) {
    rows.push_back(listed_json(listed));
  }
  return {{"folder", looked.folder},
          {"checked", options.listing.verify ? "full" : "quick"},
          {"checkpoints", std::move(rows)},
          {"passed_over", looked.listing.passed_over},
          {"not_looked_into", looked.listing.not_looked_into},
          {"folders_below", folders_json(looked.below)}};
}

// Lists the named folder, and with -r the folders below it that hold checkpoints.
std::vector<ListedFolder> look_into_all(const std::string& place, const LsArgs& options,
                                        const Console& console) {
  ListingArgs listing = options.listing;
  listing.recursive = options.where.recursive;
  std::vector<ListedFolder> all;
  walk_folders(place, options.where.recursive, [&](const std::string& folder) {
    all.push_back(list_folder(folder, listing, console));
    return all.back().listing.folders;
  });
  const auto is_empty = [](const ListedFolder& looked) {
    return looked.listing.checkpoints.empty();
  };
  if (std::all_of(all.begin(), all.end(), is_empty)) return {std::move(all.front())};
  std::erase_if(all, is_empty);
  return all;
}

// Whether print() writes to `out`.
bool prints_something(const ListedFolder& looked, const Console& console) {
  const auto& all = looked.listing.checkpoints;
  return std::any_of(all.begin(), all.end(), [&](const ListedCheckpoint& listed) {
    return !console.quiet || !listed.problem.empty();
  });
}

// Each named folder must hold a checkpoint; otherwise the exit code says that something is missing.
ExitCode code_of(const std::vector<ListedFolder>& all, const LsArgs& options) {
  bool is_bad = false;
  bool is_empty = false;
  for (const ListedFolder& looked : all) {
    is_empty = is_empty || looked.listing.checkpoints.empty();
    for (const ListedCheckpoint& listed : looked.listing.checkpoints) {
      is_bad = is_bad || (options.listing.verify && listed.condition != Condition::kGood);
    }
  }
  if (is_bad) return kNegativeAnswer;
  return is_empty ? kNotFound : kDone;
}

int run_ls(const LsArgs& options, Console& console) {
  std::vector<ListedFolder> all;
  for (const std::string& place : options.where.folders) {
    std::ranges::move(look_into_all(place, options, console), std::back_inserter(all));
  }
  const bool is_one = options.where.folders.size() == 1 && !options.where.recursive;
  Json shown = Json::array();
  for (const ListedFolder& looked : all) {
    if (console.json) {
      shown.push_back(describe(looked, options));
      continue;
    }
    if (!is_one && prints_something(looked, console)) {
      console.out << printable_line(looked.folder) << ":\n";
    }
    print(looked, options, console);
  }
  if (console.json) console.print_json(is_one ? shown[0] : Json{{"folders", std::move(shown)}});
  return code_of(all, options);
}

}  // namespace

Run define_ls(CLI::App& app) {
  const auto options = std::make_shared<LsArgs>();
  add_folders(app, options->where);
  app.add_flag("--verify", options->listing.verify,
               "check every byte of all checkpoints; exit code 1 when one is not good");
  app.add_flag("--all", options->listing.all, "open all files, not only the newest hundred");
  app.footer(
      "Lists the checkpoints directly in each folder, the furthest in training last. Checkpoints "
      "are recognised by content, whatever their names. A folder that is a checkpoint is one row. "
      "Without --verify only structure and sizes are checked. Only the newest hundred files are "
      "opened, and 64 MiB of compressed ones, unless --all or -r is given; others are listed by "
      "name. In a store that is far away, a file whose name says epoch and batch is opened only "
      "with --all. Exit code 3 when a folder holds no checkpoint.");
  return [options](Console& console) { return run_ls(*options, console); };
}

}  // namespace cairn::cli
