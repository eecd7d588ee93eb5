// A bucket, or whatever a protocol calls what objects are in: what the store, its writers and its
// readers ask of it. The algorithms (looking before a write and behind it, whole lists) are here,
// the protocol's own requests in what derives from it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

#include "storage/remote/remote.h"

namespace cairn {

// What the server says of an object.
struct RemoteHead {
  std::uint64_t size = 0;
  std::string version;  // an ETag, a generation: what conditions are about
  NetTime modified = {};
  std::string write_id = {};  // of the cairn that wrote it
  std::string checksum = {};  // of all of it; empty where the server tells none
};

ObjectInfo info_of_object(const RemoteHead& head);

struct RemoteList {
  struct Object {
    std::string key;
    std::uint64_t size = 0;
    std::string version = {};
    NetTime modified = {};
  };
  std::vector<Object> objects = {};
  std::vector<std::string> prefixes = {};  // with the slash
  bool is_truncated = false;               // there is a next page
  std::string next = {};                   // what asks for it
};

struct ListQuery {
  std::string prefix = {};
  std::string delimiter = {};  // "/" or ""
  std::string page = {};       // RemoteList::next of the page before; empty: the first
  int most = 0;                // objects; 0: as many as the server gives
};

// An object that is written with one request.
struct RemotePut {
  std::string key;
  SharedBytes bytes = {};
  WriteCondition condition = {};
};

// An object that the server is to copy within the container.
struct RemoteCopy {
  std::string from;
  std::string to;
  RemoteHead source = {};  // of `from`: no other version is copied
  WriteCondition condition = {};
};

// An upload that was begun and not completed.
struct RemoteUpload {
  std::string key;
  std::string id;
  std::optional<NetTime> begun = std::nullopt;  // nullopt: the server does not say it readably
};

// The object behind a write: what it must be. `version` and `checksum` are compared unless they are
// empty.
struct SentObject {
  std::string key;
  std::uint64_t size = 0;
  std::string version = {};
  std::string checksum = {};
  std::string write_id = {};
  // What had the name before; without a write id: it is not known.
  std::optional<RemoteHead> before = std::nullopt;
};

// An object in parts, whose upload was begun. One thread at a time.
class PartedUpload {
 public:
  struct Completed {
    HttpResponse response;  // of the request that made the object of its parts
    bool is_done = false;
    std::string version = {};   // of the object; empty where the server does not say it
    std::string checksum = {};  // that it must have; empty where the server keeps none
  };

  virtual ~PartedUpload() = default;
  // Bytes of the next part, in order, while the processor has them in its cache: for a checksum,
  // which would read the whole part again. All of a part, or nothing of it.
  virtual void gathering(ByteView /*bytes*/) {}
  // The request that sends a part. Called in order, from 1 on; several are under way at once.
  virtual RemoteRequest part(int number, const SharedBytes& bytes) = 0;
  // Its answer, which is 2xx; in the same order. StorageError when it is not what was sent.
  virtual void sent(int number, const HttpResponse& response) = 0;
  // Makes an object of all of them, under the condition that these headers say.
  virtual Completed complete(const std::vector<HttpHeader>& condition) = 0;
  // Gives it up; nullopt where the server forgets it by itself.
  virtual std::optional<RemoteRequest> abort() const = 0;
};

// Safe from several threads. Every call throws StorageError as Remote does.
class RemoteContainer {
 public:
  explicit RemoteContainer(std::shared_ptr<Remote> remote) : remote_(std::move(remote)) {}
  virtual ~RemoteContainer() = default;
  RemoteContainer(const RemoteContainer&) = delete;
  RemoteContainer& operator=(const RemoteContainer&) = delete;

  const std::shared_ptr<Remote>& remote() const { return remote_; }

  // nullopt when there is none of that key.
  std::optional<RemoteHead> head(const std::string& key);
  // One page, whole, of nothing but what begins with the query's prefix; an empty one is the last.
  RemoteList list(const ListQuery& query);
  bool has_below(const std::string& prefix);
  // Also one that is not there.
  void remove(const std::string& key);
  // Writes an object, and looks afterwards whether the server has what was sent; not where it is a
  // new name and the answer has the checksum of what was sent. Returns what verify() does.
  // AlreadyExistsError when the condition does not hold.
  RemoteHead put(const RemotePut& put);
  // Lets the server copy an object, and looks afterwards whether it has. False when the server
  // cannot copy this one: nothing was done. AlreadyExistsError when the condition does not hold.
  bool copy(const RemoteCopy& copy);
  // Gives an upload up, also when the caller has no time left.
  void abort(const PartedUpload& upload) noexcept;
  // What is there now. AlreadyExistsError unless the condition holds.
  std::optional<RemoteHead> check_condition(const std::string& key,
                                            const WriteCondition& condition);
  // The look after a write: StorageError when the object is not what was sent. Returns what the
  // server said of it. Without a version if another write's object is there by now, which came
  // right after: a late attempt of this job, or another job's.
  RemoteHead verify(const SentObject& sent);

  // --- The protocol's own ---

  // Of objects below `folder` ("" or with a slash at its end).
  virtual StoreFeatures features(const std::string& folder) = 0;
  // The headers of a condition where the server checks it, none otherwise; of a PUT, and of the
  // request that completes an upload.
  virtual std::vector<HttpHeader> condition_headers(const std::string& key,
                                                    const WriteCondition& condition) = 0;
  virtual std::vector<HttpHeader> upload_condition_headers(const std::string& key,
                                                           const WriteCondition& condition) {
    return condition_headers(key, condition);
  }
  // Whether an answer to a write says that its condition does not hold.
  virtual bool is_refused(const HttpResponse& response, const WriteCondition& condition) const;

  // What an answer to HEAD, GET or PUT says of the object.
  virtual RemoteHead head_in(const HttpResponse& response) const = 0;
  // Begins to write an object in parts; what is written bears `write_id`.
  virtual std::unique_ptr<PartedUpload> begin_upload(const std::string& key,
                                                     const std::string& write_id) = 0;
  // Uploads that were begun below `prefix`, as far as the server lists them, and how one is given
  // up.
  virtual std::vector<RemoteUpload> uploads(const std::string& /*prefix*/) { return {}; }
  virtual RemoteRequest abort_request(const RemoteUpload& upload) const;

 protected:
  struct PutAnswer {
    HttpResponse response;
    std::string checksum = {};  // that the object must have; empty where the server keeps none
  };

  struct CopyAnswer {
    HttpResponse response;
    std::string write_id;  // that the copy must have
  };
  // What one request of most servers copies at most.
  static constexpr std::uint64_t kLargestCopy = std::uint64_t{5} << 30;

  virtual std::vector<HttpHeader> head_headers() const { return {}; }
  virtual RemoteRequest list_request(const ListQuery& query) const = 0;
  // StorageError when it is no list; retryable() when it is not whole.
  virtual RemoteList list_in(const std::string& body) const = 0;
  // Sends the object, under its condition where the server checks it.
  virtual PutAnswer send_put(const RemotePut& put, const std::string& write_id) = 0;
  // Copies the object, under its condition where the server checks it. nullopt: it cannot.
  virtual std::optional<CopyAnswer> send_copy(const RemoteCopy& /*copy*/) { return std::nullopt; }
  // What messages call a version and a checksum.
  virtual const char* version_title() const { return "ETag"; }
  virtual const char* checksum_title() const { return "checksum"; }

  Remote& server() const { return *remote_; }

 private:
  RemoteList list_page(const ListQuery& query);
  void look_at_refused(const RemoteCopy& copy, const CopyAnswer& answer);

  std::shared_ptr<Remote> remote_;
};

// A condition as HTTP has it, of a server whose versions are ETags; nothing when there is none.
std::vector<HttpHeader> etag_condition(const WriteCondition& condition);

// What a write that its condition refused throws.
[[noreturn]] void refuse_condition(const std::string& where, const WriteCondition& condition);

// An ETag without its quotes.
std::string unquoted(const std::string& etag);

// 128 random bits, in hex.
std::string new_write_id();

}  // namespace cairn
