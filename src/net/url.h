// The parts of a URL, and how bytes are written in one.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

// Names and values as they are, not encoded.
using Query = std::vector<std::pair<std::string, std::string>>;

struct Url {
  std::string scheme;     // "http" or "https"
  std::string host;       // with ":port" unless it is the scheme's default; in lower case
  std::string path = {};  // encoded; begins with a slash, or is empty

  std::string origin() const { return scheme + "://" + host; }
};

// Parses "https://host:9000/path". Throws UsageError, naming `what` (a variable, an option), for
// another scheme, a user or password, a query or a fragment.
Url parse_http_url(const std::string& text, const std::string& what);

// The URL for messages: without user, query and fragment, which may be secrets.
std::string shown_url(const std::string& url);

// Whether "host:port" is this machine or one of its metadata services. Requests to such a host do
// not cross a network.
bool is_of_this_machine(const std::string& host);

// RFC 3986: everything except letters, digits and "-._~" becomes %XX. Slashes do, too, unless
// `keep_slashes`.
std::string percent_encoded(std::string_view text, bool keep_slashes = false);
// The inverse of percent_encoded(). A percent sign without two hex digits stays.
std::string percent_decoded(std::string_view text);

// "a=1&b=" with both sides encoded, sorted as AWS signs them.
std::string query_text(const Query& query);

}  // namespace cairn
