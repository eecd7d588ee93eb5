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
  // What it does with If-Match and If-None-Match of a write.
  enum class Conditions : std::uint8_t { kCheck, kIgnore, kRefuse };

  std::string access_key = "AKIDFAKE";
  std::string secret_key = "canary-secret-of-the-fake";
  std::string session_token = {};  // when it is not empty, a request must have it
  std::string expired_key = {};    // of a session that has ended: 400 ExpiredToken
  std::string region = "us-east-1";
  Conditions conditions = Conditions::kCheck;
  Conditions upload_conditions = Conditions::kCheck;  // of an upload that is completed
  bool like_ceph = false;  // If-Match without quotes, and no ETag of a completed upload
  bool keeps_old = false;  // of a name that is there: says 200, and replaces nothing
  bool keeps_crc64 = true;
  bool refuses_checksums = false;  // 501 for headers that it does not know
  std::int64_t skew_seconds = 0;   // of its clock
  std::string initiated = {};      // what a list of uploads says, in place of when each was begun
  double fault_rate = 0;           // of all requests
  unsigned seed = 1;
};

class FakeS3 : public FakeServer {
 public:
  explicit FakeS3(FakeS3Options options = {});
  ~FakeS3() { stop(); }

  // All that is stored: "bucket/key" to bytes.
  std::map<std::string, std::string> objects();
  std::string object(const std::string& path);  // "" when there is none
  void put_object(const std::string& path, const std::string& bytes);
  std::map<std::string, std::string> metadata(const std::string& path);
  // As if all uploads had been begun so long ago.
  void age_uploads(std::chrono::hours age);
  std::size_t uploads();  // begun and neither completed nor aborted

  void change(const FakeS3Options& options);

 private:
  struct Object {
    std::string bytes;
    std::string etag;
    std::map<std::string, std::string> headers = {};  // what HEAD tells
    std::string crc64 = {};
  };
  struct Upload {
    std::string path;
    std::map<std::string, std::string> headers;
    bool with_crc64 = false;
    std::chrono::system_clock::time_point begun = std::chrono::system_clock::now();
    std::map<int, Object> parts = {};
  };
  using Asked = HttpAsked;

  HttpReply answer(const Asked& asked);
  HttpReply dispatch(const Asked& asked, const std::string& path);
  HttpReply check_signature(const Asked& asked);
  HttpReply check_body(const Asked& asked);
  HttpReply get(const Asked& asked, const std::string& path);
  HttpReply put(const Asked& asked, const std::string& path);
  HttpReply copy(const Asked& asked, const std::string& path);
  HttpReply list(const Asked& asked, const std::string& bucket);
  HttpReply list_uploads(const Asked& asked, const std::string& bucket);
  HttpReply begin_upload(const Asked& asked, const std::string& path);
  HttpReply put_part(const Asked& asked);
  HttpReply complete(const Asked& asked, const std::string& path);
  HttpReply abort(const Asked& asked);
  void keep(const std::string& path, Object object);
  HttpReply check_condition(const Asked& asked, const std::string& path,
                            FakeS3Options::Conditions how);
  std::string path_of(const Asked& asked) const;

  FakeS3Options options_;
  std::map<std::string, Object> objects_;
  std::map<std::string, Upload> uploads_;
  int next_upload_ = 0;
};

}  // namespace cairn::testing
