// Fetches keys from servers and from a program. Each function throws StorageError, which names the
// source and never repeats its answer.
#pragma once

#include <string>
#include <vector>

#include "storage/s3/credentials.h"

namespace cairn::s3 {

// Keys of AWS's Security Token Service, for the token in a file that its owner renews.
struct WebIdentity {
  std::string role;
  std::string token_file;
  std::string session;
};
Credentials fetch_web_identity(const CredentialContext& context, const WebIdentity& identity);

// `url` comes from AWS_CONTAINER_CREDENTIALS_FULL_URI. Throws UsageError if it is neither https nor
// on this machine.
Credentials fetch_container(const CredentialContext& context, const std::string& url);

// Keys of this EC2 instance's role. Returns incomplete keys if the metadata service says that there
// are none.
Credentials fetch_instance(const CredentialContext& context);

// Keys that a program prints. The command is split into arguments as a shell does it; no other
// shell features.
Credentials fetch_process(const std::string& command);
std::vector<std::string> split_command(const std::string& command);

}  // namespace cairn::s3
