#include "io/uri.h"

#include <algorithm>

#include "cairn/error.h"

#include "core/text/printable.h"

namespace cairn {
namespace {

// The characters of a scheme, and its first character (RFC 3986, 3.1).
constexpr std::string_view kSchemeCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
constexpr std::string_view kLetters = kSchemeCharacters.substr(0, 52);

}  // namespace

bool is_scheme(std::string_view text) {
  return text.size() > 1 && text.find_first_not_of(kSchemeCharacters) == std::string_view::npos &&
         kLetters.find(text[0]) != std::string_view::npos;
}

std::string_view scheme_of(std::string_view place) {
  const std::string_view before = place.substr(0, std::min(place.find(":/"), place.size()));
  if (before.size() == place.size() || before.empty()) return {};
  // One slash is enough: normal_path() removes the second slash, and Databricks' URIs have only
  // one.
  const bool is_uri = is_scheme(before) || (before.find('/') == std::string_view::npos &&
                                            place.substr(before.size()).starts_with("://"));
  return is_uri ? before : std::string_view();
}

Uri split_uri(const std::string& place) {
  const std::string_view scheme = scheme_of(place);
  if (scheme.empty()) return {.path = place};
  Uri uri;
  for (const char c : scheme) {
    uri.scheme += c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  }
  std::size_t begin = scheme.size() + 1;  // at the first slash
  uri.has_authority = place.compare(begin, 2, "//") == 0;
  if (uri.has_authority) {
    const std::size_t slash = std::min(place.find('/', begin + 2), place.size());
    uri.authority = place.substr(begin + 2, slash - begin - 2);
    begin = slash;
  }
  uri.path = place.substr(std::min(place.find_first_not_of('/', begin), place.size()));
  return uri;
}

void refuse_uri(const std::string& place) {
  const std::string_view scheme = scheme_of(place);
  if (scheme.empty()) return;
  const std::string shown = printable_line(scheme);
  throw UnsupportedError(shown + ":...: there is no store for " + shown +
                         ":// here: these are the files of this machine; give a path");
}

}  // namespace cairn
