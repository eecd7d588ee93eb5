// Stores over OpenSSH's own sftp-server, as a child of the test: no ssh, no network.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "io/bytes/source_part.h"
#include "io/process/spawn.h"
#include "storage/sftp/config.h"
#include "testing/temp_folder.h"

namespace cairn {

// The path of the sftp-server, from CAIRN_SFTP_SERVER or where it is installed; "" if there is
// none.
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

inline void put_text(ObjectStore& store, const std::string& name, const std::string& text,
                     const WriteCondition& condition = {}) {
  const auto object = store.begin(name, {.condition = condition});
  object->write(as_bytes(text));
  object->commit();
}

inline std::string text_of(ObjectStore& store, const std::string& name) {
  return std::string(as_text(read_all(*store.open(name)).view));
}

// A folder that such a server serves.
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
  // A store over the server as `script` starts it: "$1" is the server, "$2" the folder for its
  // option -d.
  std::shared_ptr<ObjectStore> store_of_script(const std::string& script) const {
    SftpOptions of_script = options();
    of_script.command = {"sh", "-c", script, "sh", sftp_server(), folder.path()};
    of_script.attempts = 3;
    return store(of_script);
  }

  testing::TempFolder folder;
};

}  // namespace cairn
