#include "cli/shell/folders.h"

#include <deque>
#include <optional>

#include "cairn/error.h"

#include "checkpoint/folder/list_checkpoints.h"
#include "checkpoint/open/source.h"
#include "cli/view/joined.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn::cli {

void add_folders(CLI::App& app, FolderArgs& args) {
  app.add_option("FOLDER", args.folders, "folders of checkpoints")->required();
  add_recursive(app, args.recursive);
}

void add_recursive(CLI::App& app, bool& recursive) {
  app.add_flag("-r,--recursive", recursive, "look into the folders below, too, each by itself");
}

void walk_folders(const std::string& folder, bool recursive, const LookIntoFolder& look) {
  std::deque<std::string> next = {folder};
  while (!next.empty()) {
    const std::string path = next.front();
    next.pop_front();
    std::vector<std::string> below = look(path);
    if (!recursive) return;
    for (auto name = below.rbegin(); name != below.rend(); ++name) {
      next.push_front(join_path(path, *name));
    }
  }
}

bool is_plain_folder(const std::string& place) {
  if (!is_folder(*store_of(place, nullptr), shown_place(place))) return false;
  try {
    open_source(place);
  } catch (const UsageError&) {
    return true;
  } catch (const Error&) {  // reading the place later reports the error
  }
  return false;
}

std::string newest_in(const std::string& folder) {
  constexpr ListLimits kNewest = {.files = 100, .expanded_bytes = std::uint64_t{64} << 20};
  const auto store = store_of(folder, nullptr);
  const std::string shown = shown_place(folder);
  // In a store that is far away, names tell which file is the newest, and each opened file costs
  // requests.
  constexpr std::size_t kMaxOpened = 16;
  const ListOptions options = {
      .trust_names = store->may_be_far(), .limits = kNewest, .store = store};
  const FolderListing listing = list_checkpoints(shown, options);
  std::size_t opened = 0;
  std::string newest_problem;  // the problem of the newest file that was looked into
  for (auto one = listing.checkpoints.rbegin(); one != listing.checkpoints.rend(); ++one) {
    std::optional<ListedCheckpoint> looked = *one;
    if (options.trust_names && one->condition == Condition::kNotLookedInto) {
      if (opened++ == kMaxOpened) break;
      looked = look_into(*one, options);
    }
    if (!looked || looked->condition == Condition::kNotLookedInto) continue;
    if (looked->condition == Condition::kGood) return join_path(folder, one->name);
    if (newest_problem.empty()) newest_problem = one->name + ": " + looked->problem;
  }
  if (!listing.checkpoints.empty()) {
    throw NotFoundError("none of the checkpoints in the folder " + shown +
                        " is good: " + newest_problem);
  }
  const std::string below = list_below(find_folders_below(*store, shown, listing.folders));
  throw NotFoundError("there are no checkpoints in the folder " + shown +
                      (below.empty() ? "" : "; there are some in " + below));
}

std::string list_below(const FoldersBelow& below) {
  constexpr std::size_t kMaxNamed = 5;
  std::vector<std::string> texts;
  for (const FolderBelow& folder : below.found) {
    if (texts.size() == kMaxNamed) break;
    texts.push_back(printable_line(shown_place(folder.path)) + " (" +
                    std::to_string(folder.checkpoints) + " by name)");
  }
  const std::size_t more = below.found.size() - texts.size();
  return joined(texts) + (more > 0 ? " and " + std::to_string(more) + " more folders" : "");
}

void tell_below(const FoldersBelow& below, const Console& console) {
  if (!below.found.empty()) {
    console.err << "cairn: not looked at: the checkpoints in " << list_below(below)
                << "; -r looks into folders, too\n";
  }
  if (!below.is_complete) {
    console.err << "cairn: there are more folders below, which were not looked at\n";
  }
}

Json folders_json(const FoldersBelow& below) {
  Json folders = Json::array();
  for (const FolderBelow& folder : below.found) {
    folders.push_back({{"path", shown_place(folder.path)}, {"checkpoints", folder.checkpoints}});
  }
  return folders;
}

}  // namespace cairn::cli
