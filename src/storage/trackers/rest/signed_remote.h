// A file with a URL that another server signed, for a limited time and one purpose.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/threads/turns.h"
#include "storage/remote/remote.h"

namespace cairn {

struct SignedUrl {
  std::string url;
  std::vector<HttpHeader> headers = {};  // to be sent with the request
};

// All requests are for the file of the URL, whatever their key. The query of a request is added to
// the query of the URL. No message contains the URL. A URL that is refused (401, 403, 400
// ExpiredToken) is fetched again. A URL that would cross the network in the clear is not used:
// throws StorageError.
class SignedRemote final : public Remote {
 public:
  struct What {
    std::string name;    // for messages
    std::string signer;  // for messages: "Databricks"
    SignedUrl first;     // empty: fetch one
    std::function<SignedUrl()> fetch;
  };
  SignedRemote(RemoteSettings settings, What what);

  std::string describe(const std::string& key) const override;

 protected:
  SignedRequest sign(const RemoteRequest& request) override;
  RemoteError error_in(const HttpResponse& response) const override;
  bool learn(const HttpResponse& response, const RemoteError& error,
             const std::string& signed_by) override;
  std::string advice_for(int status, const std::string& code) const override;

 private:
  What what_;
  Turns turns_;    // guards now_; held during a fetch
  SignedUrl now_;  // without a URL: to be fetched
};

}  // namespace cairn
