#include "storage/trackers/rest/signed_remote.h"

#include "cairn/error.h"

#include "net/url.h"
#include "storage/s3/answers.h"

namespace cairn {
namespace {

// Anyone with a signed URL can get the file.
bool crosses_in_the_clear(const std::string& url) {
  constexpr std::string_view kPlain = "http://";
  if (!url.starts_with(kPlain)) return false;
  const std::string host =
      url.substr(kPlain.size(), url.find_first_of("/?#", kPlain.size()) - kPlain.size());
  return host.find('@') != std::string::npos || !is_of_this_machine(host);
}

bool is_refused_url(int status, const std::string& code) {
  // Google and S3 answer 400 if the URL, or the session that signed it, has expired.
  return status == 401 || status == 403 || (status == 400 && code == "ExpiredToken");
}

}  // namespace

SignedRemote::SignedRemote(RemoteSettings settings, What what)
    : Remote(std::move(settings)), what_(std::move(what)), now_(what_.first) {}

std::string SignedRemote::describe(const std::string& /*key*/) const { return what_.name; }

SignedRequest SignedRemote::sign(const RemoteRequest& request) {
  const Turn turn(turns_);
  if (now_.url.empty()) now_ = what_.fetch();
  if (!now_.url.starts_with("https://") && !now_.url.starts_with("http://")) {
    throw StorageError(what_.name + ": " + what_.signer + " gave no URL for it", 0);
  }
  if (crosses_in_the_clear(now_.url)) {
    throw StorageError(what_.name + ": " + what_.signer +
                           " gave a URL for it without https: the file would cross the network in "
                           "the clear",
                       0);
  }
  const std::size_t mark = now_.url.find('?');
  keep_secret({now_.url, mark == std::string::npos ? "" : now_.url.substr(mark + 1)});
  SignedRequest made = {
      .http = {.method = request.method, .url = now_.url, .headers = now_.headers},
      .signed_by = now_.url};
  if (!request.query.empty()) {
    made.http.url += (mark == std::string::npos ? "?" : "&") + query_text(request.query);
  }
  for (const HttpHeader& header : request.headers)
    made.http.headers.push_back(header);
  return made;
}

// Omits the server's message, which may contain the URL.
RemoteError SignedRemote::error_in(const HttpResponse& response) const {
  return {.code = s3::parse_error(response.body).code};
}

bool SignedRemote::learn(const HttpResponse& response, const RemoteError& error,
                         const std::string& signed_by) {
  if (!is_refused_url(response.status, error.code)) return false;
  const Turn turn(turns_);
  if (signed_by == now_.url) now_.url.clear();
  return true;
}

std::string SignedRemote::advice_for(int status, const std::string& code) const {
  if (!is_refused_url(status, code)) return {};
  return "; the storage behind " + what_.signer + " refuses the URL that " + what_.signer +
         " signed";
}

}  // namespace cairn
