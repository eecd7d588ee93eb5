#include "cli/runs/listed_folder.h"

#include <algorithm>

#include "cli/view/clock_text.h"
#include "cli/view/progress_bar.h"
#include "core/text/json.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

// Limits without --all, so that `cairn ls` takes a second or two, however long the run is.
constexpr ListLimits kDefaultLimits = {.files = 100, .expanded_bytes = std::uint64_t{64} << 20};

}  // namespace

ListedFolder list_folder(const std::string& place, const ListingArgs& args,
                         const Console& console) {
  const auto store = store_of(place, nullptr);
  const std::string folder = shown_place(place);
  const bool trusts_names = store->may_be_far() && !args.all && !args.verify;
  const bool is_limited = !args.all && !args.verify && !args.recursive;
  ProgressBar bar(console, {.what = "check " + folder});
  ListedFolder looked{.folder = folder,
                      .listing = list_checkpoints(
                          folder, {.verify = args.verify ? Verify::kFull : Verify::kQuick,
                                   .trust_names = trusts_names,
                                   .limits = is_limited ? kDefaultLimits : ListLimits{},
                                   .on_progress = [&bar](std::uint64_t bytes) { bar.add(bytes); },
                                   .store = store}),
                      .trusts_names = trusts_names};
  if (!args.recursive) {
    looked.below = find_folders_below(*store, folder, looked.listing.folders);
  }
  return looked;
}

bool is_latest(const ListedCheckpoint& listed) {
  return std::any_of(listed.links.begin(), listed.links.end(),
                     [](const std::string& link) { return link.starts_with("latest"); });
}

Json listed_json(const ListedCheckpoint& listed) {
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
    if (row["looked_into"]) row["sample"] = at->sample;  // the name does not give the sample
    if (row["looked_into"]) row["token"] = at->token;
  }
  return row;
}

}  // namespace cairn::cli
