// An upload holds only a few parts in memory, however large the object is.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>

#include "testing/child_process.h"
#include "testing/s3_environment.h"
#include "testing/temp_folder.h"
#include "tests/format/safetensors_text.h"

namespace cairn::cli {
namespace {

constexpr std::uint64_t kUploadBytes = std::uint64_t{512} << 20;
constexpr long kMaxExtraKib = 64L * 1024;

// The peak memory of the largest child process so far, in KiB.
long peak_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return usage.ru_maxrss;
}

void convert_by_tool(const std::string& from, const std::string& to) {
  testing::ChildProcess child({CAIRN_TOOL, "convert", from, to});
  const auto ended = child.wait();
  EXPECT_EQ(ended.exit_code, 0) << child.output();
}

TEST(S3MemoryTest, AnUploadNeedsAFewPartsMoreThanAFile) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers need memory of their own";
#endif
  testing::ChildProcess sink({CAIRN_S3_SINK});
  const auto line = sink.wait_for_line("http://");
  ASSERT_TRUE(line.has_value());
  testing::CleanAwsEnvironment environment;
  environment.set("S3_ENDPOINT_URL", line->substr(0, line->find('\n')).c_str());
  environment.set("AWS_ACCESS_KEY_ID", "AKID");
  environment.set("AWS_SECRET_ACCESS_KEY", "secret");
  const testing::TempFolder temp;
  const std::string in = temp / "in.safetensors";
  const std::string head = testing::safetensors_file(
      "{" +
      testing::safetensors_entry("w", "U8", "[" + std::to_string(kUploadBytes) + "]",
                                 "[0," + std::to_string(kUploadBytes) + "]") +
      "}");
  testing::write_file(in, head);
  std::filesystem::resize_file(in, head.size() + kUploadBytes);
  convert_by_tool(in, temp / "out.safetensors");
  const long of_file = peak_of_children();
  convert_by_tool(in, "s3://bucket/out.safetensors");
  const long of_upload = peak_of_children();
  EXPECT_LE(of_upload - of_file, kMaxExtraKib);
  std::printf("a file %ld MiB, an upload at most %ld MiB\n", of_file / 1024, of_upload / 1024);
}

}  // namespace
}  // namespace cairn::cli
