#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/error.h"

#include "io/file.h"
#include "storage/local/local_store.h"
#include "testing/environment_variable.h"
#include "testing/faulty_file_system.h"
#include "testing/file_bytes.h"
#include "testing/sample_checkpoint.h"
#include "testing/sim_file_system.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FaultyFileSystem;
using testing::FileCall;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using testing::sample_checkpoint;
using testing::sample_info;
using testing::SimFileSystem;

class FindLatestTest : public ::testing::Test {
 protected:
  void save_sample(std::int64_t batch, const std::string& path) {
    save(sample_checkpoint(batch), path, {.info = sample_info(batch), .store = local_store(disk_)});
  }
  std::string name(std::int64_t batch) const {
    return "/ckpt/ep" + std::to_string(batch / 10) + "-ba" + std::to_string(batch) + "-rank0.pt";
  }
  void save_sample(std::int64_t batch) { save_sample(batch, name(batch)); }
  void write(const std::string& path, const std::string& bytes) {
    disk_.make_folders(parent_path(path));
    disk_.create(path, {})->write(as_bytes(bytes));
  }
  void damage(const std::string& path) {
    std::string bytes(as_text(testing::file_bytes(disk_, path).view));
    bytes[bytes.size() / 3] ^= 1;
    disk_.remove(path);
    write(path, bytes);
  }

  // The path found, or "nothing".
  std::string find(FindOptions options = {}, const std::string& folder = "/ckpt") {
    skipped_.clear();
    options.on_skip = [this](const std::string& path, const std::string& why) {
      skipped_.push_back(path + ": " + why);
    };
    if (options.store == nullptr) options.store = local_store(disk_);
    const auto found = find_latest(folder, options);
    if (!found) return "nothing";
    EXPECT_TRUE(found->report.ok());
    timestamp_ = found->timestamp;
    return found->path;
  }

  SimFileSystem disk_;
  std::vector<std::string> skipped_;
  Timestamp timestamp_;
};

TEST_F(FindLatestTest, NoFolderAndAnEmptyFolderHoldNothing) {
  EXPECT_EQ(find(), "nothing");
  disk_.make_folders("/ckpt");
  EXPECT_EQ(find(), "nothing");
  EXPECT_THAT(skipped_, IsEmpty());
}

TEST_F(FindLatestTest, TheFurthestInTrainingWinsNotTheNewestFile) {
  save_sample(20);
  save_sample(100);
  save_sample(9);
  EXPECT_EQ(find(), name(100));
  EXPECT_EQ(timestamp_, *sample_info(100).timestamp);
}

TEST_F(FindLatestTest, WhatTheFileSaysCountsNotWhatItsNameClaims) {
  save_sample(5, name(900));
  save_sample(6, name(700));
  save_sample(4, name(6));
  save_sample(3);
  EXPECT_EQ(find(), name(700));
  EXPECT_EQ(timestamp_.batch, 6);
}

// The search does not keep files open. If it looks at a name twice, the file of the second look
// counts.
TEST_F(FindLatestTest, WhatIsReplacedWhileOthersAreLookedIntoIsSeenAnew) {
  save_sample(5, name(900));
  save_sample(6, name(700));
  damage(name(700));
  FindOptions options{.store = local_store(disk_)};
  options.on_skip = [&](const std::string&, const std::string&) {
    disk_.remove(name(900));
    save_sample(8, name(900));
  };
  const auto found = find_latest("/ckpt", options);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->path, name(900));
  EXPECT_EQ(found->timestamp, *sample_info(8).timestamp);
  EXPECT_EQ(found->checkpoint.info().timestamp, found->timestamp);
}

TEST_F(FindLatestTest, OfEquallyFarOnesTheLaterFileWins) {
  save_sample(5, name(8));
  save_sample(5, name(7));
  EXPECT_EQ(find(), name(7));
}

TEST_F(FindLatestTest, DamagedOnesArePassedOverWithALineAndKept) {
  save_sample(1);
  save_sample(2);
  save_sample(3);
  damage(name(3));
  damage(name(2));
  const auto before = disk_.list("/ckpt");
  EXPECT_EQ(find(), name(1));
  ASSERT_EQ(skipped_.size(), 2U);
  EXPECT_THAT(skipped_[0], ::testing::StartsWith(name(3) + ": "));
  EXPECT_THAT(skipped_[1], ::testing::StartsWith(name(2) + ": "));
  EXPECT_THAT(skipped_, ::testing::Each(::testing::Not(HasSubstr("\n"))));
  EXPECT_EQ(disk_.list("/ckpt"), before);
}

TEST_F(FindLatestTest, ForeignAndWeightsOnlyFilesArePassedOver) {
  save_sample(1);
  write(name(2), "");
  write(name(3), "not a checkpoint at all");
  save(sample_checkpoint(4), name(4), {.info = {.kind = "weights"}, .store = local_store(disk_)});
  disk_.make_folders(name(6));
  EXPECT_EQ(find(), name(1));
  EXPECT_THAT(skipped_,
              ElementsAre(HasSubstr("it holds weights alone"), HasSubstr("ba3"), HasSubstr("ba2")));
  EXPECT_EQ(find({.full_state_only = false}), name(4));
}

// `cp FOLDER/*` does not copy .metadata. A folder that a killed save left has hidden files.
TEST_F(FindLatestTest, AFolderThatLostItsHiddenFilesIsPassedOverWithTheReason) {
  save_sample(1);
  write(name(2) + "/__0_0.distcp", "rows");
  write(name(3) + "/__0_0.distcp", "rows");
  write(name(3) + "/.cairn_manifest.json", "{}");
  EXPECT_EQ(find(), name(1));
  EXPECT_THAT(skipped_, ElementsAre(AllOf(HasSubstr("ba2"), HasSubstr("without its hidden files"),
                                          HasSubstr("cp -r"))));
}

TEST_F(FindLatestTest, OtherNamesAreNoCandidatesUnlessTheLatestLinkPointsThere) {
  save_sample(1);
  save_sample(50, "/ckpt/precious.pt");
  save_sample(60, "/ckpt/ep6-ba60-rank1.pt");
  save_sample(70);
  disk_.rename(name(70), "/ckpt/.cairn-tmp-ep7-ba70-rank0.pt-0123456789abcdef", true);
  EXPECT_EQ(find(), name(1));
  disk_.make_link("precious.pt", "/ckpt/latest-rank0.pt");
  EXPECT_EQ(find(), "/ckpt/precious.pt");
  EXPECT_EQ(find({.latest_filename = ""}), name(1));
}

TEST_F(FindLatestTest, TheLatestLinkIsAHintAndNeverAnObstacle) {
  save_sample(1);
  save_sample(2);
  // The link names a checkpoint that is older than the newest one.
  disk_.make_link("ep0-ba1-rank0.pt", "/ckpt/latest-rank0.pt");
  EXPECT_EQ(find(), name(2));
  disk_.remove("/ckpt/latest-rank0.pt");
  disk_.make_link("gone.pt", "/ckpt/latest-rank0.pt");  // Dangling.
  EXPECT_EQ(find(), name(2));
  disk_.remove("/ckpt/latest-rank0.pt");
  disk_.make_link("latest-rank0.pt", "/ckpt/latest-rank0.pt");  // A loop.
  EXPECT_EQ(find(), name(2));
  disk_.remove("/ckpt/latest-rank0.pt");
  save_sample(3, "/ckpt/latest-rank0.pt");  // A file, as a download leaves it.
  EXPECT_EQ(find(), "/ckpt/latest-rank0.pt");
}

TEST_F(FindLatestTest, ConstantNamesAndNamesWithFoldersAreFound) {
  save_sample(4, "/ckpt/checkpoint");
  EXPECT_EQ(find({.filename = "checkpoint"}), "/ckpt/checkpoint");
  save_sample(5, "/ckpt/ep0/ba5.pt");
  save_sample(16, "/ckpt/ep1/ba16.pt");
  write("/ckpt/ep1/other", "");
  EXPECT_EQ(find({.filename = "ep{epoch}/ba{batch}.pt"}), "/ckpt/ep1/ba16.pt");
  disk_.make_folders("/ckpt/links");
  disk_.make_link("../ep0/ba5.pt", "/ckpt/links/latest.pt");
  EXPECT_EQ(find({.filename = "checkpoint", .latest_filename = "links/latest.pt"}),
            "/ckpt/ep0/ba5.pt");
}

// A user who may write into the folder chooses its link. The link must not lead to files elsewhere.
TEST_F(FindLatestTest, ALinkThatLeadsOutOfTheFolderIsPassedOver) {
  save_sample(4);
  save_sample(9, "/elsewhere/ba9.pt");
  disk_.make_link("../elsewhere/ba9.pt", "/ckpt/out.pt");
  for (const bool trust : {false, true}) {
    EXPECT_EQ(find({.latest_filename = "out.pt", .trust_latest = trust}), name(4));
    ASSERT_FALSE(skipped_.empty());
    EXPECT_EQ(skipped_.front(),
              "/elsewhere/ba9.pt: the link to the newest checkpoint leads out of /ckpt");
  }
}

TEST_F(FindLatestTest, NamesMayHoldTheRunName) {
  save_sample(4, "/runs/mine/mine-ba4.pt");
  save_sample(9, "/runs/mine/other-ba9.pt");
  EXPECT_EQ(find({.filename = "{run_name}-ba{batch}.pt", .run_name = "mine"}, "/runs/mine"),
            "/runs/mine/mine-ba4.pt");
}

TEST_F(FindLatestTest, CheckpointsOfAnotherRunArePassedOverWhenAsked) {
  save_sample(1);
  save(sample_checkpoint(2), name(2), {.info = {.kind = "full"}, .store = local_store(disk_)});
  CheckpointInfo other = sample_info(3);
  other.run_name = "other";
  save(sample_checkpoint(3), name(3), {.info = other, .store = local_store(disk_)});
  std::vector<std::string> others;
  FindOptions options{.run_name = "sample", .full_state_only = false};
  options.on_other_run = [&](const std::string& path, const std::string& run_name) {
    others.push_back(path + " of " + run_name);
  };
  EXPECT_EQ(find(options), name(2));
  EXPECT_THAT(others, ElementsAre(name(3) + " of other"));
  EXPECT_THAT(skipped_, IsEmpty()) << "one that does not say whose it is may be anybody's";
  options.on_other_run = nullptr;
  EXPECT_EQ(find(options), name(3));
}

// On a file system without symbolic links, the link is a text file in Composer's form.
TEST_F(FindLatestTest, TheLatestLinkMayBeATextFile) {
  save_sample(7, "/ckpt/somewhere-else.pt");
  write("/ckpt/latest-rank0.pt.symlink", "somewhere-else.pt");
  EXPECT_EQ(find(), "/ckpt/somewhere-else.pt");
  for (const std::string nonsense : {"", "gone.pt", "a\nb", "latest-rank0.pt.symlink"}) {
    disk_.remove("/ckpt/latest-rank0.pt.symlink");
    write("/ckpt/latest-rank0.pt.symlink", nonsense);
    EXPECT_EQ(find({.filename = "ep{epoch}-ba{batch}-rank{rank}.pt"}), "nothing") << nonsense;
  }
  save_sample(3);
  EXPECT_EQ(find(), name(3));
}

TEST_F(FindLatestTest, CheckpointsOfComposerAreFoundByTheirTimestamp) {
  const std::string folder = CAIRN_TEST_DATA "/composer-0.33/adamw_cosine";
  EXPECT_EQ(find({.store = local_store()}, folder), folder + "/ep2-ba15-rank0.pt");
  EXPECT_EQ(timestamp_.batch, 15);
  EXPECT_EQ(timestamp_.epoch, 2);
  EXPECT_THAT(skipped_, IsEmpty());
  const VerifyReport report = verify(folder + "/ep0-ba3-rank0.pt");
  EXPECT_TRUE(report.ok());
  EXPECT_FALSE(report.has_manifest);
  EXPECT_THAT(report.summary(), HasSubstr("all records match their CRC-32"));
}

// --- Cost ----------------------------------------------------------------------------------------

struct Cost {
  std::uint64_t opened, examined, listed;
  bool operator==(const Cost&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Cost& cost) {
  return out << cost.opened << " opened, " << cost.examined << " examined, " << cost.listed
             << " listed";
}
Cost cost_of(const FaultyFileSystem& files) {
  return {files.calls(FileCall::kOpen), files.calls(FileCall::kStat), files.calls(FileCall::kList)};
}

TEST_F(FindLatestTest, TenThousandCheckpointsCostAsMuchAsTen) {
  std::vector<Cost> costs;
  for (const std::int64_t count : {10, 10'000}) {
    const std::string folder = "/run" + std::to_string(count);
    const auto in_folder = [&](std::int64_t batch) {
      return folder + "/ep" + std::to_string(batch / 10) + "-ba" + std::to_string(batch) +
             "-rank0.pt";
    };
    for (std::int64_t batch = 1; batch < count - 1; ++batch) {
      write(in_folder(batch), "never looked into");
    }
    save_sample(count - 1, in_folder(count - 1));
    save_sample(count, in_folder(count));
    damage(in_folder(count));
    disk_.make_link("ep" + std::to_string(count / 10) + "-ba" + std::to_string(count) + "-rank0.pt",
                    folder + "/latest-rank0.pt");
    FaultyFileSystem counting(disk_);
    std::int64_t older = 0;
    FindOptions options{.store = local_store(counting)};
    options.on_older = [&older](const std::string&, const Timestamp& timestamp) {
      EXPECT_LT(timestamp.epoch, 1'000);
      ++older;
    };
    EXPECT_EQ(find(options, folder), in_folder(count - 1));
    EXPECT_EQ(older, count - 2);
    EXPECT_EQ(skipped_.size(), 1U);
    costs.push_back(cost_of(counting));
  }
  EXPECT_EQ(costs[0], costs[1]);
  EXPECT_EQ(costs[1], (Cost{.opened = 2, .examined = 3, .listed = 1}));
}

TEST_F(FindLatestTest, OfFoldersOfEpochsOnlyTheFurthestIsListed) {
  const auto path = [](std::int64_t epoch, std::int64_t batch) {
    return "/ckpt/ep" + std::to_string(epoch) + "/ba" + std::to_string(batch) + ".pt";
  };
  for (std::int64_t epoch = 0; epoch < 100; ++epoch) {
    write(path(epoch, 10 * epoch), "never looked into");
  }
  save_sample(1000, path(100, 1000));
  save_sample(1001, path(100, 1001));
  // The next epoch's process was killed before it wrote anything.
  disk_.make_folders("/ckpt/ep101");
  FaultyFileSystem counting(disk_);
  EXPECT_EQ(find({.filename = "ep{epoch}/ba{batch}.pt", .store = local_store(counting)}),
            path(100, 1001));
  EXPECT_EQ(cost_of(counting).opened, 1U);
  EXPECT_EQ(cost_of(counting).listed, 3U);
}

TEST_F(FindLatestTest, NamesWithoutACounterThatGrowsGoByTheTimeOfTheFiles) {
  for (std::int64_t batch = 1; batch <= 20; ++batch) {
    save_sample(batch, "/ckpt/in_epoch" + std::to_string(batch * 7 % 20) + ".pt");
  }
  FaultyFileSystem counting(disk_);
  EXPECT_EQ(find({.filename = "in_epoch{batch_in_epoch}.pt", .store = local_store(counting)}),
            "/ckpt/in_epoch0.pt");
  EXPECT_EQ(timestamp_.batch, 20);
  EXPECT_EQ(cost_of(counting).opened, 1U);
}

TEST_F(FindLatestTest, CountersWithinAnEpochOrderWhatIsOfOneEpoch) {
  const auto write_at = [this](std::int64_t batch, std::int64_t in_epoch) {
    save_sample(batch,
                "/ckpt/" + std::to_string(batch / 10) + "." + std::to_string(in_epoch) + ".pt");
  };
  write_at(23, 3);
  write_at(22, 2);
  write_at(19, 9);
  EXPECT_EQ(find({.filename = "{epoch}.{batch_in_epoch}.pt"}), "/ckpt/2.3.pt");
}

TEST_F(FindLatestTest, WhatIsExceptedIsPassedOverWithoutAWord) {
  save_sample(1);
  save_sample(2);
  disk_.make_link("ep0-ba2-rank0.pt", "/ckpt/latest-rank0.pt");
  EXPECT_EQ(find({.except = {name(2)}}), name(1));
  EXPECT_THAT(skipped_, IsEmpty());
}

// --- Errors are not data -------------------------------------------------------------------------

// Each call of the search fails with each error that says nothing about the file. The search never
// returns an older checkpoint, and never says that there is none.
TEST_F(FindLatestTest, WhatCannotBeReadNowStopsTheSearchAndTouchesNothing) {
  save_sample(1);
  save_sample(2);
  disk_.make_link("ep0-ba2-rank0.pt", "/ckpt/latest-rank0.pt");
  const auto before = disk_.list("/ckpt");
  FaultyFileSystem counting(disk_);
  find({.store = local_store(counting)});
  for (const int error : {EACCES, EMFILE, ENFILE, ENOMEM, ENOSPC}) {
    for (std::uint64_t call = 1; call <= counting.calls(); ++call) {
      FaultyFileSystem faulty(disk_);
      faulty.fail(call, error);
      try {
        find({.store = local_store(faulty)});
        FAIL() << "call " << call << ", errno " << error << " went unnoticed";
      } catch (const StorageError& e) {
        EXPECT_EQ(e.status(), error);
      }
      EXPECT_THAT(skipped_, IsEmpty());
    }
  }
  EXPECT_EQ(disk_.list("/ckpt"), before);
}

constexpr std::array kLost = {EIO, ESTALE, EUCLEAN, EBADMSG};

// If the disk fails to deliver a checkpoint, whichever call fails, the search finds the older
// checkpoint and reports the lost one. If the disk fails to deliver the folder or the link, the
// search throws.
TEST_F(FindLatestTest, WhatTheDiskDoesNotGiveIsPassedOver) {
  save_sample(1);
  save_sample(2);
  disk_.make_link("ep0-ba2-rank0.pt", "/ckpt/latest-rank0.pt");
  FaultyFileSystem counting(disk_);
  find({.store = local_store(counting)});
  for (const int error : kLost) {
    std::set<FileCall> kinds;  // The kinds of calls whose failure was passed over.
    for (std::uint64_t call = 1; call <= counting.calls(); ++call) {
      SCOPED_TRACE("call " + std::to_string(call) + ", errno " + std::to_string(error));
      FaultyFileSystem faulty(disk_);
      faulty.fail(call, error);
      FileCall failed = {};
      faulty.before_each([&](FileCall kind, std::uint64_t number) {
        if (number == call) failed = kind;
      });
      try {
        EXPECT_EQ(find({.store = local_store(faulty)}), name(1));
        EXPECT_THAT(skipped_, ElementsAre(AllOf(HasSubstr(name(2) + ": "),
                                                HasSubstr("check the kernel log"))));
        kinds.insert(failed);
      } catch (const StorageError& e) {
        EXPECT_EQ(e.status(), error);
        EXPECT_THAT(skipped_, IsEmpty());
      }
    }
    EXPECT_THAT(kinds, IsSupersetOf({FileCall::kStat, FileCall::kOpen, FileCall::kRead}));
  }
}

TEST_F(FindLatestTest, WhenTheDiskGivesNoneTheSearchEndsWithTheFurthest) {
  save_sample(1);
  save_sample(2);
  FaultyFileSystem faulty(disk_);
  faulty.fail(FileCall::kOpen, 1, ESTALE);
  faulty.fail(FileCall::kOpen, 2, EIO);
  try {
    find({.store = local_store(faulty)});
    FAIL();
  } catch (const UnreadableError& e) {
    EXPECT_EQ(e.status(), ESTALE);
    EXPECT_THAT(e.what(), HasSubstr(name(2)));
    EXPECT_THAT(e.what(), HasSubstr("no checkpoint is good"));
  }
}

// Neither the folder itself nor a subfolder in the names is taken for empty.
TEST_F(FindLatestTest, AFolderThatTheDiskDoesNotGiveEndsTheSearch) {
  save_sample(1, "/ckpt/ep0/ba1.pt");
  save_sample(11, "/ckpt/ep1/ba11.pt");
  for (const int error : {EIO, ESTALE}) {
    for (const std::uint64_t list : {1, 2}) {
      FaultyFileSystem faulty(disk_);
      faulty.fail(FileCall::kList, list, error);
      EXPECT_THROW(find({.filename = "ep{epoch}/ba{batch}.pt", .store = local_store(faulty)}),
                   StorageError);
      EXPECT_THAT(skipped_, IsEmpty());
    }
  }
}

TEST_F(FindLatestTest, TheErrorNamesTheFileAndSaysWhatToDo) {
  save_sample(2);
  FaultyFileSystem faulty(disk_);
  faulty.fail(FileCall::kOpen, 1, EACCES);
  try {
    find({.store = local_store(faulty)});
    FAIL();
  } catch (const StorageError& e) {
    EXPECT_THAT(e.what(), HasSubstr(name(2) + ", which seems to be the furthest checkpoint"));
    EXPECT_THAT(e.what(), HasSubstr("put the file aside"));
    EXPECT_THAT(e.what(), HasSubstr("permissions"));
  }
}

TEST_F(FindLatestTest, WhatIsBehindTheAnswerMayBeUnreadable) {
  save_sample(1);
  save_sample(2);
  FaultyFileSystem faulty(disk_);
  faulty.fail(FileCall::kOpen, 2, EACCES);
  EXPECT_EQ(find({.store = local_store(faulty)}), name(2));
}

TEST_F(FindLatestTest, NoRoomToExpandIsNoDamage) {
  const std::string path = "/ckpt/ep0-ba2-rank0.pt.gz";
  save_sample(1, "/ckpt/ep0-ba1-rank0.pt.gz");
  save_sample(2, path);
  const testing::EnvironmentVariable no_room("TMPDIR", "/dev/full/no-such-folder");
  EXPECT_THROW(find({.filename = "ep{epoch}-ba{batch}-rank{rank}.pt.gz"}), StorageError);
  EXPECT_THAT(skipped_, IsEmpty());
}

// --- Neighbours ----------------------------------------------------------------------------------

// On the real file system, where names can be stranger than on the simulated one.
struct FindLatestAmongStrangers : FindLatestTest {
  std::string path(std::int64_t batch) const {
    return folder_ / ("ep0-ba" + std::to_string(batch) + "-rank0.pt");
  }
  void save_real(std::int64_t batch) {
    save(sample_checkpoint(batch), path(batch), {.info = sample_info(batch)});
  }
  std::string find_real() { return find({.store = local_store()}, folder_.path()); }

  testing::TempFolder folder_;
};

TEST_F(FindLatestAmongStrangers, NoneOfThemEndsTheSearch) {
  save_real(1);
  std::filesystem::create_symlink(std::string(300, 'x'), path(100));
  std::filesystem::create_symlink("ep0-ba101-rank0.pt", path(101));  // A loop.
  std::filesystem::create_symlink("nowhere", path(102));
  std::filesystem::create_directory(path(103));
  ASSERT_EQ(mkfifo(path(104).c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", path(105));
  testing::write_file(path(106), "");
  testing::write_file(path(107), std::string(1000, '\0'));
  std::filesystem::resize_file(path(107), std::uintmax_t{8} << 40);  // Sparse: takes no space.
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  const std::string by_descriptor = path(108);
  ASSERT_LT(by_descriptor.size(), sizeof(address.sun_path));
  std::strcpy(address.sun_path, by_descriptor.c_str());
  ASSERT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(socket);
  std::filesystem::create_symlink(std::string(300, 'y'), folder_ / "latest-rank0.pt");
  EXPECT_EQ(find_real(), path(1));
  EXPECT_THAT(skipped_, ::testing::Each(::testing::Not(HasSubstr("\n"))));
}

TEST_F(FindLatestTest, WhatVerifiesAndIsNoTrainingStateIsPassedOver) {
  save_sample(1);
  const auto disguised = [this](Value value, std::int64_t batch) {
    save(value, name(batch), {.info = sample_info(batch), .store = local_store(disk_)});
  };
  Value at_five = sample_checkpoint(5);
  disguised(Dict{{"mine", 1}}, 10);
  disguised(Dict{{"state", 1}}, 11);
  disguised(Dict{{"state", Dict{}}}, 12);
  disguised(List{}, 13);
  disguised(at_five, 14);  // The state of another batch.
  Value no_model = sample_checkpoint(15);
  no_model.mutable_dict()["state"].mutable_dict()["model"] = 3;
  disguised(no_model, 15);
  Value without_manifest = sample_checkpoint(16);
  without_manifest.mutable_dict()["state"].mutable_dict().erase("model");
  write(name(16), testing::encoded(without_manifest));
  EXPECT_EQ(find(), name(1));
  EXPECT_EQ(skipped_.size(), 7U);
  EXPECT_THAT(skipped_, ::testing::Each(HasSubstr("it says that it holds a training state")));
}

TEST_F(FindLatestTest, ReasonsAreOneLineWhateverTheFileSays) {
  save_sample(1);
  save(Dict{{"state", Dict{{"model", Dict{{"a\n\x1b[2J", 1}}}}}}, name(2),
       {.info = sample_info(2), .store = local_store(disk_)});
  write(name(3), "PK\x03\x04\x1b]0;owned\x07\n");
  EXPECT_EQ(find(), name(1));
  EXPECT_THAT(skipped_, ::testing::Each(::testing::Not(::testing::ContainsRegex("[\n\x1b]"))));
}

TEST_F(FindLatestTest, AHostileNeighbourIsPassedOverInOneLine) {
  save_sample(20);
  write(name(900), "\x80\4](" + std::string(4 << 20, '}') + "e.");
  EXPECT_EQ(find(), name(20));
  ASSERT_EQ(skipped_.size(), 1U);
  EXPECT_THAT(skipped_[0], HasSubstr(name(900)));
  EXPECT_THAT(skipped_[0], HasSubstr("of memory for 4.0 MiB of file"));
}

// If the search went on, the run would begin again from the older checkpoint.
TEST_F(FindLatestTest, OutOfMemoryAtACandidateEndsTheSearch) {
  save_sample(20);
  save_sample(10);
  FaultyFileSystem counted(disk_);
  find({.store = local_store(counted)});
  const std::uint64_t maps = counted.calls(FileCall::kOpen);
  for (std::uint64_t n = 1; n <= maps; ++n) {
    FaultyFileSystem faulty(disk_);
    std::uint64_t seen = 0;
    faulty.before_each([&](FileCall kind, std::uint64_t) {
      if (kind == FileCall::kOpen && ++seen == n) throw std::bad_alloc();
    });
    EXPECT_THROW(find({.store = local_store(faulty)}), OutOfMemoryError) << n;
    EXPECT_TRUE(skipped_.empty()) << n;
  }
}

TEST_F(FindLatestTest, AFileInPlaceOfTheFolderIsAUsageError) {
  write("/ckpt", "a file");
  EXPECT_THROW(find(), UsageError);
}

}  // namespace
}  // namespace cairn
