// AWS's own files: ~/.aws/credentials and ~/.aws/config.
#pragma once

#include <string>

#include "storage/compat/sections.h"

namespace cairn::s3 {

// What stands for one profile in both files, credentials first.
using Profile = Section;

// `name`, or AWS_PROFILE, or "default". AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE say where
// the files are. A file that is not there says nothing; a profile that is named, and in neither, is
// a UsageError.
Profile load_profile(const std::string& name);

}  // namespace cairn::s3
