#include "storage/place.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>
#include <string_view>

#include "cairn/error.h"
#include "cairn/storage/stores.h"

#include "core/printable.h"
#include "io/uri.h"
#include "storage/local_store.h"
#include "storage/network_stores.h"
#include "storage/retrying_store.h"
#include "storage/uri_store.h"

namespace cairn {
namespace {

std::shared_ptr<ObjectStore> kept_memory_store(const std::string& root) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<ObjectStore>> stores;
  const std::scoped_lock lock(mutex);
  auto& store = stores[root];
  if (store == nullptr) store = memory_store();
  return store;
}

// "file:///a/b" is the path "/a/b".
std::shared_ptr<ObjectStore> files_of(const std::string& root) {
  if (root == "file://" || root == "file:" || root == "file://localhost") return local_store();
  throw UsageError(root +
                   "/...: a file:// place has three slashes and then a path from the root: "
                   "file:///a/b");
}

// A store of somebody else's may leave it to us to ask again.
const RetryPolicy kReadsOfOthers = {.attempts = 5, .first_pause = std::chrono::milliseconds(100)};

// Everything that there is a store for.
class Schemes {
 public:
  Schemes() : factories_(network_stores()) {
    factories_["file"] = files_of;
    factories_["memory"] = kept_memory_store;
  }

  void add(const std::string& scheme, ObjectStoreFactory factory) {
    const std::scoped_lock lock(mutex_);
    factories_[scheme] = std::move(factory);
    own_.insert(scheme);
  }
  // Whether the program has registered it.
  bool is_own(const std::string& scheme) {
    const std::scoped_lock lock(mutex_);
    return own_.contains(scheme);
  }
  ObjectStoreFactory find(const std::string& scheme) {
    const std::scoped_lock lock(mutex_);
    const auto found = factories_.find(scheme);
    return found == factories_.end() ? nullptr : found->second;
  }
  std::vector<std::string> names() {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, factory] : factories_)
      names.push_back(name);
    return names;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, ObjectStoreFactory> factories_;
  std::set<std::string> own_;
};

Schemes& schemes() {
  static Schemes all;
  return all;
}

std::string scheme_in(const std::string& place) { return split_uri(place).scheme; }

bool is_of_web(const Uri& uri) { return uri.scheme == "http" || uri.scheme == "https"; }

// Names of buckets have no colon: what has one was meant to be a key and its secret, which may hold
// a slash.
bool is_of_buckets(const Uri& uri) {
  constexpr std::array<std::string_view, 5> kOfBuckets = {"azure", "gs", "libcloud", "oci", "s3"};
  return std::ranges::find(kOfBuckets, uri.scheme) != kOfBuckets.end();
}

// In front of a host, or of what is meant to be a bucket's name.
bool has_password(const Uri& uri) {
  const std::size_t colon = uri.authority.find(':');
  if (colon == std::string::npos) return false;
  const std::size_t at = uri.authority.rfind('@');
  return is_of_buckets(uri) || (at != std::string::npos && colon < at);
}

}  // namespace

void register_object_store(const std::string& scheme, ObjectStoreFactory factory) {
  if (scheme_in(scheme + "://x") != scheme || factory == nullptr) {
    throw UsageError("\"" + scheme +
                     "\" cannot be registered: a store needs a scheme in lower case, as \"s3\", of "
                     "at least two letters, and a factory");
  }
  schemes().add(scheme, [factory = std::move(factory)](const std::string& root) {
    auto store = factory(root);
    return store == nullptr || is_local(*store) ? store : retrying_store(store, kReadsOfOthers);
  });
}

std::vector<std::string> object_store_schemes() { return schemes().names(); }

std::string shown_place(const std::string& place) {
  const Uri uri = split_uri(place);
  // What there is no store for may be one of those, misspelt. In names of other stores a question
  // mark is one.
  const bool is_known = !is_of_web(uri) && schemes().find(uri.scheme) != nullptr;
  if (uri.scheme.empty() || (is_known && !has_password(uri))) return place;
  const std::string rest = (uri.authority.empty() ? "" : uri.authority + "/") + uri.path;
  const bool is_bucket = is_of_buckets(uri) && has_password(uri);  // which may have a slash
  const std::size_t at = is_bucket ? rest.rfind('@') : rest.substr(0, rest.find('/')).rfind('@');
  if (is_bucket && at == std::string::npos) return uri.scheme + "://...";
  const std::size_t host = at + 1;  // 0 without a user
  const std::size_t mark = std::min(rest.find_first_of("?#"), rest.size());
  // In front of `host`: of a password, or an "@" of the query: nothing behind it can be told.
  return uri.scheme + "://" + (mark < host ? "" : rest.substr(host, mark - host)) +
         (mark == rest.size() ? "" : "?...");
}

std::string place_problem(const std::string& place) {
  const Uri uri = split_uri(place);
  const std::string& scheme = uri.scheme;
  if (scheme.empty()) return {};
  if (schemes().find(scheme) != nullptr) {
    if (is_of_web(uri) || schemes().is_own(scheme)) return {};
    const std::size_t behind = place.find('/', place.find("://") + 3);
    if (scheme == "sftp" && behind != std::string::npos && place.compare(behind, 2, "//") == 0) {
      return printable_line(shown_place(place)) +
             ": names do not begin with two slashes here; what is below the root is written "
             "sftp://host/%2Fdata/run, for /data/run";
    }
    if (!has_password(uri) || scheme == "sftp") return {};  // who knows more to say of it
    return printable_line(shown_place(place)) +
           ": a password in a place is written down wherever places are; give keys as this store "
           "finds them (docs/storage.md)";
  }
  std::string known;
  for (const std::string& name : object_store_schemes()) {
    known += (known.empty() ? "" : ", ") + name + "://";
  }
  return printable_line(shown_place(place)) + ": there is no store for " + scheme +
         "://, but for " + known +
         "; give it a store of your own, or register one (register_object_store())";
}

std::string writing_problem(const std::string& place) {
  const std::string scheme = scheme_in(place);
  const bool is_for_loading = scheme == "http" || scheme == "https";
  if ((!is_for_loading && scheme != "wandb") || schemes().is_own(scheme)) {
    return place_problem(place);
  }
  if (is_for_loading) {
    return scheme + "://: checkpoints are loaded from there, and not written; give another place";
  }
  return "wandb://: artifacts have flat names, and are no folder to save in; give the store of "
         "wandb_store() to a RemoteUploaderDownloader, or another place";
}

std::shared_ptr<ObjectStore> object_store_of(const std::string& place) {
  const std::string scheme = scheme_in(place);
  if (scheme.empty()) return local_store();
  const ObjectStoreFactory factory = schemes().find(scheme);
  if (factory == nullptr) throw UnsupportedError(place_problem(place));
  const Uri uri = split_uri(place);
  const std::string problem = place_problem(place);
  if (!problem.empty()) throw UsageError(problem);
  return uri_store(
      uri.root(), factory(uri.root()),
      {.before = scheme == "file" ? "/" : "", .shown = shown_place(place), .meant = uri.path});
}

std::shared_ptr<ObjectStore> store_of(const std::string& place,
                                      const std::shared_ptr<ObjectStore>& given) {
  return given != nullptr ? given : object_store_of(place);
}

}  // namespace cairn
