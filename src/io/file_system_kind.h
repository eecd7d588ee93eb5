// The file systems that cairn knows by the magic number of statfs(2).
#pragma once

#include <cstdint>
#include <string>

namespace cairn {

struct FileSystemKind {
  std::string name;  // "ext4"; the number for an unknown one: "0x0000abcd"
  // The files lie on a disk or in memory of this machine. An unknown file system counts as shared.
  bool is_of_this_machine = false;
  // Leases (fcntl) cover every process that has a file open. Many network and FUSE file systems
  // give leases that cover only the openings on this machine.
  bool has_sure_leases = false;
};

// `magic`: f_type of statfs() or fstatfs(), in 32 bits.
FileSystemKind file_system_kind(std::uint32_t magic);

// As above for an open file or folder. If fstatfs() fails: an unknown file system.
FileSystemKind file_system_of(int fd);

}  // namespace cairn
