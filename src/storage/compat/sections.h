// Settings files with sections, as AWS, Oracle and Databricks use them: "[name]", followed by lines
// "name = value".
#pragma once

#include <map>
#include <string>

namespace cairn {

// A nested setting has a name like "s3.endpoint_url".
using Section = std::map<std::string, std::string>;
using Sections = std::map<std::string, Section>;

// Returns, for instance, {"profile a": {"region": "x", "s3.addressing_style": "path"}}. Other lines
// are skipped.
Sections parse_sections(const std::string& text);

// The sections in the first MiB of a file. Throws NotFoundError and StorageError.
Sections read_sections(const std::string& path);

}  // namespace cairn
