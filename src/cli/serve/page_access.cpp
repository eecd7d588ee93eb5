#include "cli/serve/page_access.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <string_view>

#include "cli/view/content/describe_value.h"
#include "io/file.h"

namespace cairn::cli {
namespace {

WebAnswer refusal(int status, const std::string& why) {
  return {.status = status, .body = web_body("cairn serve: " + why + "\n")};
}

// The hash is compared, in a time that does not depend on how much of it is right.
std::string hash_of_token(const std::string& token) {
  return sha256(as_bytes("cairn serve " + token));
}

bool are_same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

constexpr std::string_view kBearer = "bearer ";  // in any case

bool is_bearer(std::string_view authorization) {
  return std::ranges::equal(authorization.substr(0, kBearer.size()), kBearer, [](char a, char b) {
    return a == b || (a >= 'A' && a <= 'Z' && a + ('a' - 'A') == b);
  });
}

std::string in_address(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "[" + host + "]";
}

}  // namespace

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

std::string web_address(const std::string& host, int port) {
  return "http://" + in_address(host) + ":" + std::to_string(port) + "/";
}

PageAccess::PageAccess(const std::string& host, int port, const std::string& token)
    : address_(web_address(host, port)),
      // Browsers give cookies of one port to all ports of a host.
      cookie_name_("cairn_serve_" + std::to_string(port)),
      token_hash_(token.empty() ? "" : hash_of_token(token)) {
  if (!is_loopback(host)) return;
  for (const std::string& name : {std::string("127.0.0.1"), std::string("localhost"),
                                  std::string("[::1]"), in_address(host)}) {
    hosts_.push_back(name + ":" + std::to_string(port));
    if (port == 80) hosts_.push_back(name);
  }
}

std::optional<WebAnswer> PageAccess::refuse(const WebRequest& asked) const {
  if (asked.method != "GET" && asked.method != "HEAD") {
    WebAnswer answer = refusal(405, "pages are only read here, by GET and HEAD");
    answer.headers.emplace_back("Allow", "GET, HEAD");
    return answer;
  }
  if (!hosts_.empty() && std::ranges::find(hosts_, asked.host) == hosts_.end())
    return refusal(403, "the Host header is not that of " + address_);
  const bool is_opened = asked.path == "/" && asked.fetch_mode == "navigate";
  if (asked.fetch_site == "cross-site" && !is_opened)
    return refusal(403, "pages of other sites may not read this one");
  if (token_hash_.empty()) return std::nullopt;
  const auto given = asked.query.find("token");
  if (asked.path == "/" && given != asked.query.end()) return enter(given->second);
  if (is_bearer(asked.authorization) && is_right(asked.authorization.substr(kBearer.size())))
    return std::nullopt;
  if (has_cookie(asked.cookie)) return std::nullopt;
  WebAnswer answer = refusal(401,
                             "a token is needed. Open the address that cairn serve printed; if "
                             "you have just followed a link to it, load this page again");
  answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  return answer;
}

bool PageAccess::is_right(const std::string& token) const {
  return are_same(hash_of_token(token), token_hash_);
}

bool PageAccess::has_cookie(const std::string& cookies) const {
  const std::string begin = cookie_name_ + "=";
  std::string_view left = cookies;
  while (!left.empty()) {
    const std::size_t end = std::min(left.find(';'), left.size());
    std::string_view one = left.substr(0, end);
    one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
    if (one.starts_with(begin) && are_same(one.substr(begin.size()), token_hash_)) return true;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return false;
}

WebAnswer PageAccess::enter(const std::string& token) const {
  if (!is_right(token)) return refusal(401, "this is not the token");
  return {.status = 303,
          .body = web_body(""),
          .headers = {{"Location", "./"},
                      {"Set-Cookie",
                       cookie_name_ + "=" + token_hash_ + "; Path=/; HttpOnly; SameSite=Strict"}}};
}

}  // namespace cairn::cli
