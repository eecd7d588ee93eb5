// cairn ls: the checkpoints of a run in a table.
#include <algorithm>
#include <memory>
#include <string>

#include "checkpoint/folder/list_checkpoints.h"
#include "cli/shell/command.h"
#include "cli/view/clock_text.h"
#include "cli/view/progress_bar.h"
#include "cli/view/table.h"
#include "core/json.h"
#include "core/printable.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

struct LsArgs {
  std::string folder;
  bool verify = false;
  bool all = false;
};

// Without --all: what takes a second or two, however old the run is.
constexpr ListLimits kUsually = {.files = 100, .expanded_bytes = std::uint64_t{64} << 20};

bool is_latest(const ListedCheckpoint& listed) {
  return std::any_of(listed.links.begin(), listed.links.end(),
                     [](const std::string& link) { return link.starts_with("latest"); });
}

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
  return options.verify ? Cell("full", &Console::green) : Cell("quick");
}

void print(const FolderListing& listing, const LsArgs& options, Console& console) {
  Table table({"TIME", ">EPOCH", ">BATCH", ">SIZE", "KIND", "CHECKED", "NAME", "TAGS"});
  for (const ListedCheckpoint& listed : listing.checkpoints) {
    table.add({local_time_text(listed.modified), counter(listed, &Timestamp::epoch),
               counter(listed, &Timestamp::batch), console.bytes(listed.bytes),
               listed.info.kind.empty() ? "-" : listed.info.kind, checked(listed, options),
               listed.name + (listed.is_folder ? "/" : ""), tags(listed)});
  }
  if (!listing.checkpoints.empty()) table.print(console);
  for (const ListedCheckpoint& listed : listing.checkpoints) {
    if (listed.problem.empty()) continue;
    console.out << printable_line(listed.name) << ": " << printable_line(listed.problem) << "\n";
  }
  if (listing.checkpoints.empty()) {
    console.err << "cairn: no checkpoints in " << printable_line(options.folder) << "\n";
  }
  if (listing.passed_over > 0) {
    console.err << "cairn: passed over " << listing.passed_over << " that "
                << (listing.passed_over == 1 ? "is no checkpoint" : "are no checkpoints") << "\n";
  }
  if (listing.not_looked_into > 0) {
    console.err << "cairn: looked into the newest files; " << listing.not_looked_into
                << " more are known by name only (--all opens them)\n";
  }
}

Json describe(const ListedCheckpoint& listed) {
  Json row = {{"name", listed.name},
              {"path", listed.path},
              {"modified", utc_time_text(listed.modified)},
              {"bytes", listed.bytes},
              {"kind", nullptr},
              {"format", nullptr},
              {"containers", listed.source.containers},
              {"run_name", listed.info.run_name},
              {"epoch", nullptr},
              {"batch", nullptr},
              {"sample", nullptr},
              {"token", nullptr},
              {"latest", is_latest(listed)},
              {"pinned", listed.is_pinned},
              {"looked_into", listed.condition != Condition::kNotLookedInto},
              {"ok", nullptr},
              {"problem", nullptr}};
  if (row["looked_into"]) row["ok"] = listed.condition == Condition::kGood;
  if (!listed.info.kind.empty()) row["kind"] = listed.info.kind;
  if (!listed.source.format.empty()) row["format"] = listed.source.format;
  if (!listed.problem.empty()) row["problem"] = listed.problem;
  if (const auto& at = listed.info.timestamp) {
    row["epoch"] = at->epoch;
    row["batch"] = at->batch;
    row["sample"] = at->sample;
    row["token"] = at->token;
  }
  return row;
}

void print_json(const FolderListing& listing, const LsArgs& options, Console& console) {
  Json rows = Json::array();
  for (const ListedCheckpoint& listed : listing.checkpoints) {
    rows.push_back(describe(listed));
  }
  console.print_json({{"folder", options.folder},
                      {"checked", options.verify ? "full" : "quick"},
                      {"checkpoints", std::move(rows)},
                      {"passed_over", listing.passed_over},
                      {"not_looked_into", listing.not_looked_into}});
}

FolderListing list_with_progress(const std::shared_ptr<ObjectStore>& store, const LsArgs& options,
                                 const Console& console) {
  ProgressBar bar(console, {.what = "check " + options.folder});
  return list_checkpoints(options.folder,
                          {.verify = options.verify ? Verify::kFull : Verify::kQuick,
                           .limits = options.all || options.verify ? ListLimits{} : kUsually,
                           .on_progress = [&bar](std::uint64_t bytes) { bar.add(bytes); },
                           .store = store});
}

int run_ls(LsArgs options, Console& console) {
  const auto store = store_of(options.folder, nullptr);
  options.folder = shown_place(options.folder);
  const FolderListing listing = list_with_progress(store, options, console);
  if (console.json) {
    print_json(listing, options, console);
  } else {
    print(listing, options, console);
  }
  const bool all_good = std::all_of(
      listing.checkpoints.begin(), listing.checkpoints.end(),
      [](const ListedCheckpoint& listed) { return listed.condition == Condition::kGood; });
  return options.verify && !all_good ? kNegativeAnswer : kDone;
}

}  // namespace

Run define_ls(CLI::App& app) {
  const auto options = std::make_shared<LsArgs>();
  app.add_option("FOLDER", options->folder, "a folder of checkpoints")->required();
  app.add_flag("--verify", options->verify,
               "check every byte of all; exit code 1 when a checkpoint is not good");
  app.add_flag("--all", options->all, "open all files, and not only the newest hundred");
  app.footer(
      "Lists what lies directly in the folder, furthest in training last. Checkpoints are "
      "recognised by content, whatever their names; a folder that is a checkpoint is one row. "
      "Without --verify only structure and sizes are checked. The newest hundred files are opened, "
      "and of compressed ones 64 MiB; others are listed by name, unless --all.");
  return [options](Console& console) { return run_ls(*options, console); };
}

}  // namespace cairn::cli
