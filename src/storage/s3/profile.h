// AWS's own files: ~/.aws/credentials and ~/.aws/config.
#pragma once

#include <string>

#include "storage/compat/sections.h"

namespace cairn::s3 {

// The settings of one profile in both files, credentials first.
using Profile = Section;

// Loads the profile `name`, or AWS_PROFILE, or "default". AWS_SHARED_CREDENTIALS_FILE and
// AWS_CONFIG_FILE name the files. A missing file counts as empty. Throws UsageError if a profile is
// named but in neither file.
Profile load_profile(const std::string& name);

}  // namespace cairn::s3
