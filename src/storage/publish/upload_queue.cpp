#include "storage/publish/upload_queue.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "cairn/error.h"

#include "io/bytes/source_part.h"
#include "io/file.h"
#include "io/threads/cancellation.h"

namespace cairn {
namespace {

struct Waiting {
  Upload upload;
  std::uint64_t number;  // in the order of submit()
  // A later upload made this upload's object superfluous before the object arrived. The object is
  // removed when it has arrived.
  bool is_superfluous = false;
  bool is_removing_done = false;  // nothing can be added to remove_afterwards any more
};

}  // namespace

struct UploadQueue::Impl {
  Impl(std::shared_ptr<ObjectStore> s, UploadQueueOptions o)
      : options(std::move(o)),
        publisher(std::move(s),
                  {.retry = options.retry, .doing = "uploading", .done = "uploaded"}) {
    if (options.threads < 1 || options.retry.attempts < 1) {
      throw UsageError("uploads need at least 1 thread and 1 attempt, not " +
                       std::to_string(options.threads) + " and " +
                       std::to_string(options.retry.attempts));
    }
    options.most_waiting = std::max<std::size_t>(options.most_waiting, 1);
  }

  void work();
  std::vector<std::exception_ptr> transfer(Waiting& next);
  void publish_file(const Waiting& next);
  void shorten_retired(const Upload& upload);
  std::optional<std::string> next_superfluous(Waiting& done);
  RemovalReport remove_superfluous(Waiting& done, bool has_arrived);
  void withdraw_removals(const std::string& name);
  std::deque<Waiting>::iterator next_ready();
  bool replace_waiting(Upload& upload);
  void start_thread();
  void end_threads();

  UploadQueueOptions options;
  Cancellation cancellation{"the deadline for uploads has passed"};
  Publisher publisher;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Waiting> waiting;
  std::map<std::string, Waiting*> under_way;
  std::set<std::string> being_removed;
  std::set<std::string> failed;
  std::vector<std::exception_ptr> errors;
  std::uint64_t submitted = 0;
  bool stopped = false;   // submit() refuses; threads end when nothing waits
  bool given_up = false;  // threads end at once
  std::vector<std::thread> threads;
};

// The first upload whose name no thread works on. The caller holds the lock.
std::deque<Waiting>::iterator UploadQueue::Impl::next_ready() {
  return std::find_if(waiting.begin(), waiting.end(), [this](const Waiting& candidate) {
    const std::string& name = candidate.upload.name;
    return !under_way.contains(name) && !being_removed.contains(name);
  });
}

void UploadQueue::Impl::work() {
  const CancelScope scope(&cancellation);
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] {
      return given_up || next_ready() != waiting.end() || (stopped && waiting.empty());
    });
    const auto ready = next_ready();
    if (given_up || ready == waiting.end()) return;
    Waiting next = std::move(*ready);
    waiting.erase(ready);
    under_way.emplace(next.upload.name, &next);
    changed.notify_all();
    lock.unlock();
    const std::vector<std::exception_ptr> failures = transfer(next);
    next.upload.file = nullptr;
    lock.lock();
    under_way.erase(next.upload.name);
    if (failures.empty()) {
      failed.erase(next.upload.name);
    } else {
      errors.insert(errors.end(), failures.begin(), failures.end());
      failed.insert(next.upload.name);
    }
    changed.notify_all();
  }
}

// Steps 3 to 6. Returns the errors, the upload's error first. A failed upload makes nothing
// superfluous. But if a later upload wants the name of a failed upload removed, the name is removed
// all the same: an older object may have the name, or the upload arrived and its answer was lost.
std::vector<std::exception_ptr> UploadQueue::Impl::transfer(Waiting& next) {
  std::vector<std::exception_ptr> failures;
  try {
    publish_file(next);
  } catch (...) {
    failures.push_back(std::current_exception());
    if (cancellation.is_cancelled()) return failures;
    const std::scoped_lock lock(mutex);
    next.upload.remove_afterwards.clear();
  }
  try {
    const RemovalReport done = remove_superfluous(next, /*has_arrived=*/failures.empty());
    if (done.error != nullptr) std::rethrow_exception(done.error);
    if (failures.empty() && next.upload.on_done) next.upload.on_done(done.removed);
  } catch (...) {
    failures.push_back(std::current_exception());
  }
  return failures;
}

// Steps 3 and 4.
void UploadQueue::Impl::publish_file(const Waiting& next) {
  const Upload& upload = next.upload;
  if (upload.check) upload.check();
  const auto fill = [&](ObjectWrite& out) {
    read_in_blocks(*upload.file, [&](ByteView block) {
      cancellation.check();
      out.write(block);
    });
  };
  publisher.publish({.name = upload.name,
                     .replace = upload.replace,
                     .pointer = upload.pointer,
                     .number = next.number},
                    [&](const auto&) {
                      publisher.write_object({.name = upload.name,
                                              .replace = upload.replace,
                                              .expected_bytes = upload.file->size(),
                                              .fill = fill});
                      shorten_retired(upload);
                      return upload.file->size();
                    });
}

// Names of uploads under way stay in full: one of these names may belong to an earlier upload,
// which will ask what it may replace.
void UploadQueue::Impl::shorten_retired(const Upload& upload) {
  if (!upload.is_retired) return;
  const std::scoped_lock lock(mutex);
  std::set<std::string> on_their_way;
  for (const auto& [name, upload_of_it] : under_way) {
    on_their_way.insert(normal_path(name));
  }
  for (const Waiting& next : waiting) {
    on_their_way.insert(normal_path(next.upload.name));
  }
  publisher.own().shorten_retired([&](const std::string& name) {
    return !on_their_way.contains(name) && upload.is_retired(name);
  });
}

// Takes the next name to remove and claims it. Returns nullopt if there is none.
std::optional<std::string> UploadQueue::Impl::next_superfluous(Waiting& done) {
  const std::scoped_lock lock(mutex);
  auto& names = done.upload.remove_afterwards;
  while (!names.empty()) {
    const std::string name = std::move(names.front());
    names.erase(names.begin());
    if (name == done.upload.name) continue;
    const auto now = under_way.find(name);
    const auto earlier =
        std::ranges::find_if(waiting, [&](const auto& w) { return w.upload.name == name; });
    if (earlier != waiting.end()) {
      earlier->is_superfluous = true;
    } else if (now != under_way.end() && !now->second->is_removing_done) {
      now->second->is_superfluous = true;
    } else if (being_removed.insert(name).second) {
      return name;
    }
  }
  if (std::exchange(done.is_superfluous, false)) {
    being_removed.insert(done.upload.name);
    return done.upload.name;
  }
  done.is_removing_done = true;
  return std::nullopt;
}

RemovalReport UploadQueue::Impl::remove_superfluous(Waiting& done, bool has_arrived) {
  const std::string shown = publisher.store().describe(done.upload.name);
  const Removal removal = {.context = has_arrived
                                          ? "uploaded " + shown + ", but cannot remove an older one"
                                          : "a newer upload made it superfluous"};
  RemovalReport report;
  while (const auto name = next_superfluous(done)) {
    publisher.remove(*name, removal, report);
    const std::scoped_lock lock(mutex);
    being_removed.erase(*name);
    changed.notify_all();
  }
  return report;
}

// A name that is submitted is wanted, even if an earlier upload called it superfluous. The caller
// holds the lock.
void UploadQueue::Impl::withdraw_removals(const std::string& name) {
  const auto withdraw = [&](Waiting& from) {
    std::erase(from.upload.remove_afterwards, name);
    if (from.upload.name == name) from.is_superfluous = false;
  };
  std::ranges::for_each(waiting, withdraw);
  for (const auto& [under_way_name, upload] : under_way) {
    withdraw(*upload);
  }
}

// The caller holds the lock.
void UploadQueue::Impl::start_thread() {
  if (threads.size() >= static_cast<std::size_t>(options.threads)) return;
  threads.emplace_back([this] { work(); });
}

void UploadQueue::Impl::end_threads() {
  for (std::thread& thread : threads) {
    thread.join();
  }
  threads.clear();
}

UploadQueue::UploadQueue(std::shared_ptr<ObjectStore> store, const UploadQueueOptions& options)
    : impl_(std::make_unique<Impl>(std::move(store), options)) {}

UploadQueue::~UploadQueue() { stop(Clock::time_point::min()); }

Publisher& UploadQueue::publisher() { return impl_->publisher; }

// Replaces a waiting upload of the same name, and returns whether there was one. Throws if the name
// may not be replaced, and after stop(). The caller holds the lock.
bool UploadQueue::Impl::replace_waiting(Upload& upload) {
  if (stopped) {
    throw UsageError("cannot upload " + upload.name + ": uploading has ended already");
  }
  const auto same = std::find_if(waiting.begin(), waiting.end(),
                                 [&](const auto& w) { return w.upload.name == upload.name; });
  const bool is_known = same != waiting.end() || under_way.contains(upload.name);
  if (is_known && upload.replace == Replace::kNever) {
    throw AlreadyExistsError("Object " + publisher.store().describe(upload.name) +
                             " was already enqueued to be uploaded, but overwrite=False: choose " +
                             "another name, or allow overwriting");
  }
  if (same == waiting.end()) return false;
  const auto& superfluous = same->upload.remove_afterwards;
  upload.remove_afterwards.insert(upload.remove_afterwards.begin(), superfluous.begin(),
                                  superfluous.end());
  withdraw_removals(upload.name);
  *same = {std::move(upload), ++submitted};
  return true;
}

void UploadQueue::submit(Upload upload) {
  std::unique_lock lock(impl_->mutex);
  // After each wait everything may be different.
  while (!impl_->replace_waiting(upload)) {
    impl_->start_thread();
    if (impl_->waiting.size() < impl_->options.most_waiting) {
      impl_->withdraw_removals(upload.name);
      impl_->waiting.push_back({std::move(upload), ++impl_->submitted});
      break;
    }
    impl_->changed.wait(lock);
  }
  impl_->changed.notify_all();
}

void UploadQueue::throw_error() {
  std::vector<std::exception_ptr> errors;
  {
    const std::scoped_lock lock(impl_->mutex);
    errors.swap(impl_->errors);
  }
  if (errors.empty()) return;
  std::string others;
  for (std::size_t i = 1; i < errors.size(); ++i) {
    others += text_of(errors[i]) + "; before that: ";
  }
  try {
    std::rethrow_exception(errors.front());
  } catch (Error& e) {
    if (!others.empty()) e.add_context(others.substr(0, others.size() - 2));
    throw;
  }
}

bool UploadQueue::wait(Clock::time_point deadline) {
  std::unique_lock lock(impl_->mutex);
  return impl_->changed.wait_until(
      lock, deadline, [this] { return impl_->waiting.empty() && impl_->under_way.empty(); });
}

std::vector<std::string> UploadQueue::stop(Clock::time_point deadline) {
  {
    std::unique_lock lock(impl_->mutex);
    impl_->stopped = true;
    impl_->changed.notify_all();
    const bool is_done = impl_->changed.wait_until(
        lock, deadline, [this] { return impl_->waiting.empty() && impl_->under_way.empty(); });
    if (!is_done) impl_->given_up = true;
    impl_->changed.notify_all();
    if (!is_done) impl_->cancellation.cancel();
  }
  impl_->end_threads();
  std::set<std::string> left = impl_->failed;
  for (const auto& waiting : impl_->waiting) {
    left.insert(waiting.upload.name);
  }
  impl_->waiting.clear();
  return {left.begin(), left.end()};
}

}  // namespace cairn
