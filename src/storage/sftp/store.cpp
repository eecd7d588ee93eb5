// A server's folders as a store:
//
//  1. A name is a path below the login folder, or below another folder. A name that begins with
//     "%2F" starts at the root, as RFC 1738 defines it for FTP.
//  2. Writing makes the folders that it needs. These folders stay.
//  3. A pointer is a file NAME.symlink, as in Composer's stores, whose text is the name of another
//     file. Symbolic links, which local runs leave, are read as pointers, too.
//  4. A folder that is removed gets a temporary name first. So the folder exists whole or not at
//     all.
#include <algorithm>
#include <map>

#include "cairn/error.h"

#include "io/bytes/source_part.h"
#include "io/durable/atomic_file.h"
#include "io/file.h"
#include "storage/local/links.h"
#include "storage/sftp/connection.h"
#include "storage/sftp/files.h"
#include "storage/sftp/source.h"
#include "storage/sftp/write.h"

namespace cairn::sftp {
namespace {

constexpr std::string_view kRootName = "%2F";
constexpr std::chrono::hours kForgotten{24};  // the writer of an older file is dead

using Time = std::chrono::system_clock::time_point;

Time time_of(const Attributes& attributes) {
  return Time(std::chrono::seconds(attributes.modified.value_or(0)));
}

bool is_pointer_name(const std::string& name) { return name.ends_with(kLinkFile); }

std::string pointer_name(const std::string& name) {
  return is_pointer_name(name) ? name : name + std::string(kLinkFile);
}

// SFTP reports nothing else that could differ: two files of one size in the same second have the
// same version.
std::string version_of(const Attributes& attributes) {
  return std::to_string(attributes.size.value_or(0)) + "-" +
         std::to_string(attributes.modified.value_or(0));
}

ObjectInfo info_of_file(const Attributes& attributes) {
  if (attributes.is_folder()) return {.type = ObjectInfo::Type::kFolder};
  const auto type = attributes.is_file() ? ObjectInfo::Type::kObject : ObjectInfo::Type::kOther;
  return {.type = type,
          .size = attributes.size.value_or(0),
          .modified = time_of(attributes),
          .version = version_of(attributes)};
}

ListedName listed_name(const Entry& entry) {
  ObjectInfo info = info_of_file(entry.attributes);
  std::string name = entry.name;
  const bool is_text = is_pointer_name(name) && name.size() > kLinkFile.size() &&
                       entry.attributes.is_file() && info.size <= kLongestLink;
  if (is_text) name.resize(name.size() - kLinkFile.size());
  if (is_text || entry.attributes.is_link()) info.type = ObjectInfo::Type::kPointer;
  return {std::move(name), std::move(info)};
}

class SftpStore final : public ObjectStore {
 public:
  explicit SftpStore(Config config)
      : folder_(config.folder), connection_(std::make_shared<Connection>(std::move(config))) {}

  // Only the condition of a new name is checked atomically.
  StoreFeatures features() const override {
    return connection_->with([](Session& session) {
      return StoreFeatures{.versioned_writes = false,
                           .fenced_writes = session.has("hardlink@openssh.com"),
                           .fenced_pointers = false,
                           .whole_folders = false};
    });
  }
  std::string describe(const std::string& name) const override {
    return connection_->describe(own_name(name));
  }

  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    const std::string path = path_of(name);
    const auto there = attributes(path, follow);
    if (there && there->is_link()) return info_of_link(name);
    if (there && !is_pointer_name(name)) return info_of_file(*there);
    const auto text = attributes(pointer_name(path), /*follow=*/true);
    const auto pointer = text && text->is_file() ? read_text_pointer(name) : std::nullopt;
    if (!pointer) return std::nullopt;
    if (follow && pointer->is_broken()) return std::nullopt;
    if (follow) {
      const auto led_to = attributes(path_of(pointer->target), true);
      return led_to ? std::optional(info_of_file(*led_to)) : std::nullopt;
    }
    return ObjectInfo{.type = ObjectInfo::Type::kPointer,
                      .modified = time_of(*text),
                      .version = pointer->version};
  }

  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    std::shared_ptr<const ByteSource> source;
    if (!is_pointer_name(name)) source = open_file(connection_, path_of(name), describe(name));
    if (source != nullptr) return source;
    if (const auto pointer = read_text_pointer(name)) {
      if (pointer->is_broken()) throw NotFoundError(describe(name) + std::string(kNamesNothing));
      source = open_file(connection_, path_of(pointer->target), describe(pointer->target));
      if (source != nullptr) return source;
      throw NotFoundError(describe(name) + " points at " + describe(pointer->target) +
                          ", which is not there");
    }
    const auto there = attributes(path_of(name), true);
    if (!there) throw NotFoundError("there is no object " + describe(name));
    throw UsageError(describe(name) + (there->is_folder() ? " is a folder, not a file"
                                                          : " is a device or a pipe, not a file"));
  }

  ListPage list(const std::string& folder, const std::string& /*page*/) override {
    const std::string path = path_of(folder);
    const auto entries =
        connection_->with([&](Session& session) { return sftp::list(session, path); });
    if (!entries) {
      if (attributes(path, true)) throw UsageError(describe(folder) + " is not a folder");
      throw NotFoundError("there is no folder " + describe(folder));
    }
    // A link and a text file of the same name become one name.
    std::map<std::string, ListedName> names;
    for (const Entry& entry : *entries) {
      if (is_temporary_name(entry.name)) continue;
      ListedName listed = listed_name(entry);
      names.try_emplace(listed.name, listed);
    }
    ListPage page;
    for (auto& [name, listed] : names)
      page.names.push_back(std::move(listed));
    return page;
  }

  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& options) override {
    if (options.condition.when == WriteCondition::If::kVersion) {
      throw UnsupportedError(describe(name) +
                             ": SFTP cannot check the version of the replaced file");
    }
    return write_file(connection_, path_to_write(name), describe(name), options);
  }

  bool remove(const std::string& name) override {
    const std::string path = path_of(name);
    std::string asked;  // removed by an attempt whose answer may be lost
    return connection_->with([&](Session& session) {
      if (!asked.empty()) return sftp::remove(session, asked), true;
      auto there = sftp::stat(session, path, /*follow=*/false);
      if (there && there->is_folder()) {
        throw UsageError("cannot remove " + describe(name) + " as a file: it is a folder");
      }
      const std::string file = there ? path : pointer_name(path);
      if (!there) there = sftp::stat(session, file, /*follow=*/false);
      if (!there) return false;
      asked = file;
      return sftp::remove(session, file);
    });
  }

  bool remove_folder(const std::string& name) override {
    const std::string path = path_to_write(name);
    const std::string temporary = temporary_name(path);
    bool was_asked = false;  // whether the answer to an earlier attempt may be lost
    return connection_->with([&](Session& session) {
      if (was_asked && sftp::stat(session, temporary, /*follow=*/false)) {
        remove_tree(session, temporary);
        return true;
      }
      const auto there = sftp::stat(session, path, /*follow=*/false);
      const bool is_other =
          there ? !there->is_folder() : sftp::stat(session, pointer_name(path), false).has_value();
      if (is_other) {
        throw UsageError("cannot remove " + describe(name) +
                         " as a folder: it is a file or a link");
      }
      if (!there) return was_asked;
      was_asked = true;
      check_done(session.ask(Request(Packet::kRename).text(path).text(temporary)),
                 "cannot remove " + describe(name));
      remove_tree(session, temporary);
      return true;
    });
  }

  void rename(const std::string& from, const std::string& to) override {
    const std::string source = path_of(from);
    const std::string target = path_to_write(to);
    std::optional<Attributes> moved;  // state of `from` before an attempt whose answer may be lost
    connection_->with([&](Session& session) {
      const auto there = sftp::stat(session, source, /*follow=*/false);
      if (!there && moved) {
        const auto now = sftp::stat(session, target, /*follow=*/false);
        if (now && version_of(*now) == version_of(*moved)) return;
      }
      if (!there) throw NotFoundError("there is no object " + describe(from));
      if (const auto other = sftp::stat(session, target); other && other->is_folder()) {
        throw UsageError("cannot write " + describe(to) + ": a folder has that name");
      }
      make_folders(session, parent_path(target));
      moved = there;
      replace(session, source, target);
    });
  }

  std::optional<Pointer> read_pointer(const std::string& name) override {
    const auto link = attributes(path_of(name), /*follow=*/false);
    return link && link->is_link() ? read_symbolic_link(name) : read_text_pointer(name);
  }

  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& expected) override {
    const auto now = expected ? read_pointer(name) : std::nullopt;
    if (expected && *expected != (now ? now->version : "")) {
      throw AlreadyExistsError(
          describe(name) + (now ? " points at " + describe(now->target) : std::string(" is gone")) +
          ": another program moved it");
    }
    const std::string text = own_name(target);
    const bool is_new = expected && expected->empty();
    const auto file =
        write_file(connection_, path_to_write(pointer_name(name)), describe(name),
                   {.condition = is_new ? WriteCondition::absent() : WriteCondition{}});
    file->write(as_bytes(text));
    file->commit();
    // A symbolic link may be a local run's: the link and the text file may disagree.
    connection_->with([&](Session& session) {
      const auto link = sftp::stat(session, path_of(name), /*follow=*/false);
      if (link && link->is_link()) sftp::remove(session, path_of(name));
    });
  }

  std::vector<std::string> remove_leftovers(const std::string& folder,
                                            const std::string& of) override {
    const std::string path = path_of(folder);
    return connection_->with([&](Session& session) {
      std::vector<std::string> removed;
      for (const Entry& entry : sftp::list(session, path).value_or(std::vector<Entry>())) {
        if (!is_forgotten(entry, of)) continue;
        const std::string left = join_path(path, entry.name);
        if (entry.attributes.is_folder()) {
          remove_tree(session, left);
        } else {
          sftp::remove(session, left);
        }
        removed.push_back(entry.name);
      }
      return removed;
    });
  }

 private:
  static bool is_forgotten(const Entry& entry, const std::string& of) {
    if (!is_temporary_name(entry.name) || !entry.attributes.modified) return false;
    if (std::chrono::system_clock::now() - time_of(entry.attributes) < kForgotten) return false;
    return of.empty() || temporary_path(of, temporary_suffix(entry.name)).name == entry.name;
  }

  // The name without slashes at its beginning and end.
  static std::string own_name(const std::string& name) {
    std::string own = normal_path("/" + name);
    own.erase(0, std::min(own.find_first_not_of('/'), own.size()));
    while (own.ends_with('/'))
      own.pop_back();
    return own;
  }

  std::string path_of(const std::string& name) const {
    std::string own = own_name(name);
    if (own.starts_with(kRootName)) return normal_path("/" + own.substr(kRootName.size()));
    if (folder_.empty()) return own.empty() ? "." : own;
    return own.empty() ? folder_ : join_path(folder_, own);
  }

  std::string path_to_write(const std::string& name) const {
    std::string path = path_of(name);
    if (own_name(name).empty() || path == "/") {
      throw UsageError("cannot write " + describe(name) + ": it is the whole store");
    }
    return path;
  }

  std::optional<Attributes> attributes(const std::string& path, bool follow) const {
    return connection_->with([&](Session& session) { return sftp::stat(session, path, follow); });
  }

  ObjectInfo info_of_link(const std::string& name) {
    const auto link = read_symbolic_link(name);
    return {.type = ObjectInfo::Type::kPointer, .version = link ? link->version : ""};
  }

  std::optional<Pointer> read_symbolic_link(const std::string& name) const {
    const std::string own = own_name(name);
    const std::string text =
        connection_->with([&](Session& session) { return read_link(session, path_of(name)); });
    const std::string target = text.starts_with('/') ? std::string(kRootName) + text.substr(1)
                                                     : join_path(parent_path(own), text);
    return Pointer{.target = own_name(target), .version = "link " + text};
  }

  std::optional<Pointer> read_text_pointer(const std::string& name) const {
    const auto file =
        open_file(connection_, pointer_name(path_of(name)), describe(pointer_name(name)));
    if (file == nullptr) return std::nullopt;
    const SharedBytes start = read_start(*file, kLongestLink + 1);
    const std::string target = named_by_link(as_text(start.view));
    return Pointer{.target = target, .version = target.empty() ? "broken" : "text " + target};
  }

  const std::string folder_;
  std::shared_ptr<Connection> connection_;
};

}  // namespace

std::shared_ptr<ObjectStore> make_sftp_store(Config config) {
  return std::make_shared<SftpStore>(std::move(config));
}

}  // namespace cairn::sftp
