#include "storage/place.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>
#include <string_view>

#include "cairn/error.h"
#include "cairn/storage/stores.h"

#include "core/text/printable.h"
#include "io/uri.h"
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

// A registered store may leave retries of reads to cairn.
const RetryPolicy kReadsOfOthers = {.attempts = 5, .first_pause = std::chrono::milliseconds(100)};

// All schemes that have a store.
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
  // Whether the program registered the scheme.
  bool is_registered(const std::string& scheme) {
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

constexpr std::string_view kSsh = "sftp";

bool is_of_web(const Uri& uri) { return uri.scheme == "http" || uri.scheme == "https"; }

// Names of buckets have no colon. A name with a colon was meant to be a key and its secret, and the
// secret may contain a slash.
bool is_of_buckets(const Uri& uri) {
  constexpr std::array<std::string_view, 5> kOfBuckets = {"azure", "gs", "libcloud", "oci", "s3"};
  return std::ranges::find(kOfBuckets, uri.scheme) != kOfBuckets.end();
}

// Whether a password stands before a host, or before what is meant to be a bucket's name.
bool has_password(const Uri& uri) {
  const std::size_t colon = uri.authority.find(':');
  if (colon == std::string::npos) return false;
  const std::size_t at = uri.authority.rfind('@');
  return is_of_buckets(uri) || (at != std::string::npos && colon < at);
}

// A slash in a password ends the part before the host: "user:pa/ss@host" gives the authority
// "user:pa", and "user:p@ss/word@host" gives the host "ss". Only a port may follow a host's colon.
// A password of digits cannot be distinguished from a port.
bool has_cut_password(const Uri& uri) {
  const std::size_t at = uri.authority.rfind('@');
  const std::size_t mark = uri.authority.find_first_of("?#");
  if (at != std::string::npos) {
    if (uri.authority.find(':') > at || mark != std::string::npos) return false;
    return uri.path.substr(0, uri.path.find_first_of("?#")).find('@') != std::string::npos;
  }
  const std::string host = uri.authority.substr(0, mark);
  const std::size_t address = host.starts_with('[') ? host.find(']') : 0;
  const std::size_t colon = host.find(':', std::min(address, host.size()));
  if (colon == std::string::npos) return false;
  const bool is_empty = colon + 1 == host.size() && mark != std::string::npos;
  if (is_empty) return uri.path.find('@') != std::string::npos;
  return host.find_first_not_of("0123456789", colon + 1) != std::string::npos;
}

// Whether a key has an empty part, "." or "..". Other programs can reach such a key; cairn would
// take it for the key without that part.
bool has_strange_key(const std::string& place) {
  const std::size_t slash = place.find('/', place.find("://") + 3);
  if (slash == std::string::npos) return false;
  std::string key = place.substr(slash);
  if (!key.ends_with('/')) key += '/';
  return key.find("//") != std::string::npos || key.find("/./") != std::string::npos ||
         key.find("/../") != std::string::npos;
}

}  // namespace

void register_object_store(const std::string& scheme, ObjectStoreFactory factory) {
  if (!is_scheme(scheme) || scheme_in(scheme + "://x") != scheme || factory == nullptr) {
    throw UsageError("\"" + scheme +
                     "\" cannot be registered: a store needs a scheme in lower case, like \"s3\", "
                     "of at least two letters, and a factory");
  }
  schemes().add(scheme, [factory = std::move(factory)](const std::string& root) {
    auto store = factory(root);
    const bool is_far = store != nullptr && store->may_be_far();
    return is_far ? retrying_store(store, kReadsOfOthers) : store;
  });
}

std::vector<std::string> object_store_schemes() { return schemes().names(); }

std::string shown_place(const std::string& place) {
  const Uri uri = split_uri(place);
  // An unknown scheme may be a misspelt one. In names of other stores a question mark is part of
  // the name.
  const bool is_known = !is_of_web(uri) && schemes().find(uri.scheme) != nullptr;
  const bool is_of_hosts = !is_known || uri.scheme == kSsh;
  const bool is_cut = is_of_hosts && has_cut_password(uri);
  if (uri.scheme.empty() || (is_known && !has_password(uri) && !is_cut)) return place;
  const std::string rest = (uri.authority.empty() ? "" : uri.authority + "/") + uri.path;
  const bool may_have_slash = is_cut || (is_of_buckets(uri) && has_password(uri));
  const std::size_t at =
      may_have_slash ? rest.rfind('@') : rest.substr(0, rest.find('/')).rfind('@');
  if (may_have_slash && at == std::string::npos) return uri.scheme + "://...";
  const std::size_t host = at + 1;  // 0 without a user
  const std::size_t mark = std::min(rest.find_first_of("?#"), rest.size());
  // Everything before `host` is dropped: after a password, or an "@" in the query, the rest is not
  // certain.
  return uri.scheme + "://" + (mark < host ? "" : rest.substr(host, mark - host)) +
         (mark == rest.size() ? "" : "?...");
}

std::string place_problem(const std::string& place) {
  const Uri uri = split_uri(place);
  const std::string& scheme = uri.scheme;
  if (scheme.empty()) return {};
  if (schemes().find(scheme) != nullptr) {
    if (schemes().is_registered(scheme)) return {};
    if ((is_of_web(uri) || scheme == kSsh) && has_cut_password(uri)) {
      return printable_line(shown_place(place)) +
             ": it is unclear where the password ends, or the host's port is no number; in a " +
             "password write %2F for a slash, %40 for an @ (after a password also in the name), " +
             "%3F for a ? and %23 for a #";
    }
    if (is_of_web(uri)) return {};
    if (is_of_buckets(uri) && !uri.has_authority) {
      return scheme + ": needs two slashes before the name of a bucket or container: " + scheme +
             "://NAME/key";
    }
    if (is_of_buckets(uri) && has_strange_key(place)) {
      return printable_line(shown_place(place)) +
             ": in a bucket a//b, a/./b and a/../b are other keys than a/b and b, and cairn "
             "cannot reach them; write the key without empty parts and dots";
    }
    const std::size_t slash = place.find('/', place.find("://") + 3);
    if (scheme == kSsh && slash != std::string::npos && place.compare(slash, 2, "//") == 0) {
      return printable_line(shown_place(place)) +
             ": names cannot begin with two slashes here; for the absolute path /data/run write "
             "sftp://host/%2Fdata/run";
    }
    if (!has_password(uri) || scheme == kSsh) return {};  // the sftp store reports more
    return printable_line(shown_place(place)) +
           ": a password in a place is written down wherever places are; pass the keys to this "
           "store as docs/storage.md says";
  }
  std::string known;
  for (const std::string& name : object_store_schemes()) {
    known += (known.empty() ? "" : ", ") + name + "://";
  }
  return printable_line(shown_place(place)) + ": there is no store for " + printable_line(scheme) +
         "://, only for " + known +
         "; pass a store of your own, or register one (register_object_store())";
}

std::string writing_problem(const std::string& place) {
  const std::string scheme = scheme_in(place);
  const bool is_for_loading = scheme == "http" || scheme == "https";
  if ((!is_for_loading && scheme != "wandb") || schemes().is_registered(scheme)) {
    return place_problem(place);
  }
  if (is_for_loading) {
    return scheme +
           "://: checkpoints can only be loaded from there, not written; give another place";
  }
  return "wandb://: artifacts have flat names, and are no folder to save in; give the store of "
         "wandb_store() to a RemoteUploaderDownloader, or another place";
}

void check_is_name(const std::string& name, const std::string& called) {
  if (scheme_in(name).empty()) return;
  const std::string problem = place_problem(name);
  if (!problem.empty()) throw UnsupportedError(problem);
  throw UsageError(called + " " + printable_line(shown_place(name)) +
                   " is a name in the folder, and must not be a place of its own; give the folder "
                   "as a place, and below it the name");
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
