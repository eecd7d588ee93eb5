#include "checkpoint/folder/list_checkpoints.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "cairn/checkpoint/ignore_keys.h"
#include "cairn/error.h"

#include "checkpoint/names/extension.h"
#include "checkpoint/names/position_in_name.h"
#include "checkpoint/open/training_info.h"
#include "io/file.h"
#include "io/read_fault.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn {
namespace {

constexpr std::string_view kPin = ".pin";

void examine(const CheckpointSource& source, const ListOptions& options, ListedCheckpoint& listed) {
  listed.source = source.info();
  listed.bytes = listed.source.bytes;
  const VerifyReport report = source.verify(options.verify);
  if (!report.ok()) {
    listed.condition = Condition::kDamaged;
    listed.problem = report.summary();
  }
  listed.info = training_info(source);
  if (report.ok() && options.check_state && listed.info.kind == "full") {
    check_training_state(source);
  }
}

class Listing {
 public:
  Listing(std::shared_ptr<ObjectStore> store, const std::string& folder, const ListOptions& options)
      : store_(std::move(store)), folder_(folder), options_(options) {
    opening_.store = store_;
    opening_.on_progress = [this](std::uint64_t bytes) {
      if (is_opening_) expanded_ += bytes;
      if (options_.on_progress) options_.on_progress(bytes);
    };
  }

  FolderListing list() {
    for (const ListedName& name : list_all(*store_, folder_)) {
      look_at(name);
    }
    look_into_all();
    for (ListedCheckpoint& listed : listing_.checkpoints) {
      const auto links = links_.find(listed.name);
      if (links != links_.end()) listed.links = links->second;
      listed.is_pinned = pins_.contains(pin_name(listed.name));
    }
    sort();
    return std::move(listing_);
  }

  std::optional<ListedCheckpoint> look_into_one(ListedCheckpoint listed) {
    listed.condition = Condition::kGood;
    listed.info = {.kind = ""};
    look_into(std::move(listed));
    if (listing_.checkpoints.empty()) return std::nullopt;
    return std::move(listing_.checkpoints.front());
  }

 private:
  // Notes links and pins at once. Other entries are looked into later.
  void look_at(const ListedName& entry) {
    const std::string& name = entry.name;
    const std::string path = join_path(folder_, name);
    ListedCheckpoint listed{.name = name, .path = path};
    try {
      const auto info = info_of(*store_, folder_, entry);
      if (!info) return;  // gone since it was listed
      if (info->type == ObjectInfo::Type::kPointer) {
        const auto pointer = store_->read_pointer(path);
        if (pointer && !pointer->is_broken()) add_link(name, pointer->target);
      } else if (name.ends_with(kPin)) {
        pins_.insert(name);
      } else {
        listed.is_folder = info->type == ObjectInfo::Type::kFolder;
        listed.bytes = info->size;
        listed.modified = info->modified;
        listed.version = info->version;
        is_special_[name] = info->type == ObjectInfo::Type::kOther;
        found_.push_back(std::move(listed));
      }
    } catch (const Error& e) {
      add_refused(std::move(listed), e);
    }
  }

  // Notes a link if its target is in the folder itself.
  void add_link(const std::string& name, const std::string& target) {
    const std::string path = normal_path(target);
    if (is_same_name(*store_, parent_path(path), folder_)) links_[base_name(path)].push_back(name);
  }

  void look_into_all() {
    const ListLimits& limits = options_.limits;
    std::stable_sort(found_.begin(), found_.end(), [&limits](const auto& a, const auto& b) {
      const auto rank = [&limits](const ListedCheckpoint& listed) {
        return std::pair(limits.names_first && has_checkpoint_name(listed.name), listed.modified);
      };
      return rank(b) < rank(a);
    });
    std::size_t opened = 0;
    for (ListedCheckpoint& listed : found_) {
      const bool is_enough = limits.opens_nothing || (limits.files > 0 && opened >= limits.files) ||
                             (limits.expanded_bytes > 0 && expanded_ >= limits.expanded_bytes);
      // A device or a pipe is not opened anyway.
      if ((is_enough && !is_special_.at(listed.name)) || is_known_by_name(listed)) {
        list_unopened(std::move(listed));
      } else {
        ++opened;
        look_into(std::move(listed));
      }
    }
  }

  bool is_known_by_name(const ListedCheckpoint& listed) const {
    if (!options_.trust_names || listed.is_folder || is_special_.at(listed.name)) return false;
    return !has_checkpoint_name(listed.name) || position_in_name(listed.name);
  }

  // Lists an entry with what is known without opening it.
  void list_unopened(ListedCheckpoint listed) {
    ++listing_.not_looked_into;
    if (listed.is_folder) listing_.folders.push_back(listed.name);
    if (!has_checkpoint_name(listed.name)) return;
    const auto named = options_.trust_names ? position_in_name(listed.name) : std::nullopt;
    if (named) listed.info.timestamp = Timestamp{.epoch = named->epoch, .batch = named->batch};
    listed.condition = Condition::kNotLookedInto;
    listing_.checkpoints.push_back(std::move(listed));
  }

  void look_into(ListedCheckpoint listed) {
    try {
      if (is_special_[listed.name]) {  // opening it may have side effects
        throw UsageError(listed.path + ": this is a device or a pipe, not a file");
      }
      is_opening_ = true;
      const auto source = open_source(listed.path, opening_);
      is_opening_ = false;
      examine(*source, options_, listed);
      if (!listed.problem.empty() && was_removed(*store_, listed.path)) return;
    } catch (const NotFoundError&) {
      return;  // gone since it was listed
    } catch (const std::exception& e) {
      if (is_out_of_memory(e)) throw;  // the error says nothing about this checkpoint
      is_opening_ = false;
      if (!was_removed(*store_, listed.path)) add_refused(std::move(listed), e);
      return;
    }
    listing_.checkpoints.push_back(std::move(listed));
  }

  // An error of one entry must not affect the others.
  void add_refused(ListedCheckpoint listed, const std::exception& error) {
    // Everything that can be opened is recognised by content. For a file that cannot be opened, the
    // name decides. A folder that cannot be opened counts only if the disk does not return
    // something in the folder.
    const bool is_opened = !listed.source.format.empty();
    const bool may_be_one = listed.is_folder
                                ? dynamic_cast<const UnreadableError*>(&error) != nullptr
                                : has_checkpoint_name(listed.name);
    if (!is_opened && !may_be_one) {
      ++listing_.passed_over;
      const bool is_plain_folder =
          listed.is_folder && dynamic_cast<const UsageError*>(&error) != nullptr;
      if (is_plain_folder) listing_.folders.push_back(std::move(listed.name));
      return;
    }
    const bool is_corrupt = dynamic_cast<const CorruptError*>(&error) != nullptr;
    listed.condition = is_corrupt ? Condition::kDamaged : Condition::kRefused;
    listed.problem = without_path(read_problem(error), listed.path);
    listing_.checkpoints.push_back(std::move(listed));
  }

  void sort() {
    const auto is_before = [](const ListedCheckpoint& a, const ListedCheckpoint& b) {
      if (a.info.timestamp && b.info.timestamp) {
        return std::tuple_cat(position(*a.info.timestamp), std::tie(a.modified, a.name)) <
               std::tuple_cat(position(*b.info.timestamp), std::tie(b.modified, b.name));
      }
      if (a.info.timestamp.has_value() != b.info.timestamp.has_value()) {
        return b.info.timestamp.has_value();
      }
      return std::tie(a.modified, a.name) < std::tie(b.modified, b.name);
    };
    std::sort(listing_.checkpoints.begin(), listing_.checkpoints.end(), is_before);
    std::sort(listing_.folders.begin(), listing_.folders.end());
  }

  std::shared_ptr<ObjectStore> store_;
  const std::string& folder_;
  const ListOptions& options_;
  OpenOptions opening_;
  std::atomic<bool> is_opening_ = false;
  std::atomic<std::uint64_t> expanded_ = 0;
  std::vector<ListedCheckpoint> found_;     // not looked into yet
  std::map<std::string, bool> is_special_;  // by name: whether the entry is neither file nor folder
  FolderListing listing_;
  std::map<std::string, std::vector<std::string>> links_;  // by the name of the target
  std::set<std::string> pins_;
};

}  // namespace

FolderListing list_checkpoints(const std::string& folder, const ListOptions& options) {
  return Listing(store_of(folder, options.store), folder, options).list();
}

std::optional<ListedCheckpoint> look_into(ListedCheckpoint listed, const ListOptions& options) {
  const std::string folder = parent_path(listed.path);
  return Listing(store_of(folder, options.store), folder, options).look_into_one(std::move(listed));
}

bool has_checkpoint_name(std::string_view name) {
  constexpr std::array<std::string_view, 3> kOthers = {".pth", ".ckpt", ".safetensors"};
  // The default name of Trainer.save_checkpoint() has no extension.
  if (name.find('.') == std::string_view::npos) {
    return glob_match("ep*-ba*", std::string(name));
  }
  return is_written_extension(name) ||
         std::any_of(kOthers.begin(), kOthers.end(),
                     [&](std::string_view extension) { return name.ends_with(extension); });
}

std::string pin_name(const std::string& name) { return name + std::string(kPin); }

}  // namespace cairn
