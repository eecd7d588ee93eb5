#include "c/saver.h"

#include <algorithm>
#include <utility>

#include "cairn/error.h"

#include "c/error.h"
#include "c/search.h"
#include "c/tree.h"
#include "io/file.h"
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

StepSaver::StepSaver(StepSaverOptions options)
    : options_(std::move(options)),
      store_(store_of(options_.folder, nullptr)),
      folder_(shown_place(options_.folder)),
      may_replace_(options_.overwrite),
      pipeline_({.store = store_}) {
  if (options_.filename.empty()) throw UsageError("the format of the names is empty");
  path_of(options_.filename, {});
  if (!options_.latest.empty()) path_of(options_.latest, {});
}

std::string StepSaver::path_of(const NameFormat& name, const Timestamp& timestamp) const {
  const FormatVariables variables = dist_variables(options_.run_name) + time_variables(timestamp);
  const std::string path = strict_format(name, variables);
  check_is_name(path, "the name of a checkpoint");
  return join_path(folder_, path);
}

// Only in a local store, where Replace::kOwn allows everything.
void StepSaver::check_is_free(const std::string& path) const {
  if (may_replace_ || store_->may_be_far() || kept_->knows(path) || !store_->stat(path)) return;
  throw AlreadyExistsError(path + " is there already, and this saver did not write it; call " +
                           "resume() first, use another folder, or allow overwriting");
}

CheckpointInfo StepSaver::info(const Value& value, std::int64_t step) const {
  CheckpointInfo info = info_of(value);
  if (info.run_name.empty()) info.run_name = options_.run_name;
  if (!info.timestamp && step >= 0) {
    info.timestamp = Timestamp();
    info.timestamp->batch = step;
  }
  return info;
}

SaveJob StepSaver::job_of(const Value& value, const NameFormat& name, std::int64_t step) const {
  SaveJob job{.value = value, .info = info(value, step)};
  Timestamp timestamp = job.info.timestamp.value_or(Timestamp());
  if (step >= 0) timestamp.batch = step;
  job.path = path_of(name, timestamp);
  if (!options_.latest.empty()) job.latest = path_of(options_.latest, timestamp);
  job.replace = may_replace_ ? Replace::kAll : Replace::kOwn;
  // Other programs may have given such names, too.
  job.may_remove = [kept = kept_, store = store_, run_name = options_.run_name](
                       ObjectStore&, const std::string& path) {
    if (!kept->is_adopted(path)) return true;
    try {
      return open_checkpoint(path, store).info().run_name == run_name;
    } catch (const NotFoundError&) {
      return true;
    } catch (const CorruptError&) {
      return false;
    } catch (const UnsupportedError&) {
      return false;
    }
  };
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
  check_is_free(job.path);
  if (!job.latest.empty()) pipeline_.publisher().look_at_pointer(job.latest);
  forget_failed_saves([&] { pipeline_.throw_error(); });
  kept_->begin(job.path);
  if (options_.keep > 0) job.remove_afterwards = kept_->superfluous(options_.keep);
  forget_failed_saves([&] { pipeline_.submit(std::move(job)); });
  pipeline_.release_tensors();
}

void StepSaver::wait() {
  forget_failed_saves([&] { pipeline_.wait(); });
}

std::optional<FoundCheckpoint> StepSaver::resume(const FindOptions& how) {
  wait();
  FindOptions options = how;
  options.filename = options_.filename;
  options.run_name = options_.run_name;
  options.latest_filename = options_.latest;
  options.verify = Verify::kQuick;
  options.except = tried_;
  options.store = store_;
  std::vector<std::string> paths;
  if (!options_.run_name.empty()) {
    options.on_other_run = [&](const std::string& path, const std::string& run_name) {
      how.on_skip(path, "it belongs to the run " + run_name);
    };
  }
  options.on_older = [&](const std::string& path, const Timestamp&) { paths.push_back(path); };
  auto found = find_newest(folder_, std::move(options));
  may_replace_ = true;
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
         .run_name = text(options->run_name, ""),
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
    *path = nullptr;
    cairn::SkippedLines lines(skipped);
    const auto found = saver->saver.resume({.on_skip = lines.collect()});
    if (found) {
      auto made = cairn::tree_of(found->checkpoint, cairn::Verify::kFull);
      *path = cairn::text_copy(found->path);
      *tree = made.release();
    }
    lines.hand_over();
  });
}

void cairn_saver_free(cairn_saver* saver) { delete saver; }
