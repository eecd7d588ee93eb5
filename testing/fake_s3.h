// A strict S3 server in this process. It checks every signature, hash, checksum and condition, and
// fails as a test tells it to. It can also make the mistakes of real servers.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "testing/fake_server.h"

namespace cairn::testing {

struct FakeS3Options {
  // How the server treats If-Match and If-None-Match of a write. kBusy: answers 503 to each write
  // with a condition.
  enum class Conditions : std::uint8_t { kCheck, kIgnore, kRefuse, kBusy };

  std::string access_key = "AKIDFAKE";
  std::string secret_key = "canary-secret-of-the-fake";
  std::string session_token = {};  // If not empty, each request must have it.
  std::string expired_key = {};    // Key of a session that has ended: answers 400 ExpiredToken.
  std::string region = "us-east-1";
  Conditions conditions = Conditions::kCheck;
  Conditions upload_conditions = Conditions::kCheck;  // For CompleteMultipartUpload.
  bool checks_reads = true;  // Checks If-Match of a read. If false, sends the object regardless.
  bool like_ceph = false;  // Expects If-Match without quotes; completing an upload returns no ETag.
  bool keeps_old = false;  // Answers 200 to a write over an existing name, but keeps the old bytes.
  bool keeps_crc64 = true;
  bool takes_unsigned = false;     // Accepts bodies without a signed hash.
  bool refuses_checksums = false;  // Answers 501 to checksum headers.
  std::int64_t skew_seconds = 0;   // How far the server's clock is ahead.
  std::string initiated = {};      // If not empty, lists show this as the time of each upload.
  double fault_rate = 0;           // The share of requests that fail.
  unsigned seed = 1;
};

class FakeS3 : public FakeServer {
 public:
  explicit FakeS3(FakeS3Options options = {});
  virtual ~FakeS3() { stop(); }

  // All stored objects: "bucket/key" to bytes.
  std::map<std::string, std::string> objects();
  std::map<std::string, std::size_t> sizes();   // Sizes of all stored objects.
  std::string object(const std::string& path);  // "" if there is none.
  void put_object(const std::string& path, const std::string& bytes);
  std::map<std::string, std::string> metadata(const std::string& path);
  // Makes all uploads look as if they had been begun `age` ago.
  void age_uploads(std::chrono::hours age);
  std::size_t uploads();  // Uploads that were begun and neither completed nor aborted.

  void change(const FakeS3Options& options);

 protected:
  using Asked = ReceivedRequest;
  struct Object {
    std::string bytes;
    std::string etag;
    std::map<std::string, std::string> headers = {};  // The headers that HEAD returns.
    std::string crc64 = {};
    int generation = 0;  // A new number for each stored object.
  };

  // Other servers with S3's XML override these. A reply with status 0 means: continue.
  virtual HttpReply answer(const Asked& asked);
  virtual HttpReply check_signature(const Asked& asked);
  virtual HttpReply check_body(const Asked& asked);
  virtual HttpReply check_read(const Asked& asked, const Object& object);
  virtual HttpReply check_condition(const Asked& asked, const std::string& path, bool is_upload);
  virtual void describe(const Asked& asked, const Object& object, HttpReply& reply);
  virtual std::string listed(const Object& object) const;  // Elements besides S3's.
  virtual bool keeps_header(const std::string& name) const;
  virtual std::string copy_source(const Asked& asked) const;
  virtual HttpReply check_source(const Asked& asked, const Object& object);

  HttpReply dispatch(const Asked& asked, const std::string& path);
  static HttpReply error(int status, const std::string& code, const std::string& more = "");
  const Object* find(const std::string& path) const;
  void keep(const std::string& path, Object object);

  std::map<std::string, Object> objects_;  // By "bucket/key".
  int generation_ = 0;                     // The generation of the newest object.

 private:
  struct Upload {
    std::string path;
    std::map<std::string, std::string> headers;
    bool with_crc64 = false;
    std::chrono::system_clock::time_point begun = std::chrono::system_clock::now();
    std::map<int, Object> parts = {};
  };

  HttpReply get(const Asked& asked, const std::string& path);
  HttpReply put(const Asked& asked, const std::string& path);
  HttpReply copy(const Asked& asked, const std::string& path);
  HttpReply list(const Asked& asked, const std::string& bucket);
  HttpReply list_uploads(const Asked& asked, const std::string& bucket);
  HttpReply begin_upload(const Asked& asked, const std::string& path);
  HttpReply put_part(const Asked& asked);
  HttpReply copy_part(const Asked& asked, Object& part);
  const Object* source_of(const Asked& asked) const;
  HttpReply complete(const Asked& asked, const std::string& path);
  HttpReply abort(const Asked& asked);
  std::map<std::string, std::string> kept_headers(const Asked& asked) const;
  std::string path_of(const Asked& asked) const;

  FakeS3Options options_;
  std::map<std::string, Upload> uploads_;
  int next_upload_ = 0;
};

}  // namespace cairn::testing
