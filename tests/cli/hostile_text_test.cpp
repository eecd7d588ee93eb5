// Hostile names and texts in a file must not reach a terminal unchanged: in every command, and in
// every format that can contain them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "cairn/checkpoint/convert.h"
#include "cairn/tensor.h"

#include "cli/view/printable_stream.h"
#include "eventful_clock.h"
#include "run_folder.h"
#include "run_tool.h"

namespace cairn::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Moves the cursor, sets the title and begins a new line. Does so again with C1 characters and DEL.
const std::string kEvil = "w\x1b[2J\x1b]0;owned\x07\r\nmodel.pt  1 KiB  ok  fine\x7f\u009b2J\u0085";

bool has_control_character(const std::string& text) {
  const bool has_c0 = std::any_of(text.begin(), text.end(), [](unsigned char c) {
    return (c < 0x20 && c != '\n') || c == 0x7F;
  });
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    const auto next = static_cast<unsigned char>(text[i + 1]);
    if (text[i] == '\xc2' && next >= 0x80 && next < 0xA0) return true;
  }
  return has_c0;
}

struct HostileTextTest : ::testing::Test {
  void SetUp() override {
    const auto number = std::make_shared<const float>(1.0F);
    const Value tensor =
        make_tensor(DType::kFloat32, {1}, {std::as_bytes(std::span(number.get(), 1)), number});
    const Value value = Dict{{"state", Dict{{"model", Dict{{kEvil, tensor}}}, {"run_name", kEvil}}},
                             {kEvil, Dict{{kEvil, kEvil}}}};
    CheckpointInfo info = testing::sample_info(3);
    info.run_name = kEvil;
    cairn::save(value, folder_ / "evil.pt", {.info = info});
    cairn::save(value, folder_ / (kEvil.substr(0, 6) + ".pt"), {.info = info});
    cairn::convert(folder_ / "evil.pt", folder_ / "evil.safetensors", {.weights_only = true});
    cairn::convert(folder_ / "evil.pt", folder_ / "dcp", {.to = "dcp"});
    std::string bytes = testing::read_file(folder_ / "evil.pt");
    const std::size_t at = bytes.find(std::string("\0\0\x80\x3f", 4));
    ASSERT_NE(at, std::string::npos);
    bytes[at + 2] = '\x7f';
    testing::write_file(folder_ / "torn.pt", bytes);
    testing::write_file(folder_ / "cut.pt", bytes.substr(0, bytes.size() / 2));
  }

  RunFolder folder_;
};

TEST_F(HostileTextTest, NoCommandWritesAControlCharacter) {
  EventfulPauses pauses;
  for (int i = 0; i < 9; ++i)
    pauses.then([] {});
  std::vector<std::vector<std::string>> commands = {
      {"ls", folder_.path()},
      {"ls", "--verify", folder_.path()},
      {"verify", "--full", folder_.path()},
      {"prune", folder_.path(), "--keep-last", "1"},
      {"resume", "--explain", folder_.path()},
      {"resume", "--explain", folder_.path(), "--save-filename", "evil.pt"},
      {"report", folder_.path(), "--overwrite", "-o", folder_ / (kEvil + ".html")},
      {"diff", folder_ / "evil.pt", folder_ / "evil.safetensors"},
      {"extract", folder_ / "evil.pt", "no such " + kEvil},
      {"convert", folder_ / "evil.pt", folder_ / "new.safetensors"},
      {"convert", folder_ / "torn.pt", folder_ / "new2.safetensors"}};
  nlohmann::json loss = {{"batch", 1}, {"metric", kEvil}, {"value", 1}};
  nlohmann::json message = {{"batch", 1}, {"message", "time: " + kEvil}};
  testing::write_file(folder_ / "evil.jsonl", loss.dump() + "\n" + message.dump() + "\n");
  for (const char* once : {"--once", "--silence=1s"})
    commands.push_back(
        {"watch", folder_ / "evil.jsonl", "--checkpoints", folder_.path(), "--interval=1s", once});
  for (const char* name : {"evil.pt", "evil.safetensors", "dcp", "torn.pt", "cut.pt"}) {
    commands.push_back({"inspect", "--depth", "9", folder_ / name});
    commands.push_back({"inspect", "--tensors", "*", "--stats", folder_ / name});
    commands.push_back({"dump", folder_ / name});
    commands.push_back({"extract", folder_ / name, "*"});
  }
  for (const auto& command : commands) {
    for (const bool is_json : {false, true}) {
      std::vector<std::string> arguments = command;
      if (is_json) arguments.emplace_back("--json");
      const Answer answer = run(arguments);
      EXPECT_FALSE(has_control_character(answer.out)) << command[0] << ": " << answer.out;
      EXPECT_FALSE(has_control_character(answer.err)) << command[0] << ": " << answer.err;
    }
  }
}

TEST_F(HostileTextTest, NoNameMakesALineOfItsOwn) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"verify", "--full", folder_ / "torn.pt"},
        {"ls", "--verify", folder_.path()},
        {"inspect", "--depth", "9", folder_ / "evil.pt"},
        {"inspect", "--tensors", "*", folder_ / "evil.pt"},
        {"inspect", folder_ / "evil.safetensors"}}) {
    EXPECT_THAT(run(command).out, Not(HasSubstr("\nmodel.pt"))) << command[0];
  }
}

TEST_F(HostileTextTest, JsonStillHoldsTheNameAsItIs) {
  const Answer answer = run({"extract", folder_ / "evil.pt", "state/run_name"});
  EXPECT_EQ(nlohmann::json::parse(answer.out), kEvil);
}

// --- The last gate ------------------------------------------------------------------------------

std::string through_gate(const std::vector<std::string>& pieces, bool color) {
  std::ostringstream out;
  PrintableBuffer buffer(out, color);
  std::ostream gate(&buffer);
  for (const std::string& piece : pieces) {
    gate << piece;
  }
  gate.flush();
  return out.str();
}

TEST(PrintableBufferTest, LetsTextAndOnlyItsOwnColoursPass) {
  EXPECT_EQ(through_gate({"über\t日本\n"}, false), "über\t日本\n");
  EXPECT_EQ(through_gate({"\x1b[31mred\x1b[0m \x1b[5m"}, true), "\x1b[31mred\x1b[0m \\x1b[5m");
  EXPECT_EQ(through_gate({"\x1b[31mred"}, false), "\\x1b[31mred");
}

TEST(PrintableBufferTest, CharactersMayComeInPieces) {
  EXPECT_EQ(through_gate({"\xe6", "\x97", "\xa5"}, false), "日");
  EXPECT_EQ(through_gate({"\xc2", "\x9b"}, false), "\\x9b");
  EXPECT_EQ(through_gate({"a\xe6\x97"}, false), "a\\xe6\\x97");
  EXPECT_EQ(through_gate({"\xff", "\xfe"}, false), "\\xff\\xfe");
}

}  // namespace
}  // namespace cairn::cli
