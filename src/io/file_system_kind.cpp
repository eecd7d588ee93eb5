#include "io/file_system_kind.h"

#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace cairn {
namespace {

struct KnownFileSystem {
  std::uint32_t magic;
  const char* name;
  bool is_of_this_machine = false;
  bool has_sure_leases = false;
};

// From statfs(2).
constexpr std::array kKnownFileSystems = {
    KnownFileSystem{0xEF53, "ext4", true, true},
    KnownFileSystem{0x58465342, "xfs", true, true},
    KnownFileSystem{0x9123683E, "btrfs", true},
    KnownFileSystem{0xF2F52010, "f2fs", true},
    KnownFileSystem{0x01021994, "tmpfs", true},
    KnownFileSystem{0x794C7630, "overlay"},
    KnownFileSystem{0x6969, "nfs"},
    KnownFileSystem{0xFF534D42, "cifs"},
    KnownFileSystem{0xFE534D42, "smb2"},
    KnownFileSystem{0x65735546, "fuse"},
    KnownFileSystem{0x2FC12FC1, "zfs"},
    KnownFileSystem{0x0BD00BD0, "lustre"},
    KnownFileSystem{0x00C36400, "ceph"},
    KnownFileSystem{0x4D44, "msdos"},
    KnownFileSystem{0x01021997, "9p"},
};

}  // namespace

FileSystemKind file_system_kind(std::uint32_t magic) {
  const auto* found = std::ranges::find(kKnownFileSystems, magic, &KnownFileSystem::magic);
  if (found != kKnownFileSystems.end()) {
    return {found->name, found->is_of_this_machine, found->has_sure_leases};
  }
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", magic);
  return {.name = text.data()};
}

FileSystemKind file_system_of(int fd) {
  struct statfs kind = {};
  if (fstatfs(fd, &kind) != 0) return {};
  return file_system_kind(static_cast<std::uint32_t>(kind.f_type));
}

}  // namespace cairn
