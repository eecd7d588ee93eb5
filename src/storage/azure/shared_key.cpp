#include "storage/azure/shared_key.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "net/digest.h"

namespace cairn::azure {
namespace {

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return text;
}

// "x-ms-date:...\nx-ms-version:...\n", sorted.
std::string canonical_headers(const std::vector<HttpHeader>& headers) {
  std::map<std::string, std::string> sorted;
  for (const HttpHeader& header : headers) {
    if (header.name.starts_with("x-ms-")) sorted[header.name] = header.value;
  }
  std::string text;
  for (const auto& [name, value] : sorted) {
    text += name + ":" + value + "\n";
  }
  return text;
}

// "/account/container/key\ncomp:list\ninclude:a,b": sorted by name, and by value within a name.
std::string canonical_resource(const ToSign& request, const std::string& account) {
  std::map<std::string, std::multiset<std::string>> sorted;
  for (const auto& [name, value] : request.query) {
    sorted[lower_case(name)].insert(value);
  }
  std::string text = "/" + account + (request.path.empty() ? "/" : request.path);
  for (const auto& [name, values] : sorted) {
    text += "\n" + name;
    char before = ':';
    for (const std::string& value : values) {
      text += before + value;
      before = ',';
    }
  }
  return text;
}

}  // namespace

std::string text_to_sign(const ToSign& request, const std::string& account) {
  constexpr std::array<std::string_view, 11> kByPlace = {"content-encoding",
                                                         "content-language",
                                                         "content-length",
                                                         "content-md5",
                                                         "content-type",
                                                         "date",
                                                         "if-modified-since",
                                                         "if-match",
                                                         "if-none-match",
                                                         "if-unmodified-since",
                                                         "range"};
  std::string text = request.method + "\n";
  for (const std::string_view name : kByPlace) {
    const auto found = std::ranges::find(request.headers, name, &HttpHeader::name);
    if (name == "content-length") {
      text += request.body_bytes == 0 ? "" : std::to_string(request.body_bytes);
    } else if (found != request.headers.end()) {
      text += found->value;
    }
    text += "\n";
  }
  return text + canonical_headers(request.headers) + canonical_resource(request, account);
}

std::string authorization(const ToSign& request, const SharedKey& by) {
  return "SharedKey " + by.account + ":" +
         base64(hmac_sha256(as_bytes(by.key), text_to_sign(request, by.account)));
}

}  // namespace cairn::azure
