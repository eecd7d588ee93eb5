#include "format/safetensors/checksums.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/xxh3.h"

namespace cairn::safetensors {
namespace {

constexpr std::size_t kTensorDigits = 16;
// No text of the header can hold it: a quote inside one is escaped.
constexpr std::string_view kMarker = R"("cairn.xxh3":")";

std::size_t count_with_bytes(const std::vector<SafetensorsEntry>& entries) {
  return static_cast<std::size_t>(
      std::count_if(entries.begin(), entries.end(),
                    [](const SafetensorsEntry& entry) { return entry.size > 0; }));
}

// False when it is no number of 16 hex digits.
bool parse_digest(std::string_view digits, std::uint64_t& digest) {
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, digest, 16);
  return digits.size() == kTensorDigits && error == std::errc() && stop == end;
}

}  // namespace

bool is_checksum_key(std::string_view key) { return key == kWriterKey || key == kChecksumsKey; }

SafetensorsFile::Metadata empty_checksums(const std::vector<NamedTensor>& tensors) {
  const auto with_bytes =
      std::count_if(tensors.begin(), tensors.end(),
                    [](const NamedTensor& tensor) { return tensor.second.numel() > 0; });
  const std::size_t digits = kSealDigits + static_cast<std::size_t>(with_bytes) * kTensorDigits;
  return {{std::string(kWriterKey), CAIRN_WRITER},
          {std::string(kChecksumsKey), std::string(digits, '0')}};
}

void fill_checksums(std::string& header, const std::vector<std::uint64_t>& of_tensors) {
  std::size_t at = header.find(kMarker) + kMarker.size() + kSealDigits;
  for (const std::uint64_t digest : of_tensors) {
    header.replace(at, kTensorDigits, fmt::format("{:016x}", digest));
    at += kTensorDigits;
  }
  seal(header, kMarker);
}

std::optional<Checksums> find_checksums(const SafetensorsFile& file, ByteView header) {
  const std::string* writer = file.find_metadata(kWriterKey);
  const std::string* digits = file.find_metadata(kChecksumsKey);
  if (writer == nullptr && digits == nullptr) return std::nullopt;
  Checksums found;
  if (writer == nullptr || digits == nullptr) {
    found.problem = fmt::format("its header has \"{}\" and no \"{}\", which cairn writes with it",
                                writer != nullptr ? kWriterKey : kChecksumsKey,
                                writer != nullptr ? kChecksumsKey : kWriterKey);
    return found;
  }
  if (check_seal(as_text(header), kMarker) != Seal::kGood) {
    found.problem =
        "its header does not have the XXH3-128 that was written (or another program wrote the file "
        "and copied cairn's metadata)";
    return found;
  }
  const std::size_t tensors = count_with_bytes(file.entries());
  bool is_good = digits->size() == kSealDigits + tensors * kTensorDigits;
  found.of_tensors.resize(is_good ? tensors : 0);
  for (std::size_t i = 0; is_good && i < tensors; ++i) {
    is_good = parse_digest(
        std::string_view(*digits).substr(kSealDigits + i * kTensorDigits, kTensorDigits),
        found.of_tensors[i]);
  }
  if (!is_good) found.problem = "its checksums are not those of its tensors";
  return found;
}

}  // namespace cairn::safetensors
