#include "storage/s3/profile.h"

#include <cstdlib>

#include "cairn/error.h"

#include "io/file.h"
#include "io/source_part.h"

namespace cairn::s3 {
namespace {

constexpr std::uint64_t kLongestFile = 1 << 20;

std::string_view stripped(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

std::map<std::string, Profile> read_profiles(const std::string& path) {
  if (path.empty()) return {};
  try {
    const SharedBytes bytes = read_start(*posix_file_system().open(path), kLongestFile);
    return parse_profiles(std::string(as_text(bytes.view)));
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

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr ? value : "";
}

std::map<std::string, Profile> parse_profiles(const std::string& text) {
  std::map<std::string, Profile> sections;
  Profile* section = nullptr;
  std::string outer;  // of what is indented below "s3 ="
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view whole(text.data() + begin, end - begin);
    begin = end + 1;
    const bool is_indented = whole.starts_with(' ') || whole.starts_with('\t');
    std::string_view line = stripped(whole);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      const std::size_t close = std::min(line.find(']'), line.size());
      section = &sections[std::string(stripped(line.substr(1, close - 1)))];
      outer.clear();
      continue;
    }
    const std::size_t equals = line.find('=');
    if (section == nullptr || equals == std::string_view::npos) continue;
    const std::string name(stripped(line.substr(0, equals)));
    std::string_view value = line.substr(equals + 1);
    value = stripped(value.substr(0, std::min(value.find(" #"), value.find(" ;"))));
    if (is_indented && !outer.empty()) {
      section->emplace(outer + "." + name, value);
    } else {
      outer = value.empty() ? name : "";
      section->emplace(name, value);
    }
  }
  return sections;
}

Profile load_profile(const std::string& given) {
  std::string name = given.empty() ? environment("AWS_PROFILE") : given;
  const bool is_named = !name.empty();
  if (!is_named) name = "default";
  const auto keys = read_profiles(file_of("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"));
  const auto settings = read_profiles(file_of("AWS_CONFIG_FILE", ".aws/config"));
  Profile profile;
  bool is_there = false;
  const auto take = [&](const std::map<std::string, Profile>& sections, const std::string& title) {
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
