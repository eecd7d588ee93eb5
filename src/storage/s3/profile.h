// AWS's own files: ~/.aws/credentials and ~/.aws/config.
#pragma once

#include <map>
#include <string>

namespace cairn::s3 {

// What stands for one profile in both files, credentials first; nested settings as
// "s3.endpoint_url".
using Profile = std::map<std::string, std::string>;

// `name`, or AWS_PROFILE, or "default". AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE say where
// the files are. A file that is not there says nothing; a profile that is named, and in neither, is
// a UsageError.
Profile load_profile(const std::string& name);

// The sections of such a file: {"profile a": {"region": "x", "s3.addressing_style": "path"}}.
std::map<std::string, Profile> parse_profiles(const std::string& text);

// A variable of the environment; "" when it is not set.
std::string environment(const char* name);

}  // namespace cairn::s3
