// "Shared Key": signs requests to Azure's storage with the account's key.
//
//  1. The request is written in one canonical way: method, eleven headers in fixed order, all
//     headers x-ms-*, path and query.
//  2. The HMAC-SHA256 of that text, with the account's key, goes into the header Authorization.
//
// The signature does not cover the body. It covers the header Content-MD5, which covers the body.
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
  std::vector<HttpHeader> headers = {};  // as they are sent, including x-ms-date
  std::uint64_t body_bytes = 0;
};

struct SharedKey {
  std::string account = {};
  std::string key = {};  // the bytes, not base64
};

// The value of the header Authorization.
std::string authorization(const ToSign& request, const SharedKey& by);

// Step 1: the text that is signed. Microsoft's documentation has examples of such texts.
std::string text_to_sign(const ToSign& request, const std::string& account);

}  // namespace cairn::azure
