// Reads any bytes as a tar: its files, which lie inside it, or a typed error. Most headers that a
// fuzzer makes are refused for a wrong checksum. If the last byte is odd, they get the right one
// first.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>

#include "cairn/error.h"

#include "format/tar/reader.h"
#include "testing/counting_source.h"

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kChecksum = 148;  // its position in a header, in 8 bytes

void give_checksums(std::string& tar) {
  for (std::size_t block = 0; block + kBlock <= tar.size(); block += kBlock) {
    std::fill_n(tar.begin() + static_cast<std::ptrdiff_t>(block + kChecksum), 8, ' ');
    const auto header = tar.begin() + static_cast<std::ptrdiff_t>(block);
    const unsigned sum = std::accumulate(header, header + kBlock, 0U, [](unsigned all, char c) {
      return all + static_cast<unsigned char>(c);
    });
    char digits[8];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    std::copy_n(digits, 7, header + kChecksum);  // with its NUL; a space follows
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string tar(reinterpret_cast<const char*>(data), size);
  if (size > 0 && data[size - 1] % 2 == 1) give_checksums(tar);
  const auto source = std::make_shared<const cairn::testing::CountingSource>(
      cairn::source_of({cairn::as_bytes(tar), nullptr}, "fuzz.tar"));
  try {
    for (const cairn::tar::File& file : cairn::tar::read_files(*source)) {
      if (file.offset > size || file.size > size - file.offset) __builtin_trap();
    }
  } catch (const cairn::CorruptError&) {
  } catch (const cairn::UnsupportedError&) {
  }
  return 0;
}
