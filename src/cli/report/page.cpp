#include "cli/report/page.h"

#include <openssl/evp.h>

#include <array>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string_view>

#include "cli/report/page_files.h"
#include "core/text/json.h"
#include "core/text/json_text.h"

namespace cairn::cli {
namespace {

// "sha256-...", as a Content-Security-Policy names an inline style or script.
std::string csp_hash(std::string_view text) {
  std::array<unsigned char, 32> digest{};
  if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("OpenSSL's SHA-256 failed");
  std::array<unsigned char, 45> base64{};  // 44 digits and a zero
  const int size = EVP_EncodeBlock(base64.data(), digest.data(), static_cast<int>(digest.size()));
  return "'sha256-" + std::string(base64.begin(), base64.begin() + size) + "'";
}

// `more`: what this page may do besides running `script`.
std::string policy_of(std::string_view script, const std::string& more) {
  return "default-src 'none'; img-src data:; style-src " + csp_hash(page_style()) +
         "; script-src " + csp_hash(script) + more +
         "; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
         "trusted-types 'none'";
}

// Replaces each {{name}} of the template. Nothing is looked for in the values.
std::string filled(std::string_view page,
                   const std::function<std::string(std::string_view)>& value_of) {
  std::string text;
  for (;;) {
    const std::size_t begin = page.find("{{");
    const std::size_t end = page.find("}}", begin);
    if (end == std::string_view::npos) return text.append(page);
    text.append(page.substr(0, begin));
    text.append(value_of(page.substr(begin + 2, end - begin - 2)));
    page.remove_prefix(end + 2);
  }
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

struct PageParts {
  std::string name;  // "cairn report"
  std::string script;
  std::string policy;
  const Json& data;
};

std::string page_of(const PageParts& parts) {
  return filled(page_html(), [&parts](std::string_view name) -> std::string {
    if (name == "name") return parts.name;
    if (name == "policy") return parts.policy;
    if (name == "style") return std::string(page_style());
    if (name == "script") return parts.script;
    if (name == "licence") return std::string(charts_licence());
    if (name == "data") return json_in_page(parts.data);
    throw std::logic_error("page.html has an unknown {{" + std::string(name) + "}}");
  });
}

std::string joined_scripts(std::string_view last) {
  return std::string(page_script()).append(last);
}

}  // namespace

std::string json_in_page(const Json& data) {
  const std::string json = json_text(data, -1);
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    // JSON has these only in strings. No "</script>" or "<!--" is left.
    if (c == '<') {
      text += "\\u003c";
    } else if (c == '>') {
      text += "\\u003e";
    } else if (c == '&') {
      text += "\\u0026";
    } else {
      text += c;
    }
  }
  // Line ends to scripts.
  replace_all(text, "\u2028", "\\u2028");
  replace_all(text, "\u2029", "\\u2029");
  return text;
}

std::string report_page(const Json& data) {
  const std::string script = joined_scripts(report_script());
  return page_of({.name = "cairn report",
                  .script = script,
                  .policy = policy_of(script, /*more=*/""),
                  .data = data});
}

LivePage live_page(const Json& settings) {
  const std::string script = joined_scripts(live_script());
  const std::string policy = policy_of(script, "; connect-src 'self'");
  return {.html = page_of(
              {.name = "cairn serve", .script = script, .policy = policy, .data = settings}),
          .policy = policy + "; frame-ancestors 'none'"};
}

}  // namespace cairn::cli
