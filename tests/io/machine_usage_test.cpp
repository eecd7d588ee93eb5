#include "io/machine_usage.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;
using ::testing::Pair;

// A root folder with the files of a machine.
class MachineUsageTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ / path).parent_path());
    testing::write_file(root_ / path, text);
  }
  const std::string& root() const { return root_.path(); }

 private:
  testing::TempFolder root_;
};

TEST_F(MachineUsageTest, MemoryOfTheProcess) {
  EXPECT_EQ(process_memory(root()), std::nullopt);
  write("proc/self/status", "Name:\tcat\nVmHWM:\t    2000 kB\nVmRSS:\t    1000 kB\nThreads:\t1\n");
  const auto memory = process_memory(root());
  EXPECT_EQ(memory->resident_bytes, 1024000U);
  EXPECT_EQ(memory->peak_resident_bytes, 2048000U);
  EXPECT_GT(process_memory()->resident_bytes, 1U << 20);
}

TEST_F(MachineUsageTest, TimeOfTheProcessors) {
  EXPECT_EQ(cpu_times(root()), std::nullopt);
  write("proc/stat", "cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  EXPECT_EQ(cpu_times(root())->total, 531U);
  EXPECT_EQ(cpu_times(root())->busy, 81U);
  write("proc/stat", "cpu 1 2\n");
  EXPECT_EQ(cpu_times(root()), std::nullopt);
}

TEST_F(MachineUsageTest, MemoryOfTheMachineAsPsutilGivesIt) {
  EXPECT_THAT(memory_figures(root()), IsEmpty());
  write("proc/meminfo",
        "MemTotal: 1000 kB\nMemFree: 200 kB\nMemAvailable: 600 kB\nBuffers: 50 kB\nCached: 300 kB\n"
        "Active: 310 kB\nInactive: 320 kB\nShmem: 9 kB\nSlab: 40 kB\nSReclaimable: 30 kB\n"
        "HugePages_Total: 0\n");
  constexpr double kKilo = 1024;
  EXPECT_THAT(
      memory_figures(root()),
      ElementsAre(Pair("total", 1000 * kKilo), Pair("available", 600 * kKilo),
                  Pair("percent", 40.0), Pair("used", 420 * kKilo), Pair("free", 200 * kKilo),
                  Pair("active", 310 * kKilo), Pair("inactive", 320 * kKilo),
                  Pair("buffers", 50 * kKilo), Pair("cached", 330 * kKilo),
                  Pair("shared", 9 * kKilo), Pair("slab", 40 * kKilo)));
}

TEST_F(MachineUsageTest, TrafficOfAllInterfaces) {
  write("proc/net/dev",
        "Inter-|   Receive                    |  Transmit\n"
        " face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop\n"
        "    lo: 1 2 3 4 0 0 0 0 10 20 30 40 0 0 0 0\n"
        "  eth0:100 200 300 400 0 0 0 0 1000 2000 3000 4000 0 0 0 0\n");
  EXPECT_THAT(network_figures(root()),
              ElementsAre(Pair("bytes_sent", 1010), Pair("bytes_recv", 101),
                          Pair("packets_sent", 2020), Pair("packets_recv", 202), Pair("errin", 303),
                          Pair("errout", 3030), Pair("dropin", 404), Pair("dropout", 4040)));
}

TEST_F(MachineUsageTest, SpaceOfTheRoot) {
  EXPECT_THAT(disk_figures(),
              ElementsAre(Pair("total", Gt(0)), Pair("used", ::testing::Ge(0)),
                          Pair("free", ::testing::Ge(0)), Pair("percent", ::testing::Le(100))));
}

}  // namespace
}  // namespace cairn
