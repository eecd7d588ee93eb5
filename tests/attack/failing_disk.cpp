#include "failing_disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <vector>

namespace cairn::attack {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kBlock = 4096;

// Runs a program and returns its output. Fails the test if the program fails.
std::string call(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"/usr/bin/env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"});
  testing::ChildProcess program(arguments);
  const auto ended = program.wait();
  EXPECT_EQ(ended.exit_code, 0) << arguments[2] << ": " << program.output();
  return program.output();
}

// The position of a byte of a file on the disk.
std::uint64_t place_of(const std::string& path, std::uint64_t offset) {
  alignas(fiemap) std::array<char, sizeof(fiemap) + 64 * sizeof(fiemap_extent)> room{};
  auto* const map = reinterpret_cast<fiemap*>(room.data());
  map->fm_length = FIEMAP_MAX_OFFSET;
  map->fm_flags = FIEMAP_FLAG_SYNC;
  map->fm_extent_count = 64;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int result = ioctl(fd, FS_IOC_FIEMAP, map);
  close(fd);
  EXPECT_EQ(result, 0) << path;
  for (unsigned i = 0; i < map->fm_mapped_extents; ++i) {
    const fiemap_extent& extent = map->fm_extents[i];
    if (offset >= extent.fe_logical && offset < extent.fe_logical + extent.fe_length) {
      return extent.fe_physical + (offset - extent.fe_logical);
    }
  }
  ADD_FAILURE() << path << " has no block at " << offset;
  return 0;
}

}  // namespace

std::optional<std::string> FailingDisk::missing() {
  if (geteuid() != 0) return "this test mounts a file system, and needs root";
  for (const char* path : {"/dev/fuse", "/dev/loop-control"}) {
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return std::string("cannot open ") + path;
    close(fd);
  }
  for (const char* program : {"mkfs.ext4", "losetup", "fusermount3", "mount"}) {
    if (!std::filesystem::exists(std::string("/usr/sbin/") + program) &&
        !std::filesystem::exists(std::string("/usr/bin/") + program)) {
      return std::string("there is no program ") + program;
    }
  }
  return std::nullopt;
}

FailingDisk::FailingDisk(const std::string& server) {
  std::filesystem::create_directories(here_ / "fuse");
  std::filesystem::create_directories(folder());
  server_ = std::make_unique<testing::ChildProcess>(
      std::vector<std::string>{server, here_ / "fuse", std::to_string(kBytes)});
  EXPECT_TRUE(server_->wait_for_line("ready")) << server_->output();
  call({"mkfs.ext4", "-q", "-F", "-b", std::to_string(kBlock), here_ / "fuse/disk"});
  attach();
}

// Another test's process may hold the mounts in its own mount namespace, and a loop device is
// released after its last user. So the destructor does not wait for the loop device.
FailingDisk::~FailingDisk() {
  detach();
  call({"fusermount3", "-u", "-z", here_ / "fuse"});
  server_->send(SIGKILL);
  server_->wait();
}

void FailingDisk::attach() {
  device_ = call({"losetup", "--find", "--show", here_ / "fuse/disk"});
  device_.erase(device_.find_last_not_of('\n') + 1);
  call({"mount", "-t", "ext4", device_, folder()});
}

void FailingDisk::detach() {
  // umount does not write out a file system that is also mounted elsewhere.
  call({"sync", "--file-system", folder()});
  call({"umount", folder()});
  call({"losetup", "--detach", device_});
}

void FailingDisk::fail(const std::string& path, std::uint64_t offset) {
  const std::uint64_t block = place_of(path, offset) / kBlock * kBlock;
  detach();
  std::ofstream(here_ / "fuse/control") << block << " " << kBlock << "\n";
  attach();
}

}  // namespace cairn::attack
