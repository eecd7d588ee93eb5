// Decides who may read the pages of `cairn serve`.
//
//  1. Only GET and HEAD are answered: nobody can change anything.
//  2. On loopback the Host header must be the address that is served. Otherwise a page of another
//     site, whose name its owner points at 127.0.0.1, could read the answers in the user's browser.
//  3. With a token, a request needs it: as "Authorization: Bearer TOKEN", or as "/?token=TOKEN".
//     The latter sets a cookie with the token's hash, and leads to "/", so that the token does not
//     stay in the address.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/serve/web_answer.h"

namespace cairn::cli {

// Whether only this machine reaches the host: a name or an address, as --host takes it.
bool is_loopback(const std::string& host);

// "http://127.0.0.1:8321/".
std::string web_address(const std::string& host, int port);

class PageAccess {
 public:
  // `token`: empty if none is needed.
  PageAccess(const std::string& host, int port, const std::string& token);

  // The answer to a request that may not be answered otherwise. nullopt: it may.
  std::optional<WebAnswer> refuse(const WebRequest& asked) const;

 private:
  bool is_right(const std::string& token) const;
  bool has_cookie(const std::string& cookies) const;
  WebAnswer enter(const std::string& token) const;

  std::vector<std::string> hosts_;  // the Host headers that are right; empty: any is
  std::string address_;
  std::string cookie_name_;
  std::string token_hash_;  // empty: no token is needed
};

}  // namespace cairn::cli
