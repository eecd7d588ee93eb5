#include "loggers/spool.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "cairn/error.h"
#include "cairn/train/logger.h"

#include "core/text/random_name.h"
#include "io/file.h"

namespace cairn {
namespace {

constexpr std::string_view kEntryEnding = ".entry";
constexpr std::string_view kTemporaryEnding = ".new";
constexpr std::size_t kTagLength = 6;

// The names sort by their numbers. No other process writes to a name with this one's tag.
std::string entry_name(std::uint64_t number, const std::string& tag) {
  return fmt::format("{:012d}-{}{}", number, tag, kEntryEnding);
}

std::uint64_t number_of_entry(const std::string& name) {
  std::uint64_t number = 0;
  std::from_chars(name.data(), name.data() + name.size(), number);
  return number;
}

void write_entry(const std::string& path, const std::string& text) {
  FileSystem& files = posix_file_system();
  const std::string temporary = path + std::string(kTemporaryEnding);
  files.remove(temporary);
  const auto file = files.create(temporary, {.expected_bytes = text.size(), .is_private = true});
  file->write(as_bytes(text));
  file->close();
  files.rename(temporary, path);
}

// A key that is wrong now may be replaced, and so may a server that does not know the run.
bool is_about_rights(int http_status) { return http_status == 401 || http_status == 403; }

// The room that an entry takes on a disk: its last block counts as a whole.
std::uint64_t room_of(std::uint64_t bytes) {
  constexpr std::uint64_t kBlock = 4096;
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

// nullopt: removed meanwhile, to make room.
std::optional<std::string> read_entry(const std::string& path) {
  try {
    const auto source = posix_file_system().open(path);
    return std::string(as_text(source->view(0, source->size()).view));
  } catch (const NotFoundError&) {
    return std::nullopt;
  }
}

}  // namespace

Spool::Spool(SpoolOptions options) : options_(std::move(options)), tag_(random_name(kTagLength)) {
  find_entries();
  thread_ = std::thread([this] { run(); });
}

Spool::~Spool() {
  {
    const std::scoped_lock lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  cancellation_.cancel();
  thread_.join();
}

void Spool::find_entries() {
  FileSystem& files = posix_file_system();
  files.make_folders(options_.folder);
  for (const std::string& name : files.list(options_.folder)) {
    const auto info = files.stat(join_path(options_.folder, name), /*follow=*/false);
    if (!name.ends_with(kEntryEnding) || !info || info->type != FileInfo::Type::kRegular) continue;
    entries_.push_back({name, room_of(info->size)});
    bytes_ += entries_.back().bytes;
    next_ = std::max(next_, number_of_entry(name) + 1);
  }
}

void Spool::add(const std::string& entry) noexcept {
  const std::scoped_lock lock(mutex_);
  try {
    const std::uint64_t bytes = room_of(entry.size());
    make_room(bytes);
    const std::string name = entry_name(next_++, tag_);
    write_entry(join_path(options_.folder, name), entry);
    entries_.push_back({name, bytes});
    bytes_ += bytes;
  } catch (const std::exception& error) {
    ++report_.lost;
    report_.last_error = error.what();
  }
  changed_.notify_all();
}

void Spool::make_room(std::uint64_t bytes) {
  while (!entries_.empty() && bytes_ + bytes > options_.max_bytes) {
    const Entry oldest = entries_.front();
    remove(oldest);
    ++report_.lost;
  }
}

// The file first: an entry that is not removed would be sent by the next process.
void Spool::remove(const Entry& entry) {
  posix_file_system().remove(join_path(options_.folder, entry.name));
  if (entries_.empty() || entries_.front().name != entry.name) return;
  bytes_ -= entry.bytes;
  entries_.pop_front();
}

bool Spool::wait(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return entries_.empty(); });
}

Spool::Report Spool::report() const {
  const std::scoped_lock lock(mutex_);
  Report report = report_;
  report.waiting = entries_.size();
  return report;
}

std::string Spool::problems(const std::string& name) const {
  const Report now = report();
  std::string text;
  if (now.waiting > 0) {
    text += fmt::format("; {} entries wait in {}, and the next start of the run sends them",
                        now.waiting, options_.folder);
  }
  if (now.lost > 0) text += fmt::format("; {} were lost: no room", now.lost);
  if (now.refused > 0) text += fmt::format("; {} were refused", now.refused);
  if (text.empty()) return text;
  if (!now.last_error.empty()) text += "; the last error: " + now.last_error;
  return "warning: " + name + text;
}

std::string Spool::take_warning(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  if (report_.last_error.empty() || std::exchange(has_warned_, true)) return {};
  return fmt::format("warning: {}: {}; entries wait in {}", name, report_.last_error,
                     options_.folder);
}

void Spool::run() noexcept {
  const CancelScope scope(&cancellation_);
  std::chrono::milliseconds pause = options_.first_pause;
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_ending_ || !entries_.empty(); });
    if (is_ending_) return;
    const Entry oldest = entries_.front();
    lock.unlock();
    try {
      const bool is_done = send_oldest(oldest);
      if (!is_done) pause_here(pause);
      pause = is_done ? options_.first_pause : std::min(2 * pause, options_.longest_pause);
    } catch (const CancelledError&) {
      return;
    }
  }
}

// Returns whether the entry is settled, one way or the other.
bool Spool::send_oldest(const Entry& oldest) {
  bool is_refused = false;
  std::string failed;
  try {
    const auto text = read_entry(join_path(options_.folder, oldest.name));
    if (text) options_.send(*text);
  } catch (const CancelledError&) {
    throw;
  } catch (const NotFoundError& error) {
    failed = error.what();
  } catch (const StorageError& error) {
    is_refused = !error.retryable() && !is_about_rights(error.status());
    failed = error.what();
  } catch (const std::exception& error) {
    is_refused = true;
    failed = error.what();
  }
  const std::scoped_lock lock(mutex_);
  if (!failed.empty()) report_.last_error = failed;
  if (!failed.empty() && !is_refused) return false;
  report_.refused += is_refused ? 1 : 0;
  try {
    remove(oldest);
  } catch (const StorageError& error) {
    report_.last_error = error.what();
    return false;
  }
  changed_.notify_all();
  return true;
}

void log_warning(Spool& spool, const std::string& name, Logger& logger) {
  const std::string warning = spool.take_warning(name);
  if (!warning.empty()) logger.log_message(warning);
}

void finish(Spool& spool, std::chrono::milliseconds limit, const std::string& name,
            Logger& logger) {
  spool.wait(limit);
  const std::string problems = spool.problems(name);
  if (!problems.empty()) logger.log_message(problems);
}

}  // namespace cairn
