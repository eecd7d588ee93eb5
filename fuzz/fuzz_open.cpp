// Opens any bytes in place of the sample of CAIRN_FORMAT (testing/format_samples.h); for a folder,
// in place of one of its files. The result is a value or a typed error. Compressions have their own
// target.
#include <algorithm>
#include <cstdint>

#include "cairn/error.h"

#include "format/compression/codec.h"
#include "testing/format_samples.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size)
    __attribute__((weak));

namespace cairn::testing {
namespace {

const FormatSample& sample() {
  static const FormatSample& found =
      *std::ranges::find(format_samples(), std::string_view(CAIRN_FORMAT), &FormatSample::format);
  return found;
}

void open(ByteView bytes) {
  static StoredSample stored(sample());
  const auto source = source_of({bytes, nullptr}, "fuzz");
  for (const Codec* codec : codecs()) {
    if (begins_as(*codec, *source)) return;
  }
  stored.replace_part(bytes);
  for (const Access access : {Access::kRaw, Access::kVerified}) {
    try {
      stored.use(access);
    } catch (const CorruptError&) {  // only these three errors
    } catch (const UnsupportedError&) {
    } catch (const NotFoundError&) {  // a folder names a file that does not exist
    }
  }
}

}  // namespace
}  // namespace cairn::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  cairn::testing::open({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}

// Without a corpus, libFuzzer begins with "\n". This replaces it by the sample, so that no format
// needs a corpus.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned /*seed*/) {
  if (size > 1) return LLVMFuzzerMutate(data, size, max_size);
  const auto& sample = cairn::testing::sample();
  const std::string bytes = cairn::testing::files_of(sample).at(sample.part).substr(0, max_size);
  std::ranges::copy(bytes, data);
  return bytes.size();
}
