// What a store over SFTP knows before it connects: options, environment.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cairn/storage/sftp.h"

#include "io/threads/retry.h"

namespace cairn::sftp {

struct Config {
  std::vector<std::string> command;  // that speaks SFTP on its standard streams
  std::string root;                  // "sftp://user@host:port"
  std::string folder = {};           // as SftpOptions::folder
  std::chrono::milliseconds stall{};
  RetryPolicy retries = {};
  std::string identity = {};  // where it is the same, a store can be, too
};

// UsageError for what cannot be.
Config resolve_config(const SftpOptions& options);

// Of "sftp://user@host:port". UsageError for a password, which is not repeated, and what is no
// host.
SftpOptions options_of(const std::string& root);

std::shared_ptr<ObjectStore> make_sftp_store(Config config);

}  // namespace cairn::sftp
