#include "checkpoint/ranks/name_on_machine.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "cairn/error.h"

#include "checkpoint/ranks/meeting.h"
#include "checkpoint/ranks/see_checkpoints.h"
#include "core/text/json.h"
#include "core/text/json_text.h"
#include "format/dcp/metadata/write_metadata.h"
#include "io/file.h"
#include "storage/listing.h"
#include "storage/local/own_files.h"

namespace cairn {
namespace {

struct Content {
  std::vector<std::string> names = {};  // the names in the folder
  FolderManifest manifest = {};         // of the folder, if it has one
  bool has_metadata = false;
  bool was_published = false;

  bool has_attempt() const { return !manifest.attempt.empty(); }
};

// nullopt: nothing has the name.
std::optional<Content> content_of(ObjectStore& store, const std::string& path) {
  const auto there = store.stat(path);
  if (!there) return std::nullopt;
  Content content;
  if (there->type != ObjectInfo::Type::kFolder) return content;
  content.names = list_names_if_any(store, path);
  content.has_metadata =
      std::ranges::find(content.names, dcp::kMetadataFile) != content.names.end();
  if (auto manifest = manifest_of(store, path)) content.manifest = *std::move(manifest);
  content.was_published =
      content.has_metadata ||
      (content.has_attempt() && is_marked(store, path, content.manifest.attempt));
  return content;
}

void add_asides(ObjectStore& store, const std::string& path, NameOnMachine& name) {
  for (const char* ending : {kAsideDamaged, kAsideUnreadable}) {
    for (const std::string& aside : names_aside(store, path, ending)) {
      std::optional<Content> content;
      try {
        content = content_of(store, aside);
      } catch (const UnreadableError&) {
        // It stays unknown what this was. That is all that the caller needs to know.
      }
      if (!content || !content->has_attempt()) {
        name.has_unknown_aside = true;
      } else if (content->was_published) {
        name.published.push_back(content->manifest.attempt);
      } else {
        name.has_unpublished_aside = true;
      }
    }
  }
}

}  // namespace

void put_unknown_aside(ObjectStore& store, const std::string& path, bool may_put_aside) {
  const char* ending = kAsideDamaged;
  try {
    const auto content = content_of(store, path);
    // if `path` is not a folder, making the folder will report that
    if (!content || content->names.empty()) return;
    for (const std::string& name : content->names) {
      // throws if the disk fails; replacing or keeping the folder looks at each file
      store.stat(join_path(path, name));
    }
    if (content->has_attempt() || content->has_metadata) return;
    if (!may_put_aside) {
      throw AlreadyExistsError(store.describe(path) +
                               " is there already, and is no known part of a checkpoint: put it "
                               "aside, choose another save_folder, or set save_overwrite");
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
    name.was_published = content->was_published;
    name.attempt = std::move(content->manifest.attempt);
    name.publisher = std::move(content->manifest.publisher);
    if (name.was_published && !name.attempt.empty()) name.published.push_back(name.attempt);
  }
  add_asides(store, path, name);
  return name;
}

void mark_published(ObjectStore& store, const std::string& path, const std::string& attempt) {
  if (!store.names_are_paths()) return;  // other stores do not belong to one machine
  try {
    const auto manifest = manifest_of(store, path);
    if (!manifest || manifest->attempt != attempt) return;
    const auto mark = store.begin(join_path(path, kPublishedMark));
    mark->write(as_bytes(attempt));
    mark->commit();
  } catch (const std::exception&) {
    return;
  }
}

void remove_unpublished(ObjectStore& store, const std::string& path, const std::string& attempt) {
  try {
    const auto manifest = manifest_of(store, path);
    if (manifest && manifest->attempt == attempt) remove_checkpoint_folder(store, path);
  } catch (const std::exception&) {
    return;
  }
}

std::string text_of(const NameOnMachine& name) {
  return json_text(
      Json::array({name.is_there, name.was_published, name.attempt, name.publisher, name.published,
                   name.has_unknown_aside, name.has_unpublished_aside}),
      -1);
}

NameOnMachine parse_name_on_machine(const std::string& text) {
  try {
    const Json read = Json::parse(text);
    return {.is_there = read.at(0).get<bool>(),
            .was_published = read.at(1).get<bool>(),
            .attempt = read.at(2).get<std::string>(),
            .publisher = read.at(3).get<std::string>(),
            .published = read.at(4).get<std::vector<std::string>>(),
            .has_unknown_aside = read.at(5).get<bool>(),
            .has_unpublished_aside = read.at(6).get<bool>()};
  } catch (const Json::exception& e) {
    throw MeetingError("a rank's report on the checkpoint's name cannot be read: " +
                       std::string(e.what()));
  }
}

bool is_kept(const NameOnMachine& part, const std::vector<NameOnMachine>& all,
             const std::set<std::string>& machines) {
  if (part.was_published) return true;
  if (part.attempt.empty()) return false;  // there is nothing, or an empty folder
  bool is_known = machines.contains(part.publisher);
  for (const NameOnMachine& one : all) {
    if (std::ranges::find(one.published, part.attempt) != one.published.end()) return true;
    is_known = is_known && !one.has_unknown_aside;
  }
  return !is_known && !part.has_unpublished_aside;
}

}  // namespace cairn
