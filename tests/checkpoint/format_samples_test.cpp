// Every format has a sample, and a name for messages. Damage to the sample is found or harmless.
#include "testing/format_samples.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "testing/test_data.h"

namespace cairn {
namespace {

using testing::FormatSample;
using testing::StoredSample;

TEST(FormatSamplesTest, EveryFormatThatCairnReadsHasOne) {
  std::set<std::string> formats;
  for (const FormatSample& sample : testing::format_samples()) {
    formats.insert(sample.format);
  }
  for (const std::string& format : known_formats().formats) {
    EXPECT_TRUE(formats.contains(format)) << format << " has no row in testing/format_samples.cpp";
  }
}

class FormatSampleTest : public ::testing::TestWithParam<FormatSample> {
 protected:
  // The sample's current value. Nullopt if one of three errors is thrown.
  std::optional<Value> value(Access access) const {
    try {
      return sample_.use(access);
    } catch (const CorruptError&) {
    } catch (const UnsupportedError&) {
    } catch (const NotFoundError&) {  // A file of a folder names a file that does not exist.
    }
    return std::nullopt;
  }

  StoredSample sample_{GetParam()};
  const std::string bytes_ = testing::files_of(GetParam()).at(GetParam().part);
};

TEST_P(FormatSampleTest, IsOpenedAsWhatItIsAndMessagesNameIt) {
  const std::string path = testing::kData + "/" + GetParam().golden;
  EXPECT_EQ(open_source(path)->info().format, GetParam().format);
  EXPECT_TRUE(value(Access::kVerified));
  if (*GetParam().part != '\0') return;  // Folders have no first bytes.
  EXPECT_NE(describe_bytes(as_bytes(bytes_)), describe_bytes(as_bytes("unknown")))
      << "a row is missing in src/format/describe_bytes.cpp";
}

TEST_P(FormatSampleTest, TruncationAtEveryByteIsAnErrorOrHarmless) {
  const Value whole = sample_.use(Access::kVerified);
  for (std::size_t size = 0; size < bytes_.size(); ++size) {
    sample_.replace_part(as_bytes(bytes_).first(size));
    for (const Access access : {Access::kRaw, Access::kVerified}) {
      ASSERT_EQ(value(access).value_or(whole), whole) << size;
    }
  }
}

// Without checksums a flip may go unnoticed.
TEST_P(FormatSampleTest, AFlipOfEveryByteGivesAValueOrATypedError) {
  const Value whole = sample_.use(Access::kVerified);
  for (std::size_t at = 0; at < bytes_.size(); ++at) {
    for (const int mask : {1 << at % 8, 0xff}) {
      std::string bytes = bytes_;
      bytes[at] = static_cast<char>(bytes[at] ^ mask);
      sample_.replace_part(as_bytes(bytes));
      ASSERT_NO_THROW(value(Access::kRaw)) << at << ", " << mask;
      std::optional<Value> verified;
      ASSERT_NO_THROW(verified = value(Access::kVerified)) << at << ", " << mask;
      if (GetParam().is_checked) {
        ASSERT_EQ(verified.value_or(whole), whole) << at << ", " << mask;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, FormatSampleTest,
                         ::testing::ValuesIn(testing::format_samples().begin(),
                                             testing::format_samples().end()),
                         [](const auto& tested) { return std::string(tested.param.format); });

}  // namespace
}  // namespace cairn
