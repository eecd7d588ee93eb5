#include "testing/event_records.h"

#include <gtest/gtest.h>

#include <cstring>

#include "cairn/bytes.h"

#include "core/hash/crc32c.h"
#include "io/file.h"
#include "testing/temp_folder.h"

namespace cairn::testing {
namespace {

template <class T>
T number_at(const std::string& bytes, std::size_t at = 0) {
  T value = {};
  if (bytes.size() >= at + sizeof(T)) std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

std::uint64_t take_varint(const std::string& bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; at < bytes.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

std::string eight_bytes(std::uint64_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// As TensorFlow's documents define it: rotated right by 15 bits, plus a constant.
std::uint32_t masked_crc_of(const std::string& bytes) {
  const std::uint32_t crc = crc32c(as_bytes(bytes));
  return ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U;
}

}  // namespace

std::string ProtoFields::text(int field) const {
  for (const auto& [number, value] : fields) {
    if (number == field) return value;
  }
  return {};
}
std::int64_t ProtoFields::integer(int field) const { return number_at<std::int64_t>(text(field)); }
double ProtoFields::number(int field) const { return number_at<double>(text(field)); }
float ProtoFields::single(int field) const { return number_at<float>(text(field)); }
ProtoFields ProtoFields::message(int field) const { return proto_fields(text(field)); }

ProtoFields proto_fields(const std::string& bytes) {
  ProtoFields found;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::uint64_t tag = take_varint(bytes, at);
    const unsigned type = tag & 7U;
    std::string value;
    if (type == 0) {
      value = eight_bytes(take_varint(bytes, at));
    } else {
      const std::size_t size = type == 1 ? 8 : type == 5 ? 4 : take_varint(bytes, at);
      EXPECT_TRUE(type == 1 || type == 2 || type == 5) << "wire type " << type;
      EXPECT_LE(at + size, bytes.size()) << "a torn message";
      value = bytes.substr(std::min(at, bytes.size()), size);
      at += size;
    }
    found.fields.emplace_back(static_cast<int>(tag >> 3U), value);
  }
  return found;
}

std::vector<ProtoFields> event_records(const std::string& path) {
  const std::string bytes = read_file(path);
  std::vector<ProtoFields> records;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto size = number_at<std::uint64_t>(bytes, at);
    if (at + size + 16 > bytes.size()) {
      ADD_FAILURE() << path << " is torn at byte " << at;
      break;
    }
    EXPECT_EQ(number_at<std::uint32_t>(bytes, at + 8), masked_crc_of(bytes.substr(at, 8)));
    const std::string data = bytes.substr(at + 12, size);
    EXPECT_EQ(number_at<std::uint32_t>(bytes, at + 12 + size), masked_crc_of(data));
    records.push_back(proto_fields(data));
    at += size + 16;
  }
  return records;
}

ScalarSeries scalars_in(const std::string& folder) {
  ScalarSeries series;
  for (const std::string& name : posix_file_system().list(folder)) {
    for (const ProtoFields& event : event_records(join_path(folder, name))) {
      for (const auto& [field, bytes] : event.message(5).fields) {
        const ProtoFields value = proto_fields(bytes);
        if (value.text(2).empty()) continue;
        series[value.text(1)].emplace_back(event.integer(2), value.single(2));
      }
    }
  }
  return series;
}

}  // namespace cairn::testing
