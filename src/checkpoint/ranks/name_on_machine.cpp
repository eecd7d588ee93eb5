#include "checkpoint/ranks/name_on_machine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "cairn/error.h"

#include "checkpoint/ranks/meeting.h"
#include "checkpoint/ranks/see_checkpoints.h"
#include "core/json_text.h"
#include "format/dcp/write_metadata.h"
#include "io/file.h"
#include "storage/listing.h"

namespace cairn {
namespace {

using nlohmann::json;

struct Content {
  bool is_published = false;
  std::vector<std::string> names = {};  // in a folder
  FolderManifest manifest = {};         // of one that has it

  bool says_what_it_is() const { return !manifest.attempt.empty(); }
};

// nullopt: nothing has the name.
std::optional<Content> content_of(ObjectStore& store, const std::string& path) {
  const auto there = store.stat(path);
  if (!there) return std::nullopt;
  if (there->type != ObjectInfo::Type::kFolder) return Content{.is_published = true};
  Content content{.names = list_names_if_any(store, path)};
  content.is_published =
      std::ranges::find(content.names, dcp::kMetadataFile) != content.names.end();
  if (auto manifest = manifest_of(store, path)) content.manifest = *std::move(manifest);
  return content;
}

void look_aside(ObjectStore& store, const std::string& path, NameOnMachine& name) {
  for (const char* ending : {kAsideDamaged, kAsideUnreadable}) {
    for (const std::string& aside : names_aside(store, path, ending)) {
      std::optional<Content> content;
      try {
        content = content_of(store, aside);
      } catch (const StorageError&) {
        // It cannot say what it was: that is all that is asked of it.
      }
      const bool is_known = content && content->says_what_it_is();
      if (!is_known) ++name.unknown;
      if (is_known && content->is_published) name.published.push_back(content->manifest.attempt);
    }
  }
}

}  // namespace

void put_unknown_aside(ObjectStore& store, const std::string& path, bool may_put_aside) {
  const char* ending = kAsideDamaged;
  try {
    const auto content = content_of(store, path);
    if (!content || content->names.empty()) return;  // or a file
    for (const std::string& name : content->names) {
      store.stat(join_path(path, name));  // who replaces or keeps it looks at each
    }
    if (content->is_published || content->says_what_it_is()) return;
    if (!may_put_aside) {
      throw AlreadyExistsError(store.describe(path) +
                               " is there already, and does not say what it is: put it aside, "
                               "choose another save_folder, or set save_overwrite");
    }
  } catch (const UnreadableError&) {
    if (!may_put_aside) throw;
    ending = kAsideUnreadable;
  }
  put_aside(store, path, ending);
}

NameOnMachine look_at_name(ObjectStore& store, const std::string& path) {
  NameOnMachine name;
  if (auto content = content_of(store, path)) {
    name.is_there = true;
    name.is_published = content->is_published;
    name.attempt = std::move(content->manifest.attempt);
    name.publisher = std::move(content->manifest.publisher);
    name.unknown_before = content->manifest.unknown_before;
    if (name.is_published && !name.attempt.empty()) name.published.push_back(name.attempt);
  }
  look_aside(store, path, name);
  return name;
}

std::string text_of(const NameOnMachine& name) {
  return json_text(json::array({name.is_there, name.is_published, name.attempt, name.publisher,
                                name.unknown_before, name.published, name.unknown}),
                   -1);
}

NameOnMachine parse_name_on_machine(const std::string& text) {
  try {
    const json read = json::parse(text);
    return {.is_there = read.at(0).get<bool>(),
            .is_published = read.at(1).get<bool>(),
            .attempt = read.at(2).get<std::string>(),
            .publisher = read.at(3).get<std::string>(),
            .unknown_before = read.at(4).get<std::uint64_t>(),
            .published = read.at(5).get<std::vector<std::string>>(),
            .unknown = read.at(6).get<std::uint64_t>()};
  } catch (const json::exception& e) {
    throw MeetingError("what a machine has under a name cannot be read: " + std::string(e.what()));
  }
}

std::uint64_t unknown_of(const std::vector<NameOnMachine>& all) {
  std::uint64_t unknown = 0;
  for (const NameOnMachine& name : all) {
    unknown += name.unknown;
  }
  return unknown;
}

bool is_kept(const NameOnMachine& part, const std::vector<NameOnMachine>& all,
             const std::set<std::string>& machines) {
  if (!part.is_there) return false;
  if (part.is_published) return true;
  if (part.attempt.empty()) return false;  // an empty folder
  if (!machines.contains(part.publisher)) return true;
  const bool is_published = std::ranges::any_of(all, [&](const NameOnMachine& one) {
    return std::ranges::find(one.published, part.attempt) != one.published.end();
  });
  return is_published || unknown_of(all) > part.unknown_before;
}

}  // namespace cairn
