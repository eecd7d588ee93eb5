#include "storage/azure/connection.h"

#include "net/net_time.h"
#include "storage/azure/answers.h"

namespace cairn::azure {
namespace {

constexpr const char* kVersion = "2021-12-02";  // version of the protocol

// The secret part of a token: the rest is not enough to sign.
std::string signature_in(const std::string& sas) {
  const std::size_t begin = sas.find("sig=");
  return begin == std::string::npos ? sas : sas.substr(begin + 4, sas.find('&', begin) - begin - 4);
}

}  // namespace

Connection::Connection(Config config) : Remote(config.settings), config_(std::move(config)) {
  keep_secret({signature_in(config_.sas), percent_decoded(signature_in(config_.sas))});
}

std::string Connection::describe(const std::string& key) const {
  return "azure://" + config_.container + (key.empty() ? "" : "/" + key);
}

bool Connection::is_missing(const HttpResponse& response) const {
  return response.status == 404 && parse_error(response).code != "ContainerNotFound";
}

std::string Connection::path_of(const std::string& key) const {
  return config_.endpoint.path + "/" + percent_encoded(config_.container) +
         (key.empty() ? "" : "/" + percent_encoded(key, /*keep_slashes=*/true));
}

std::string Connection::copy_source(const std::string& key) const {
  return config_.endpoint.origin() + path_of(key) + (config_.sas.empty() ? "" : "?" + config_.sas);
}

SignedRequest Connection::sign(const RemoteRequest& request) {
  ToSign to_sign = {.method = request.method,
                    .path = path_of(request.key),
                    .query = request.query,
                    .headers = request.headers};
  for (const SharedBytes& piece : request.body) {
    to_sign.body_bytes += piece.view.size();
  }
  to_sign.headers.push_back({"x-ms-version", kVersion});
  if (request.method == "DELETE") to_sign.headers.push_back({"x-ms-delete-snapshots", "include"});
  std::string query = query_text(request.query);
  SigningTime now = signing_time();
  if (config_.sas.empty()) {
    to_sign.headers.push_back({"x-ms-date", http_date(now.time)});
    to_sign.headers.push_back({"authorization", authorization(to_sign, config_.key)});
  } else {
    query += (query.empty() ? "" : "&") + config_.sas;
  }
  return {
      .http = {.method = request.method,
               .url = config_.endpoint.origin() + to_sign.path + (query.empty() ? "" : "?" + query),
               .headers = std::move(to_sign.headers)},
      .signed_by = std::move(now.skew)};
}

RemoteError Connection::error_in(const HttpResponse& response) const {
  return parse_error(response);
}

bool Connection::learn(const HttpResponse& response, const RemoteError& /*error*/,
                       const std::string& signed_by) {
  // A wrong clock has the same code as a wrong key: only the server's time distinguishes them.
  return response.status == 403 && learn_time(response, /*is_certain=*/false, signed_by);
}

bool Connection::is_temporary(int status, const std::string& code) const {
  // A body that arrived damaged or shortened may arrive whole the next time.
  return Remote::is_temporary(status, code) || code == "Md5Mismatch" || code == "InvalidMd5" ||
         code == "OperationTimedOut" || code == "ServerBusy" || code == "InternalError";
}

std::string Connection::advice_for(int status, const std::string& code) const {
  if (code == "ContainerNotFound") return "; make it, or check its name and the account";
  if (code == "AuthenticationFailed") {
    return config_.sas.empty() ? "; check AZURE_ACCOUNT_NAME and AZURE_ACCOUNT_ACCESS_KEY"
                               : "; the token (AZURE_STORAGE_SAS_TOKEN) has ended, or is not whole";
  }
  if (code == "LeaseIdMissing") return "; another program holds a lease of it: break it, or wait";
  if (status == 403) return "; check what the key or token may do with the container";
  return "";
}

}  // namespace cairn::azure
