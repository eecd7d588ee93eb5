#include "net/url.h"

#include <algorithm>
#include <charconv>

#include "cairn/error.h"

namespace cairn {
namespace {

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

}  // namespace

Url parse_http_url(const std::string& text, const std::string& what) {
  const std::size_t colon = text.find("://");
  Url url;
  if (colon != std::string::npos) {
    url.scheme = lower_case(text.substr(0, colon));
    const std::size_t slash = std::min(text.find('/', colon + 3), text.size());
    url.host = lower_case(text.substr(colon + 3, slash - colon - 3));
    url.path = text.substr(slash);
  }
  // The refused text may be a password, so the message does not repeat it.
  if ((url.scheme != "http" && url.scheme != "https") || url.host.empty() ||
      url.host.find('@') != std::string::npos ||
      text.find_first_of("?# \t\r\n") != std::string::npos) {
    throw UsageError(what +
                     " must be a URL like https://host:port, without user, password and query");
  }
  const std::string_view own_port = url.scheme == "http" ? ":80" : ":443";
  if (url.host.ends_with(own_port)) url.host.resize(url.host.size() - own_port.size());
  while (url.path.ends_with('/'))
    url.path.pop_back();
  return url;
}

std::string shown_url(const std::string& url) {
  const std::string plain = url.substr(0, url.find_first_of("?#"));
  const std::size_t mark = plain.find("://");
  if (mark == std::string::npos) return plain;
  const std::size_t host = mark + 3;
  const std::size_t at = plain.substr(0, plain.find('/', host)).rfind('@');
  return at == std::string::npos ? plain : plain.substr(0, host) + plain.substr(at + 1);
}

bool is_of_this_machine(const std::string& host) {
  const std::string name = host.substr(0, host.rfind(':'));
  constexpr std::string_view kNames[] = {"127.0.0.1",     "localhost",      "[::1]",
                                         "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](std::string_view known) { return name == known || host == known; });
}

std::string percent_encoded(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    if (is_unreserved(c) || (keep_slashes && c == '/')) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += '%';
      encoded += kDigits[byte >> 4];
      encoded += kDigits[byte & 15];
    }
  }
  return encoded;
}

std::string percent_decoded(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* const digits = text.data() + i + 1;
    const bool is_byte = text[i] == '%' && i + 2 < text.size() &&
                         std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
    plain += is_byte ? static_cast<char>(byte) : text[i];
    if (is_byte) i += 2;
  }
  return plain;
}

std::string query_text(const Query& query) {
  std::vector<std::pair<std::string, std::string>> encoded;
  for (const auto& [name, value] : query) {
    encoded.emplace_back(percent_encoded(name), percent_encoded(value));
  }
  std::sort(encoded.begin(), encoded.end());
  std::string text;
  for (const auto& [name, value] : encoded) {
    text += (text.empty() ? "" : "&") + name + "=" + value;
  }
  return text;
}

}  // namespace cairn
