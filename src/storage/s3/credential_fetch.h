// Keys that are fetched: from servers, and from a program. Each throws StorageError, naming where
// it asked and never what it got.
#pragma once

#include <string>
#include <vector>

#include "storage/s3/credentials.h"

namespace cairn::s3 {

// The answer of a server that gives keys: the first that is not worth another attempt.
HttpResponse ask_for_keys(HttpClient& client, const NetRetries& retries,
                          const HttpRequest& request);
// Its body. StorageError, which says that `what` cannot be had, unless its status is 200.
std::string keys_answer(const HttpResponse& response, const std::string& what);
[[noreturn]] void refuse_keys(const std::string& what, const std::string& why, int status = 0);

// Whether "host:port" is this machine, or a metadata service of it: what is sent there does not
// cross a network.
bool is_of_this_machine(const std::string& host);

// Of AWS's Security Token Service, for the token in a file, which its owner renews.
struct WebIdentity {
  std::string role;
  std::string token_file;
  std::string session;
};
Credentials fetch_web_identity(const CredentialContext& context, const WebIdentity& identity);

// `url` as AWS_CONTAINER_CREDENTIALS_FULL_URI gives it. UsageError for one that is neither https
// nor this machine's.
Credentials fetch_container(const CredentialContext& context, const std::string& url);

// Of the role of this EC2 instance; incomplete ones where the metadata service says that there are
// none.
Credentials fetch_instance(const CredentialContext& context);

// What a program prints: its arguments are split as a shell does, without anything else of one.
Credentials fetch_process(const std::string& command);
std::vector<std::string> split_command(const std::string& command);

}  // namespace cairn::s3
