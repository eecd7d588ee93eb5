// Tells URIs from paths.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

// Whether `text` is a scheme by RFC 3986, 3.1, of at least two letters: one letter is a drive of
// other systems.
bool is_scheme(std::string_view text);

// "s3" of "s3://bucket/key", "dbfs" of "dbfs:/Volumes/a"; empty for a path. Any text before "://"
// counts, even an invalid scheme: "s_3://bucket" was not meant to be a folder. A folder whose name
// ends with a colon can still be named: "./s3:/key".
std::string_view scheme_of(std::string_view place);

// The parts of a URI. A path has only `path`.
struct Uri {
  std::string scheme = {};     // in lower case
  std::string authority = {};  // a bucket, a host; empty without a second slash
  std::string path = {};       // everything after the slash that follows
  bool has_authority = false;

  // The common beginning of the names in one store: "s3://bucket", "dbfs:".
  std::string root() const { return scheme + (has_authority ? "://" + authority : ":"); }
};
Uri split_uri(const std::string& place);

// Throws UnsupportedError that names only the scheme: the rest may hold a password. The machine's
// own FileSystem calls it for every path that it is given, so that no URI ever becomes a folder
// called "s3:".
void refuse_uri(const std::string& place);

}  // namespace cairn
