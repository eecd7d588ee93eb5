// Chooses the checkpoint to resume from.
//
//  1. Candidates are the files and folders that are checkpoints and whose names fit one of the
//     formats, and the target of the latest link. Names and the link only suggest files; the files'
//     contents decide.
//  2. Each name claims a position in training. The candidate with the furthest claim is opened, and
//     its position is read from its manifest, or from its timestamp if Python wrote it. Then the
//     next candidate is opened, until no name claims more than the furthest opened file. A file
//     whose name fits no format, because only the link points at it, is opened first. So the cost
//     of the search grows with the number of unusable candidates, not with the age of the run.
//     With trust_latest the link comes before all names. If the link's target is good, it is the
//     answer. This costs one request to read the link and one to open the file. Otherwise the
//     search continues as without trust_latest, and these two requests are extra.
//  3. The furthest file is verified as the caller asked, and its state is decoded: a file that
//     cannot be loaded is not chosen. If the file is good, it is the answer. The file is returned
//     open, so that the bytes that were checked are loaded. If the file is not good, step 2
//     continues.
//     If names claim more than their files hold, they give no order. So the search ends with an
//     error after kMaxFalseNames such files, and after kMaxUnusable files that are not checkpoints
//     any more. The search must neither open any number of files, nor take one that may not be the
//     furthest. With trust_latest the search also ends after kMaxFarOtherRuns checkpoints of other
//     runs.
//  4. FindOptions::filename may be empty, and no usual name may lead to a good checkpoint. In this
//     case all other checkpoints in the folder are candidates, the newest file first.
//
// A fault of a candidate does not affect the others. A candidate is skipped, and reported with a
// line, if its content is wrong, if it is not the state of a training run, or if it is not a file.
// The candidate stays where it is: a damaged checkpoint may be all that there is, and its tensors
// may still be rescued. A candidate is also skipped if the disk or the server does not return its
// bytes (UnreadableError), while opening or reading. But if no other candidate is found, the
// UnreadableError ends the search. A candidate that could not be read *this time* (no permission,
// too many open files, no room to expand it) ends the search with the error of the read. By its
// name this candidate is the one to resume from, and it is not known whether the candidate is good.
// A folder that cannot be listed ends the search, whatever the error is, because the folder's
// content is not known. A file whose name claims less than the answer is not opened, so its faults
// do not matter.
//
// If a file was renamed by hand to an earlier position, this search takes it for an earlier file.
// If it was renamed to a later position, opening it shows its true position.
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
constexpr std::size_t kMaxFalseNames = 16;
constexpr std::size_t kMaxUnusable = 64;
constexpr std::size_t kMaxFarOtherRuns = 64;

// A candidate that was opened.
struct OpenedCheckpoint {
  std::string path;
  Timestamp timestamp;
  std::chrono::system_clock::time_point modified;
  bool is_full;
  std::shared_ptr<const CheckpointSource> source;  // closed (null) when other candidates are opened

  auto order() const { return std::tuple_cat(position(timestamp), std::tie(modified)); }
};

// Returns the links of the latest checkpoint. Their names seldom have counters. A name without
// counters has a single link, and nothing has to be listed.
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

  // Returns the target of the link if it is good.
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

  // Calls on_older for all remaining candidates.
  void report_older() {
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
  // Reports a link target outside of the folder. A program that may write only into the folder must
  // not be able to choose another file as the checkpoint, nor have that file opened.
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
      const auto info = read_or_skip(path, [&] { return info_of(*store_, folder_, listed); });
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

  // Throws the error of unreadable_, because beginning again would abandon what a repaired disk may
  // still return.
  [[noreturn]] void refuse_to_begin_again() const {
    try {
      std::rethrow_exception(unreadable_);
    } catch (Error& e) {
      e.add_context(
          "no checkpoint is good, and the disk does not return all of this one (repair the cause "
          "that follows, or put the file aside to go on without it)");
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
        count_false_name(*seen);
      }
    }
  }

  void count_false_name(const OpenedCheckpoint& seen) {
    if (++false_names_ < kMaxFalseNames) return;
    throw UsageError(fmt::format(
        "{}: {} files were opened whose names promise more than they hold ({} holds epoch {}, "
        "batch {}), so that names do not tell which checkpoint is the furthest.\nMove such files "
        "to another folder, or rename them after what they hold, which `cairn ls --all` shows",
        store_->describe(folder_), false_names_, base_name(seen.path), seen.timestamp.epoch,
        seen.timestamp.batch));
  }

  void refuse_if_too_many_were_opened() const {
    if (not_wanted_ >= kMaxFarOtherRuns && options_.find.trust_latest) {
      throw UsageError(
          fmt::format("{0}: {1} checkpoints were opened that are of other runs or not of the whole "
                      "state, and the search for one of the run \"{2}\" ends here, because opening "
                      "each costs requests.\nGive each run a folder of its own (save_folder "
                      "\"{3}/{{run_name}}\"), or move the others away",
                      store_->describe(folder_), not_wanted_, options_.find.run_name, folder_));
    }
    if (unusable_ < kMaxUnusable) return;
    throw UsageError(fmt::format(
        "{}: {} files were opened whose names are those of checkpoints, and none of them can be "
        "used (the last was {}). The search for a good one ends here.\nMove such files to another "
        "folder: the search then continues with the checkpoints that are left",
        store_->describe(folder_), unusable_, last_unusable_));
  }

  // Returns the target of a link, or `link` itself if a file has that name.
  std::string followed(const std::string& link) const {
    const auto pointer = store_->read_pointer(link);
    if (pointer && pointer->is_broken()) skip(link, "this" + std::string(kNamesNothing));
    return normal_path(pointer && !pointer->is_broken() ? pointer->target : link);
  }

  // Opens a candidate, unless it was opened before. Returns the candidate if this call has added it
  // to opened_.
  const OpenedCheckpoint* look_at(const NamedFile& file) {
    if (is_known(file.path)) return nullptr;
    known_.insert(file.path);
    auto sighting = read_or_skip(file.path, [&] { return open(file); });
    refuse_if_too_many_were_opened();
    if (!sighting) return nullptr;
    for (OpenedCheckpoint& other : opened_) {
      other.source = nullptr;  // so that at most two files are open
    }
    opened_.push_back(std::move(*sighting));
    return &opened_.back();
  }

  // Opens the candidate once more. If the file under its name now has another position, this file
  // becomes a candidate with that position.
  bool is_as_seen(OpenedCheckpoint& candidate) {
    const NamedFile file = {candidate.path, candidate.timestamp, candidate.modified};
    auto again = read_or_skip(candidate.path, [&] { return open(file); });
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
      ++not_wanted_;
      return std::nullopt;
    }
    return OpenedCheckpoint{path, training.timestamp.value_or(file.claim), modified, is_run_state,
                            source};
  }

  // Returns nullptr if the path is not a candidate. No line is reported for it.
  std::shared_ptr<const CheckpointSource> open_candidate(
      const std::string& path, std::chrono::system_clock::time_point& modified) const {
    if (options_.find.trust_latest) return open_at_once(path);
    const auto info = store_->stat(path);
    if (!info) return nullptr;
    const bool is_folder = info->type == ObjectInfo::Type::kFolder;
    if (is_folder && !is_checkpoint_folder(*store_, path)) {
      if (lost_hidden_files(*store_, path)) {
        throw CorruptError(
            "it has files of ranks, but no .metadata: it was copied without its hidden files "
            "(cp FOLDER/*), or from one of several machines. Copy the whole folder (cp -r)");
      }
      return nullptr;
    }
    if (!is_folder && info->type != ObjectInfo::Type::kObject) {
      // Opening it may have side effects.
      throw UsageError("it is a device, a pipe or a socket, not a file");
    }
    modified = info->modified;
    return open_source(path, {.store = store_});
  }

  // Opens a file with one request, or a folder, such as one of DCP, with a few more requests.
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
    return read_or_skip(candidate.path, [&]() -> std::optional<FoundCheckpoint> {
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

  // Returns what `look` returns. If there is no file, or its content cannot be used, reports this
  // and returns nothing.
  template <class Look>
  auto read_or_skip(const std::string& path, const Look& look) -> decltype(look()) {
    try {
      return look();
    } catch (Error& e) {
      if (read_fault_of(e) == ReadFault::kNow) {
        e.add_context(
            "cannot find out whether " + path + ", which seems to be the furthest checkpoint, is " +
            "good (repair the cause that follows, or put the file aside to go on without it)");
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

  // Must be called in the handler of the error, because it may keep the current exception.
  void note_fault(ReadFault fault, const std::string& path, const std::string& why) {
    if (fault != ReadFault::kNoFile) note_unusable(path, why);
    if (fault == ReadFault::kBytes && !unreadable_) unreadable_ = std::current_exception();
  }

  void note_unusable(const std::string& path, const std::string& why) {
    ++unusable_;
    last_unusable_ = base_name(path) + ": " + printable_line(without_path(why, path));
  }

  // Returns the element of names_ whose next name is the furthest of all names that are left; null
  // if none is left.
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

  // Only for reports. A folder that cannot be listed is passed over, since it has nothing to
  // report.
  static const NamedFile* next_readable(NamesByPosition& names) {
    for (;;) {
      try {
        return names.next();
        // the failed folder was removed from the heap, so the next call continues after it
      } catch (const Error&) {
      }
    }
  }

  // A checkpoint without a run name may belong to any run.
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
  std::set<std::string> known_;  // candidates that were opened, or could not be opened
  std::vector<OpenedCheckpoint> opened_;
  // The error of the furthest candidate that the disk does not return.
  std::exception_ptr unreadable_;
  std::size_t false_names_ = 0;  // whole checkpoints
  std::size_t unusable_ = 0;     // damaged, foreign or unreadable
  std::string last_unusable_;    // name of the last unusable file, and the reason
  std::size_t not_wanted_ = 0;   // whole, but of other runs or without the whole state
};

// Throws if the folder does not exist and its name was meant as a format: finding nothing would
// lose the run.
void refuse_format(ObjectStore& store, const std::string& folder, const std::string& run_name) {
  constexpr std::string_view kVariable = "{run_name}";
  const bool is_of_run = run_name.find(kVariable) != std::string::npos;
  if (is_of_run || folder.find(kVariable) == std::string::npos || store.stat(folder)) return;
  throw UsageError("find_latest(): there is no folder " + folder +
                   ", and a folder is a path as it stands. Fill in its variables with "
                   "strict_format(folder, dist_variables(run_name))");
}

// Reports skipped checkpoints on stderr: a silently skipped checkpoint would look as if it did not
// exist.
class SkippedOnStderr {
 public:
  ~SkippedOnStderr() {
    if (few_.left_out() == 0) return;
    std::cerr << "warning: find_latest() passed over " << few_.left_out() << " more\n";
  }
  void report(const std::string& path, const std::string& why) {
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
  if (found) search.report_older();
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
      skipped.report(path, why);
    };
  }
  auto found = search_folder(folder, search);
  if (!found) refuse_format(*store_of(folder, options.store), folder, options.run_name);
  return found;
} catch (const std::bad_alloc&) {
  throw_out_of_memory("looking for a checkpoint");
}

}  // namespace cairn
