// A bucket as a store. Folders, pointers and their removal are built from objects:
//
//  1. A name is a key below the prefix. A folder exists as long as a key begins with its name and a
//     slash.
//  2. A pointer is Composer's: an object NAME.symlink whose text is the name of another object. One
//     request moves it, under a condition. Readers see the old text or the new one.
//  3. A folder is removed object by object. The files that make it a checkpoint (.metadata, an
//     index) are removed first: without them no reader takes the other files for a checkpoint.
#include "storage/remote/store.h"

#include <algorithm>
#include <utility>

#include "cairn/error.h"

#include "io/file.h"
#include "storage/local/links.h"
#include "storage/object_folder.h"
#include "storage/pages.h"
#include "storage/remote/source.h"
#include "storage/remote/write.h"

namespace cairn {
namespace {

constexpr std::chrono::hours kForgotten{24};  // the writer of an older upload is dead
constexpr std::size_t kRemovalsAtOnce = 16;

struct Linked {
  std::string target;  // a name; empty: the text names nothing
  std::string version;
  NetTime modified = {};
};

bool is_pointer_key(const std::string& key) { return key.ends_with(kLinkFile); }

class RemoteStore final : public ObjectStore {
 public:
  RemoteStore(std::shared_ptr<RemoteContainer> container, const std::string& prefix)
      : prefix_(normal_path("/" + prefix + "/").substr(1)), container_(std::move(container)) {
    if (prefix_ == "/") prefix_.clear();
  }

  StoreFeatures features() const override { return container_->features(prefix_); }
  std::string describe(const std::string& name) const override {
    return remote().describe(key_of(name));
  }

  std::optional<ObjectInfo> stat(const std::string& name, bool follow) override {
    const std::string key = key_of(name);
    if (key.size() <= prefix_.size()) return ObjectInfo{.type = ObjectInfo::Type::kFolder};
    if (!is_pointer_key(key)) {
      if (const auto there = container_->head(key)) return info_of_object(*there);
    }
    if (const auto link = read_link(key)) {
      if (!follow) {
        return ObjectInfo{.type = ObjectInfo::Type::kPointer,
                          .modified = link->modified,
                          .version = link->version};
      }
      if (link->target.empty()) return std::nullopt;
      const auto there = container_->head(key_of(link->target));
      return there ? std::optional(info_of_object(*there)) : std::nullopt;
    }
    if (container_->has_below(key + "/")) return ObjectInfo{.type = ObjectInfo::Type::kFolder};
    return std::nullopt;
  }

  std::shared_ptr<const ByteSource> open(const std::string& name) override {
    const std::string key = key_of(name);
    std::shared_ptr<const ByteSource> source;
    if (key.size() > prefix_.size()) {
      if (!is_pointer_key(key)) source = open_object(container_->remote(), key);
      if (source != nullptr) return source;
      if (const auto link = read_link(key)) {
        if (link->target.empty()) throw NotFoundError(describe(name) + std::string(kNamesNothing));
        source = open_object(container_->remote(), key_of(link->target));
        if (source != nullptr) return source;
        throw NotFoundError(describe(name) + " points at " + describe(link->target) +
                            ", which is not there");
      }
    }
    if (key.size() <= prefix_.size() || container_->has_below(key + "/")) {
      throw UsageError(describe(name) + " is a folder, not a file");
    }
    throw NotFoundError("there is no object " + describe(name));
  }

  ListPage list(const std::string& folder, const std::string& page) override {
    const std::string key = key_of(folder);
    const std::string prefix = key.size() <= prefix_.size() ? prefix_ : key + "/";
    const RemoteList answer = container_->list({.prefix = prefix, .delimiter = "/", .page = page});
    const bool is_empty = answer.objects.empty() && answer.prefixes.empty();
    if (is_empty && page.empty() && prefix != prefix_) {
      if (container_->head(key)) throw UsageError(describe(folder) + " is not a folder");
      throw NotFoundError("there is no folder " + describe(folder));
    }
    ListPage listed{.names = {}, .next = answer.next};
    for (const RemoteList::Object& object : answer.objects) {
      if (object.key.size() > prefix.size()) {
        listed.names.push_back(listed_name(object, prefix.size()));
      }
    }
    for (const std::string& below : answer.prefixes) {
      listed.names.push_back({below.substr(prefix.size(), below.size() - prefix.size() - 1),
                              ObjectInfo{.type = ObjectInfo::Type::kFolder}});
    }
    return listed;
  }

  std::unique_ptr<ObjectWrite> begin(const std::string& name,
                                     const BeginOptions& options) override {
    if (is_one_request(key_of(name), options))
      return write_object(container_, key_of(name), options);
    const std::string key = key_to_write(name);
    check_is_known(name, options.condition);
    if (options.condition.when != WriteCondition::If::kAlways) {
      container_->check_condition(key, options.condition);
    }
    return write_object(container_, key, options);
  }

  bool remove(const std::string& name) override {
    const std::string key = key_of(name);
    if (key.size() > prefix_.size()) {
      for (const std::string& candidate : {key, pointer_key(key)}) {
        if (!container_->head(candidate)) continue;
        container_->remove(candidate);
        return true;
      }
    }
    if (key.size() <= prefix_.size() || container_->has_below(key + "/")) {
      throw UsageError("cannot remove " + describe(name) + " as a file: it is a folder");
    }
    return false;
  }

  bool remove_folder(const std::string& name) override {
    const std::string key = key_of(name);
    if (key.size() <= prefix_.size()) {
      throw UsageError("cannot remove " + describe(name) + ": it is the whole store");
    }
    std::vector<std::string> keys = keys_below(key + "/");
    if (keys.empty()) {
      if (container_->head(key) || container_->head(pointer_key(key))) {
        throw UsageError("cannot remove " + describe(name) +
                         " as a folder: it is a file or a link");
      }
      return false;
    }
    const auto others = std::stable_partition(keys.begin(), keys.end(), [](const std::string& k) {
      return is_folder_marker(base_name(k));
    });
    remove_all({keys.begin(), others});
    remove_all({others, keys.end()});
    return true;
  }

  void copy(const std::string& from, const std::string& to, const WriteCondition& condition,
            const std::string& from_version) override {
    check_is_known(to, condition);
    const auto copied = object_of(from);
    const auto through_here = [&] { ObjectStore::copy(from, to, condition, from_version); };
    if (!copied) return through_here();  // throws the error
    const auto& [key, head] = *copied;
    if (key == key_of(to)) return;
    if (!from_version.empty() && head.version != from_version) {
      throw StorageError(describe(from) + " was replaced; nothing was written. Try again", 0,
                         /*retryable=*/false);
    }
    const bool is_done = container_->copy(
        {.from = key, .to = key_to_write(to), .source = head, .condition = condition});
    if (!is_done) through_here();
  }

  void rename(const std::string& from, const std::string& to) override {
    const std::string key = key_of(from);
    if (!container_->head(key)) throw NotFoundError("there is no object " + describe(from));
    if (key == key_of(to)) return;
    copy(from, to, {}, {});
    container_->remove(key);
  }

  std::optional<Pointer> read_pointer(const std::string& name) override {
    const auto link = read_link(key_of(name));
    if (!link) return std::nullopt;
    return Pointer{.target = link->target, .version = link->version};
  }

  void move_pointer(const std::string& name, const std::string& target,
                    const std::optional<std::string>& expected) override {
    move_pointer_versioned(name, target, expected);
  }

  std::string move_pointer_versioned(const std::string& name, const std::string& target,
                                     const std::optional<std::string>& expected) override {
    const std::string key = pointer_key(key_of(name));
    const auto text = std::make_shared<const std::string>(key_of(target).substr(prefix_.size()));
    WriteCondition condition;
    if (expected) {
      condition =
          expected->empty() ? WriteCondition::absent() : WriteCondition::of_version(*expected);
    }
    const SharedBytes bytes = {as_bytes(*text), text};
    return container_->put({.key = key, .bytes = bytes, .condition = condition}).version;
  }

  std::vector<std::string> remove_leftovers(const std::string& folder,
                                            const std::string& of) override {
    const std::string key = key_of(folder);
    const std::string below = key.size() <= prefix_.size() ? prefix_ : key + "/";
    std::vector<std::string> removed;
    for (const RemoteUpload& upload : abandoned_uploads(below + of)) {
      const std::string name = upload.key.substr(below.size());
      const bool is_meant = of.empty() ? name.find('/') == std::string::npos
                                       : name == of || name.starts_with(of + "/");
      if (!is_meant) continue;
      const HttpResponse response = remote().send(container_->abort_request(upload));
      if (response.status < 300) removed.push_back(name);
    }
    return removed;
  }

 private:
  Remote& remote() const { return *container_->remote(); }

  std::string key_of(const std::string& name) const {
    std::string key = normal_path("/" + name);
    key.erase(0, std::min(key.find_first_not_of('/'), key.size()));
    while (key.ends_with('/'))
      key.pop_back();
    return prefix_ + key;
  }

  // A small object with a new name takes one request: the server itself checks that the name is
  // free. Before other writes begin() makes two requests: one looks for an object, so that no large
  // upload is in vain, and one looks for a folder of that name. If a new object gets the name of a
  // folder, the folder stays readable.
  bool is_one_request(const std::string& key, const BeginOptions& options) const {
    return key.size() > prefix_.size() && options.condition.when == WriteCondition::If::kAbsent &&
           options.expected_bytes > 0 && options.expected_bytes <= remote().settings().part_bytes &&
           !container_->condition_headers(key, options.condition).empty();
  }

  // The key for a new object. Throws if a folder has the name.
  std::string key_to_write(const std::string& name) const {
    std::string key = key_of(name);
    if (key.size() <= prefix_.size() || container_->has_below(key + "/")) {
      throw UsageError("cannot write " + describe(name) + ": a folder has that name");
    }
    return key;
  }

  void check_is_known(const std::string& name, const WriteCondition& condition) const {
    const bool is_version = condition.when == WriteCondition::If::kVersion;
    if (!is_version || !container_->condition_headers(key_of(name), condition).empty()) return;
    throw UnsupportedError(describe(name) +
                           ": this server cannot check the version of the replaced object");
  }

  // The key and the state of an object, or of the object that a pointer names. nullopt: no object.
  std::optional<std::pair<std::string, RemoteHead>> object_of(const std::string& name) const {
    std::string key = key_of(name);
    if (key.size() <= prefix_.size()) return std::nullopt;
    auto there = is_pointer_key(key) ? std::nullopt : container_->head(key);
    if (!there) {
      const auto link = read_link(key);
      if (!link || link->target.empty()) return std::nullopt;
      key = key_of(link->target);
      there = container_->head(key);
    }
    if (!there) return std::nullopt;
    return std::pair(std::move(key), *std::move(there));
  }

  static std::string pointer_key(const std::string& key) {
    return is_pointer_key(key) ? key : key + std::string(kLinkFile);
  }

  static ListedName listed_name(const RemoteList::Object& object, std::size_t prefix) {
    ObjectInfo info = {.size = object.size, .modified = object.modified, .version = object.version};
    std::string name = object.key.substr(prefix);
    if (is_pointer_key(name) && name.size() > kLinkFile.size() && info.size <= kLongestLink) {
      name.resize(name.size() - kLinkFile.size());
      info.type = ObjectInfo::Type::kPointer;
    }
    return {std::move(name), std::move(info)};
  }

  std::optional<Linked> read_link(const std::string& of) const {
    const std::string key = pointer_key(of);
    const HttpResponse response = remote().send(
        {.key = key, .headers = {{"range", "bytes=0-" + std::to_string(kLongestLink)}}});
    // Other 404s concern the bucket or missing rights: the pointer may exist.
    if (remote().is_missing(response)) return std::nullopt;
    if (response.status == 416) {  // An empty object has no first byte.
      const auto empty = container_->head(key);
      if (!empty) return std::nullopt;
      return Linked{.target = "", .version = empty->version, .modified = empty->modified};
    }
    remote().check(response, "reading", key);
    const RemoteHead head = container_->head_in(response);
    return Linked{
        .target = named_by_link(response.body), .version = head.version, .modified = head.modified};
  }

  std::vector<std::string> keys_below(const std::string& prefix) const {
    std::vector<std::string> keys;
    RemoteList answer;
    Pages pages(remote().describe(prefix));
    do {
      answer = container_->list({.prefix = prefix, .page = answer.next});
      for (RemoteList::Object& object : answer.objects)
        keys.push_back(std::move(object.key));
    } while (pages.advance(answer.next));
    return keys;
  }

  void remove_all(const std::vector<std::string>& keys) const {
    for (std::size_t begin = 0; begin < keys.size(); begin += kRemovalsAtOnce) {
      const std::size_t end = std::min(keys.size(), begin + kRemovalsAtOnce);
      std::vector<std::unique_ptr<RemoteCall>> calls;
      for (std::size_t i = begin; i < end; ++i) {
        calls.push_back(std::make_unique<RemoteCall>(
            remote(), RemoteRequest{.method = "DELETE", .key = keys[i]}));
      }
      for (std::size_t i = begin; i < end; ++i) {
        const HttpResponse response = calls[i - begin]->wait();
        if (!remote().is_missing(response)) remote().check(response, "removing", keys[i]);
      }
    }
  }

  std::vector<RemoteUpload> abandoned_uploads(const std::string& prefix) const {
    std::vector<RemoteUpload> forgotten = container_->uploads(prefix);
    // An upload of unknown age may belong to a living job. And some servers ignore the prefix.
    std::erase_if(forgotten, [&](const RemoteUpload& upload) {
      return !upload.key.starts_with(prefix) || !upload.begun ||
             remote().now() - *upload.begun <= kForgotten;
    });
    return forgotten;
  }

  std::string prefix_;  // "" or with a slash at the end
  std::shared_ptr<RemoteContainer> container_;
};

}  // namespace

std::shared_ptr<ObjectStore> remote_store(std::shared_ptr<RemoteContainer> container,
                                          const std::string& prefix) {
  return std::make_shared<RemoteStore>(std::move(container), prefix);
}

}  // namespace cairn
