// Files that are whole, but are no checkpoints, are refused. The error names their format and gives
// advice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cairn/error.h"
#include "cairn/format/safetensors.h"
#include "cairn/format/torch_file.h"

#include "testing/message_of.h"
#include "testing/string_sink.h"
#include "testing/temp_folder.h"
#include "testing/test_data.h"
#include "tests/format/raw_zip.h"

namespace cairn {
namespace {

using ::testing::AllOf;
using testing::deflated;
using testing::encoded;
using ::testing::HasSubstr;
using testing::kData;
using testing::RawRecord;
using testing::RawZip;
using testing::read_file;
using testing::shared;
using namespace std::string_literals;

// Returns the message of the UnsupportedError from opening the bytes as a torch.save file.
std::string answer_to(const std::string& bytes) {
  try {
    TorchFile(shared(bytes), "x.pt");
  } catch (const UnsupportedError& e) {
    return e.what();
  } catch (const CorruptError& e) {
    return std::string("taken for damage: ") + e.what();
  }
  return "read";
}

TEST(OtherFormatsTest, WhatStandsInPlaceOfAFileIsNamedWithWhatToDo) {
  EXPECT_THAT(answer_to("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n"),
              AllOf(HasSubstr("a pointer of Git LFS"), HasSubstr("git lfs pull")));
  for (const char* page : {"<!DOCTYPE html>\n<html>", "<!doctype HTML>", "\n\n  <html lang=\"en\">",
                           "\xef\xbb\xbf<HTML>"}) {
    EXPECT_THAT(answer_to(page), AllOf(HasSubstr("an HTML page"), HasSubstr("download the file")))
        << page;
  }
  EXPECT_THAT(answer_to("<?xml version=\"1.0\"?><Error>"), HasSubstr("an XML text"));
  EXPECT_THAT(answer_to("{\"error\": \"not found\"}"), HasSubstr("a JSON text"));
}

TEST(OtherFormatsTest, ZipsOfOtherProgramsAreNamedWithWhatToDo) {
  EXPECT_THAT(answer_to(RawZip({RawRecord{.name = "w.npy", .content = "x"}}).bytes()),
              AllOf(HasSubstr("a numpy .npz file"), HasSubstr("numpy.load")));
  EXPECT_THAT(answer_to(RawZip({deflated("w.npy", std::string(100, 'x'))}).bytes()),
              HasSubstr("a numpy .npz file"));
  EXPECT_THAT(answer_to(read_file(kData + "/other-files/export.pt2")),
              AllOf(HasSubstr("a program of torch.export"), HasSubstr("torch.export.load")));
  EXPECT_THAT(answer_to(read_file(kData + "/other-files/package.pt")),
              AllOf(HasSubstr("a package of torch.package"), HasSubstr("PackageImporter")));
  EXPECT_THAT(answer_to(RawZip({{.name = "a/data/aotinductor/model/x.so", .content = "x"},
                                {.name = "a/archive_format", .content = "pt2"}})
                            .bytes()),
              HasSubstr("AOTInductor"));
  EXPECT_THAT(answer_to(RawZip({RawRecord{.name = "run/ep1.pt", .content = "x"}}).bytes()),
              AllOf(HasSubstr("a zip file, but not of torch.save"), HasSubstr("unzip")));
  EXPECT_THAT(
      answer_to(RawZip({RawRecord{.name = "run/archive/data.pkl", .content = "N."}}).bytes()),
      AllOf(HasSubstr("records are not in one folder"), HasSubstr("zip -0")));
}

TEST(OtherFormatsTest, RecordsInNoFolderAreToBePackedAgain) {
  const std::string zip =
      RawZip({{.name = "data.pkl", .content = "N."}, {.name = "version", .content = "3\n"}})
          .bytes();
  EXPECT_THAT(answer_to(zip), HasSubstr("records are not in one folder"));
}

TEST(OtherFormatsTest, ADamagedTorchFileIsNotTakenForAnotherZip) {
  const std::string good = encoded(Dict{{"a", 1}});
  const std::string name = "archive/version";
  std::string other_folder = good;
  const std::size_t in_directory = good.rfind(name);
  other_folder[in_directory] = 'b';
  EXPECT_THAT(answer_to(other_folder), HasSubstr("taken for damage"));
}

TEST(OtherFormatsTest, ACompressionThatNobodyReadsIsNamedWithTheRecord) {
  RawRecord record = deflated("archive/data.pkl", "N.");
  record.local_method = record.central_method = 14;  // LZMA
  const std::string zip = RawZip({record, {.name = "archive/version", .content = "3\n"}}).bytes();
  EXPECT_THAT(answer_to(zip), AllOf(HasSubstr("data.pkl is compressed"), HasSubstr("zip -0")));
}

// Checks that the message says where to cut the two files apart.
void expect_two_torch_files(const std::string& first, const std::string& second) {
  const std::string message = answer_to(first + second);
  EXPECT_THAT(message, AllOf(HasSubstr("begins at byte " + std::to_string(first.size())),
                             HasSubstr("head -c " + std::to_string(first.size()) + " "),
                             HasSubstr("tail -c +" + std::to_string(first.size() + 1) + " ")));
}

TEST(OtherFormatsTest, TwoTorchFilesInOneAreToldApart) {
  const std::string one = encoded(Dict{{"a", 1}});
  const std::string other = encoded(Dict{{"b", std::string(5000, 'x')}});
  expect_two_torch_files(one, one);
  expect_two_torch_files(one, other);
  expect_two_torch_files(other, one);
  const std::string plain = RawZip({{.name = "archive/data.pkl", .content = "N."},
                                    {.name = "archive/version", .content = "3\n"}})
                                .bytes();
  expect_two_torch_files(one, plain);
  expect_two_torch_files(plain, one);
}

TEST(OtherFormatsTest, TwoSafetensorsFilesInOneAreToldApart) {
  const std::string header = R"({"w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  std::string one;
  append_little_endian(one, std::uint64_t{header.size()});
  one += header + "abcd";
  EXPECT_NO_THROW(SafetensorsFile(shared(one), "x"));
  try {
    SafetensorsFile(shared(one + one), "x");
    FAIL() << "read";
  } catch (const UnsupportedError& e) {
    EXPECT_THAT(e.what(), HasSubstr("begins at byte " + std::to_string(one.size())));
  }
  EXPECT_THROW(SafetensorsFile(shared(one + "more"), "x"), CorruptError);
}

TEST(OtherFormatsTest, APointerInPlaceOfASafetensorsFileIsNoDamage) {
  try {
    SafetensorsFile(shared("version https://git-lfs.github.com/spec/v1\n"s), "model.safetensors");
    FAIL() << "read";
  } catch (const UnsupportedError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("model.safetensors: "), HasSubstr("git lfs pull")));
  }
}

TEST(OtherFormatsTest, ElementsOfOneByteAreReadFromABigEndianMachine) {
  const TorchFile file(shared(read_file(kData + "/other-files/big_endian_float8.pt")), "be.pt");
  const Value value = file.read();
  const auto bytes = [&](const char* name) {
    const SharedBytes elements = value.at(name).as_tensor().contiguous_bytes();
    return std::string(as_text(elements.view));
  };
  EXPECT_EQ(bytes("f"), "\x38\x40");
  EXPECT_EQ(bytes("b"), "\1\0"s);
  EXPECT_EQ(value.at("u").as_tensor().dtype, DType::kUInt16);
  EXPECT_THAT(testing::message_of([&] { bytes("u"); }),
              AllOf(HasSubstr("data/2"), HasSubstr("uint16"), HasSubstr("big-endian")));
}

TEST(OtherFormatsTest, CsrTensorsOfPyTorch113AreWrittenAsItReadsThem) {
  const auto function_of = [](const std::string& folder) {
    const TorchFile file(shared(read_file(kData + folder + "/sparse_layouts.pt")), "x.pt");
    const std::string again = encoded(file.read());
    return again.find("_rebuild_sparse_csr_tensor") != std::string::npos;
  };
  EXPECT_TRUE(function_of("/torch-1.13"));
  EXPECT_FALSE(function_of("/torch-2.14"));
}

}  // namespace
}  // namespace cairn
