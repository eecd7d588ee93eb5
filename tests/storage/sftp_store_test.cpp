#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"
#include "cairn/storage/sftp.h"
#include "cairn/storage/stores.h"

#include "io/bytes/source_part.h"
#include "io/threads/cancellation.h"
#include "sftp_fixture.h"
#include "storage/listing.h"
#include "testing/environment_variable.h"
#include "testing/message_of.h"
#include "testing/pattern.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::EnvironmentVariable;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::message_of;
using ::testing::Not;
using testing::TempFolder;

// --- With a real server --------------------------------------------------------------------------

class SftpStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (sftp_server().empty()) GTEST_SKIP() << "OpenSSH's sftp-server is not installed";
  }
  std::shared_ptr<ObjectStore> store_of_script(const std::string& script) const {
    return served_.store_of_script(script);
  }

  SftpServed served_;
};

TEST_F(SftpStoreTest, WhatIsWrittenIsAFileAndNothingElse) {
  const auto store = served_.store();
  const std::string bytes = testing::pattern(10'000'000);
  put_text(*store, "run/deep/ep1.pt", bytes);
  EXPECT_TRUE(testing::read_file(served_.folder / "run/deep/ep1.pt") == bytes);
  EXPECT_TRUE(text_of(*store, "run/deep/ep1.pt") == bytes);
  EXPECT_THAT(list_names(*store, "run/deep"), ElementsAre("ep1.pt"));
  for (const std::string name : {"a b", "ü=ö", "-rf", "$(x)", "%41"}) {
    put_text(*store, "names/" + name, name);
    EXPECT_EQ(text_of(*store, "names/" + name), name);
  }
}

TEST_F(SftpStoreTest, RangesOfManyPiecesComeInTheirPlaces) {
  const auto store = served_.store();
  const std::string bytes = testing::pattern(3'000'000);
  put_text(*store, "a", bytes);
  const auto source = store->open("a");
  std::string one(1'000'001, ' ');
  std::string two(1'999'999, ' ');
  const std::array<ByteSource::Range, 2> ranges = {
      ByteSource::Range{1'000'000, std::as_writable_bytes(std::span(two))},
      ByteSource::Range{0, std::as_writable_bytes(std::span(one))}};
  source->read(ranges);
  EXPECT_TRUE(one == bytes.substr(0, one.size()));
  EXPECT_TRUE(two == bytes.substr(1'000'000, two.size()));
}

TEST_F(SftpStoreTest, LinksOfLocalRunsAreRead) {
  const auto store = served_.store();
  put_text(*store, "run/ep1.pt", "bytes");
  const auto local = local_store();
  local->move_pointer(served_.folder / "run/latest", served_.folder / "run/ep1.pt");
  EXPECT_EQ(store->read_pointer("run/latest")->target, "run/ep1.pt");
  EXPECT_EQ(store->stat("run/latest", false)->type, ObjectInfo::Type::kPointer);
  EXPECT_EQ(text_of(*store, "run/latest"), "bytes");
  put_text(*store, "run/ep2.pt", "more");
  store->move_pointer("run/latest", "run/ep2.pt");
  EXPECT_EQ(text_of(*store, "run/latest"), "more") << "one mark, the new one";
  EXPECT_THAT(list_names(*store, "run"), ElementsAre("ep1.pt", "ep2.pt", "latest"));
}

TEST_F(SftpStoreTest, NamesMayBeginAtTheRoot) {
  const auto store = served_.store();
  put_text(*store, "%2F" + served_.folder.path() + "/absolute", "bytes");
  EXPECT_EQ(testing::read_file(served_.folder / "absolute"), "bytes");
  SftpOptions options = served_.options();
  options.folder = served_.folder / "below";
  put_text(*served_.store(options), "a", "bytes");
  EXPECT_EQ(testing::read_file(served_.folder / "below/a"), "bytes");
}

TEST_F(SftpStoreTest, OfTwoWritersOfANewNameOneIsRefused) {
  const auto store = served_.store();
  const auto other = served_.store();
  const auto one = store->begin("a", {.condition = WriteCondition::absent()});
  const auto two = other->begin("a", {.condition = WriteCondition::absent()});
  one->write(as_bytes("one"));
  two->write(as_bytes("two"));
  two->commit();
  EXPECT_THROW(one->commit(), AlreadyExistsError);
  EXPECT_EQ(text_of(*store, "a"), "two");
}

TEST_F(SftpStoreTest, WhatFailsMeanwhileDoesNotTouchAWrite) {
  const auto store = served_.store();
  put_text(*store, "folder/b", "x");
  const std::string bytes = testing::pattern(3'000'000);  // less than may be under way
  const auto write = store->begin("a");
  write->write(as_bytes(bytes));
  EXPECT_THROW(store->remove("folder"), UsageError);
  write->commit();
  EXPECT_TRUE(text_of(*store, "a") == bytes);
}

TEST_F(SftpStoreTest, WhatAKilledWriterLeavesIsHiddenAndGoesAfterADay) {
  const auto store = served_.store();
  const std::string left = served_.folder / ".cairn-tmp-a-0123456789abcdef";
  testing::write_file(left, "x");
  EXPECT_THAT(list_names(*store, ""), IsEmpty());
  EXPECT_THAT(store->remove_leftovers("", ""), IsEmpty()) << "its writer may live";
  EXPECT_EQ(std::system(("touch -d '2 days ago' " + left).c_str()), 0);
  EXPECT_THAT(store->remove_leftovers("", "b"), IsEmpty());
  EXPECT_THAT(store->remove_leftovers("", "a"), ElementsAre(".cairn-tmp-a-0123456789abcdef"));
}

TEST_F(SftpStoreTest, AReadThatBreaksOffGoesOnWhereItWas) {
  const std::string bytes = testing::pattern(4'000'000);
  put_text(*served_.store(), "a", bytes);
  const std::string starts = served_.folder / "starts";
  const auto store =
      store_of_script("echo x >> '" + starts + "'; \"$1\" -d \"$2\" | stdbuf -o0 head -c 1000000");
  EXPECT_TRUE(text_of(*store, "a") == bytes);
  const auto count = testing::read_file(starts).size() / 2;
  EXPECT_GE(count, 5U) << "of 1 MB each";
  EXPECT_LE(count, 12U) << "nothing was read twice but what was under way";
}

TEST_F(SftpStoreTest, AFileThatWasReplacedMeanwhileIsNotMixedIn) {
  const std::string bytes = testing::pattern(3'000'000);
  put_text(*served_.store(), "a", bytes);
  const std::string switched = served_.folder / "switched";
  const auto store =
      store_of_script("if [ -e '" + switched + "' ]; then echo y > \"$2/a\"; fi; " + "touch '" +
                      switched + "'; \"$1\" -d \"$2\" | stdbuf -o0 head -c 1000000");
  const auto source = store->open("a");
  std::string into(3'000'000, ' ');
  const ByteSource::Range range{0, std::as_writable_bytes(std::span(into))};
  EXPECT_THAT(message_of<StorageError>([&] {
                source->read({&range, 1});
              }),
              HasSubstr("was replaced while it was read; open it again"));
}

TEST_F(SftpStoreTest, AWriteThatBreaksOffIsToldAndMayBeRepeated) {
  // The first server accepts half a megabyte; later servers accept everything.
  const std::string was_cut = served_.folder / "was_cut";
  const auto store =
      store_of_script("if [ -e '" + was_cut + "' ]; then exec \"$1\" -d \"$2\"; fi; " + "touch '" +
                      was_cut + "'; stdbuf -o0 head -c 500000 | \"$1\" -d \"$2\"");
  const std::string bytes = testing::pattern(8'000'000);
  try {
    put_text(*store, "a", bytes);
    FAIL() << "it was cut";
  } catch (const StorageError& e) {
    EXPECT_TRUE(e.retryable());
  }
  EXPECT_FALSE(store->stat("a"));
  put_text(*store, "a", bytes);
  EXPECT_TRUE(text_of(*store, "a") == bytes);
}

TEST_F(SftpStoreTest, WhatTheServerForbidsIsToldByItsWords) {
  SftpOptions options = served_.options();
  options.command.push_back("-R");  // read-only
  const auto store = served_.store(options);
  EXPECT_THAT(message_of<StorageError>([&] { put_text(*store, "a", "x"); }),
              AllOf(HasSubstr("sftp://host: cannot create"), HasSubstr("Permission denied")));
}

// --- With a peer that is no server ---------------------------------------------------------------

std::string packet_of(const std::string& body) {
  std::string packet;
  for (int shift = 24; shift >= 0; shift -= 8)
    packet += static_cast<char>(body.size() >> shift & 0xFF);
  return packet + body;
}

std::string number(std::uint32_t value) { return packet_of(std::string(value, 'x')).substr(0, 4); }

const std::string kHello = packet_of("\x02" + number(3));

// A peer that begins with `greeting`, and sends `answer` after the first request.
class HostilePeer {
 public:
  explicit HostilePeer(const std::string& greeting, const std::string& answer = "") {
    testing::write_file(folder_ / "greeting", greeting);
    testing::write_file(folder_ / "answer", answer);
  }
  std::shared_ptr<ObjectStore> store(std::chrono::milliseconds stall) const {
    // The client's first packet has 9 bytes; the tenth byte belongs to a request.
    sftp::Config config = sftp::resolve_config(
        {.host = "host",
         .command = {"sh", "-c",
                     "cat '" + (folder_ / "greeting") + "'; head -c 10 > /dev/null; cat '" +
                         (folder_ / "answer") + "'; cat > /dev/null"},
         .stall = stall,
         .attempts = 2});
    config.retries.pause = [](std::chrono::milliseconds) {};
    return sftp::make_sftp_store(std::move(config));
  }
  std::string message(std::chrono::milliseconds stall = std::chrono::seconds(20)) const {
    return message_of<StorageError>([&] { store(stall)->stat("a"); });
  }

 private:
  TempFolder folder_;
};

TEST(SftpPeerTest, WhatIsNoSftpIsRefused) {
  EXPECT_THAT(HostilePeer("Welcome to this machine!\n").message(), HasSubstr("no SFTP packet"));
  EXPECT_THAT(HostilePeer(packet_of("\x02" + number(6))).message(), HasSubstr("version 6"));
  EXPECT_THAT(HostilePeer(packet_of("\x65" + number(1) + number(0))).message(),
              HasSubstr("first packet is not SFTP"));
}

TEST(SftpPeerTest, LengthsAreBelievedAsFarAsTheyAreJustified) {
  const std::string status = "\x65" + number(1);
  EXPECT_THAT(HostilePeer(kHello, "\xFF\xFF\xFF\xFF" + status).message(),
              HasSubstr("no SFTP packet"));
  EXPECT_THAT(HostilePeer(kHello, std::string("\0\0\0\x02", 4) + status).message(),
              HasSubstr("no SFTP packet"));
  // 200 KB in answer to a request whose answers are a few bytes long.
  EXPECT_THAT(HostilePeer(kHello, std::string("\0\x03\x0D\x40", 4) + status).message(),
              HasSubstr("no SFTP packet"));
  EXPECT_THAT(HostilePeer(kHello, packet_of("\x65" + number(1))).message(),
              HasSubstr("shorter than it says"));
  const std::string attributes = "\x69" + number(1);
  EXPECT_THAT(HostilePeer(kHello, packet_of(attributes + "\x80" + std::string(3, '\0') +
                                            "\xFF\xFF\xFF\xFF"))
                  .message(),
              HasSubstr("shorter than it says"));
}

TEST(SftpPeerTest, AnswersToNothingEndTheConnection) {
  EXPECT_THAT(HostilePeer(kHello, packet_of("\x65" + number(77) + number(0))).message(),
              HasSubstr("no known request"));
  EXPECT_THAT(HostilePeer(kHello, packet_of("\x66" + number(1) + number(0))).message(),
              HasSubstr("another type than"));
}

TEST(SftpPeerTest, OneThatSaysNothingIsGivenUp) {
  EXPECT_THAT(HostilePeer("").message(std::chrono::milliseconds(50)), HasSubstr("said nothing"));
  EXPECT_THAT(HostilePeer(kHello).message(std::chrono::milliseconds(50)),
              AllOf(HasSubstr("failed 2 times"), HasSubstr("said nothing")));
}

TEST(SftpPeerTest, WaitingEndsWhenItIsCancelled) {
  const HostilePeer peer(kHello);
  const auto store = peer.store(std::chrono::hours(1));
  Cancellation cancellation("the run has ended");
  const CancelScope scope(&cancellation);
  std::thread other([&] { cancellation.cancel(); });
  EXPECT_THAT(message_of<CancelledError>([&] { store->stat("a"); }),
              HasSubstr("the run has ended"));
  other.join();
}

// --- The command ---------------------------------------------------------------------------------

TEST(SftpPlaceTest, SshIsAskedWithoutQuestions) {
  const auto command = [](const std::string& root) {
    return sftp::resolve_config(sftp::options_of(root)).command;
  };
  const EnvironmentVariable key("COMPOSER_SFTP_KEY_FILE", "/keys/id");
  const EnvironmentVariable known("COMPOSER_SFTP_KNOWN_HOSTS_FILE", "/keys/known hosts");
  const auto full = command("sftp://me@host.lan:23");
  EXPECT_EQ(full.front(), "ssh");
  EXPECT_THAT(full, AllOf(Contains("BatchMode=yes"), Contains("/keys/id"), Contains("23"),
                          Contains("me"), Contains("UserKnownHostsFile=\"/keys/known hosts\"")));
  EXPECT_THAT(std::vector<std::string>(full.end() - 4, full.end()),
              ElementsAre("-s", "--", "host.lan", "sftp"));
  EXPECT_EQ(command("sftp://[::1]:22").end()[-2], "::1");
}

TEST(SftpPlaceTest, WhatCannotBeIsRefused) {
  const auto refused = [](const std::string& place) {
    return message_of<UsageError>([&] { object_store_of(place); });
  };
  EXPECT_THAT(
      refused("sftp://me:canary@host/a"),
      AllOf(HasSubstr("password"), HasSubstr("COMPOSER_SFTP_KEY_FILE"), Not(HasSubstr("canary"))));
  EXPECT_THAT(refused("sftp://host//data/a"), HasSubstr("sftp://host/%2Fdata/run"))
      << "Composer's form of a path from the root is not taken for one below the login's folder";
  EXPECT_THAT(refused("sftp:///a"), HasSubstr("name of a host"));
  EXPECT_THAT(refused("sftp://-oProxyCommand=x/a"), HasSubstr("name of a host"));
  EXPECT_THAT(refused("sftp://ho st/a"), HasSubstr("name of a host"));
  EXPECT_THAT(refused("sftp://-x@host/a"), HasSubstr("user's name"));
  EXPECT_THAT(refused("sftp://host:x/a"), HasSubstr("port is no number"));
  EXPECT_THAT(refused("sftp://host:70000/a"), HasSubstr("no port 70000"));
}

TEST(SftpPlaceTest, WhatSshSaysIsToldAndNotAskedAgain) {
  const TempFolder folder;
  const auto message_with = [&](const std::string& says, const std::string& starts) {
    sftp::Config config = sftp::resolve_config(
        {.host = "host",
         .command = {"sh", "-c",
                     "echo x >> '" + (folder / starts) + "'; echo '" + says + "' >&2; exit 255"},
         .attempts = 3});
    config.retries.pause = [](std::chrono::milliseconds) {};
    return message_of<StorageError>([&] { sftp::make_sftp_store(config)->stat("a"); });
  };
  EXPECT_THAT(message_with("me@host: Permission denied (publickey).", "denied"),
              AllOf(HasSubstr("Permission denied (publickey)"), HasSubstr("without questions")));
  EXPECT_EQ(testing::read_file(folder / "denied"), "x\n");
  EXPECT_THAT(message_with("connect to host: Connection refused", "refused"),
              HasSubstr("Connection refused"));
  EXPECT_EQ(testing::read_file(folder / "refused"), "x\nx\nx\n");
}

}  // namespace
}  // namespace cairn
