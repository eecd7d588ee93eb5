// This machine's file system, except that the disk fails to deliver one file for a while.
#pragma once

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cairn/error.h"

#include "io/file.h"
#include "testing/faulty_file_system.h"

namespace cairn::testing {

class MissingBytes final : public FaultyFileSystem {
 public:
  // The first `times` calls that open `path` fail with ESTALE. With `hides_name`, calls of stat()
  // for `path` fail and count, too.
  MissingBytes(std::string path, int times, bool hides_name = false)
      : FaultyFileSystem(posix_file_system()),
        path_(std::move(path)),
        left_(times),
        hides_name_(hides_name) {}

  std::shared_ptr<const ByteSource> open(const std::string& path) override {
    check(path);
    return FaultyFileSystem::open(path);
  }
  std::optional<FileInfo> stat(const std::string& path, bool follow) override {
    if (hides_name_) check(path);
    return FaultyFileSystem::stat(path, follow);
  }

 private:
  void check(const std::string& path) {
    if (path == path_ && left_-- > 0) throw UnreadableError("cannot open " + path, ESTALE);
  }

  const std::string path_;
  std::atomic<int> left_;
  const bool hides_name_;
};

}  // namespace cairn::testing
