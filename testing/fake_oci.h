// A strict server of Oracle's object storage in this process. It checks signatures, hashes and
// conditions, and fails as a test tells it to.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "testing/fake_server.h"

namespace cairn::testing {

struct FakeOciOptions {
  std::string key_id = "ocid1.tenancy/ocid1.user/aa:bb";  // Signs with rsa_key_of_tests().
  std::string name_space = "space";
  bool keeps_old = false;  // Answers 200 to a write over an existing name, but keeps the old bytes.
  double fault_rate = 0;   // The share of requests that fail.
  unsigned seed = 1;
};

class FakeOci : public FakeServer {
 public:
  explicit FakeOci(FakeOciOptions options = {});
  ~FakeOci() { stop(); }

  // All stored objects: key to bytes.
  std::map<std::string, std::string> objects();
  void put_object(const std::string& key, const std::string& bytes);
  void age_uploads(std::chrono::hours age);
  std::size_t uploads();  // Uploads that were begun and neither committed nor aborted.

 private:
  using Asked = ReceivedRequest;
  struct Object {
    std::string bytes;
    std::string etag;
    std::string md5;
    bool is_of_parts = false;
    std::map<std::string, std::string> headers = {};
  };
  struct Upload {
    std::string key;
    std::map<std::string, std::string> headers;
    std::chrono::system_clock::time_point begun = std::chrono::system_clock::now();
    std::map<int, Object> parts = {};
  };

  HttpReply answer(const Asked& asked);
  HttpReply check_signature(const Asked& asked) const;
  HttpReply check_condition(const Asked& asked, const std::string& key) const;
  HttpReply of_object(const Asked& asked, const std::string& key);
  HttpReply of_upload(const Asked& asked, const std::string& key);
  HttpReply get(const Asked& asked, const std::string& key) const;
  HttpReply put(const Asked& asked, const std::string& key);
  HttpReply list(const Asked& asked) const;
  HttpReply begin_upload(const Asked& asked);
  HttpReply list_uploads() const;
  HttpReply commit(const Asked& asked, const std::string& key);
  HttpReply keep(const std::string& key, Object object);

  FakeOciOptions options_;
  std::map<std::string, Object> objects_;
  std::map<std::string, Upload> uploads_;
  int next_ = 0;
};

}  // namespace cairn::testing
