// Reading checks, in this order:
//
//  1. u64, the header's size: at most 100,000,000, and within the file.
//  2. The header, one JSON object. White space may surround it.
//  3. Each member except "__metadata__" is a tensor, and no name occurs twice.
//  4. Shape and dtype give exactly the bytes from begin to end, in checked arithmetic.
//  5. Sorted by offsets, the tensors cover the rest of the file without holes or overlaps.
#include "format/safetensors/header.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>

#include "cairn/error.h"

#include "core/hash/seeded_hash.h"
#include "core/little_endian.h"
#include "format/safetensors/dtypes.h"
#include "format/safetensors/json_reader.h"
#include "format/two_files.h"
#include "io/bytes/source_part.h"
#include "io/memory/memory_budget.h"

namespace cairn::safetensors {
namespace {

// A member of the header, as it is written.
struct Member {
  std::string name = {};
  std::uint64_t at = 0;  // where the value of the member starts in the file; for messages
  std::string dtype = {};
  std::vector<std::uint64_t> shape = {};
  std::uint64_t begin = 0;  // from the end of the header
  std::uint64_t end = 0;
};

[[noreturn]] void fail(const Member& member, const std::string& problem) {
  throw CorruptError("tensor \"" + member.name + "\": " + problem, {}, member.at);
}

std::vector<std::uint64_t> read_shape(JsonReader& json) {
  std::vector<std::uint64_t> shape;
  json.array([&] { shape.push_back(json.unsigned_number()); });
  return shape;
}

void read_offsets(JsonReader& json, Member& member) {
  std::size_t count = 0;
  json.array([&] {
    if (count == 2) json.fail("more than two data_offsets");
    (count++ == 0 ? member.begin : member.end) = json.unsigned_number();
  });
  if (count != 2) json.fail("fewer than two data_offsets");
}

// The fields of a tensor, in the reference's order. A tensor may also be written as an array of the
// three values in this order.
constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};

void read_field(JsonReader& json, std::size_t field, Member& member) {
  if (field == 0) member.dtype = json.string();
  if (field == 1) member.shape = read_shape(json);
  if (field == 2) read_offsets(json, member);
}

void read_member(JsonReader& json, Member& member) {
  member.at = json.offset();
  std::array<bool, kFields.size()> seen{};
  if (json.peek() == '[') {
    std::size_t next = 0;
    json.array([&] {
      if (next == kFields.size()) json.fail("a tensor with more than three fields");
      read_field(json, next, member);
      seen[next++] = true;
    });
  } else {
    json.object([&](const std::string& key) {
      const auto* const field = std::find(kFields.begin(), kFields.end(), key);
      if (field == kFields.end()) return json.skip();  // a field from a later version
      const auto index = static_cast<std::size_t>(field - kFields.begin());
      if (seen[index]) json.fail("\"" + key + "\" occurs twice");
      seen[index] = true;
      read_field(json, index, member);
    });
  }
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    if (!seen[i]) fail(member, "it has no \"" + std::string(kFields[i]) + "\"");
  }
}

SafetensorsFile::Metadata read_metadata(JsonReader& json, MemoryBudget& budget) {
  constexpr std::uint64_t kPairBytes = 256;  // with the set of names
  SafetensorsFile::Metadata metadata;
  std::unordered_set<std::string, TextHash> names;
  if (json.accept_null()) return metadata;
  json.object([&](std::string key) {
    if (!names.insert(key).second) json.fail("\"" + key + "\" occurs twice in the metadata");
    std::string value = json.string();
    budget.take(kPairBytes + 2 * key.size() + value.size());
    metadata.emplace_back(std::move(key), std::move(value));
  });
  return metadata;
}

std::uint64_t multiply(const Member& member, std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) fail(member, "its shape overflows 64 bits");
  return product;
}

// Returns the number of bytes that the shape and the dtype need.
std::uint64_t size_of(const Member& member, const DTypeRow& row) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : member.shape) {
    count = multiply(member, count, dim);
  }
  const std::uint64_t bits = multiply(member, count, row.bits);
  if (bits % 8 != 0) fail(member, "its elements do not fill whole bytes");
  return bits / 8;
}

// Returns the shape of the PyTorch tensor. Its strides must fit into 63 bits, too.
Dims torch_shape(const Member& member, const DTypeRow& row) {
  const auto refuse = [&](const std::string& problem) {
    throw UnsupportedError("tensor \"" + member.name + "\": no PyTorch tensor has " + problem);
  };
  Dims shape;
  std::int64_t extent = 1;
  for (const std::uint64_t dim : member.shape) {
    const std::uint64_t factor = std::max<std::uint64_t>(dim, 1);
    if (!std::in_range<std::int64_t>(dim) ||
        __builtin_mul_overflow(extent, static_cast<std::int64_t>(factor), &extent)) {
      refuse("a shape of that size");
    }
    shape.push_back(static_cast<std::int64_t>(dim));
  }
  if (row.bits == 4) {
    if (shape.empty() || shape.back() % 2 != 0) refuse("an odd number of 4-bit numbers in a row");
    shape.back() /= 2;
  }
  return shape;
}

SafetensorsEntry to_entry(const Member& member, std::uint64_t data) {
  const DTypeRow* row = find_row(member.dtype);
  if (row == nullptr) {
    throw UnsupportedError("tensor \"" + member.name + "\" has the dtype \"" + member.dtype +
                           "\", which this version of cairn does not know");
  }
  if (member.end < member.begin) fail(member, "it ends before it begins");
  const std::uint64_t size = size_of(member, *row);
  if (size != member.end - member.begin) {
    fail(member, "its shape needs " + std::to_string(size) + " bytes, but its data_offsets hold " +
                     std::to_string(member.end - member.begin));
  }
  if (!row->dtype) {
    throw UnsupportedError("tensor \"" + member.name + "\" has the dtype \"" + member.dtype +
                           "\", which PyTorch does not have");
  }
  return {.name = member.name,
          .dtype = *row->dtype,
          .shape = torch_shape(member, *row),
          .offset = data + member.begin,
          .size = size};
}

// Throws UnsupportedError if another safetensors file begins at `at`.
void check_one_file(const ByteSource& file, std::uint64_t at) {
  constexpr std::uint64_t kStartBytes = 128;  // more than has_header() reads
  const SharedBytes start = read_bytes(file, at, std::min(kStartBytes, file.size() - at));
  if (has_header(start.view)) throw UnsupportedError(two_files_message(at));
}

// Sorts the tensors, and checks that they cover the data without holes or overlaps.
void check_coverage(std::vector<Member>& members, const ByteSource& file, std::uint64_t data) {
  const std::uint64_t data_bytes = file.size() - data;
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t covered = 0;
  for (const Member& member : members) {
    if (member.begin != covered || member.end < member.begin) {
      fail(member, "its bytes begin at " + std::to_string(member.begin) + " and end at " +
                       std::to_string(member.end) + ", but the previous tensor's end at " +
                       std::to_string(covered));
    }
    covered = member.end;
  }
  if (covered == data_bytes) return;
  if (covered < data_bytes) check_one_file(file, data + covered);
  throw CorruptError("the tensors take " + std::to_string(covered) + " bytes, but the file has " +
                         std::to_string(data_bytes) + " for them",
                     {}, data + std::min(covered, data_bytes));
}

std::uint64_t read_size(const ByteSource& file) {
  if (file.size() < kSizeBytes) {
    throw CorruptError("the file ends within the size of its header", {}, file.size());
  }
  const SharedBytes bytes = file.view(0, kSizeBytes);
  const auto size = load_little_endian<std::uint64_t>(bytes.view.data());
  if (size > kMaxHeaderBytes) {
    throw CorruptError("the header has " + std::to_string(size) + " bytes; at most " +
                           std::to_string(kMaxHeaderBytes) + " are allowed",
                       {}, 0);
  }
  if (size > file.size() - kSizeBytes) {
    throw CorruptError("the file is cut off: its header has " + std::to_string(size) +
                           " bytes, but only " + std::to_string(file.size() - kSizeBytes) +
                           " are there",
                       {}, file.size());
  }
  return size;
}

// The memory that a tensor in a Value will take. Dimensions are counted separately.
constexpr std::uint64_t kMemberBytes = 1024;
constexpr std::uint64_t kDimBytes = 48;

}  // namespace

bool has_header(ByteView file) {
  if (file.size() <= kSizeBytes) return false;
  // Accepts sizes above the largest allowed one, so that read_header() reports those.
  if (load_little_endian<std::uint64_t>(file.data()) >> 48 != 0) return false;
  constexpr std::size_t kMaxSpace = 64;
  const std::string_view text = as_text(file.subspan(kSizeBytes)).substr(0, kMaxSpace);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

Header read_header(const ByteSource& file) {
  const std::uint64_t size = read_size(file);
  const std::uint64_t data = kSizeBytes + size;
  Header header{.bytes = read_bytes(file, 0, data)};
  std::vector<Member> members;
  std::unordered_set<std::string, TextHash> names;
  MemoryBudget budget(size);
  JsonReader json(as_text(header.bytes.view.subspan(kSizeBytes)), "the header", kSizeBytes);
  json.object([&](std::string name) {
    if (!names.insert(name).second) json.fail("\"" + name + "\" occurs twice");
    if (name == kMetadataName) {
      header.metadata = read_metadata(json, budget);
      return;
    }
    members.push_back({.name = std::move(name)});
    read_member(json, members.back());
    budget.take(kMemberBytes + members.back().shape.size() * kDimBytes);
  });
  json.end();
  check_coverage(members, file, data);
  header.entries.reserve(members.size());
  for (const Member& member : members) {
    header.entries.push_back(to_entry(member, data));
  }
  return header;
}

}  // namespace cairn::safetensors
