// What is a URI, and no path.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

// Of RFC 3986, 3.1, and of two letters at least: one is a drive of other systems.
bool is_scheme(std::string_view text);

// "s3" of "s3://bucket/key", "dbfs" of "dbfs:/Volumes/a"; empty for a path. What stands before
// "://" is one, also when it cannot be: "s_3://bucket" was meant to be no folder. A folder whose
// name ends with a colon can still be named: "./s3:/key".
std::string_view scheme_of(std::string_view place);

// The parts of a URI; only `path` of a path.
struct Uri {
  std::string scheme = {};     // in lower case
  std::string authority = {};  // a bucket, a host; empty without a second slash
  std::string path = {};       // what is behind the slash that follows
  bool has_authority = false;

  // What the names of one store have in common: "s3://bucket", "dbfs:".
  std::string root() const { return scheme + (has_authority ? "://" + authority : ":"); }
};
Uri split_uri(const std::string& place);

// UnsupportedError that names its scheme, and no more: the rest may hold a password. The machine's
// own FileSystem calls it for every path that it is given, so that no URI ever becomes a folder
// called "s3:".
void refuse_uri(const std::string& place);

}  // namespace cairn
