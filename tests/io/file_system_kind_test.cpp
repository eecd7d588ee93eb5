#include "io/file_system_kind.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(FileSystemKindTest, KnowsWhatIsOfThisMachine) {
  const FileSystemKind ext4 = file_system_kind(0xEF53);
  EXPECT_EQ(ext4.name, "ext4");
  EXPECT_TRUE(ext4.is_of_this_machine);
  EXPECT_TRUE(ext4.has_sure_leases);
  const FileSystemKind tmpfs = file_system_kind(0x01021994);
  EXPECT_EQ(tmpfs.name, "tmpfs");
  EXPECT_TRUE(tmpfs.is_of_this_machine);
  EXPECT_FALSE(tmpfs.has_sure_leases);
  for (const std::uint32_t shared : {0x6969U, 0x65735546U, 0x0BD00BD0U}) {  // NFS, FUSE, Lustre
    EXPECT_FALSE(file_system_kind(shared).is_of_this_machine) << file_system_kind(shared).name;
    EXPECT_FALSE(file_system_kind(shared).has_sure_leases) << file_system_kind(shared).name;
  }
}

TEST(FileSystemKindTest, AnUnknownOneCountsAsShared) {
  const FileSystemKind unknown = file_system_kind(0xABCD);
  EXPECT_EQ(unknown.name, "0x0000abcd");
  EXPECT_FALSE(unknown.is_of_this_machine);
  EXPECT_FALSE(file_system_of(-1).is_of_this_machine);
}

}  // namespace
}  // namespace cairn
