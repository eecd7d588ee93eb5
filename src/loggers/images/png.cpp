#include "loggers/images/png.h"

#include <libdeflate.h>

#include <memory>
#include <new>
#include <string_view>

#include "core/hash/crc32.h"

namespace cairn {
namespace {

constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
constexpr char kBitDepth = 8;
constexpr char kColorTypes[] = {0, 4, 2, 6};  // by channels: grey, with alpha, RGB, with alpha
constexpr char kNoFilter = 0;
constexpr int kPngLevel = 6;  // zlib's default

void append_big_endian(std::string& out, std::size_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    out += static_cast<char>(value >> shift);
}

void append_chunk(std::string& out, const std::string& type_and_data) {
  append_big_endian(out, type_and_data.size() - 4);
  out += type_and_data;
  append_big_endian(out, crc32(as_bytes(type_and_data)));
}

std::string zlib_of(const std::string& bytes) {
  const std::unique_ptr<libdeflate_compressor, void (*)(libdeflate_compressor*)> compressor(
      libdeflate_alloc_compressor(kPngLevel), libdeflate_free_compressor);
  if (compressor == nullptr) throw std::bad_alloc();
  std::string out(libdeflate_zlib_compress_bound(compressor.get(), bytes.size()), '\0');
  out.resize(libdeflate_zlib_compress(compressor.get(), bytes.data(), bytes.size(), out.data(),
                                      out.size()));
  return out;
}

}  // namespace

std::string png_of(const PixelImage& image) {
  std::string header = "IHDR";
  append_big_endian(header, image.width);
  append_big_endian(header, image.height);
  header += {kBitDepth, kColorTypes[image.channels - 1], 0, 0, 0};
  std::string rows;
  const std::size_t row = image.width * image.channels;
  for (std::size_t y = 0; y < image.height; ++y) {
    rows += kNoFilter;
    rows.append(image.pixels, y * row, row);
  }
  std::string png(kSignature);
  append_chunk(png, header);
  append_chunk(png, "IDAT" + zlib_of(rows));
  append_chunk(png, "IEND");
  return png;
}

}  // namespace cairn
