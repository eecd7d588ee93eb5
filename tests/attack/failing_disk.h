// A real ext4 on a disk with blocks that cannot be read.
//
//  1. failing_disk_server serves a file over FUSE. Reads of the file fail at positions that the
//     server is told.
//  2. A loop device makes that file a block device, which has an ext4.
//  3. fail() asks the file system for the position of a file's byte, and tells the server. Then it
//     mounts everything again, so that nothing comes from a cache.
//
// Needs root, /dev/fuse, loop devices and the server.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "testing/child_process.h"
#include "testing/temp_folder.h"

namespace cairn::attack {

class FailingDisk {
 public:
  // Names something that the test needs and this machine lacks. Returns nullopt if nothing is
  // missing.
  static std::optional<std::string> missing();

  // `server` is the path of failing_disk_server. Fails the test if something does not work.
  explicit FailingDisk(const std::string& server);
  ~FailingDisk();
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;

  // The folder where the ext4 is mounted. No file in it may be open during fail() and the
  // destructor.
  std::string folder() const { return here_ / "files"; }
  // From now on the block with that byte of the file cannot be read.
  void fail(const std::string& path, std::uint64_t offset);

 private:
  void attach();
  void detach();

  testing::TempFolder here_;
  std::unique_ptr<testing::ChildProcess> server_;
  std::string device_;
};

}  // namespace cairn::attack
