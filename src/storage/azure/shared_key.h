// "Shared Key": how requests to Azure's storage are signed with the account's key.
//
//  1. The request is written in one canonical way: method, eleven headers by their place, all
//     headers x-ms-*, path and query.
//  2. Its HMAC-SHA256 with the account's key goes into the header Authorization.
//
// The body is not covered: Content-MD5, which is, covers it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "net/http.h"
#include "net/url.h"

namespace cairn::azure {

struct ToSign {
  std::string method;
  std::string path;  // of the URL, as it is sent: encoded once
  Query query = {};
  std::vector<HttpHeader> headers = {};  // as they are sent; x-ms-date among them
  std::uint64_t body_bytes = 0;
};

struct SharedKey {
  std::string account = {};
  std::string key = {};  // the bytes, not base64
};

// What the header Authorization says.
std::string authorization(const ToSign& request, const SharedKey& by);

// The step in between, which Microsoft's document has examples of.
std::string text_to_sign(const ToSign& request, const std::string& account);

}  // namespace cairn::azure
