// Files of settings in sections, as AWS, Oracle and Databricks have them: "[name]", and below it
// lines "name = value".
#pragma once

#include <map>
#include <string>

namespace cairn {

// Nested settings as "s3.endpoint_url".
using Section = std::map<std::string, std::string>;
using Sections = std::map<std::string, Section>;

// {"profile a": {"region": "x", "s3.addressing_style": "path"}}. Lines that are neither are passed
// over.
Sections parse_sections(const std::string& text);

// Those of a file: of its first MiB. NotFoundError, StorageError.
Sections read_sections(const std::string& path);

}  // namespace cairn
