// What is a URI, and no path.
#pragma once

#include <string>
#include <string_view>

namespace cairn {

// "s3" of "s3://bucket/key", "dbfs" of "dbfs:/Volumes/a"; empty for a path. A folder whose name
// ends with a colon can still be named: "./s3:/key".
std::string_view scheme_of(std::string_view place);

// Why a place is none for this version: one line that names it and its scheme. Empty for a path.
std::string uri_problem(const std::string& place);

// UnsupportedError with uri_problem(). The machine's own FileSystem calls it for
// every path that it is given, so that no URI ever becomes a folder called "s3:"; what is given a
// place long before it is used calls it early.
void refuse_uri(const std::string& place);

}  // namespace cairn
