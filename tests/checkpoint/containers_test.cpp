// Checkpoints in every container and compression. They are saved, found, verified, loaded, opened
// by the command-line tools, cut off and damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/names.h"
#include "cairn/error.h"

#include "checkpoint/names/extension.h"
#include "checkpoint/open/source.h"
#include "checkpoint/plan/save_pipeline.h"
#include "checkpoint/plan/write_checkpoint.h"
#include "format/tar/writer.h"
#include "io/process/program.h"
#include "storage/local/local_store.h"
#include "testing/environment_variable.h"
#include "testing/faulty_file_system.h"
#include "testing/message_of.h"
#include "testing/sample_checkpoint.h"
#include "testing/sim_file_system.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using testing::EnvironmentVariable;
using testing::FaultyFileSystem;
using testing::FileCall;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using testing::sample_checkpoint;
using testing::sample_info;
using testing::SimFileSystem;
using testing::StringSink;
using testing::TempFolder;

struct Container {
  std::string extension;
  std::vector<std::string> containers;  // Outermost first.
  // This command, with the file's path appended, prints the .pt.
  std::vector<std::string> tool;
};

// The name that GoogleTest shows.
void PrintTo(const Container& shown, std::ostream* out) { *out << shown.extension; }

const std::vector<std::string> kUntar = {"tar", "-xO", "composer_states.pt", "-f"};

const std::array kCases = {
    Container{".tar", {"tar"}, kUntar},
    Container{".tar.gz", {"gzip", "tar"}, kUntar},
    Container{".tgz", {"gzip", "tar"}, kUntar},
    Container{".tar.bz2", {"bzip2", "tar"}, kUntar},
    Container{".tar.lzma", {"xz", "tar"}, {"tar", "-xOJ", "composer_states.pt", "-f"}},
    Container{".pt.gz", {"gzip"}, {"gzip", "-dc"}},
    Container{".pt.bz2", {"bzip2"}, {"bzip2", "-dc"}},
    Container{".pt.xz", {"xz"}, {"xz", "-dc"}},
    Container{".pt.lzma", {"lzma"}, {"lzma", "-dc"}},
    Container{".pt.lz4", {"lz4"}, {"lz4", "-dc"}},
    Container{".pt.zst", {"zstd"}, {"zstd", "-dc"}},
    Container{".pt.lzo", {"lzop"}, {"lzop", "-dc"}},
};

// The output of a program, which must succeed.
std::string output_of(const std::vector<std::string>& argv) {
  StringSink out;
  PipeThrough program(argv, out);
  EXPECT_EQ(program.finish(), "") << argv[0];
  return out.text;
}

class ContainerTest : public ::testing::TestWithParam<Container> {
 protected:
  void SetUp() override {
    if (is_lzop && !find_program("lzop")) GTEST_SKIP() << "lzop is not installed";
  }
  std::string path_of(const std::string& name) const { return folder / (name + extension); }

  const TempFolder folder;
  const std::string extension = GetParam().extension;
  const bool is_lzop = extension == ".pt.lzo";
};

TEST_P(ContainerTest, WhatWasSavedIsLoaded) {
  const std::string path = path_of("a");
  for (const std::size_t bytes : {64, 100'000}) {
    const Value value = sample_checkpoint(3, bytes);
    save(value, path, {.info = sample_info(3)});
    EXPECT_EQ(load(path), value) << bytes;
    EXPECT_EQ(open_source(path)->info().containers, GetParam().containers);
    EXPECT_EQ(open_source(path)->info().bytes, posix_file_system().stat(path)->size);
  }
  EXPECT_THAT(posix_file_system().list(folder.path()), ElementsAre("a" + extension));
}

TEST_P(ContainerTest, TheContentDecidesAndNotTheName) {
  const Value value = sample_checkpoint(3);
  save(value, path_of("a"));
  posix_file_system().rename(path_of("a"), folder / "b.zip");
  EXPECT_EQ(load(folder / "b.zip"), value);
}

TEST_P(ContainerTest, TheManifestInsideIsVerified) {
  const std::string path = path_of("a");
  save(sample_checkpoint(3), path, {.info = sample_info(3)});
  for (const Verify how : {Verify::kQuick, Verify::kFull}) {
    const VerifyReport report = verify(path, how);
    EXPECT_TRUE(report.ok()) << report.summary();
    EXPECT_TRUE(report.has_manifest);
    ASSERT_TRUE(report.info.has_value());
    EXPECT_EQ(report.info->timestamp->batch, 3);
  }
}

TEST_P(ContainerTest, ToolsFindTheSamePtInside) {
  const std::vector<std::string>& tool = GetParam().tool;
  if (!find_program(tool[0])) GTEST_SKIP() << tool[0] << " is not installed";
  for (const std::size_t bytes : {64, 1'100'000}) {  // The larger file takes several streams.
    const Value value = sample_checkpoint(3, bytes);
    save(value, folder / "plain.pt", {.info = sample_info(3)});
    save(value, path_of("a"), {.info = sample_info(3)});
    std::vector<std::string> argv = tool;
    argv.push_back(path_of("a"));
    EXPECT_TRUE(output_of(argv) == testing::read_file(folder / "plain.pt")) << bytes;
  }
}

TEST_P(ContainerTest, EqualValuesGiveEqualFiles) {
  if (is_lzop) GTEST_SKIP() << "lzop writes the time of day";
  save(sample_checkpoint(3), path_of("a"));
  save(sample_checkpoint(3), path_of("b"));
  EXPECT_EQ(testing::read_file(path_of("a")), testing::read_file(path_of("b")));
}

TEST_P(ContainerTest, IsFoundByItsName) {
  const NameFormat format("ep{epoch}-ba{batch}-rank{rank}" + extension);
  SavePipeline pipeline;
  for (const std::int64_t batch : {3, 12, 9}) {
    const Timestamp timestamp = *sample_info(batch).timestamp;
    const std::string name = strict_format(format, dist_variables("") + time_variables(timestamp));
    pipeline.submit({.value = sample_checkpoint(batch),
                     .path = folder / name,
                     .latest = folder / ("latest-rank0" + extension),
                     .info = sample_info(batch)});
    const auto counters = parse_name(format, name, dist_variables(""));
    ASSERT_TRUE(counters.has_value());
    EXPECT_THAT(*counters,
                ::testing::Contains(std::pair<std::string, std::int64_t>("batch", batch)));
  }
  pipeline.wait();
  const NameFormat latest("latest-rank{rank}" + extension);
  const auto found = find_latest(folder.path(), {.filename = format, .latest_filename = latest});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path, folder / ("ep1-ba12-rank0" + extension));
  EXPECT_EQ(load(folder / ("latest-rank0" + extension)), sample_checkpoint(9));
}

TEST_P(ContainerTest, RotationRemovesTheOldOne) {
  SavePipeline pipeline;
  std::vector<std::string> removed;
  pipeline.submit({.value = sample_checkpoint(1), .path = path_of("old")});
  pipeline.submit({.value = sample_checkpoint(2),
                   .path = path_of("new"),
                   .remove_afterwards = {path_of("old")},
                   .report = [&](const SaveReport& report) { removed = report.removed; }});
  pipeline.wait();
  EXPECT_THAT(removed, ElementsAre(path_of("old")));
  EXPECT_THAT(posix_file_system().list(folder.path()), ElementsAre("new" + extension));
}

TEST_P(ContainerTest, AFullDiskKeepsTheOldFileAndLeavesNothing) {
  const std::string path = path_of("a");
  save("old", path);
  for (const FileCall call : {FileCall::kCreate, FileCall::kWrite, FileCall::kSync}) {
    FaultyFileSystem faulty(posix_file_system());
    faulty.fail(call, 1, ENOSPC);
    EXPECT_THROW(save(sample_checkpoint(3, 100'000), path, {.store = local_store(faulty)}),
                 StorageError);
  }
  EXPECT_EQ(load(path), Value("old"));
  EXPECT_THAT(posix_file_system().list(folder.path()), ElementsAre("a" + extension));
}

// --- Damage --------------------------------------------------------------------------------------

// The value that load() returns for these bytes. Nullopt if load() throws one of two errors.
std::optional<Value> loaded(const std::string& bytes) {
  SimFileSystem disk;
  disk.create("/a", {})->write(as_bytes(bytes));
  try {
    return load("/a", {.store = local_store(disk)});
  } catch (const CorruptError& e) {
    EXPECT_EQ(e.file(), "/a") << e.what();
  } catch (const UnsupportedError&) {
  }
  return std::nullopt;
}

// A larger stride for lzop, because each read of such a file starts a process.
std::size_t stride_of(const std::string& extension) { return extension == ".pt.lzo" ? 37 : 1; }

TEST_P(ContainerTest, TruncationAtEveryByteIsAnError) {
  save(sample_checkpoint(3, 64), path_of("a"), {.info = sample_info(3)});
  const std::string bytes = testing::read_file(path_of("a"));
  for (std::size_t size = 0; size < bytes.size(); size += stride_of(extension)) {
    ASSERT_EQ(loaded(bytes.substr(0, size)), std::nullopt) << size << " of " << bytes.size();
  }
}

TEST_P(ContainerTest, AFlipOfEveryByteIsAnErrorOrHarmless) {
  const Value value = sample_checkpoint(3, 64);
  save(value, path_of("a"), {.info = sample_info(3)});
  const std::string bytes = testing::read_file(path_of("a"));
  for (std::size_t at = 0; at < bytes.size(); at += stride_of(extension)) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x21);
    const auto read = loaded(damaged);
    if (read) {  // The damaged byte is a header byte without a meaning.
      ASSERT_EQ(*read, value) << at;
    }
  }
}

TEST_P(ContainerTest, VerifySaysThatItIsDamaged) {
  const std::string path = path_of("a");
  save(sample_checkpoint(3, 1000), path, {.info = sample_info(3)});
  std::string bytes = testing::read_file(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x10);
  testing::write_file(path, bytes);
  EXPECT_FALSE(verify(path).ok());
  const std::string message = message_of<CorruptError>([&] { load(path); });
  EXPECT_THAT(message, HasSubstr(path));
  if (extension != ".tar") {  // The .pt fails here; compressions have their own checksums.
    EXPECT_THAT(message, HasSubstr(GetParam().containers[0]));
  }
}

std::string case_name(const ::testing::TestParamInfo<Container>& info) {
  std::string name = info.param.extension.substr(1);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, ContainerTest, ::testing::ValuesIn(kCases), case_name);

// Composer unpacks a tar with tarfile.open() and extractall().
TEST(TarContainerTest, PythonUnpacksItAsComposerDoes) {
  if (!find_program("python3")) GTEST_SKIP() << "python3 is not installed";
  const TempFolder folder;
  const Value value = sample_checkpoint(3, 1'100'000);
  save(value, folder / "plain.pt");
  for (const std::string extension : {".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.lzma"}) {
    const std::string path = folder / ("a" + extension);
    save(value, path);
    output_of({"python3", "-c",
               "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])", path,
               folder / ("out" + extension)});
    EXPECT_TRUE(testing::read_file(folder / ("out" + extension) + "/composer_states.pt") ==
                testing::read_file(folder / "plain.pt"))
        << extension;
  }
}

// --- Names ---------------------------------------------------------------------------------------

TEST(ExtensionTest, TheLongestOneCounts) {
  EXPECT_EQ(find_extension("a").text, "");
  EXPECT_EQ(find_extension("folder.tar/a").text, "");
  EXPECT_EQ(find_extension(".hidden").text, "");
  EXPECT_EQ(find_extension("a.pt").text, ".pt");
  EXPECT_EQ(find_extension("ep1.5-ba2.pt").text, ".pt");
  EXPECT_EQ(find_extension("ep1.5-ba2.tar.gz").text, ".tar.gz");
  EXPECT_EQ(find_extension("a.b.pt.gz").text, ".pt.gz");
  EXPECT_EQ(find_extension("a.tar.pt").text, ".pt");
  EXPECT_EQ(find_extension("x/y.tgz").text, ".tgz");
}

TEST(ExtensionTest, IsUnknownOnlyWhereOneWasMeant) {
  for (const std::string name :
       {"a.gz", "a.tar.xz", "a.pt.tar.zst", "a.PT", "a.Tar.Gz", "ep{epoch}.zstd", "a.pt.foo",
        "a.pt.unknown_compressor", "a.tar.unknownalgorithm", "a.b.PT.foo", "weights.safetensors",
        "latest.pt.symlink", "a.pin"}) {
    EXPECT_THROW(find_extension(name), UsageError) << name;
  }
  for (const std::string name :
       {"ep1.5", "a.", "lr0.1", "lr0.1-ep3-ba10-rank0", "v1.2", "best.adam", "model.ckpt", "a.pth",
        "a.pt.1-ep3", "a.tar.2", "x.pt/lr0.1", ".zstd", "1.2.3"}) {
    EXPECT_EQ(find_extension(name).text, "") << name;
  }
}

TEST(ExtensionTest, WhatWasMeantIsToldWithoutAnError) {
  EXPECT_EQ(meant_extension("a.tar.gz"), ".tar.gz");
  EXPECT_EQ(meant_extension("a.pt.gz"), ".pt.gz");
  EXPECT_EQ(meant_extension("a.b.PT.foo"), ".PT.foo");
  EXPECT_EQ(meant_extension("weights.safetensors"), ".safetensors");
  for (const std::string name : {"", "ep1", "run.v1", "lr0.1", ".hidden", "a.pth"}) {
    EXPECT_EQ(meant_extension(name), "") << name;
  }
}

// T91, T103: the names in Composer's tests, and how files with these names are written.
TEST(ExtensionTest, ComposersNamesMeanWhatTheyMeantThere) {
  for (const std::string name :
       {"x.tar", "foo.bar.tar", "x.tgz", "x.tar.gz", "x.tar.bz2", "x.tar.lzma"}) {
    EXPECT_TRUE(find_extension(name).is_tar) << name;
  }
  for (const std::string name : {"x.pt.lz4", "pt.pt.lz4", "x.y.pt.lz4"}) {
    EXPECT_EQ(find_extension(name).codec, &kLz4) << name;
    EXPECT_FALSE(find_extension(name).is_tar) << name;
  }
  // Except for the last name, Composer cannot write files with these names either. Composer fails
  // at the first save, or writes a plain file.
  for (const std::string name : {"x.tar.foo", "x.pt.unknown", "x.pt.symlink", "x.lz4", "pt.lz4"}) {
    EXPECT_THROW(find_extension(name), UsageError) << name;
  }
  for (const std::string name :
       {"", "x", "tar", "x.y", "x.y.z", "tar.foo.xyz", "tar.xyz", "a.tar/b"}) {
    EXPECT_EQ(find_extension(name).text, "") << name;
  }
  EXPECT_EQ(find_extension("x.tar.pt").text, ".pt");
}

TEST(ExtensionTest, AMissingProgramIsNamedBeforeAnythingIsWritten) {
  const EnvironmentVariable path("PATH", "/nowhere");
  const std::string message = message_of<UsageError>([] { check_extension("ep{epoch}.pt.lzo"); });
  EXPECT_NO_THROW(check_extension("a.pt.lz4"));
  EXPECT_THAT(message, ::testing::AllOf(HasSubstr("ep{epoch}.pt.lzo"), HasSubstr("program lzop")));
}

TEST(ExtensionTest, ReadingLzopWithoutItsProgramSaysWhatToInstall) {
  if (!find_program("lzop")) GTEST_SKIP() << "lzop is not installed";
  const TempFolder folder;
  save(1, folder / "a.pt.lzo");
  const EnvironmentVariable path("PATH", "/nowhere");
  const std::string message = message_of<UnsupportedError>([&] { load(folder / "a.pt.lzo"); });
  EXPECT_THAT(message, HasSubstr("the program lzop is not in the PATH; install it"));
}

// --- Containers in containers --------------------------------------------------------------------

std::string compressed(const Codec& codec, const std::string& text) {
  StringSink sink;
  const auto encoder = codec.encoder(sink);
  encoder->write(as_bytes(text));
  encoder->finish();
  return sink.text;
}

TEST(NestedContainersTest, AreTakenOffOneAfterAnother) {
  const std::string pt = testing::encoded(Value(5));
  EXPECT_EQ(loaded(compressed(kZstd, compressed(kGzip, pt))), Value(5));
  std::string bytes = pt;
  for (int i = 0; i < 4; ++i) {
    bytes = compressed(kGzip, bytes);
  }
  EXPECT_EQ(loaded(bytes), Value(5));
  EXPECT_EQ(loaded(compressed(kGzip, bytes)), std::nullopt);
}

TEST(NestedContainersTest, WhatIsInsideIsNamedWhenItIsNoCheckpoint) {
  const TempFolder folder;
  testing::write_file(folder / "a.gz", compressed(kGzip, "GGUF and more"));
  EXPECT_THAT(message_of<UnsupportedError>([&] { load(folder / "a.gz"); }),
              HasSubstr("inside gzip: this is a GGUF file"));
}

TEST(NestedContainersTest, ATarOfSeveralFilesNeedsComposersOne) {
  const auto tar_of = [](const std::vector<std::string>& names) {
    std::string bytes;
    for (const std::string& name : names) {
      StringSink sink;
      const std::string pt = testing::encoded(Value(name));
      tar::Writer tar(sink, name, pt.size());
      tar.write(as_bytes(pt));
      tar.finish();
      bytes.resize(bytes.size() - std::min<std::size_t>(bytes.size(), 1024));  // Cuts off the end.
      bytes += sink.text;
    }
    return bytes;
  };
  EXPECT_EQ(loaded(tar_of({"other.pt"})), Value("other.pt"));
  EXPECT_EQ(loaded(tar_of({"other.pt", "composer_states.pt"})), Value("composer_states.pt"));
  const TempFolder folder;
  testing::write_file(folder / "a.tar", tar_of({"1", "2", "3", "4", "5", "6"}));
  EXPECT_THAT(message_of<UnsupportedError>([&] { load(folder / "a.tar"); }),
              HasSubstr("a tar of 6 files, none of them composer_states.pt: 1, 2, 3, 4, 5, ..."));
}

}  // namespace
}  // namespace cairn
