// failing_disk_server MOUNT_POINT SIZE: a FUSE file system with two files. `disk` is SIZE bytes of
// memory, for use as a block device. A line "OFFSET LENGTH" written to `control` makes later reads
// of those bytes fail with EIO. Runs in the foreground; prints "ready" once mounted.
#define FUSE_USE_VERSION 31
#include <fuse3/fuse.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

constexpr std::string_view kDisk = "/disk";
constexpr std::string_view kControl = "/control";

// One thread serves all requests.
std::vector<char> disk;
std::vector<std::pair<off_t, off_t>> bad;  // begin, end

int get_attributes(const char* path, struct stat* info, fuse_file_info* /*file*/) {
  *info = {};
  info->st_nlink = 1;
  if (path == std::string_view("/")) {
    info->st_mode = S_IFDIR | 0700;
  } else if (path == kDisk) {
    info->st_mode = S_IFREG | 0600;
    info->st_size = static_cast<off_t>(disk.size());
  } else if (path == kControl) {
    info->st_mode = S_IFREG | 0600;
  } else {
    return -ENOENT;
  }
  return 0;
}

int read_disk(const char* path, char* bytes, size_t size, off_t offset, fuse_file_info* /*file*/) {
  const auto all = static_cast<off_t>(disk.size());
  if (path != kDisk || offset >= all) return 0;
  const off_t end = std::min(all, offset + static_cast<off_t>(size));
  for (const auto& [from, to] : bad) {
    if (offset < to && from < end) return -EIO;
  }
  std::copy(disk.begin() + offset, disk.begin() + end, bytes);
  return static_cast<int>(end - offset);
}

int write_disk(const char* path, const char* bytes, size_t size, off_t offset,
               fuse_file_info* /*file*/) {
  if (path == kControl) {
    long long from = 0;
    long long length = 0;
    if (std::sscanf(std::string(bytes, size).c_str(), "%lld %lld", &from, &length) != 2) {
      return -EINVAL;
    }
    bad.emplace_back(from, from + length);
    return static_cast<int>(size);
  }
  if (offset + size > disk.size()) return -ENOSPC;
  std::copy(bytes, bytes + size, disk.begin() + offset);
  return static_cast<int>(size);
}

int cut(const char* /*path*/, off_t /*size*/, fuse_file_info* /*file*/) { return 0; }
int sync(const char* /*path*/, int /*data_only*/, fuse_file_info* /*file*/) { return 0; }

void* start(fuse_conn_info* /*connection*/, fuse_config* /*config*/) {
  std::puts("ready");
  std::fflush(stdout);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: failing_disk_server MOUNT_POINT SIZE\n", stderr);
    return 2;
  }
  disk.resize(std::strtoul(argv[2], nullptr, 10));
  fuse_operations operations = {};
  operations.getattr = get_attributes;
  operations.read = read_disk;
  operations.write = write_disk;
  operations.truncate = cut;
  operations.fsync = sync;
  operations.init = start;
  std::string program = argv[0];
  std::string mount_point = argv[1];
  std::string foreground = "-f";
  std::string one_thread = "-s";
  char* arguments[] = {program.data(), foreground.data(), one_thread.data(), mount_point.data(),
                       nullptr};
  return fuse_main(4, arguments, &operations, nullptr);
}
