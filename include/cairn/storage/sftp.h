// Checkpoints in folders of another machine, by SFTP, over the user's own `ssh` program: with its
// keys, its agent, its ~/.ssh/config, and the host keys that it knows.
//
//   save(value, "sftp://user@host/run/ep1.pt");         // "run" is in the folder one logs in to
//   save(value, "sftp://host/%2Fdata/run/ep1.pt");      // "/data/run"
//   auto store = sftp_store({.host = "host", .folder = "/data"});
//   save(value, "run/ep1.pt", {.store = store});
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cairn/storage/object_store.h"

namespace cairn {

// What is empty is as the user's ssh has it.
struct SftpOptions {
  std::string host = {};  // required: a name, an address, a Host of ~/.ssh/config
  std::string user = {};
  std::optional<int> port = std::nullopt;
  // What all names are below: "/data", or "runs" in the folder that one logs in to.
  std::string folder = {};
  // A private key, besides those of the agent and of ~/.ssh: COMPOSER_SFTP_KEY_FILE.
  std::string key_file = {};
  // Of the hosts' keys, in place of ~/.ssh/known_hosts: COMPOSER_SFTP_KNOWN_HOSTS_FILE.
  std::string known_hosts_file = {};
  // Further arguments of ssh: {"-o", "ProxyJump=gate"}.
  std::vector<std::string> ssh_arguments = {};
  // In place of ssh and all its arguments: what speaks SFTP on its standard input and output.
  std::vector<std::string> command = {};
  // The server says nothing for so long: the connection is given up. Making a file durable may take
  // it ten minutes.
  std::chrono::milliseconds stall{30'000};
  int attempts = 5;  // of what a connection that broke off was in the way of
};

// A store over one server. Nothing is connected yet. UsageError for options that cannot be.
//
// An object is written under a hidden name and renamed, so that it is there whole or not at all;
// pointers are Composer's, files NAME.symlink whose text is the name of another, and symbolic links
// are followed. docs/storage.md says what is guaranteed.
std::shared_ptr<ObjectStore> sftp_store(const SftpOptions& options);

}  // namespace cairn
