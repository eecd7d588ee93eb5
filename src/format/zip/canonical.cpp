#include "format/zip/canonical.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "format/zip/small_parts.h"
#include "io/parallel.h"

namespace cairn::zip {
namespace {

// Some entries that follow one another in the file.
using Entries = std::span<const Entry>;

// The names of entries in the zip, one at a time.
class FullName {
 public:
  explicit FullName(const Directory& directory)
      : name_(directory.prefix + "/"), stem_(name_.size()) {}

  const std::string& of(const Entry& entry) {
    name_.resize(stem_);
    return name_ += entry.record.name;
  }

 private:
  std::string name_;
  std::size_t stem_;
};

Placed placed(const Entry& entry) { return {entry.header_offset, entry.record.size}; }

// Whether these records, up to `end`, and all that belongs to them but the directory's lines, stand
// as PyTorch would write them.
bool has_canonical_records(Comparison& file, Entries entries, FullName name, std::uint64_t end) {
  for (const Entry& entry : entries) {
    const std::uint64_t at = file.at();
    const bool is_header = file.expect(
        [&](std::string& out) { append_local_header(out, name.of(entry), at, entry.record.size); });
    if (!is_header) return false;
    if (file.at() != entry.record.offset) {
      file.finish(end);  // for the difference: here, or before
      return false;
    }
    file.skip(entry.record.size);
    const bool is_descriptor = file.expect(
        [&](std::string& out) { append_data_descriptor(out, placed(entry), entry.record.crc32); });
    if (!is_descriptor) return false;
  }
  return file.finish(end);
}

// The same of their lines in the directory, with what stands `behind` them.
bool has_canonical_lines(Comparison& file, Entries entries, FullName name,
                         const std::string& behind, std::uint64_t end) {
  for (const Entry& entry : entries) {
    const bool is_line = file.expect([&](std::string& out) {
      append_central_header(out, name.of(entry), placed(entry), entry.record.crc32);
    });
    if (!is_line) return false;
  }
  return file.expect([&](std::string& out) { out += behind; }) && file.finish(end);
}

}  // namespace

bool is_canonical(const Directory& directory, const ByteSource& source, std::uint64_t* offset) {
  constexpr std::size_t kAtATime = std::size_t{16} << 10;
  constexpr std::uint64_t kNone = ~std::uint64_t{0};
  const Entries all = directory.entries;
  const std::size_t count = std::max<std::size_t>((all.size() + kAtATime - 1) / kAtATime, 1);
  const auto some = [&](std::size_t i) {
    return all.subspan(i * kAtATime, std::min(kAtATime, all.size() - i * kAtATime));
  };
  DirectoryExtent extent{.offset = directory.extent.offset, .entries = all.size()};
  std::vector<std::uint64_t> begins;       // of the records
  std::vector<std::uint64_t> line_begins;  // of their lines in the directory
  for (std::size_t i = 0; i < count; ++i) {
    begins.push_back(i == 0 ? 0 : some(i).front().header_offset);
    line_begins.push_back(extent.offset + extent.size);
    for (const Entry& entry : some(i)) {
      const std::size_t name_size = directory.prefix.size() + 1 + entry.record.name.size();
      extent.size += central_header_size(name_size, placed(entry));
    }
  }
  begins.push_back(extent.offset);
  line_begins.push_back(source.size());
  std::vector<std::uint64_t> differences(2 * count, kNone);
  const auto compare_records = [&](std::size_t i) {
    Comparison file(source, begins[i]);
    const bool is_same = has_canonical_records(file, some(i), FullName(directory), begins[i + 1]);
    if (!is_same) differences[i] = file.difference();
  };
  const auto compare_lines = [&](std::size_t i) {
    Comparison file(source, line_begins[i]);
    const std::string behind = i + 1 == count ? end_of_directory(extent) : std::string();
    const bool is_same =
        has_canonical_lines(file, some(i), FullName(directory), behind, line_begins[i + 1]);
    if (!is_same) differences[count + i] = file.difference();
  };
  const auto compare = [&](std::size_t i) {
    i < count ? compare_records(i) : compare_lines(i - count);
  };
  for_each_parallel(2 * count, compare, count == 1 ? 0 : source.size());
  const std::uint64_t difference = *std::ranges::min_element(differences);
  *offset = std::min(difference, source.size());
  return difference == kNone;
}

}  // namespace cairn::zip
