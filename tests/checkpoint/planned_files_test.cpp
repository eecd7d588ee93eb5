// Every planned file is begun with its exact size, and written in blocks that the disk can take
// directly. All plans are written by the same code.
#include <gtest/gtest.h>

#include <map>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/convert.h"

#include "io/file.h"
#include "storage/local/local_store.h"
#include "testing/faulty_file_system.h"
#include "testing/pattern.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using testing::TempFolder;

struct WrittenFile {
  std::uint64_t expected = 0;
  std::uint64_t in_blocks = 0;
  std::uint64_t otherwise = 0;
};

class NotedFile final : public WritableFile {
 public:
  NotedFile(std::unique_ptr<WritableFile> under, WrittenFile& note)
      : under_(std::move(under)), note_(note) {}
  void write(ByteView bytes) override {
    note_.otherwise += bytes.size();
    under_->write(bytes);
  }
  void write_shared(const SharedBytes& bytes) override {
    note_.in_blocks += bytes.view.size();
    under_->write_shared(bytes);
  }
  void sync() override { under_->sync(); }
  void close() override { under_->close(); }

 private:
  std::unique_ptr<WritableFile> under_;
  WrittenFile& note_;
};

// Notes how each file is written.
class NotedFiles final : public testing::FaultyFileSystem {
 public:
  NotedFiles() : FaultyFileSystem(posix_file_system()) {}
  std::unique_ptr<WritableFile> create(const FilePath& path,
                                       const CreateOptions& options) override {
    WrittenFile& note = written[path.text()];
    note.expected = options.expected_bytes;
    return std::make_unique<NotedFile>(FaultyFileSystem::create(path, options), note);
  }

  std::map<std::string, WrittenFile> written;
};

Value planned_value() {
  Dict dict;
  for (int i = 0; i < 5; ++i) {
    dict.set("w" + std::to_string(i), make_tensor(DType::kUInt8, {100'000 + i},
                                                  testing::shared(testing::pattern(100'000 + i))));
  }
  return dict;
}

TEST(PlannedFilesTest, AreWrittenInBlocksIntoFilesOfKnownSize) {
  const TempFolder temp;
  save(planned_value(), temp / "in.pt");
  const auto output = [&](const char* name, ConvertOptions options) {
    NotedFiles files;
    options.store = local_store(files);
    const ConvertResult result = convert(temp / "in.pt", temp / name, options);
    EXPECT_EQ(load(temp / name), planned_value()) << name;
    std::uint64_t all = 0;
    std::size_t planned = 0;
    for (const auto& [path, note] : files.written) {
      all += note.in_blocks + note.otherwise;
      if (note.otherwise + note.in_blocks < 100'000) continue;  // An index or a manifest.
      ++planned;
      EXPECT_EQ(note.otherwise, 0U) << path;
      if (options.to == "torch") {  // The manifest and the directory of the file come last.
        EXPECT_LE(note.expected, note.in_blocks) << path;
      } else {
        EXPECT_EQ(note.expected, note.in_blocks) << path;
      }
    }
    EXPECT_EQ(all, result.bytes) << name;
    return planned;
  };
  EXPECT_EQ(output("a.pt", {.to = "torch"}), 1U);
  EXPECT_EQ(output("a.safetensors", {.to = "safetensors"}), 1U);
  EXPECT_EQ(output("shards", {.shard_bytes = 250'000}), 3U);
  EXPECT_EQ(output("dcp/", {.to = "dcp"}), 1U);
}

}  // namespace
}  // namespace cairn
