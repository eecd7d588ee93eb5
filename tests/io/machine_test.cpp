#include "io/machine.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "testing/descriptor_limit.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

// A root folder with the files of a machine.
class MachineTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ / path).parent_path());
    testing::write_file(root_ / path, text);
  }
  GroupLimits limits() const { return group_limits(root_.path()); }

 private:
  testing::TempFolder root_;
};

TEST_F(MachineTest, TheTightestLimitOnTheWayUpCounts) {
  write("proc/self/cgroup", "0::/jobs/one\n");
  write("sys/fs/cgroup/jobs/one/memory.max", "max\n");
  write("sys/fs/cgroup/jobs/one/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/jobs/memory.max", "1073741824\n");
  write("sys/fs/cgroup/jobs/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/memory.max", "4294967296\n");
  EXPECT_EQ(limits().memory_bytes, 1073741824U);
  EXPECT_EQ(limits().cpus, 1.5);
}

TEST_F(MachineTest, VersionOneHasAFolderForEachController) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/b\n3:freezer:/\n");
  write("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "200000\n");
  write("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "5000000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limits().memory_bytes, 5000000U);
  EXPECT_EQ(limits().cpus, 2.0);
}

TEST_F(MachineTest, WithoutGroupsOrWithNonsenseThereIsNoLimit) {
  EXPECT_EQ(limits().memory_bytes, std::nullopt);
  write("proc/self/cgroup", "nonsense\n0:\n0::relative\n\n7:cpu:/x\n");
  write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "0\n");
  write("sys/fs/cgroup/memory.max", "lots");
  EXPECT_EQ(limits().memory_bytes, std::nullopt);
  EXPECT_EQ(limits().cpus, std::nullopt);
}

TEST_F(MachineTest, TheSoftLimitOfOpenFilesIsRaised) {
  const testing::DescriptorLimit low(200);
  EXPECT_EQ(open_file_limit().soft, 200U);
  const std::uint64_t hard = open_file_limit().hard;
  ASSERT_GT(hard, 300U);
  set_soft_open_file_limit(300);
  EXPECT_EQ(open_file_limit().soft, 300U);
  EXPECT_EQ(open_file_limit().hard, hard);
}

TEST_F(MachineTest, ThisMachineHasAtLeastPartOfAProcessor) { EXPECT_GT(machine_limits().cpus, 0); }

}  // namespace
}  // namespace cairn
