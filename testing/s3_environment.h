// The environment of a process that knows one S3 server and its keys, and no other.
#pragma once

#include <list>
#include <string>

#include "testing/environment_variable.h"
#include "testing/fake_s3.h"

namespace cairn::testing {

// Removes the variables that the machine's owner may have set, and hides the owner's ~/.aws.
class CleanAwsEnvironment {
 public:
  CleanAwsEnvironment() {
    for (const char* name : {"AWS_ACCESS_KEY_ID",
                             "AWS_SECRET_ACCESS_KEY",
                             "AWS_SESSION_TOKEN",
                             "AWS_REGION",
                             "AWS_DEFAULT_REGION",
                             "AWS_PROFILE",
                             "AWS_CA_BUNDLE",
                             "SSL_CERT_FILE",
                             "AWS_ENDPOINT_URL",
                             "AWS_ENDPOINT_URL_S3",
                             "S3_ENDPOINT_URL",
                             "S3_CANNED_ACL",
                             "AWS_MAX_ATTEMPTS",
                             "AWS_REQUEST_CHECKSUM_CALCULATION",
                             "CAIRN_PROGRAM_TIMEOUT",
                             "CAIRN_S3_ADDRESSING",
                             "CAIRN_S3_UNSIGNED_PAYLOAD",
                             "AWS_ROLE_ARN",
                             "AWS_WEB_IDENTITY_TOKEN_FILE",
                             "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                             "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                             "http_proxy",
                             "https_proxy",
                             "HTTP_PROXY",
                             "HTTPS_PROXY",
                             "all_proxy",
                             "ALL_PROXY"}) {
      set(name, nullptr);
    }
    set("AWS_EC2_METADATA_DISABLED", "true");
    set("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials");
    set("AWS_CONFIG_FILE", "/nonexistent/config");
  }
  void set(const char* name, const char* value) { variables_.emplace_front(name, value); }

 private:
  std::list<EnvironmentVariable> variables_;  // Restored in reverse order.
};

class S3Environment : public CleanAwsEnvironment {
 public:
  explicit S3Environment(const FakeS3& server, const FakeS3Options& options = {}) {
    set("S3_ENDPOINT_URL", server.url().c_str());
    set("AWS_ACCESS_KEY_ID", options.access_key.c_str());
    set("AWS_SECRET_ACCESS_KEY", options.secret_key.c_str());
  }
};

}  // namespace cairn::testing
