// What the store, its writers and its readers ask of one bucket, and what is learned of its server.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "cairn/storage/object_store.h"

#include "storage/s3/connection.h"

namespace cairn::s3 {

struct Head {
  std::uint64_t size = 0;
  std::string etag;
  NetTime modified = {};
  std::string write_id;  // of the cairn that wrote it
  std::string crc64;     // in base64; empty where the server tells none
};

// Which conditions of a PUT the server checks: not all do, and some say nothing about it.
struct Conditions {
  bool absent = false;   // If-None-Match: *
  bool version = false;  // If-Match
  bool bare = false;     // it wants the ETag without its quotes, as Ceph does
};

// An object that is written with one request.
struct Put {
  std::string key;
  SharedBytes bytes = {};
  WriteCondition condition = {};
};

// Safe from several threads.
class Bucket {
 public:
  explicit Bucket(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

  const std::shared_ptr<Connection>& connection() const { return connection_; }

  std::optional<Head> head(const std::string& key);
  // One page; `delimiter` is "/" or "".
  ListAnswer list(const std::string& prefix, const std::string& delimiter,
                  const std::string& page = {}, int most = 0);
  bool has_below(const std::string& prefix);
  void remove(const std::string& key);
  // Writes an object, and looks afterwards whether the server has what was sent. AlreadyExistsError
  // when the condition does not hold.
  void put(const Put& put);
  // Copies within the bucket; the source has at most kLargestCopy bytes.
  void copy(const std::string& from, const std::string& to);
  static constexpr std::uint64_t kLargestCopy = std::uint64_t{5} << 30;

  // Probed once, below `folder` ("" or with a slash at its end). StorageError when nothing can be
  // written there.
  Conditions conditions(const std::string& folder);

  // The same of the completion of an upload: whether it checks both. False where none can be begun.
  bool checks_upload_conditions(const std::string& folder);

  // What a write says besides its bytes: access, encryption, who wrote it.
  std::vector<HttpHeader> write_headers(const std::string& write_id) const;
  // What is there now. AlreadyExistsError unless the condition holds.
  std::optional<Head> check_condition(const std::string& key, const WriteCondition& condition);
  // The condition's header where the server checks it, none otherwise.
  std::vector<HttpHeader> condition_headers(const std::string& key,
                                            const WriteCondition& condition);

  // False once the server has refused a completion of an upload for its condition.
  bool takes_upload_conditions() const { return takes_upload_conditions_; }
  void learn_no_upload_conditions() { takes_upload_conditions_ = false; }

  // Whether the server keeps CRC-64 checksums: nullopt until the first answer says so.
  std::optional<bool> keeps_crc64();
  void learn_crc64(bool keeps);

 private:
  std::optional<Conditions> probe(const std::string& folder);
  bool probe_upload(const std::string& key);
  HttpResponse send_put(const Put& put, const std::string& write_id, const std::string& crc64);

  std::shared_ptr<Connection> connection_;
  std::mutex mutex_;
  std::optional<Conditions> conditions_;
  std::optional<bool> checks_upload_conditions_;
  std::atomic<bool> takes_upload_conditions_ = true;
  std::optional<bool> keeps_crc64_;
};

// What a write that its condition refused throws.
[[noreturn]] void refuse_condition(const std::string& where, const WriteCondition& condition);

// The checks behind every write: StorageError when the object is not what was sent. `etag` and
// `crc64` are compared unless they are empty.
struct Sent {
  std::string key;
  std::uint64_t size = 0;
  std::string etag = {};
  std::string crc64 = {};
  std::string write_id = {};
  std::optional<Head> before =
      std::nullopt;  // what had the name; without a write id: it is not known
};
void verify_sent(Bucket& bucket, const Sent& sent);

// 128 random bits, in hex.
std::string new_write_id();
// A checksum as S3 writes it.
std::string crc64_text(std::uint64_t crc);

}  // namespace cairn::s3
