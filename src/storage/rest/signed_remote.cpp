#include "storage/rest/signed_remote.h"

#include "cairn/error.h"

namespace cairn {

SignedRemote::SignedRemote(RemoteSettings settings, What what)
    : Remote(std::move(settings)), what_(std::move(what)), now_(what_.first) {}

std::string SignedRemote::describe(const std::string& /*key*/) const { return what_.name; }

SignedRequest SignedRemote::sign(const RemoteRequest& request) {
  const std::scoped_lock lock(mutex_);
  if (now_.url.empty()) now_ = what_.fetch();
  if (!now_.url.starts_with("https://") && !now_.url.starts_with("http://")) {
    throw StorageError(what_.name + ": " + what_.signer + " gave no URL for it", 0);
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

RemoteError SignedRemote::error_in(const HttpResponse& /*response*/) const { return {}; }

bool SignedRemote::learn(const HttpResponse& response, const RemoteError& /*error*/,
                         const std::string& signed_by) {
  if (response.status != 401 && response.status != 403) return false;
  const std::scoped_lock lock(mutex_);
  if (signed_by == now_.url) now_.url.clear();
  return true;
}

std::string SignedRemote::advice_for(int status, const std::string& /*code*/) const {
  if (status != 401 && status != 403) return {};
  return "; the storage behind " + what_.signer + " refuses the URL that " + what_.signer +
         " signed";
}

}  // namespace cairn
