#include "cli/report/gathered_run.h"

#include <utility>

#include "cairn/error.h"

#include "checkpoint/open/checkpoint.h"
#include "cli/runs/find_runs.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

void add_folder(GatheredRun& run, const std::string& place, ListedFolder listed) {
  if (listed.listing.checkpoints.empty()) return;
  run.folders.push_back({.place = place, .listed = std::move(listed)});
}

}  // namespace

void gather_folders(GatheredRun& run, const std::string& place, const ListingArgs& listing,
                    const Console& console) {
  ListedFolder listed = list_folder(place, listing, console);
  const FoldersBelow below = std::exchange(listed.below, {});
  add_folder(run, place, std::move(listed));
  for (const FolderBelow& folder : below.found)
    add_folder(run, folder.path, list_folder(folder.path, listing, console));
}

void explain_folders(GatheredRun& run, Verify verify) {
  for (GatheredFolder& folder : run.folders) {
    try {
      folder.resume = explain_resume({.folder = folder.place, .verify = verify});
      const auto& found = folder.resume->answer.found;
      if (found && run.options.empty())
        run.options = run_options(Checkpoint::Impl::source_of(found->checkpoint).read());
    } catch (const Error& error) {
      folder.resume_problem = error.what();
    }
  }
}

GatheredRun gather_run(const RunPlaces& places, const ListingArgs& listing,
                       const Console& console) {
  const std::string shown = shown_place(places.run);
  check_places(places);
  const bool has_folder = is_folder(*store_of(places.run, nullptr), shown);
  GatheredRun run{.name = shown};
  if (!has_folder || has_run_log(places.run))
    run.log = std::make_shared<const RunLog>(read_run_log(places.run));
  if (!places.checkpoints.empty()) {
    gather_folders(run, places.checkpoints, listing, console);
  } else if (has_folder) {
    gather_folders(run, places.run, listing, console);
  } else {
    run.has_folder = false;
  }
  if (!run.log && run.folders.empty()) {
    throw NotFoundError("there is neither a log nor a checkpoint in the folder " + shown);
  }
  explain_folders(run, listing.verify ? Verify::kFull : Verify::kQuick);
  return run;
}

}  // namespace cairn::cli
