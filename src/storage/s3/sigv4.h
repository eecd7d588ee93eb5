// AWS's signature, version 4, which S3 and compatible servers check.
//
//  1. The request is written in one canonical way: method, path, query, headers, hash of the body.
//  2. The hash of that text, the time and the scope are signed with a key. The key is derived from
//     the secret key for that day, region and service.
//  3. The signature goes into the header Authorization, with the names of the signed headers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"
#include "net/net_time.h"
#include "net/url.h"
#include "storage/s3/credentials.h"

namespace cairn::s3 {

struct ToSign {
  std::string method;
  std::string path;  // as it is sent: encoded once
  Query query = {};
  std::vector<HttpHeader> headers = {};  // the signed headers, including "host" and "x-amz-date"
  std::string payload_hash;              // of the body, in hex, or "UNSIGNED-PAYLOAD"
};

// The names that differ between AWS and servers with the same scheme.
struct SignatureScheme {
  std::string_view algorithm = "AWS4-HMAC-SHA256";
  std::string_view key_prefix = "AWS4";
  std::string_view end_of_scope = "aws4_request";
};

struct Scope {
  NetTime time;
  std::string region;
  std::string service = "s3";
  SignatureScheme scheme = {};
};

// The value of the header Authorization.
std::string authorization(const ToSign& request, const Scope& scope, const Credentials& by);

// The intermediate steps, for which AWS publishes test values.
std::string canonical_request(const ToSign& request);
std::string text_to_sign(const ToSign& request, const Scope& scope);
std::string signature(const ToSign& request, const Scope& scope, const Credentials& by);

}  // namespace cairn::s3
