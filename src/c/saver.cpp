#include "c/saver.h"

#include <algorithm>
#include <utility>

#include "cairn/error.h"

#include "c/error.h"
#include "c/search.h"
#include "c/tree.h"
#include "checkpoint/open/checkpoint.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/place.h"

namespace cairn {

std::vector<KeptCheckpoints::Entry>::iterator KeptCheckpoints::find(const std::string& path) {
  return std::ranges::find(entries_, path, &Entry::path);
}

void KeptCheckpoints::begin(const std::string& path) {
  remove(path);
  const std::lock_guard lock(mutex_);
  entries_.push_back({.path = path});
}

void KeptCheckpoints::finish(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const auto entry = find(path); entry != entries_.end()) entry->is_finished = true;
}

void KeptCheckpoints::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const auto entry = find(path); entry != entries_.end()) entries_.erase(entry);
}

void KeptCheckpoints::drop_unfinished() {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const Entry& entry) { return !entry.is_finished; });
}

void KeptCheckpoints::adopt(const std::vector<std::string>& paths) {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  for (const std::string& path : paths) {
    entries_.push_back({.path = path, .is_finished = true, .is_adopted = true});
  }
}

bool KeptCheckpoints::knows(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(entries_, path, &Entry::path) != entries_.end();
}

bool KeptCheckpoints::is_adopted(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto entry = std::ranges::find(entries_, path, &Entry::path);
  return entry != entries_.end() && entry->is_adopted;
}

std::vector<std::string> KeptCheckpoints::superfluous(std::size_t keep) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> paths;
  for (std::size_t i = 0; i + keep < entries_.size(); ++i) {
    paths.push_back(entries_[i].path);
  }
  return paths;
}

namespace {

void check_stays_in_folder(const std::string& name) {
  const bool leaves = name.starts_with('/') || name == ".." || name.starts_with("../") ||
                      name.ends_with("/..") || name.find("/../") != std::string::npos;
  if (!leaves && !name.empty() && !name.ends_with('/')) return;
  throw UsageError("the name \"" + name + "\" is not of a file in the folder of the saver");
}

// Whether a saver of this run wrote the checkpoint. Files that other programs wrote, or a user with
// cairn_save(), say neither a run nor a step.
bool is_of_run(const std::string& path, const std::shared_ptr<ObjectStore>& store,
               const std::string& run_name) {
  try {
    const Checkpoint checkpoint = open_checkpoint(path, store);
    const auto said = Checkpoint::Impl::source_of(checkpoint).info().checkpoint;
    return said && said->timestamp && said->run_name == run_name;
  } catch (const NotFoundError&) {
    return true;
  } catch (const CorruptError&) {
    return false;
  } catch (const UnsupportedError&) {
    return false;
  }
}

// The program may change its working folder.
std::string folder_of(const ObjectStore& store, const std::string& place) {
  const std::string shown = shown_place(place);
  const bool is_path = store.names_are_paths() && shown.find("://") == std::string::npos;
  return is_path ? absolute_path(shown) : shown;
}

std::string last_name(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) {
    folder.pop_back();
  }
  return folder.substr(folder.rfind('/') + 1);
}

}  // namespace

StepSaver::StepSaver(StepSaverOptions options)
    : options_(std::move(options)),
      store_(store_of(options_.folder, nullptr)),
      folder_(folder_of(*store_, options_.folder)),
      run_name_(options_.run_name.value_or(last_name(folder_))),
      pipeline_({.store = store_}) {
  if (options_.filename.empty()) throw UsageError("the format of the names is empty");
  const std::string path = path_of(options_.filename, {});
  if (!options_.latest.empty()) check_is_not_link(path, path_of(options_.latest, {}));
}

std::string StepSaver::path_of(const NameFormat& name, const Timestamp& timestamp) const {
  const FormatVariables variables = dist_variables(run_name_) + time_variables(timestamp);
  const std::string path = strict_format(name, variables);
  check_is_name(path, "the name of a checkpoint");
  check_stays_in_folder(path);
  return join_path(folder_, path);
}

void StepSaver::check_is_not_link(const std::string& path, const std::string& link) const {
  if (normal_path(path) != normal_path(link)) return;
  throw UsageError(path + " would be both a checkpoint and the link to the newest one");
}

// A name that exists may be of this run, which saves it again after it has resumed.
Replace StepSaver::replace_of(const std::string& path) {
  if (options_.overwrite) return Replace::kAll;
  if (passed_over_.erase(path) > 0) {
    if (store_->stat(path)) put_aside(*store_, path, kAsideDamaged);
    return Replace::kOwn;
  }
  if (kept_->knows(path) && !kept_->is_adopted(path)) return Replace::kOwn;
  // Replace::kOwn sees in a far store that a name is taken.
  if (store_->may_be_far() && !has_resumed_) return Replace::kOwn;
  if (!store_->stat(path)) return Replace::kOwn;
  if (has_resumed_ && is_of_run(path, store_, run_name_)) return Replace::kAll;
  throw AlreadyExistsError(path + " is there already, and no saver of the run \"" + run_name_ +
                           "\" wrote it; " + (has_resumed_ ? "" : "call resume() first, ") +
                           "use another folder, or allow overwriting");
}

CheckpointInfo StepSaver::info(const Value& value, std::int64_t step) const {
  CheckpointInfo info = info_of(value);
  if (info.run_name.empty()) info.run_name = run_name_;
  if (!info.timestamp && step >= 0) {
    info.timestamp = Timestamp();
    info.timestamp->batch = step;
  }
  return info;
}

SaveJob StepSaver::job_of(const Value& value, const NameFormat& name, std::int64_t step) {
  SaveJob job{.value = value, .info = info(value, step)};
  Timestamp timestamp = job.info.timestamp.value_or(Timestamp());
  if (step >= 0) timestamp.batch = step;
  job.path = path_of(name, timestamp);
  if (!options_.latest.empty()) {
    job.latest = path_of(options_.latest, timestamp);
    check_is_not_link(job.path, job.latest);
  }
  job.replace = replace_of(job.path);
  job.report = [kept = kept_](const SaveReport& report) {
    kept->finish(report.path);
    for (const std::string& path : report.removed) {
      kept->remove(path);
    }
    for (const std::string& path : report.refused) {
      kept->remove(path);
    }
  };
  return job;
}

// Names do not tell whose the checkpoints are that resume() found. So those are opened first.
void StepSaver::remove_superfluous(SaveJob& job) const {
  job.remove_afterwards = kept_->superfluous(options_.keep);
  std::set<std::string> found;
  for (const std::string& path : job.remove_afterwards) {
    if (kept_->is_adopted(path)) found.insert(path);
  }
  job.may_remove = [found, store = store_, run_name = run_name_](ObjectStore&,
                                                                 const std::string& path) {
    return !found.contains(path) || is_of_run(path, store, run_name);
  };
}

// After the error of a save nothing is under way.
template <class Call>
void StepSaver::forget_failed_saves(const Call& call) {
  try {
    call();
  } catch (...) {
    kept_->drop_unfinished();
    throw;
  }
}

void StepSaver::save(const Value& value, const std::string& name, std::int64_t step) {
  if (step < 0 && name.empty()) throw UsageError("a save needs a step or a name");
  SaveJob job = job_of(value, name.empty() ? options_.filename : NameFormat::of_name(name), step);
  if (!job.latest.empty()) pipeline_.publisher().look_at_pointer(job.latest);
  forget_failed_saves([&] { pipeline_.throw_error(); });
  kept_->begin(job.path);
  if (options_.keep > 0) remove_superfluous(job);
  forget_failed_saves([&] { pipeline_.submit(std::move(job)); });
  pipeline_.release_tensors();
}

void StepSaver::wait() {
  forget_failed_saves([&] { pipeline_.wait(); });
}

std::optional<FoundCheckpoint> StepSaver::resume(const FindOptions& how, bool goes_on) {
  wait();
  if (!goes_on) {
    tried_.clear();
    passed_over_.clear();
  }
  FindOptions options = how;
  options.filename = options_.filename;
  options.run_name = run_name_;
  options.latest_filename = options_.latest;
  options.verify = Verify::kQuick;
  options.except = tried_;
  options.store = store_;
  options.on_skip = [&](const std::string& path, const std::string& why) {
    passed_over_.insert(path);
    how.on_skip(path, why);
  };
  std::vector<std::string> paths;
  if (options_.run_name) {
    options.on_other_run = [&](const std::string& path, const std::string& run_name) {
      how.on_skip(path, "it belongs to the run " + run_name);
    };
  }
  options.on_older = [&](const std::string& path, const Timestamp&) { paths.push_back(path); };
  auto found = find_newest(folder_, std::move(options));
  has_resumed_ = true;
  if (!found) return std::nullopt;
  std::ranges::reverse(paths);
  paths.push_back(found->path);
  kept_->adopt(paths);
  tried_.push_back(found->path);
  return found;
}

}  // namespace cairn

struct cairn_saver {
  cairn::StepSaver saver;
};

cairn_status cairn_saver_new(const cairn_saver_options* options, cairn_saver** saver,
                             cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(options, "options");
    if (options->size != sizeof(cairn_saver_options)) {
      throw cairn::UsageError("options.size is " + std::to_string(options->size) + ", not " +
                              std::to_string(sizeof(cairn_saver_options)));
    }
    cairn::require(options->folder, "options.folder");
    cairn::require(saver, "saver");
    *saver = nullptr;
    if (options->keep < 0) throw cairn::UsageError("keep is negative");
    const auto text = [](const char* given, const char* otherwise) {
      return std::string(given == nullptr ? otherwise : given);
    };
    *saver = new cairn_saver{cairn::StepSaver(
        {.folder = options->folder,
         .filename = cairn::NameFormat(text(options->filename, cairn::kSaverNames)),
         .latest = cairn::NameFormat(text(options->latest, "")),
         .run_name = options->run_name == nullptr ? std::nullopt
                                                  : std::optional<std::string>(options->run_name),
         .keep = static_cast<std::size_t>(options->keep),
         .overwrite = options->overwrite != 0})};
  });
}

cairn_status cairn_saver_save(cairn_saver* saver, const cairn_tree* tree, const char* name,
                              int64_t step, cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(saver, "saver");
    cairn::require(tree, "tree");
    saver->saver.save(tree->value, name == nullptr ? "" : name, step);
  });
}

cairn_status cairn_saver_wait(cairn_saver* saver, cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(saver, "saver");
    saver->saver.wait();
  });
}

cairn_status cairn_saver_resume(cairn_saver* saver, cairn_tree** tree, char** path, char** skipped,
                                cairn_error** error) {
  return cairn::guard_call(error, [&] {
    cairn::require(saver, "saver");
    cairn::require(tree, "tree");
    cairn::require(path, "path");
    *tree = nullptr;
    const bool goes_on = std::exchange(*path, nullptr) != nullptr;
    cairn::SkippedLines lines(skipped);
    const auto found = saver->saver.resume({.on_skip = lines.collect()}, goes_on);
    if (found) {
      auto made = cairn::tree_of(found->checkpoint, cairn::Verify::kFull);
      *path = cairn::text_copy(found->path);
      *tree = made.release();
    }
    lines.hand_over();
  });
}

void cairn_saver_free(cairn_saver* saver) { delete saver; }
