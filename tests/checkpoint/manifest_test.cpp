#include "checkpoint/plan/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"

#include "testing/sample_checkpoint.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;

const std::vector<FileRecord> kRecords = {
    {"data.pkl", 64, 100, 0x11111111},
    {"data/0", 256, 4000, 0x22222222},
    {"version", 4352, 2, 0x33333333},
};

std::string error_of(const std::string& text) {
  try {
    parse_manifest(text);
  } catch (const CorruptError& e) {
    return e.what();
  }
  return "no CorruptError";
}

// The manifest with one piece of its text replaced.
std::string with(const std::string& from, const std::string& to) {
  std::string text = manifest_text(testing::sample_info(7), kRecords);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return text.replace(at, from.size(), to);
}

TEST(ManifestTest, IsWrittenAsDocumented) {
  CheckpointInfo info = {.kind = "weights", .run_name = "run \"1\""};
  const std::string text = manifest_text(info, kRecords);
  EXPECT_THAT(text, ::testing::MatchesRegex(
                        R"(\{"schema":1,"writer":"cairn [0-9.]+","layout":"torch-zip-64",)"
                        R"("kind":"weights","run_name":"run \\"1\\"",)"
                        R"("records":3,"bytes":4102,"xxh3_128":"[0-9a-f]+"\})"));
  EXPECT_EQ(text, manifest_text(info, kRecords));
}

TEST(ManifestTest, WhatWasWrittenIsRead) {
  const CheckpointInfo info = testing::sample_info(1234);
  const Manifest manifest = parse_manifest(manifest_text(info, kRecords));
  EXPECT_EQ(manifest.info.kind, "full");
  EXPECT_EQ(manifest.info.run_name, "sample");
  EXPECT_EQ(manifest.info.timestamp, info.timestamp);
  EXPECT_EQ(manifest.layout, kManifestLayout);
  EXPECT_EQ(compare_with_records(manifest, kRecords), "");
}

TEST(ManifestTest, AnyChangeOfAnyRecordIsSeen) {
  const Manifest manifest = parse_manifest(manifest_text({}, kRecords));
  for (std::size_t i = 0; i < kRecords.size(); ++i) {
    for (int field = 0; field < 4; ++field) {
      std::vector<FileRecord> records = kRecords;
      if (field == 0) records[i].name += "x";
      if (field == 1) records[i].offset += 1;
      if (field == 2) records[i].size += 1;
      if (field == 3) records[i].crc32 ^= 1;
      EXPECT_NE(compare_with_records(manifest, records), "") << i << " " << field;
    }
    std::vector<FileRecord> fewer = kRecords;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(compare_with_records(manifest, fewer), "");
  }
  std::vector<FileRecord> swapped = kRecords;
  std::swap(swapped[0], swapped[1]);
  EXPECT_THAT(compare_with_records(manifest, swapped), HasSubstr("digest"));
}

TEST(ManifestTest, TheManifestsOwnRecordDoesNotCount) {
  const Manifest manifest = parse_manifest(manifest_text({}, kRecords));
  std::vector<FileRecord> records = kRecords;
  records.push_back({std::string(kManifestRecord), 5000, 300, 1});
  EXPECT_EQ(compare_with_records(manifest, records), "");
}

TEST(ManifestTest, NewerFieldsArePassedOverNewerSchemasNameTheirWriter) {
  const Manifest manifest = parse_manifest(with("\"records\"", "\"mood\":[1,{}],\"records\""));
  EXPECT_EQ(manifest.records, 3U);
  try {
    parse_manifest(R"({"schema":2,"writer":"cairn 9.1.0","whatever":null})");
    FAIL() << "no error";
  } catch (const UnsupportedError& e) {
    EXPECT_THAT(e.what(), HasSubstr("cairn 9.1.0"));
  }
}

TEST(ManifestTest, AnythingElseIsCorrupt) {
  EXPECT_THAT(error_of(""), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_of("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("no \"schema\""));
  EXPECT_THAT(error_of(with("\"schema\":1", "\"schema\":\"1\"")), HasSubstr("wrong type"));
  EXPECT_THAT(error_of(with("\"schema\":1", "\"schema\":0")), HasSubstr("schema 0"));
  EXPECT_THAT(error_of(with("\"epoch\":0", "\"epoch\":0.5")), HasSubstr("\"epoch\""));
  EXPECT_THAT(error_of(with("\"records\":3", "\"records\":-3")), HasSubstr("\"records\""));
  for (const std::string too_large : {"9223372036854775808", "99999999999999999999999"}) {
    EXPECT_THAT(error_of(with("\"batch\":7", "\"batch\":" + too_large)), HasSubstr("\"batch\""));
  }
  EXPECT_THAT(error_of(with("\"timestamp\":{", "\"timestamp\":3,\"x\":{")), HasSubstr("timestamp"));
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("too large"));
  EXPECT_THAT(error_of(std::string(60'000, '[')), HasSubstr("not a JSON object"));
}

TEST(ManifestTest, ARunNameThatIsNotUtf8IsAUsageError) {
  EXPECT_THROW(manifest_text({.run_name = "\xff\xfe"}, kRecords), UsageError);
}

}  // namespace
}  // namespace cairn
