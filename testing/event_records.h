// The events in a file of TensorBoard, read by the rules of its format: each CRC is checked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn::testing {

// The fields of a message of protocol buffers, in order. A number is kept as its 8 bytes.
struct ProtoFields {
  std::vector<std::pair<int, std::string>> fields;

  // The first field of that number; "" if there is none.
  std::string text(int field) const;
  std::int64_t integer(int field) const;
  double number(int field) const;  // a double
  float single(int field) const;   // a float
  ProtoFields message(int field) const;
};
ProtoFields proto_fields(const std::string& bytes);

// The messages in a file. Fails the test for a wrong CRC or a torn record.
std::vector<ProtoFields> event_records(const std::string& path);

// All scalars in the event files of a folder: tag to (step, value), in the order of the files.
using ScalarSeries = std::map<std::string, std::vector<std::pair<std::int64_t, float>>>;
ScalarSeries scalars_in(const std::string& folder);

}  // namespace cairn::testing
