#include "storage/s3/sigv4.h"

#include <algorithm>

#include "net/digest.h"

namespace cairn::s3 {
namespace {

std::vector<HttpHeader> sorted(std::vector<HttpHeader> headers) {
  std::sort(headers.begin(), headers.end(),
            [](const HttpHeader& a, const HttpHeader& b) { return a.name < b.name; });
  return headers;
}

std::string signed_names(const std::vector<HttpHeader>& headers) {
  std::string names;
  for (const HttpHeader& header : headers) {
    names += (names.empty() ? "" : ";") + header.name;
  }
  return names;
}

// Removes spaces at both ends, and joins repeated spaces.
std::string folded(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == ' ' && (text.empty() || text.back() == ' ')) continue;
    text += c;
  }
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

std::string scope_text(const Scope& scope) {
  return basic_iso_time(scope.time).substr(0, 8) + "/" + scope.region + "/" + scope.service + "/" +
         std::string(scope.scheme.end_of_scope);
}

}  // namespace

std::string canonical_request(const ToSign& request) {
  const auto headers = sorted(request.headers);
  std::string text = request.method + "\n" + (request.path.empty() ? "/" : request.path) + "\n" +
                     query_text(request.query) + "\n";
  for (const HttpHeader& header : headers) {
    text += header.name + ":" + folded(header.value) + "\n";
  }
  return text + "\n" + signed_names(headers) + "\n" + request.payload_hash;
}

std::string text_to_sign(const ToSign& request, const Scope& scope) {
  return std::string(scope.scheme.algorithm) + "\n" + basic_iso_time(scope.time) + "\n" +
         scope_text(scope) + "\n" + hex(sha256(canonical_request(request)));
}

std::string signature(const ToSign& request, const Scope& scope, const Credentials& by) {
  const std::string first = std::string(scope.scheme.key_prefix) + by.secret_key;
  Sha256 key = hmac_sha256(as_bytes(first), basic_iso_time(scope.time).substr(0, 8));
  key = hmac_sha256(key, scope.region);
  key = hmac_sha256(key, scope.service);
  key = hmac_sha256(key, scope.scheme.end_of_scope);
  return hex(hmac_sha256(key, text_to_sign(request, scope)));
}

std::string authorization(const ToSign& request, const Scope& scope, const Credentials& by) {
  return std::string(scope.scheme.algorithm) + " Credential=" + by.access_key + "/" +
         scope_text(scope) + ", SignedHeaders=" + signed_names(sorted(request.headers)) +
         ", Signature=" + signature(request, scope, by);
}

}  // namespace cairn::s3
