#include "io/uri.h"

#include <algorithm>

#include "cairn/error.h"

#include "core/printable.h"

namespace cairn {
namespace {

// RFC 3986, 3.1: what a scheme is made of, and may begin with.
constexpr std::string_view kOfScheme =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
constexpr std::string_view kLetters = kOfScheme.substr(0, 52);

}  // namespace

std::string_view scheme_of(std::string_view place) {
  const std::size_t end = std::min(place.find_first_not_of(kOfScheme), place.size());
  // One slash: normal_path() takes the second, and Databricks has none.
  const bool is_uri = end > 1 && kLetters.find(place[0]) != std::string_view::npos &&
                      place.substr(end).starts_with(":/");
  return is_uri ? place.substr(0, end) : std::string_view();
}

std::string uri_problem(const std::string& place) {
  const std::string_view scheme = scheme_of(place);
  if (scheme.empty()) return {};
  return printable_line(place) + ": this version has local files only, and no store for " +
         std::string(scheme) + "://; give it a store of your own";
}

void refuse_uri(const std::string& place) {
  if (const std::string problem = uri_problem(place); !problem.empty()) {
    throw UnsupportedError(problem);
  }
}

}  // namespace cairn
