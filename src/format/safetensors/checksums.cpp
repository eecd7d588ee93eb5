#include "format/safetensors/checksums.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/hash/xxh3.h"
#include "core/little_endian.h"
#include "core/text/writer.h"
#include "format/safetensors/header.h"
#include "io/bytes/source_part.h"

namespace cairn::safetensors {
namespace {

constexpr std::size_t kPartDigits = 16;

std::size_t count_with_bytes(const std::vector<SafetensorsEntry>& entries) {
  return static_cast<std::size_t>(
      std::count_if(entries.begin(), entries.end(),
                    [](const SafetensorsEntry& entry) { return entry.size > 0; }));
}

// Returns false unless the text is exactly 16 hex digits.
bool parse_digest(std::string_view digits, std::uint64_t& digest) {
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, digest, 16);
  return digits.size() == kPartDigits && error == std::errc() && stop == end;
}

}  // namespace

bool is_checksum_key(std::string_view key) { return key == kWriterKey || key == kChecksumsKey; }

std::size_t count_with_bytes(const std::vector<NamedTensor>& tensors) {
  return static_cast<std::size_t>(
      std::count_if(tensors.begin(), tensors.end(),
                    [](const NamedTensor& tensor) { return tensor.second.numel() > 0; }));
}

SafetensorsFile::Metadata empty_checksums(std::size_t parts) {
  return {{std::string(kWriterKey), kWriter},
          {std::string(kChecksumsKey), std::string(kSealDigits + parts * kPartDigits, '0')}};
}

void fill_checksums(std::string& text, std::string_view marker,
                    const std::vector<std::uint64_t>& of_parts) {
  std::size_t at = text.find(marker) + marker.size() + kSealDigits;
  for (const std::uint64_t digest : of_parts) {
    text.replace(at, kPartDigits, fmt::format("{:016x}", digest));
    at += kPartDigits;
  }
  seal(text, marker);
}

std::optional<Checksums> find_checksums(const ChecksumTexts& text) {
  if (text.writer == nullptr && text.digits == nullptr) return std::nullopt;
  Checksums found;
  if (text.writer == nullptr || text.digits == nullptr) {
    const bool has_writer = text.writer != nullptr;
    found.problem = fmt::format("{} has \"{}\" but no \"{}\"; cairn writes both", text.what,
                                has_writer ? kWriterKey : kChecksumsKey,
                                has_writer ? kChecksumsKey : kWriterKey);
    return found;
  }
  if (check_seal(text.text, text.marker) != Seal::kGood) {
    found.problem = fmt::format(
        "{} does not have the XXH3-128 that was written (or another program wrote the file and "
        "copied cairn's metadata)",
        text.what);
    return found;
  }
  const std::string_view digits = *text.digits;
  bool is_good = digits.size() == kSealDigits + text.parts * kPartDigits;
  found.of_parts.resize(is_good ? text.parts : 0);
  for (std::size_t i = 0; is_good && i < text.parts; ++i) {
    is_good =
        parse_digest(digits.substr(kSealDigits + i * kPartDigits, kPartDigits), found.of_parts[i]);
  }
  if (!is_good)
    found.problem =
        fmt::format("{} has a wrong number of checksums, or a malformed one", text.what);
  return found;
}

std::optional<Checksums> find_checksums(const SafetensorsFile& file, ByteView header) {
  return find_checksums({.writer = file.find_metadata(kWriterKey),
                         .digits = file.find_metadata(kChecksumsKey),
                         .text = as_text(header),
                         .marker = kHeaderMarker,
                         .parts = count_with_bytes(file.entries()),
                         .what = "its header"});
}

std::optional<std::uint64_t> header_digest(const ByteSource& file) {
  constexpr std::uint64_t kStartBytes = 128;  // more than has_header() reads
  const SharedBytes start = read_start(file, kStartBytes);
  if (!has_header(start.view)) return std::nullopt;
  const auto size = load_little_endian<std::uint64_t>(start.view.data());
  if (size > std::min(file.size() - kSizeBytes, kMaxHeaderBytes)) return std::nullopt;
  return xxh3_64(read_start(file, kSizeBytes + size).view);
}

}  // namespace cairn::safetensors
