// Which checkpoint to go on from.
//
//  1. Candidates are the files and the folders that are checkpoints whose names fit one of the
//     formats, and the target of the latest link. Names and the link only point at files; the
//     files decide.
//  2. The names say how far each claims to be. The furthest is opened, and its position in training
//     read from its manifest, or from its timestamp where Python wrote it; then the next one, until
//     no name claims to be further than the furthest file that was opened. (What has no such name,
//     because only the link points at it, is opened first.) So the search costs as much as there
//     are candidates that cannot be used, and not as much as the run is old.
//     With trust_latest the link comes before all names: when what it points at is good, it is the
//     answer, for one request to read the link and one to open the file. When not, or when there is
//     no link, the search goes on as ever, with what that cost on top.
//  3. That file is verified as was asked for, and its state decoded: what cannot be loaded is not
//     chosen. When it is good it is the answer, open as it is, so that what was checked is loaded;
//     when it is not, step 2 goes on.
//     Names that promise more than their files hold are no order: after kMostBehindTheirNames such
//     files, or kMostUnusable files that are no checkpoint any more, the search ends with an error.
//     It must neither open file after file nor take one of which nobody knows that it is furthest.
//     With trust_latest it ends so, too, after kMostOfOthersFarAway checkpoints of other runs.
//  4. FindOptions::filename may be empty, and none of the usual names may lead to a good
//     checkpoint. Then all other checkpoints in the folder are candidates, the newest file first.
//
// Each candidate stands alone. What was read and is wrong, or no state of a training run, or no
// file at all, is passed over with a line, and left where it is: a damaged checkpoint may be all
// that there is, and somebody may want to rescue its tensors. So is one that the disk, or the
// server, does not give (UnreadableError), be it when it is opened or when it is read; but when no
// other is found, its error ends the search. What could not be read *this time* (no permission, too
// many open files, no room to expand it) ends the search with that error: by its name it is the one
// to go on from, and nobody knows whether it is good. So does a folder that cannot be listed,
// whatever the error: what is in it is not known. A file that claims to be behind the answer is not
// even looked at, whatever is wrong with it.
//
// A file that was given the name of an earlier one by hand is behind for this search; one that was
// given the name of a later one is found out.
#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <deque>
#include <iostream>
#include <new>
#include <set>
#include <stdexcept>
#include <tuple>

#include "cairn/checkpoint/names.h"
#include "cairn/error.h"

#include "checkpoint/folder/format_folders.h"
#include "checkpoint/folder/list_checkpoints.h"
#include "checkpoint/folder/names_by_position.h"
#include "checkpoint/folder/search.h"
#include "checkpoint/names/format_string.h"
#include "checkpoint/open/checkpoint.h"
#include "checkpoint/open/source.h"
#include "checkpoint/open/training_info.h"
#include "core/out_of_memory.h"
#include "core/text/few_lines.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "io/read_fault.h"
#include "storage/listing.h"
#include "storage/local/links.h"
#include "storage/place.h"

namespace cairn {
namespace {

constexpr const char* kUsualNames = "ep{epoch}-ba{batch}-rank{rank}.pt";
constexpr std::size_t kMostBehindTheirNames = 16;
constexpr std::size_t kMostUnusable = 64;
constexpr std::size_t kMostOfOthersFarAway = 64;

// A candidate that was opened.
struct OpenedCheckpoint {
  std::string path;
  Timestamp timestamp;
  std::chrono::system_clock::time_point modified;
  bool is_full;
  std::shared_ptr<const CheckpointSource> source;  // until others are opened

  auto order() const { return std::tuple_cat(position(timestamp), std::tie(modified)); }
};

// Returns the links of the latest checkpoint. Their names seldom have counters. Without one there
// is a single link, and nothing to list.
std::vector<std::string> latest_links(ObjectStore& store, const std::string& folder,
                                      const NameFormat& format, const FormatVariables& dist) {
  if (format.empty()) return {};
  const NameFormat name = partial_format(format, dist);
  if (!has_counter(name)) return {join_path(folder, only_name(name))};
  std::vector<std::string> links;
  NamesByPosition named(store, folder, format, dist);
  while (named.next() != nullptr) {
    links.push_back(named.take().path);
  }
  return links;
}

class Search {
 public:
  Search(std::shared_ptr<ObjectStore> store, const std::string& folder,
         const SearchOptions& options)
      : store_(std::move(store)),
        folder_(folder),
        options_(options),
        formats_(options.other_filenames),
        dist_(dist_variables(options.find.run_name)),
        except_(options.find.except.begin(), options.find.except.end()) {
    formats_.insert(formats_.begin(), options_.find.filename.empty() ? NameFormat(kUsualNames)
                                                                     : options_.find.filename);
  }

  // What the link points at, when it is good.
  std::optional<FoundCheckpoint> find_by_link() {
    const NameFormat name = partial_format(options_.find.latest_filename, dist_);
    if (name.empty() || has_counter(name)) return std::nullopt;
    const std::string link = join_path(folder_, only_name(name));
    const auto pointer = options_.latest ? options_.latest : store_->read_pointer(link);
    if (!pointer || pointer->is_broken()) return std::nullopt;  // run() reports it
    const std::string target = normal_path(pointer->target);
    if (leads_out(target)) return std::nullopt;
    look_at({.path = target});
    if (opened_.empty()) return std::nullopt;
    const OpenedCheckpoint candidate = std::move(opened_.front());
    opened_.clear();
    return check(candidate);
  }

  std::optional<FoundCheckpoint> run() {
    for (const NameFormat& format : formats_) {
      names_.emplace_back(*store_, folder_, format, dist_, &listed_);
    }
    for (const std::string& link :
         latest_links(*store_, folder_, options_.find.latest_filename, dist_)) {
      const std::string path = followed(link);
      const bool has_name = std::ranges::any_of(
          names_, [&](const NamesByPosition& names) { return names.covers(path); });
      if (!has_name && !leads_out(path)) look_at({.path = path});
    }
    if (auto found = choose()) return found;
    if (options_.find.filename.empty()) {
      if (auto found = choose_among_others()) return found;
    }
    if (unreadable_) refuse_to_begin_again();
    return std::nullopt;
  }

  // Calls on_older for all candidates that are left.
  void tell_older() {
    if (!options_.find.on_older) return;
    std::sort(
        opened_.begin(), opened_.end(),
        [](const OpenedCheckpoint& a, const OpenedCheckpoint& b) { return a.order() > b.order(); });
    for (const OpenedCheckpoint& older : opened_) {
      options_.find.on_older(older.path, older.timestamp);
    }
    while (NamesByPosition* names = furthest_names()) {
      const NamedFile older = names->take();
      if (!is_known(older.path)) options_.find.on_older(older.path, older.claim);
    }
  }

 private:
  // A link may only name a checkpoint in the folder. A program that may write only there must not
  // make another file the checkpoint to go on from, nor have it opened.
  bool leads_out(const std::string& target) const {
    if (lies_in(*store_, folder_, target)) return false;
    skip(target, "the link to the newest checkpoint leads out of " + store_->describe(folder_));
    return true;
  }

  // Steps 2 and 3.
  std::optional<FoundCheckpoint> choose() {
    for (;;) {
      for (NamesByPosition& names : names_) {
        look_at_names(names);
      }
      if (opened_.empty()) break;
      const auto furthest = std::max_element(
          opened_.begin(), opened_.end(), [](const OpenedCheckpoint& a, const OpenedCheckpoint& b) {
            return a.order() < b.order();
          });
      OpenedCheckpoint candidate = std::move(*furthest);
      opened_.erase(furthest);
      if (candidate.source == nullptr && !is_as_seen(candidate)) continue;
      auto found = check(candidate);
      if (found) return found;
      refuse_if_too_many_were_opened();
    }
    return std::nullopt;
  }

  // Step 4.
  std::optional<FoundCheckpoint> choose_among_others() {
    std::vector<std::pair<std::chrono::system_clock::time_point, std::string>> others;
    for (const ListedName& listed : list_all_if_any(*store_, folder_)) {
      const std::string path = normal_path(join_path(folder_, listed.name));
      if (is_known(path)) continue;
      const auto info = unless_unusable(path, [&] { return info_of(*store_, folder_, listed); });
      if (!info) continue;
      const bool may_be_one = info->type == ObjectInfo::Type::kFolder
                                  ? is_checkpoint_folder(*store_, path)
                                  : has_checkpoint_name(listed.name);
      if (may_be_one) others.emplace_back(info->modified, path);
    }
    std::ranges::stable_sort(others, std::greater(), &decltype(others)::value_type::first);
    for (const auto& [modified, path] : others) {
      look_at({.path = path});
      if (opened_.empty()) continue;
      const OpenedCheckpoint candidate = std::move(opened_.front());
      opened_.clear();
      if (auto found = check(candidate)) return found;
    }
    return std::nullopt;
  }

  // To begin again would leave behind what a repaired disk may still give.
  [[noreturn]] void refuse_to_begin_again() const {
    try {
      std::rethrow_exception(unreadable_);
    } catch (Error& e) {
      e.add_context(
          "no checkpoint is good, and the disk does not give this one, or not all of it (mend what "
          "follows, or put the file aside to go on without it)");
      throw;
    }
  }

  // Step 2.
  void look_at_names(NamesByPosition& names) {
    while (const NamedFile* name = names.next()) {
      const bool is_behind =
          std::any_of(opened_.begin(), opened_.end(), [&](const OpenedCheckpoint& o) {
            const auto order = names.compare(name->claim, o.timestamp);
            return std::is_lt(order) ||
                   (std::is_eq(order) && name->modified && *name->modified < o.modified);
          });
      if (is_behind) return;
      const NamedFile file = names.take();
      const OpenedCheckpoint* seen = look_at(file);
      if (seen != nullptr && std::is_gt(names.compare(file.claim, seen->timestamp))) {
        note_behind_its_name(*seen);
      }
    }
  }

  void note_behind_its_name(const OpenedCheckpoint& seen) {
    if (++behind_their_names_ < kMostBehindTheirNames) return;
    throw UsageError(fmt::format(
        "{}: {} files were opened whose names promise more than they hold ({} holds epoch {}, "
        "batch {}), so that names do not tell which checkpoint is the furthest. Move such files to "
        "another folder, or rename them after what they hold, which `cairn ls --all` shows",
        store_->describe(folder_), behind_their_names_, base_name(seen.path), seen.timestamp.epoch,
        seen.timestamp.batch));
  }

  void refuse_if_too_many_were_opened() const {
    if (of_others_ >= kMostOfOthersFarAway && options_.find.trust_latest) {
      throw UsageError(fmt::format(
          "{0}: {1} checkpoints were opened that are of other runs or not of the whole state, and "
          "the search for one of the run \"{2}\" ends here, because each costs requests. Give each "
          "run a folder of its own (save_folder \"{3}/{{run_name}}\"), or move the others away",
          store_->describe(folder_), of_others_, options_.find.run_name, folder_));
    }
    if (unusable_ < kMostUnusable) return;
    throw UsageError(fmt::format(
        "{}: {} files were opened whose names are those of checkpoints, and none of them can be "
        "used (the last was {}). The search for a good one ends here. Move such files to another "
        "folder, and it goes on with the checkpoints that are left",
        store_->describe(folder_), unusable_, last_unusable_));
  }

  // Returns the target of a link, or `link` itself if a file has that name.
  std::string followed(const std::string& link) const {
    const auto pointer = store_->read_pointer(link);
    if (pointer && pointer->is_broken()) skip(link, "this" + std::string(kNamesNothing));
    return normal_path(pointer && !pointer->is_broken() ? pointer->target : link);
  }

  // Opens a candidate, unless it was before. Returns it if it is one of opened_ now.
  const OpenedCheckpoint* look_at(const NamedFile& file) {
    if (is_known(file.path)) return nullptr;
    known_.insert(file.path);
    auto sighting = unless_unusable(file.path, [&] { return open(file); });
    refuse_if_too_many_were_opened();
    if (!sighting) return nullptr;
    for (OpenedCheckpoint& other : opened_) {
      other.source = nullptr;  // so that there are never more than two files open
    }
    opened_.push_back(std::move(*sighting));
    return &opened_.back();
  }

  // Opens it once more. What has its name now and is at another place comes among the candidates.
  bool is_as_seen(OpenedCheckpoint& candidate) {
    const NamedFile file = {candidate.path, candidate.timestamp, candidate.modified};
    auto again = unless_unusable(candidate.path, [&] { return open(file); });
    if (!again) return false;
    const bool is_same = again->order() == candidate.order();
    candidate = std::move(*again);
    if (!is_same) opened_.push_back(candidate);
    return is_same;
  }

  bool is_known(const std::string& path) const {
    return known_.contains(path) || except_.contains(path);
  }

  std::optional<OpenedCheckpoint> open(const NamedFile& file) {
    const std::string& path = file.path;
    auto modified = file.modified.value_or(std::chrono::system_clock::time_point());
    const std::shared_ptr<const CheckpointSource> source = open_candidate(path, modified);
    if (source == nullptr) return std::nullopt;
    const CheckpointInfo training = training_info(*source);
    const bool is_other_run = is_of_other_run(training);
    if (is_other_run) options_.find.on_other_run(path, training.run_name);
    const bool is_run_state = training.kind == "full" && training.timestamp.has_value();
    const bool is_weights = options_.find.full_state_only && training.kind == "weights";
    if (!is_other_run && options_.only_run_states && !is_run_state) {
      skip(path, "it does not hold the whole state of a training run");
    } else if (!is_other_run && is_weights) {
      skip(path, "it holds weights alone");
    }
    if (is_other_run || is_weights || (options_.only_run_states && !is_run_state)) {
      ++of_others_;
      return std::nullopt;
    }
    return OpenedCheckpoint{path, training.timestamp.value_or(file.claim), modified, is_run_state,
                            source};
  }

  // nullptr for what is none, which is no reason for a line.
  std::shared_ptr<const CheckpointSource> open_candidate(
      const std::string& path, std::chrono::system_clock::time_point& modified) const {
    if (options_.find.trust_latest) return open_at_once(path);
    const auto info = store_->stat(path);
    if (!info) return nullptr;
    const bool is_folder = info->type == ObjectInfo::Type::kFolder;
    if (is_folder && !is_checkpoint_folder(*store_, path)) return nullptr;
    if (!is_folder && info->type != ObjectInfo::Type::kObject) {
      // Opening it may do things.
      throw UsageError("it is a device, a pipe or a socket, not a file");
    }
    modified = info->modified;
    return open_source(path, {.store = store_});
  }

  // With one request; for a folder, as DCP's are, with some more.
  std::shared_ptr<const CheckpointSource> open_at_once(const std::string& path) const {
    std::shared_ptr<const ByteSource> file;
    try {
      file = store_->open(path);
    } catch (const UsageError&) {
      return open_source(path, {.store = store_});
    }
    return open_file_source(std::move(file), path, {.store = store_});
  }

  // Step 3.
  std::optional<FoundCheckpoint> check(const OpenedCheckpoint& candidate) {
    return unless_unusable(candidate.path, [&]() -> std::optional<FoundCheckpoint> {
      const std::shared_ptr<const CheckpointSource>& source = candidate.source;
      VerifyReport report = source->verify(options_.find.verify);
      if (!report.ok()) {
        skip(candidate.path, report.summary());
        note_unusable(candidate.path, report.summary());
        return std::nullopt;
      }
      if (candidate.is_full) check_training_state(*source);
      return FoundCheckpoint{candidate.path, candidate.timestamp, std::move(report),
                             Checkpoint::Impl::make(candidate.path, source)};
    });
  }

  // What `look` gives; nothing, and a report, when there is no file or its content cannot be used.
  template <class Look>
  auto unless_unusable(const std::string& path, const Look& look) -> decltype(look()) {
    try {
      return look();
    } catch (Error& e) {
      if (read_fault_of(e) == ReadFault::kNow) {
        e.add_context("nobody knows whether " + path +
                      ", the furthest checkpoint as it seems, is " +
                      "good (mend what follows, or put it aside to go on without it)");
        throw;
      }
      skip(path, e.what());
      note_fault(read_fault_of(e), path, e.what());
    } catch (const std::exception& e) {
      if (read_fault_of(e) == ReadFault::kNow) throw;
      skip(path, read_problem(e));
      note_fault(read_fault_of(e), path, read_problem(e));
    }
    return std::nullopt;
  }

  // Called in the handler of the error.
  void note_fault(ReadFault fault, const std::string& path, const std::string& why) {
    if (fault != ReadFault::kNoFile) note_unusable(path, why);
    if (fault == ReadFault::kBytes && !unreadable_) unreadable_ = std::current_exception();
  }

  void note_unusable(const std::string& path, const std::string& why) {
    ++unusable_;
    last_unusable_ = base_name(path) + ": " + printable_line(without_path(why, path));
  }

  // Returns the names whose next name is the furthest of all that are left; null if none is left.
  NamesByPosition* furthest_names() {
    NamesByPosition* furthest = nullptr;
    for (NamesByPosition& names : names_) {
      const NamedFile* next = next_readable(names);
      if (next == nullptr) continue;
      const bool is_further =
          furthest == nullptr || position(furthest->next()->claim) < position(next->claim);
      if (is_further) furthest = &names;
    }
    return furthest;
  }

  // For telling only: a folder that cannot be listed has nothing to tell.
  static const NamedFile* next_readable(NamesByPosition& names) {
    for (;;) {
      try {
        return names.next();
      } catch (const Error&) {  // the folder was taken: the next call goes on after it
      }
    }
  }

  // One that does not say whose it is may be anybody's.
  bool is_of_other_run(const CheckpointInfo& says) const {
    return options_.find.on_other_run && !says.run_name.empty() &&
           says.run_name != options_.find.run_name;
  }

  void skip(const std::string& path, const std::string& why) const {
    if (options_.find.on_skip) options_.find.on_skip(path, printable_line(why));
  }

  std::shared_ptr<ObjectStore> store_;
  const std::string folder_;
  const SearchOptions& options_;
  std::vector<NameFormat> formats_;
  FormatVariables dist_;
  ListedFolders listed_;
  std::deque<NamesByPosition> names_;  // one for each format, made by run()
  std::set<std::string> except_;
  std::set<std::string> known_;  // that were opened, or could not be
  std::vector<OpenedCheckpoint> opened_;
  // Of the furthest that was looked at and that the disk does not give.
  std::exception_ptr unreadable_;
  std::size_t behind_their_names_ = 0;  // whole checkpoints
  std::size_t unusable_ = 0;            // damaged, foreign or not given by the disk
  std::string last_unusable_;           // its name, and why
  std::size_t of_others_ = 0;           // whole, but not what is looked for
};

// Throws if the folder does not exist and was meant as a format: to find nothing would lose the
// run.
void refuse_format(ObjectStore& store, const std::string& folder, const std::string& run_name) {
  constexpr std::string_view kVariable = "{run_name}";
  const bool is_of_run = run_name.find(kVariable) != std::string::npos;
  if (is_of_run || folder.find(kVariable) == std::string::npos || store.stat(folder)) return;
  throw UsageError("find_latest(): there is no folder " + folder +
                   ", and a folder is a path as it stands. Fill in its variables with "
                   "strict_format(folder, dist_variables(run_name))");
}

// Reports skipped checkpoints on stderr: one that is skipped silently looks as if it did not exist.
class SkippedOnStderr {
 public:
  ~SkippedOnStderr() {
    if (few_.left_out() == 0) return;
    std::cerr << "warning: find_latest() passed over " << few_.left_out() << " more\n";
  }
  void say(const std::string& path, const std::string& why) {
    if (!few_.take()) return;
    std::cerr << "warning: find_latest() passed over " + printable_line(path) + ": " +
                     without_path(why, path) + "\n";
  }

 private:
  FewLines few_;
};

}  // namespace

std::optional<FoundCheckpoint> search_folder(const std::string& folder,
                                             const SearchOptions& options) try {
  const std::shared_ptr<ObjectStore> store = store_of(folder, options.find.store);
  Search search(store, folder, options);
  if (options.find.trust_latest) {
    if (auto found = search.find_by_link()) return found;
  }
  if (!store->stat(folder)) return std::nullopt;
  auto found = search.run();
  if (found) search.tell_older();
  return found;
} catch (const std::bad_alloc&) {
  throw_out_of_memory("looking for a checkpoint");
}

std::optional<FoundCheckpoint> find_latest(const std::string& folder,
                                           const FindOptions& options) try {
  SearchOptions search{.find = options};
  SkippedOnStderr skipped;
  if (!search.find.on_skip) {
    search.find.on_skip = [&](const std::string& path, const std::string& why) {
      skipped.say(path, why);
    };
  }
  auto found = search_folder(folder, search);
  if (!found) refuse_format(*store_of(folder, options.store), folder, options.run_name);
  return found;
} catch (const std::bad_alloc&) {
  throw_out_of_memory("looking for a checkpoint");
}

}  // namespace cairn
