#include "format/tar/writer.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "cairn/error.h"

#include "core/round_up.h"
#include "format/tar/header.h"

namespace cairn::tar {
namespace {

constexpr std::uint64_t kLargestOctal = (std::uint64_t{1} << 33) - 1;  // 11 digits

// 1980-01-01, as in a zip: equal checkpoints are equal files.
constexpr std::uint64_t kModifiedAt = 315'532'800;

void put(std::string& block, Field field, std::string_view text) {
  text.copy(block.data() + field.offset, field.size);
}

// Writes octal digits and a zero byte.
void put(std::string& block, Field field, std::uint64_t value) {
  std::string digits(field.size - 1, '0');
  for (std::size_t i = digits.size(); i > 0; --i, value >>= 3) {
    digits[i - 1] = static_cast<char>('0' + (value & 7));
  }
  put(block, field, digits);
}

std::string header(std::string_view name, std::uint64_t size, char type) {
  std::string block(kBlockBytes, '\0');
  put(block, kName, name);
  put(block, kMode, 0644);
  put(block, kUser, 0);
  put(block, kGroup, 0);
  put(block, kSize, std::min(size, kLargestOctal));
  put(block, kModified, kModifiedAt);
  put(block, kType, std::string_view(&type, 1));
  put(block, kMagic, kUstar);
  // The checksum is six digits, a zero byte and a blank.
  put(block, {kChecksum.offset, kChecksum.size - 1}, checksum(as_bytes(block)));
  block[kChecksum.offset + kChecksum.size - 1] = ' ';
  return block;
}

std::string padded(std::string text) {
  text.resize(round_up(text.size(), kBlockBytes));
  return text;
}

// Returns "LENGTH size=N\n". LENGTH counts itself.
std::string pax_size(std::uint64_t size) {
  const std::string rest = " size=" + std::to_string(size) + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) {
    ++length;
  }
  return std::to_string(length) + rest;
}

}  // namespace

Writer::Writer(ByteSink& out, const std::string& name, std::uint64_t size) : out_(out) {
  begin(name, size);
}

void Writer::begin(const std::string& name, std::uint64_t size) {
  left_ = size;
  padding_ = (kBlockBytes - size % kBlockBytes) % kBlockBytes;
  if (name.empty() || name.size() > kName.size) {
    throw UsageError("\"" + name + "\" cannot be the name of a file in a tar");
  }
  std::string headers;
  if (size > kLargestOctal) {
    const std::string record = pax_size(size);
    headers = header("PaxHeaders/" + name.substr(0, 80), record.size(), 'x') + padded(record);
  }
  headers += header(name, size, '0');
  out_.write(as_bytes(headers));
}

void Writer::write(ByteView bytes) {
  if (bytes.size() > left_) throw UsageError("more bytes for a tar than were announced");
  left_ -= bytes.size();
  out_.write(bytes);
}

void Writer::end(std::uint64_t zeros_behind) {
  if (left_ != 0) throw UsageError("fewer bytes for a tar than were announced");
  const std::string zeros(padding_ + zeros_behind, '\0');
  if (!zeros.empty()) out_.write(as_bytes(zeros));
}

void Writer::next(const std::string& name, std::uint64_t size) {
  end(0);
  begin(name, size);
}

void Writer::finish() { end(2 * kBlockBytes); }

}  // namespace cairn::tar
