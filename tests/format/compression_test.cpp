// Every codec can read the data that it wrote, and decoding gives the whole data or an error.
#include <gtest/gtest.h>

#include "cairn/error.h"

#include "format/compression/codec.h"
#include "io/process/program.h"
#include "testing/string_sink.h"

namespace cairn {
namespace {

using testing::StringSink;

}  // namespace

// How GoogleTest prints a codec.
static void PrintTo(const Codec* codec, std::ostream* out) { *out << codec->name; }

namespace {

constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

std::string encoded_by(const Codec& codec, const std::string& text, std::size_t piece = 100'000) {
  StringSink sink;
  const auto encoder = codec.encoder(sink);
  for (std::size_t at = 0; at < text.size(); at += piece) {
    encoder->write(as_bytes(std::string_view(text).substr(at, piece)));
  }
  encoder->finish();
  return sink.text;
}

std::string decoded_by(const Codec& codec, const std::string& bytes,
                       std::uint64_t limit = kNoLimit) {
  StringSink sink;
  decode(codec, *testing::source_with(bytes), sink, limit);
  return sink.text;
}

// Makes a text. Half of the text compresses and half does not, as with parameters of a model.
std::string sample(std::size_t size) {
  auto random = static_cast<std::uint32_t>(size);
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    random = random * 1664525U + 1013904223U;
    text[i] = static_cast<char>(i % 4 < 2 ? random >> 24 : i % 4);
  }
  return text;
}

bool is_missing(const Codec& codec) {
  return codec.program != nullptr && !find_program(codec.program);
}

class CodecTest : public ::testing::TestWithParam<const Codec*> {
 protected:
  void SetUp() override {
    if (is_missing(codec)) GTEST_SKIP() << codec.program << " is not installed";
  }
  const Codec& codec = *GetParam();
};

TEST_P(CodecTest, ReadsWhatItWroteAtSizesAroundEveryBuffer) {
  std::vector<std::size_t> buffers = {1 << 16, 1 << 18};
  if (&codec == &kBzip2) buffers.push_back(900'000);
  if (&codec == &kGzip || &codec == &kZstd) buffers.push_back(1 << 20);
  if (&codec == &kLz4) buffers.push_back(1 << 22);
  for (const std::size_t buffer : buffers) {
    for (const std::size_t size : {buffer - 1, buffer, buffer + 1}) {
      const std::string text = sample(size);
      ASSERT_TRUE(decoded_by(codec, encoded_by(codec, text)) == text) << size;
    }
  }
  for (std::size_t size = 0; size < 300; size += 1 + size / 20) {
    const std::string text = sample(size);
    ASSERT_EQ(decoded_by(codec, encoded_by(codec, text)), text) << size;
  }
}

// T105
TEST_P(CodecTest, ComposersTextComesBackFromEachCodec) {
  const std::string text = "foo foo foo";
  const std::string packed = encoded_by(codec, text);
  EXPECT_NE(packed, text);
  EXPECT_EQ(decoded_by(codec, packed), text);
}

TEST_P(CodecTest, KnowsItsOwnAndNoOther) {
  for (const std::size_t size : {0, 1, 1000, 100'000}) {
    const std::string bytes = encoded_by(codec, sample(size));
    for (const Codec* other : codecs()) {
      EXPECT_EQ(begins_as(*other, *testing::source_with(bytes)), other == &codec)
          << size << " " << other->name;
    }
  }
  for (std::size_t size = 0; size < 20; ++size) {
    EXPECT_FALSE(codec.matches(as_bytes(std::string(size, '\0')))) << size;
  }
}

TEST_P(CodecTest, HowItIsCutIntoPiecesMakesNoDifference) {
  if (&codec == &kLzop) GTEST_SKIP() << "lzop writes the time of day";
  const std::string text = sample(1'500'000);
  const std::string bytes = encoded_by(codec, text);
  EXPECT_TRUE(bytes == encoded_by(codec, text, text.size()));
  EXPECT_TRUE(bytes == encoded_by(codec, text, 4097));
  // The sizes of the pieces make no difference for reading, either.
  StringSink sink;
  const auto decoder = codec.decoder(sink);
  for (std::size_t at = 0; at < bytes.size(); at += 977) {
    decoder->write(as_bytes(std::string_view(bytes).substr(at, 977)));
  }
  decoder->finish();
  EXPECT_TRUE(sink.text == text);
}

TEST_P(CodecTest, TruncationAtEveryByteIsCorrupt) {
  const std::string bytes = encoded_by(codec, sample(150));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(decoded_by(codec, bytes.substr(0, size)), CorruptError)
        << size << " of " << bytes.size();
  }
}

TEST_P(CodecTest, AFlipOfEveryByteIsAnErrorOrHarmless) {
  const std::string text = sample(150);
  const std::string bytes = encoded_by(codec, text);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      try {
        const std::string read = decoded_by(codec, damaged, 1 << 20);
        if (&codec != &kLzma) {  // lzma has no checksum
          ASSERT_EQ(read, text) << "byte " << at;
        }
      } catch (const CorruptError&) {
      } catch (const UnsupportedError&) {
      }
    }
    if (&codec == &kLzop) at += 4;  // each attempt takes two processes
  }
}

TEST_P(CodecTest, AnythingElseBehindTheEndIsCorrupt) {
  const std::string bytes = encoded_by(codec, sample(1000));
  for (const std::string garbage : {"garbage that is no header", "x", "\x1f", "B"}) {
    EXPECT_THROW(decoded_by(codec, bytes + garbage), CorruptError) << garbage;
  }
}

TEST_P(CodecTest, StreamsOneAfterAnotherAreOne) {
  const std::string one = sample(70'000);
  const std::string two = sample(3);
  const std::string both = encoded_by(codec, one) + encoded_by(codec, two);
  // the tools of these formats accept only one stream, too
  if (&codec == &kLzma || &codec == &kLzop) {
    EXPECT_THROW(decoded_by(codec, both), CorruptError);
  } else {
    EXPECT_TRUE(decoded_by(codec, both) == one + two);
  }
}

TEST_P(CodecTest, MoreThanTheLimitIsRefused) {
  const std::string text(3'000'000, 'a');
  const std::string bytes = encoded_by(codec, text);
  EXPECT_TRUE(decoded_by(codec, bytes, text.size()) == text);
  EXPECT_THROW(decoded_by(codec, bytes, text.size() - 1), UnsupportedError);
  EXPECT_THROW(decoded_by(codec, bytes, 0), UnsupportedError);
}

class FailingSink final : public ByteSink {
 public:
  void write(ByteView bytes) override {
    left_ -= static_cast<std::ptrdiff_t>(bytes.size());
    if (left_ < 0) throw StorageError("the disk is full", 28);
  }

 private:
  std::ptrdiff_t left_ = 100'000;
};

TEST_P(CodecTest, ErrorsOfTheSinkComeThrough) {
  const std::string text = sample(1'000'000);
  FailingSink full;
  EXPECT_THROW(
      {
        const auto encoder = codec.encoder(full);
        encoder->write(as_bytes(text));
        encoder->finish();
      },
      StorageError);
  FailingSink full_too;
  const std::string bytes = encoded_by(codec, text);
  EXPECT_THROW(decode(codec, *testing::source_with(bytes), full_too, kNoLimit), StorageError);
}

std::string codec_name(const ::testing::TestParamInfo<const Codec*>& info) {
  return info.param->name;
}

INSTANTIATE_TEST_SUITE_P(All, CodecTest, ::testing::ValuesIn(codecs().begin(), codecs().end()),
                         codec_name);

TEST(CompressionTest, ZerosMayPadGzipAndBzip2ToTheEnd) {
  const std::string text = sample(1000);
  for (const Codec* codec : {&kGzip, &kBzip2}) {
    const std::string bytes = encoded_by(*codec, text);
    EXPECT_EQ(decoded_by(*codec, bytes + std::string(300'000, '\0')), text);
    EXPECT_THROW(decoded_by(*codec, bytes + std::string(512, '\0') + "x"), CorruptError);
    EXPECT_THROW(decoded_by(*codec, bytes + std::string(512, '\0') + bytes), CorruptError);
  }
}

TEST(CompressionTest, ZerosPadXzInUnitsOfFourAlsoBetweenStreams) {
  const std::string text = sample(1000);
  const std::string bytes = encoded_by(kXz, text);
  EXPECT_EQ(decoded_by(kXz, bytes + std::string(8, '\0')), text);
  EXPECT_EQ(decoded_by(kXz, bytes + std::string(4, '\0') + bytes), text + text);
  EXPECT_THROW(decoded_by(kXz, bytes + std::string(3, '\0')), CorruptError);
}

TEST(CompressionTest, ZerosBehindTheOthersAreGarbage) {
  for (const Codec* codec : {&kLz4, &kZstd, &kLzma}) {
    const std::string bytes = encoded_by(*codec, sample(1000));
    EXPECT_THROW(decoded_by(*codec, bytes + std::string(512, '\0')), CorruptError) << codec->name;
  }
}

TEST(CompressionTest, SkippableFramesArePassedOver) {
  const std::string skipped("\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
  for (const Codec* codec : {&kLz4, &kZstd}) {
    const std::string bytes = encoded_by(*codec, "text");
    for (const std::string& file : {skipped + bytes, skipped + skipped + bytes, bytes + skipped}) {
      EXPECT_TRUE(begins_as(*codec, *testing::source_with(file))) << codec->name;
      EXPECT_EQ(decoded_by(*codec, file), "text") << codec->name;
    }
    EXPECT_FALSE(begins_as(*codec, *testing::source_with(skipped)));
    EXPECT_FALSE(begins_as(*codec, *testing::source_with(skipped.substr(0, 10))));
  }
}

TEST(CompressionTest, DataThatWantsTooMuchMemoryIsRefused) {
  // A window of 256 MiB: exponent 18.
  EXPECT_THROW(decoded_by(kZstd, std::string("\x28\xb5\x2f\xfd\x00\x90\x01\0\0", 9)),
               UnsupportedError);
  // A dictionary of 1 GiB.
  EXPECT_THROW(
      decoded_by(kLzma, std::string("\x5d\0\0\0\x40\xff\xff\xff\xff\xff\xff\xff\xff\0", 14) +
                            std::string(20, '\0')),
      UnsupportedError);
}

TEST(CompressionTest, DamageSaysWhere) {
  const std::string one = encoded_by(kGzip, sample(5000));
  std::string bytes = one + encoded_by(kGzip, sample(5001));
  bytes[one.size() + 2000] = static_cast<char>(bytes[one.size() + 2000] ^ 0x55);
  try {
    decoded_by(kGzip, bytes);
    FAIL() << "no error";
  } catch (const CorruptError& e) {
    EXPECT_NE(e.offset(), CorruptError::kNoOffset);
    EXPECT_LE(e.offset(), bytes.size());
  }
}

}  // namespace
}  // namespace cairn
