#include "loggers/tensorboard/event_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>

#include "cairn/error.h"

#include "core/hash/masked_crc32c.h"
#include "io/file.h"
#include "io/machine.h"

namespace cairn {
namespace {

constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";
constexpr std::size_t kMostWaiting = std::size_t{1} << 20;
constexpr const char* kEventFileVersion = "brain.Event:2";

void append_record(std::string& out, std::string_view data) {
  const std::size_t at = out.size();
  append_little_endian(out, std::uint64_t{data.size()});
  append_little_endian(out, masked_crc32c(as_bytes(out).subspan(at)));
  out += data;
  append_little_endian(out, masked_crc32c(as_bytes(data)));
}

std::vector<std::string> names_in(const std::string& folder) {
  try {
    return posix_file_system().list(folder);
  } catch (const NotFoundError&) {
    return {};
  }
}

// Ten digits of seconds, so that the order of the names is that of their times.
std::int64_t seconds_of(const std::string& name) {
  std::int64_t seconds = 0;
  const char* begin = name.data() + kEventFilePrefix.size();
  std::from_chars(begin, name.data() + name.size(), seconds);
  return seconds;
}

// The names of two processes that start in the same second would be in any order, so a file's
// second is later than those of all files in the folder.
std::string new_path(const std::string& folder, const std::string& suffix, double seconds) {
  auto second = static_cast<std::int64_t>(seconds);
  for (const std::string& name : names_in(folder)) {
    if (is_event_file(name, suffix)) second = std::max(second, seconds_of(name) + 1);
  }
  static std::atomic<int> count = 0;
  const std::string name = fmt::format("{}{:010d}.{}.{}.{}{}", kEventFilePrefix, second,
                                       node_name(), process_id(), count++, suffix);
  return join_path(folder, name);
}

}  // namespace

EventFile::EventFile(const std::string& folder, const std::string& suffix, double seconds)
    : path_(new_path(folder, suffix, seconds)), file_(path_) {
  write(ProtoMessage().number(1, seconds).text(3, kEventFileVersion));
}

void EventFile::write(const ProtoMessage& event) {
  append_record(waiting_, event.bytes());
  if (waiting_.size() >= kMostWaiting) flush();
}

void EventFile::flush() {
  file_.append(waiting_);
  bytes_ += waiting_.size();
  waiting_.clear();
}

EventPosition EventFile::position() const { return {.file = base_name(path_), .bytes = bytes_}; }

bool is_event_file(const std::string& name, const std::string& suffix) {
  return name.starts_with(kEventFilePrefix) && name.ends_with(suffix) &&
         name.find('/') == std::string::npos;
}

void cut_event_files(const std::string& folder, const std::string& suffix,
                     const EventPosition& position, const std::string& kept_from) {
  FileSystem& files = posix_file_system();
  if (!cut_file(join_path(folder, position.file), position.bytes)) return;
  for (const std::string& name : names_in(folder)) {
    const bool is_later = is_event_file(name, suffix) && name > position.file;
    const bool is_kept = !kept_from.empty() && name >= kept_from;
    if (is_later && !is_kept) files.remove(join_path(folder, name));
  }
}

}  // namespace cairn
