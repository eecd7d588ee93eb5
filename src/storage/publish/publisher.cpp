#include "storage/publish/publisher.h"

#include <algorithm>
#include <utility>

#include "cairn/error.h"

#include "core/out_of_memory.h"
#include "io/file.h"
#include "io/threads/cancellation.h"
#include "storage/listing.h"
#include "storage/local/own_files.h"
#include "storage/publish/trace.h"

namespace cairn {
namespace {

enum class RemovalResult : std::uint8_t { kRemoved, kStays, kNotThere };

RemovalResult remove_from(ObjectStore& store, const std::string& name, bool over_ranks) {
  const bool is_of_ranks = over_ranks && is_folder(store, name);
  if (is_of_ranks && foreign_file_in(store, name)) return RemovalResult::kStays;
  const bool is_removed = is_of_ranks ? store.remove_folder(name) : store.remove(name);
  return is_removed ? RemovalResult::kRemoved : RemovalResult::kNotThere;
}

}  // namespace

std::string text_of(const std::exception_ptr& error) try {
  if (error != nullptr) std::rethrow_exception(error);
  return "";
} catch (const std::exception& e) {
  return e.what();
}

Publisher::Publisher(std::shared_ptr<ObjectStore> store, PublisherOptions options)
    : store_(std::move(store)), options_(std::move(options)), own_(store_), fences_(store_) {
  if (!options_.is_shared) options_.retry = {.attempts = 1};
}

std::uint64_t Publisher::publish(const PublishJob& job, const Write& write) {
  bool is_published = false;
  const auto point = [&] {
    is_published = true;
    own_.note_finished(job.name);
    if (!job.pointer.empty()) move_pointer(job.pointer, job.name, job.number);
  };
  std::uint64_t bytes = 0;
  try {
    bytes = check_and_write(job, write, point);
  } catch (Error& e) {
    if (is_published) throw;
    const bool is_refused = dynamic_cast<const AlreadyExistsError*>(&e) != nullptr;
    if (is_refused || job.replace != Replace::kAll) own_.note_unfinished(job.name);
    e.add_context(options_.doing + (" " + store_->describe(job.name)));
    throw;
  }
  if (!is_published) point();
  return bytes;
}

// Steps 1 and 2.
std::uint64_t Publisher::check_and_write(const PublishJob& job, const Write& write,
                                         const std::function<void()>& point) try {
  check_cancelled_here();  // The job may have waited for long.
  if (options_.is_shared && !job.pointer.empty() && job.checks_pointer)
    with_retries(options_.retry, [&] { check_pointer(job.pointer); });
  const TracedStep step("write", job.name);
  return write(point);
} catch (const std::bad_alloc&) {
  throw_out_of_memory();
}

void Publisher::write_object(ObjectToPublish object) {
  if (options_.is_shared) {
    const bool is_followed = object.replace == Replace::kOwn || own_.knows(object.name);
    if (is_followed) object.own = &own_;
    write_until_seen(*store_, object, options_.retry);
    return;
  }
  const auto out = store_->begin(object.name, {.condition = condition_of(object.replace),
                                               .expected_bytes = object.expected_bytes,
                                               .is_private = object.is_private});
  object.fill(*out);
  out->commit();
}

void Publisher::remove(const std::string& name, const Removal& removal, RemovalReport& report) {
  try {
    try_to_remove(name, removal, report);
  } catch (Error& e) {
    e.add_context(removal.context);
    if (report.error == nullptr) report.error = std::current_exception();
  } catch (...) {
    if (report.error == nullptr) report.error = std::current_exception();
  }
}

void Publisher::try_to_remove(const std::string& name, const Removal& removal,
                              RemovalReport& report) try {
  const bool is_kept = std::ranges::any_of(
      removal.keeps, [&](const std::string& kept) { return is_same_name(*store_, kept, name); });
  if (is_kept || (!removal.over_ranks && !own_.may_remove(name, options_.retry))) return;
  const TracedStep step("remove", name);
  report.removed.reserve(report.removed.size() + 1);  // so that a removal can always be reported
  const RemovalResult result = with_retries(options_.retry, [&] {
    if (removal.may_remove && !removal.may_remove(*store_, name)) return RemovalResult::kStays;
    return remove_from(*store_, name, removal.over_ranks);
  });
  if (result == RemovalResult::kStays) report.refused.push_back(name);
  if (result != RemovalResult::kRemoved) return;
  report.removed.push_back(name);
  own_.forget(name);
} catch (const std::bad_alloc&) {
  throw_out_of_memory();
}

void Publisher::look_at_pointer(const std::string& pointer, const RetryPolicy& retry) {
  if (options_.is_shared) fences_.find(pointer)->look(retry);
}

std::optional<Pointer> Publisher::seen_pointer(const std::string& pointer) {
  return options_.is_shared ? fences_.find(pointer)->known() : std::nullopt;
}

bool Publisher::points_at(const std::string& pointer, const std::string& name) {
  if (options_.is_shared) return fences_.find(pointer)->is_known_at(name, options_.retry);
  const auto there = store_->read_pointer(pointer);
  return there && normal_path(there->target) == normal_path(name);
}

void Publisher::check_pointer(const std::string& pointer) {
  const TracedStep step("check", pointer);
  fences_.find(pointer)->check({.attempts = 1});
}

void Publisher::move_pointer(const std::string& pointer, const std::string& name,
                             std::uint64_t number) try {
  const TracedStep step("point", pointer);
  if (!options_.is_shared) return store_->move_pointer(pointer, name);
  fences_.find(pointer)->move(name, options_.retry, number);
} catch (Error& e) {
  e.add_context(options_.done + (" " + store_->describe(name)) + ", but cannot point " +
                store_->describe(pointer) + " at it");
  throw;
}

}  // namespace cairn
