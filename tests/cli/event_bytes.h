// Event files for TensorBoard, made by a test.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/hash/masked_crc32c.h"
#include "core/protobuf.h"

namespace cairn::cli::events {

constexpr double kStart = 1.7e9;

// With good checksums, whatever is in the record.
inline std::string record(std::string_view data) {
  std::string bytes;
  append_little_endian(bytes, std::uint64_t{data.size()});
  append_little_endian(bytes, masked_crc32c(as_bytes(bytes)));
  bytes += data;
  append_little_endian(bytes, masked_crc32c(as_bytes(data)));
  return bytes;
}

inline std::string record(const ProtoMessage& event) { return record(event.bytes()); }

inline std::string summary(const ProtoMessage& value, std::int64_t step, double seconds = kStart) {
  return record(ProtoMessage()
                    .number(1, seconds)
                    .integer(2, step)
                    .message(5, ProtoMessage().message(1, value)));
}

inline std::string scalar(const std::string& tag, float value, std::int64_t step,
                          double seconds = kStart) {
  return summary(ProtoMessage().text(1, tag).number(2, value), step, seconds);
}

inline std::string start(std::int64_t step) {
  return record(
      ProtoMessage().number(1, kStart).integer(2, step).message(7, ProtoMessage().integer(1, 1)));
}

inline std::string named(int second, const std::string& rest = ".host.7.0") {
  return "events.out.tfevents." + std::to_string(1'700'000'000 + second) + rest;
}

}  // namespace cairn::cli::events
