#include "cli/runs/newest_checkpoint.h"

#include <ranges>
#include <utility>

namespace cairn::cli {
namespace {

// Files with another name than the Trainer's are opened to find their position: at most this many,
// the newest.
constexpr ListLimits kLimits = {.files = 1};
// Checkpoints that are opened in one look until one is good.
constexpr std::size_t kMostOpened = 8;

}  // namespace

void NewestCheckpoint::look() {
  FolderListing listing =
      list_checkpoints(folder_, {.trust_names = true, .limits = kLimits, .store = store_});
  newest_ = std::nullopt;
  count_ = listing.checkpoints.size();
  std::erase_if(listing.folders, has_checkpoint_name);
  folders_ = std::move(listing.folders);
  std::map<std::string, ListedCheckpoint> opened;
  std::size_t tried = 0;
  for (const ListedCheckpoint& listed : listing.checkpoints | std::views::reverse) {
    if (newest_ || tried++ == kMostOpened) break;
    auto looked = looked_into(listed);
    if (!looked) continue;  // gone, or no checkpoint
    looked->links = listed.links;
    looked->is_pinned = listed.is_pinned;
    // One that cannot be read now is tried again.
    if (looked->condition != Condition::kRefused) opened.insert_or_assign(listed.path, *looked);
    if (looked->condition == Condition::kGood) newest_ = std::move(looked);
  }
  opened_ = std::move(opened);
}

// The same object was looked into before if its size, time and version are the same.
std::optional<ListedCheckpoint> NewestCheckpoint::looked_into(const ListedCheckpoint& listed) {
  if (listed.condition != Condition::kNotLookedInto) return listed;
  const auto before = opened_.find(listed.path);
  if (before != opened_.end() && before->second.version == listed.version &&
      before->second.modified == listed.modified)
    return before->second;
  return look_into(listed, {.store = store_});
}

}  // namespace cairn::cli
