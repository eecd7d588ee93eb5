// The configuration of an SFTP store from options and environment, before it connects.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/storage/sftp.h"

#include "io/threads/retry.h"

namespace cairn::sftp {

struct Config {
  std::vector<std::string> command;  // a program that speaks SFTP on its standard streams
  std::string root;                  // "sftp://user@host:port"
  std::string folder = {};           // as in SftpOptions
  std::chrono::milliseconds stall{};
  RetryPolicy retries = {};
  std::string identity = {};  // configurations with equal identities can share a store
};

// Throws UsageError for options that are invalid.
Config resolve_config(const SftpOptions& options);

// Parses "sftp://user@host:port". Throws UsageError for a password, which the message does not
// repeat, and for text that is no host.
SftpOptions options_of(const std::string& root);

std::shared_ptr<ObjectStore> make_sftp_store(Config config);

}  // namespace cairn::sftp
