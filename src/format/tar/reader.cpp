// The format of a tar:
//
//  1. A header block has the name, the type and the size of the bytes after it, padded to blocks.
//  2. Members of type x (pax) and L (GNU) hold what does not fit into the header of the next
//     member: a long name, a size beyond 8 GiB. Type g holds what all members share.
//  3. Two blocks of zeros are the end. More zeros may follow: tapes are written in units of 20
//     blocks.
#include "format/tar/reader.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_set>

#include "cairn/error.h"

#include "core/hash/seeded_hash.h"
#include "core/round_up.h"
#include "format/tar/header.h"
#include "io/bytes/read_ahead.h"

namespace cairn::tar {
namespace {

// Limit for a long name or a pax header. Programs write a few hundred bytes.
constexpr std::uint64_t kMaxExtraBytes = std::uint64_t{1} << 20;
// How many of the zeros after the end are read at once.
constexpr std::uint64_t kEndPieceBytes = std::uint64_t{64} << 10;

ByteView field(ByteView block, Field which) { return block.subspan(which.offset, which.size); }

// Returns the text up to the first zero byte.
std::string_view text_of(ByteView bytes) {
  const std::string_view text = as_text(bytes);
  return text.substr(0, text.find('\0'));
}

std::uint64_t padded(std::uint64_t size) { return checked_round_up(size, kBlockBytes); }

// Parses octal digits with blanks around them, or a big-endian number if the first bit is set.
std::optional<std::uint64_t> number_of(ByteView bytes) {
  if ((bytes[0] & std::byte{0x80}) != std::byte{}) {
    std::uint64_t value = static_cast<std::uint64_t>(bytes[0] & std::byte{0x7f});
    for (const std::byte b : bytes.subspan(1)) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<std::uint64_t>(b);
    }
    return value;
  }
  std::string_view text = text_of(bytes);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool has_checksum(ByteView block) {
  const auto sum = number_of(field(block, kChecksum));
  return sum && *sum == checksum(block);
}

bool is_zero(ByteView bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; });
}

// The statements of a pax or GNU header about the next member.
struct Extra {
  std::optional<std::string> name;
  std::optional<std::uint64_t> size;
};

class Reader {
 public:
  explicit Reader(const ByteSource& tar) : ahead_(tar), size_(tar.size()) {}

  std::vector<File> read() {
    while (!at_end()) {
      read_member();
    }
    return std::move(files_);
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const { throw CorruptError(what, {}, at_); }

  // Returns whether the next block is the end.
  bool at_end() {
    if (size_ - at_ < kBlockBytes) damaged("the tar is cut off");
    if (!is_zero(ahead_.at(at_, kBlockBytes))) return false;
    if (size_ - at_ < 2 * kBlockBytes) damaged("the tar is cut off");
    if (size_ % kBlockBytes != 0) damaged("the tar is cut off within a block");
    for (std::uint64_t at = at_; at < size_; at += kEndPieceBytes) {
      if (!is_zero(ahead_.at(at, kEndPieceBytes))) damaged("something follows the end of the tar");
    }
    return true;
  }

  void read_member() {
    const ByteView block = ahead_.at(at_, kBlockBytes);
    if (!has_checksum(block)) damaged("a header of the tar is damaged (its checksum differs)");
    auto size = number_of(field(block, kSize));
    if (!size) damaged("a header of the tar has no size");
    const char type = as_text(field(block, kType))[0];
    const bool is_extra = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (!is_extra && next_.size) size = next_.size;
    if (type == '5') size = 0;  // a folder's size is only space to reserve
    const std::uint64_t begin = at_ + kBlockBytes;
    if (*size > size_ - begin || padded(*size) > size_ - begin) {
      damaged("the tar is cut off: a member needs " + std::to_string(*size) + " bytes");
    }
    if (is_extra) {
      if (*size > kMaxExtraBytes) damaged("a name in the tar is larger than 1 MiB");
      read_extra(type, ahead_.at(begin, *size));
    } else {
      add({next_.name.value_or(header_name(block)), begin, *size}, type);
      next_ = {};
    }
    at_ = begin + padded(*size);
  }

  static std::string header_name(ByteView block) {
    std::string name(text_of(field(block, kName)));
    if (as_text(field(block, kMagic)) != kUstar) return name;
    const std::string_view prefix = text_of(field(block, kPrefix));
    return prefix.empty() ? name : std::string(prefix) + "/" + name;
  }

  void read_extra(char type, ByteView content) {
    if (type == 'L') next_.name = text_of(content);
    if (type == 'x') read_pax(as_text(content));
    // K is the target of a link; links are refused anyway. g has nothing that is needed here.
  }

  // Parses records "LENGTH KEY=VALUE\n". LENGTH is the size of the whole record.
  void read_pax(std::string_view text) {
    while (!text.empty()) {
      std::size_t length = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
      const auto digits = static_cast<std::size_t>(end - text.data());
      if (error != std::errc() || length > text.size() || length < digits + 2 ||
          text[digits] != ' ' || text[length - 1] != '\n') {
        damaged("a pax header in the tar is damaged");
      }
      const std::string_view record = text.substr(digits + 1, length - digits - 2);
      text.remove_prefix(length);
      const std::size_t equals = record.find('=');
      if (equals == std::string_view::npos) damaged("a pax header in the tar is damaged");
      use_pax(record.substr(0, equals), record.substr(equals + 1));
    }
  }

  void use_pax(std::string_view key, std::string_view value) {
    if (key == "path") next_.name = value;
    if (key == "size") {
      std::uint64_t size = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (error != std::errc() || end != value.data() + value.size()) {
        damaged("a pax header in the tar has no size");
      }
      next_.size = size;
    }
    if (key.starts_with("GNU.sparse.")) unsupported(std::string(key), "is a sparse file");
  }

  [[noreturn]] static void unsupported(const std::string& name, const std::string& why) {
    throw UnsupportedError("the member \"" + name + "\" of the tar " + why);
  }

  void add(File file, char type) {
    constexpr std::string_view kLinks = "12";
    constexpr std::string_view kFiles("0\0007", 3);
    const std::string given = file.name;
    if (kLinks.find(type) != kLinks.npos) unsupported(given, "is a link");
    if (type != '5' && kFiles.find(type) == kFiles.npos) {
      unsupported(given, "is neither a file nor a folder");
    }
    // Before POSIX, a folder was a file with a slash at the end of its name. Python's tarfile
    // writes the folder that Composer packs as "/" alone.
    const bool is_folder = type == '5' || given.ends_with('/');
    file.name = relative(given, is_folder);
    if (is_folder) return;
    if (file.name.empty()) damaged("a file in the tar has no name");
    if (!names_.insert(file.name).second) unsupported(file.name, "occurs twice");
    files_.push_back(std::move(file));
  }

  static std::string relative(std::string_view given, bool is_folder) {
    if (given.find_first_not_of('/') == given.npos && is_folder) return "";
    if (given.starts_with('/')) unsupported(std::string(given), "has an absolute name");
    std::string name;
    while (!given.empty()) {
      const std::size_t slash = std::min(given.find('/'), given.size());
      const std::string_view part = given.substr(0, slash);
      if (part == "..") unsupported(std::string(given), "leaves the folder");
      if (!part.empty() && part != ".") name.append(name.empty() ? "" : "/").append(part);
      given.remove_prefix(std::min(slash + 1, given.size()));
    }
    return name;
  }

  ReadAhead ahead_;
  std::uint64_t size_;
  std::uint64_t at_ = 0;
  Extra next_;
  std::vector<File> files_;
  std::unordered_set<std::string, TextHash> names_;
};

}  // namespace

bool is_tar(ByteView bytes) {
  if (bytes.size() < kBlockBytes) return false;
  const ByteView block = bytes.first(kBlockBytes);
  const std::string_view magic = as_text(field(block, kMagic));
  return magic == kUstar || magic == kGnu || has_checksum(block);
}

std::vector<File> read_files(const ByteSource& tar) { return Reader(tar).read(); }

}  // namespace cairn::tar
