// Keys that are fetched: from servers, and from a program. Each throws StorageError, naming where
// it asked and never what it got.
#pragma once

#include <string>
#include <vector>

#include "storage/s3/credentials.h"

namespace cairn::s3 {

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
