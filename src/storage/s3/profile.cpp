#include "storage/s3/profile.h"

#include "cairn/error.h"

#include "core/environment.h"
#include "io/file.h"

namespace cairn::s3 {
namespace {

Sections sections_in(const std::string& path) {
  if (path.empty()) return {};
  try {
    return read_sections(path);
  } catch (const NotFoundError&) {
    return {};
  }
}

std::string file_of(const char* variable, const char* name) {
  const std::string given = environment(variable);
  if (!given.empty()) return given;
  const std::string home = environment("HOME");
  return home.empty() ? "" : join_path(home, name);
}

}  // namespace

Profile load_profile(const std::string& given) {
  std::string name = given.empty() ? environment("AWS_PROFILE") : given;
  const bool is_named = !name.empty();
  if (!is_named) name = "default";
  const auto keys = sections_in(file_of("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"));
  const auto settings = sections_in(file_of("AWS_CONFIG_FILE", ".aws/config"));
  Profile profile;
  bool is_there = false;
  const auto take = [&](const Sections& sections, const std::string& title) {
    const auto found = sections.find(title);
    if (found == sections.end()) return;
    is_there = true;
    profile.insert(found->second.begin(), found->second.end());
  };
  take(keys, name);
  take(settings, name == "default" ? name : "profile " + name);
  if (is_named && !is_there) {
    throw UsageError("AWS's files have no profile \"" + name +
                     "\": check AWS_PROFILE, ~/.aws/credentials and ~/.aws/config");
  }
  const auto services = profile.find("services");
  if (services != profile.end()) take(settings, "services " + services->second);
  return profile;
}

}  // namespace cairn::s3
