// Stores over OpenSSH's own sftp-server, as a child of the test: no ssh, no network.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "io/spawn.h"
#include "storage/sftp/config.h"
#include "testing/temp_folder.h"

namespace cairn {

// Where it is installed, or what CAIRN_SFTP_SERVER says; "" when it is nowhere.
inline std::string sftp_server() {
  const char* given = std::getenv("CAIRN_SFTP_SERVER");  // NOLINT(concurrency-mt-unsafe)
  for (const std::string& path :
       {std::string(given == nullptr ? "/" : given), std::string("/usr/lib/openssh/sftp-server"),
        std::string("/usr/libexec/openssh/sftp-server"), std::string("/usr/libexec/sftp-server"),
        std::string("/usr/lib/ssh/sftp-server")}) {
    if (path != "/" && find_program(path)) return path;
  }
  return "";
}

// A folder that such a server shows.
struct SftpServed {
  SftpOptions options() const {
    return {.host = "host", .command = {sftp_server(), "-d", folder.path()}};
  }
  std::shared_ptr<ObjectStore> store(const SftpOptions& options) const {
    sftp::Config config = sftp::resolve_config(options);
    config.retries.pause = [](std::chrono::milliseconds) {};
    return sftp::make_sftp_store(std::move(config));
  }
  std::shared_ptr<ObjectStore> store() const { return store(options()); }

  testing::TempFolder folder;
};

}  // namespace cairn
