// A strict S3 server in this process, and what real ones do wrong: it checks every signature, hash,
// checksum and condition, and fails as it is told.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "testing/fake_server.h"

namespace cairn::testing {

struct FakeS3Options {
  // What it does with If-Match and If-None-Match of a write. kBusy: it never has time for one.
  enum class Conditions : std::uint8_t { kCheck, kIgnore, kRefuse, kBusy };

  std::string access_key = "AKIDFAKE";
  std::string secret_key = "canary-secret-of-the-fake";
  std::string session_token = {};  // when it is not empty, a request must have it
  std::string expired_key = {};    // of a session that has ended: 400 ExpiredToken
  std::string region = "us-east-1";
  Conditions conditions = Conditions::kCheck;
  Conditions upload_conditions = Conditions::kCheck;  // of an upload that is completed
  bool checks_reads = true;  // If-Match of a read; otherwise it sends what is there
  bool like_ceph = false;    // If-Match without quotes, and no ETag of a completed upload
  bool keeps_old = false;    // of a name that is there: says 200, and replaces nothing
  bool keeps_crc64 = true;
  bool takes_unsigned = false;     // bodies without a signed hash
  bool refuses_checksums = false;  // 501 for headers that it does not know
  std::int64_t skew_seconds = 0;   // of its clock
  std::string initiated = {};      // what a list of uploads says, in place of when each was begun
  double fault_rate = 0;           // of all requests
  unsigned seed = 1;
};

class FakeS3 : public FakeServer {
 public:
  explicit FakeS3(FakeS3Options options = {});
  virtual ~FakeS3() { stop(); }

  // All that is stored: "bucket/key" to bytes.
  std::map<std::string, std::string> objects();
  std::map<std::string, std::size_t> sizes();   // of all that is stored
  std::string object(const std::string& path);  // "" when there is none
  void put_object(const std::string& path, const std::string& bytes);
  std::map<std::string, std::string> metadata(const std::string& path);
  // As if all uploads had been begun so long ago.
  void age_uploads(std::chrono::hours age);
  std::size_t uploads();  // begun and neither completed nor aborted

  void change(const FakeS3Options& options);

 protected:
  using Asked = HttpAsked;
  struct Object {
    std::string bytes;
    std::string etag;
    std::map<std::string, std::string> headers = {};  // what HEAD tells
    std::string crc64 = {};
    int generation = 0;  // another one for each that is kept
  };

  // What another server that speaks S3's XML does in its own way. A reply of status 0: go on.
  virtual HttpReply answer(const Asked& asked);
  virtual HttpReply check_signature(const Asked& asked);
  virtual HttpReply check_body(const Asked& asked);
  virtual HttpReply check_read(const Asked& asked, const Object& object);
  virtual HttpReply check_condition(const Asked& asked, const std::string& path, bool is_upload);
  virtual void describe(const Asked& asked, const Object& object, HttpReply& reply);
  virtual std::string listed(const Object& object) const;  // its elements besides S3's
  virtual bool keeps_header(const std::string& name) const;
  virtual std::string copy_source(const Asked& asked) const;
  virtual HttpReply check_source(const Asked& asked, const Object& object);

  HttpReply dispatch(const Asked& asked, const std::string& path);
  static HttpReply error(int status, const std::string& code, const std::string& more = "");
  const Object* find(const std::string& path) const;
  void keep(const std::string& path, Object object);

  std::map<std::string, Object> objects_;  // by "bucket/key"
  int generation_ = 0;                     // of the last one that was made

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
