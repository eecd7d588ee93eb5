#include "cli/runs/newest_checkpoint.h"

#include <ranges>
#include <utility>

namespace cairn::cli {
namespace {

// Checkpoints that are opened in one look until one is good.
constexpr std::size_t kMostOpened = 8;

bool is_same(const ListedCheckpoint& a, const ListedCheckpoint& b) {
  return a.bytes == b.bytes && a.modified == b.modified && a.version == b.version;
}

}  // namespace

void NewestCheckpoint::look() {
  FolderListing listing = list_checkpoints(
      folder_, {.trust_names = true, .limits = {.opens_nothing = true}, .store = store_});
  newest_ = std::nullopt;
  count_ = listing.checkpoints.size();
  std::erase_if(listing.folders, has_checkpoint_name);
  folders_ = std::move(listing.folders);
  std::map<std::string, Opened> opened;
  std::size_t tried = 0;
  for (const ListedCheckpoint& listed : listing.checkpoints | std::views::reverse) {
    if (newest_ || tried++ == kMostOpened) break;
    auto looked = looked_into(listed);
    if (!looked) continue;  // gone, or no checkpoint
    looked->links = listed.links;
    looked->is_pinned = listed.is_pinned;
    // One that cannot be read now is tried again.
    if (looked->condition != Condition::kRefused)
      opened.insert_or_assign(listed.path, Opened{listed, *looked});
    if (looked->condition == Condition::kGood) newest_ = std::move(looked);
  }
  opened_ = std::move(opened);
}

// The same object was looked into before if its size, time and version are the same. For a folder
// these say only that no name was added or removed.
std::optional<ListedCheckpoint> NewestCheckpoint::looked_into(const ListedCheckpoint& listed) {
  if (listed.condition != Condition::kNotLookedInto) return listed;
  const auto before = opened_.find(listed.path);
  if (before != opened_.end() && is_same(before->second.listed, listed))
    return before->second.looked;
  return look_into(listed, {.store = store_});
}

}  // namespace cairn::cli
