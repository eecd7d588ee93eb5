// Checkpoints in folders of another machine, by SFTP through the user's own `ssh` program. The
// store uses that program's keys, agent, ~/.ssh/config and known host keys.
//
//   save(value, "sftp://user@host/run/ep1.pt");         // "run" is in the login folder
//   save(value, "sftp://host/%2Fdata/run/ep1.pt");      // "/data/run"
//   auto store = sftp_store({.host = "host", .folder = "/data"});
//   save(value, "run/ep1.pt", {.store = store});
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/export.h"
#include "cairn/storage/object_store.h"

namespace CAIRN_PUBLIC cairn {

// Empty options are as the user's ssh has them.
struct SftpOptions {
  std::string host = {};  // required: a name, an address, a Host of ~/.ssh/config
  std::string user = {};
  std::optional<int> port = std::nullopt;
  // A prefix of all names: "/data", or "runs" in the login folder.
  std::string folder = {};
  // A private key, in addition to those of the agent and of ~/.ssh: COMPOSER_SFTP_KEY_FILE.
  std::string key_file = {};
  // The file of host keys, in place of ~/.ssh/known_hosts: COMPOSER_SFTP_KNOWN_HOSTS_FILE.
  std::string known_hosts_file = {};
  // Further arguments of ssh: {"-o", "ProxyJump=gate"}.
  std::vector<std::string> ssh_arguments = {};
  // A program that speaks SFTP on its standard input and output, in place of ssh and all its
  // arguments.
  std::vector<std::string> command = {};
  // If the server sends nothing for this long, the connection is given up. To make a file durable,
  // the server has ten minutes.
  std::chrono::milliseconds stall{30'000};
  int attempts = 5;  // attempts per operation when the connection breaks
};

// Makes a store over one server, without connecting. Throws UsageError for invalid options.
//
// An object is written under a hidden name and then renamed, so that it appears whole or not at
// all. A pointer is a file NAME.symlink whose text is the name of another file, as in Composer.
// Symbolic links are followed. docs/storage.md says what is guaranteed.
std::shared_ptr<ObjectStore> sftp_store(const SftpOptions& options);

}  // namespace cairn
