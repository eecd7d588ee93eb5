// A container of objects (a bucket), whatever its protocol calls it, as the store, its writers and
// its readers use it. The algorithms are here (the checks before and after a write, whole lists).
// The requests are in the derived class of each protocol.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

#include "storage/remote/remote.h"

namespace cairn {

// A server's report about an object.
struct RemoteHead {
  std::uint64_t size = 0;
  std::string version;  // an ETag or a generation, which conditions compare
  NetTime modified = {};
  std::string write_id = {};  // the id of the write, set by cairn
  std::string checksum = {};  // of the whole object; empty if the server reports none
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
  std::string next = {};                   // token of the next page
};

struct ListQuery {
  std::string prefix = {};
  std::string delimiter = {};  // "/" or ""
  std::string page = {};       // RemoteList::next of the previous page; empty: the first page
  int most = 0;                // most objects to list; 0: as many as the server gives
};

// An object that is written with one request.
struct RemotePut {
  std::string key;
  SharedBytes bytes = {};
  WriteCondition condition = {};
};

// Asks the server to copy an object within the container.
struct RemoteCopy {
  std::string from;
  std::string to;
  RemoteHead source = {};  // state of `from`: only this version is copied
  WriteCondition condition = {};
};

// An upload that was begun and not completed.
struct RemoteUpload {
  std::string key;
  std::string id;
  std::optional<NetTime> begun = std::nullopt;  // nullopt: the server does not report it readably
};

// The object as it must be after a write. `version` and `checksum` are compared unless they are
// empty.
struct SentObject {
  std::string key;
  std::uint64_t size = 0;
  std::string version = {};
  std::string checksum = {};
  std::string write_id = {};
  // The object that had the name before; nullopt: not known. Without a write id: only its version
  // is known.
  std::optional<RemoteHead> before = std::nullopt;
};

// An object in parts, whose upload has begun. Not thread-safe.
class PartedUpload {
 public:
  struct Completed {
    HttpResponse response;  // of the request that assembles the object
    bool is_done = false;
    std::string version = {};   // of the object; empty if the server does not report it
    std::string checksum = {};  // that the object must have; empty if the server keeps none
  };

  virtual ~PartedUpload() = default;
  // Receives bytes of the next part, in order, while they are in the processor's cache. If a
  // checksum is computed here, the part need not be read again for it. Called for all bytes of a
  // part, or for none of them.
  virtual void note_gathered(ByteView /*bytes*/) {}
  // Makes the request that sends a part. Called in order, from 1 on. Several parts may be under way
  // at once.
  virtual RemoteRequest part(int number, const SharedBytes& bytes) = 0;
  // Receives the answer to a part, which is 2xx. Called in the order of the parts. Throws
  // StorageError if the server received something else.
  virtual void note_sent(int number, const HttpResponse& response) = 0;
  // Assembles the object from its parts, under the condition in these headers.
  virtual Completed complete(const std::vector<HttpHeader>& condition) = 0;
  // The request that gives up the upload; nullopt if the server forgets it by itself.
  virtual std::optional<RemoteRequest> abort() const = 0;
};

// Thread-safe. Every call throws StorageError as Remote does.
class RemoteContainer {
 public:
  explicit RemoteContainer(std::shared_ptr<Remote> remote) : remote_(std::move(remote)) {}
  virtual ~RemoteContainer() = default;
  RemoteContainer(const RemoteContainer&) = delete;
  RemoteContainer& operator=(const RemoteContainer&) = delete;

  const std::shared_ptr<Remote>& remote() const { return remote_; }

  // nullopt if there is no object of that key.
  std::optional<RemoteHead> head(const std::string& key);
  // One whole page of objects that begin with the query's prefix. Empty only if it is the last
  // page.
  RemoteList list(const ListQuery& query);
  bool has_below(const std::string& prefix);
  // Removes an object; a missing one is no error.
  void remove(const std::string& key);
  // Writes an object, then checks that the server has what was sent. Skips the check if the name is
  // new and the answer contains the right checksum. Returns what verify() returns. Throws
  // AlreadyExistsError if the condition does not hold.
  RemoteHead put(const RemotePut& put);
  // Lets the server copy an object, then checks the result. Returns false, having done nothing, if
  // the server cannot copy this object. Throws AlreadyExistsError if the condition does not hold.
  bool copy(const RemoteCopy& copy);
  // Gives up an upload, even if the caller has no time left.
  void abort(const PartedUpload& upload) noexcept;
  // Returns the object that has the key now. Throws AlreadyExistsError unless the condition holds.
  std::optional<RemoteHead> check_condition(const std::string& key,
                                            const WriteCondition& condition);
  // The check after a write. Throws StorageError if the object is not what was sent. Otherwise
  // returns what the server reports. The version is empty if another write has already replaced the
  // object: a late attempt of this job, or another job.
  RemoteHead verify(const SentObject& sent);

  // --- What each protocol defines ---

  // For objects below `folder` ("", or with a slash at its end).
  virtual StoreFeatures features(const std::string& folder) = 0;
  // The headers of a condition if the server checks it, otherwise none. The first function is for a
  // PUT, the second for the request that completes an upload.
  virtual std::vector<HttpHeader> condition_headers(const std::string& key,
                                                    const WriteCondition& condition) = 0;
  virtual std::vector<HttpHeader> upload_condition_headers(const std::string& key,
                                                           const WriteCondition& condition) {
    return condition_headers(key, condition);
  }
  // Whether the answer to a write says that its condition does not hold.
  virtual bool is_refused(const HttpResponse& response, const WriteCondition& condition) const;

  // The report that the answer to HEAD, GET or PUT gives.
  virtual RemoteHead head_in(const HttpResponse& response) const = 0;
  // Begins to write an object in parts. The object gets `write_id`.
  virtual std::unique_ptr<PartedUpload> begin_upload(const std::string& key,
                                                     const std::string& write_id) = 0;
  // The unfinished uploads below `prefix`, as far as the server lists them, and the request that
  // gives one up.
  virtual std::vector<RemoteUpload> uploads(const std::string& /*prefix*/) { return {}; }
  virtual RemoteRequest abort_request(const RemoteUpload& upload) const;

 protected:
  struct PutAnswer {
    HttpResponse response;
    std::string checksum = {};  // that the object must have; empty if the server keeps none
  };

  struct CopyAnswer {
    HttpResponse response;
    std::string write_id;  // that the copy must have
  };
  // The limit of one copy request on most servers.
  static constexpr std::uint64_t kLargestCopy = std::uint64_t{5} << 30;

  virtual std::vector<HttpHeader> head_headers() const { return {}; }
  virtual RemoteRequest list_request(const ListQuery& query) const = 0;
  // Throws StorageError if `body` is no list; retryable() if the list is not whole.
  virtual RemoteList list_in(const std::string& body) const = 0;
  // Sends the object, under its condition if the server checks it.
  virtual PutAnswer send_put(const RemotePut& put, const std::string& write_id) = 0;
  // Copies the object, under its condition if the server checks it. nullopt: the server cannot.
  virtual std::optional<CopyAnswer> send_copy(const RemoteCopy& /*copy*/) { return std::nullopt; }
  // The words for a version and a checksum in messages.
  virtual const char* version_title() const { return "ETag"; }
  virtual const char* checksum_title() const { return "checksum"; }

  Remote& server() const { return *remote_; }

 private:
  RemoteList list_page(const ListQuery& query);
  void check_refused_copy(const RemoteCopy& copy, const CopyAnswer& answer);

  std::shared_ptr<Remote> remote_;
};

// The condition as HTTP headers, for servers whose versions are ETags. Empty if there is no
// condition.
std::vector<HttpHeader> etag_condition(const WriteCondition& condition);

// Throws the error of a write that its condition refused.
[[noreturn]] void refuse_condition(const std::string& where, const WriteCondition& condition);

// An ETag without its quotes.
std::string unquoted(const std::string& etag);

// 128 random bits, in hex.
std::string new_write_id();

}  // namespace cairn
