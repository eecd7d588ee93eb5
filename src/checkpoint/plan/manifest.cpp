#include "checkpoint/plan/manifest.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "cairn/error.h"

#include "core/hash/xxh3.h"
#include "core/little_endian.h"
#include "core/text/json.h"
#include "core/text/writer.h"
#include "io/read_fault.h"
#include "value/timestamp_fields.h"

namespace cairn {
namespace {

constexpr std::int64_t kSchema = 1;
constexpr std::size_t kMaxBytes = std::size_t{64} << 10;

// The manifest has clocks in microseconds, as the suffix of the key says.
std::string clock_key(const TimestampClock& clock) { return std::string(clock.name) + "_us"; }

OrderedJson to_json(const Timestamp& timestamp) {
  OrderedJson json;
  for (const TimestampCounter& counter : kTimestampCounters) {
    json[counter.name] = timestamp.*counter.field;
  }
  for (const TimestampClock& clock : kTimestampClocks) {
    json[clock_key(clock)] = (timestamp.*clock.field).to_microseconds().count();
  }
  return json;
}

// Whether `json` is a T within its range. The library would truncate larger numbers.
template <class T>
bool holds(const OrderedJson& json) {
  if constexpr (std::is_same_v<T, std::string>) return json.is_string();
  if constexpr (std::is_same_v<T, std::uint64_t>) return json.is_number_unsigned();
  if (json.is_number_unsigned()) return std::in_range<std::int64_t>(json.get<std::uint64_t>());
  return json.is_number_integer();
}

// Returns the field `name`, which must be a T: std::string, std::int64_t or std::uint64_t.
template <class T>
T field_of(const OrderedJson& json, const std::string& name) {
  const auto found = json.find(name);
  if (found == json.end()) throw CorruptError(fmt::format("the manifest has no \"{}\"", name));
  if (!holds<T>(*found)) {
    throw CorruptError(fmt::format("\"{}\" of the manifest has a wrong type or size", name));
  }
  return found->template get<T>();
}

Timestamp timestamp_of(const OrderedJson& json) {
  if (!json.is_object()) throw CorruptError("\"timestamp\" of the manifest has a wrong type");
  Timestamp timestamp;
  for (const TimestampCounter& counter : kTimestampCounters) {
    timestamp.*counter.field = field_of<std::int64_t>(json, counter.name);
  }
  for (const TimestampClock& clock : kTimestampClocks) {
    const std::chrono::microseconds duration(field_of<std::int64_t>(json, clock_key(clock)));
    timestamp.*clock.field = TimeDelta::of(duration);
  }
  return timestamp;
}

// The table of all records except the manifest, which cannot describe itself. The table is hashed
// in pieces while it is made.
struct RecordTable {
  static constexpr std::size_t kSomeBytes = std::size_t{16} << 10;

  explicit RecordTable(const std::vector<FileRecord>& all) {
    Xxh3 hash;
    std::string some;
    for (const FileRecord& record : all) {
      if (record.name == kManifestRecord) continue;
      append_little_endian<std::uint64_t>(some, record.name.size());
      some += record.name;
      append_little_endian<std::uint64_t>(some, record.offset);
      append_little_endian<std::uint64_t>(some, record.size);
      append_little_endian<std::uint64_t>(some, record.crc32);
      ++records;
      bytes += record.size;
      if (some.size() < kSomeBytes) continue;
      hash.write(as_bytes(some));
      some.clear();
    }
    hash.write(as_bytes(some));
    digest = hash.digest128();
  }

  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::string digest;
};

}  // namespace

std::string manifest_text(const CheckpointInfo& info, const std::vector<FileRecord>& records) {
  const RecordTable table(records);
  OrderedJson json = {
      {"schema", kSchema}, {"writer", kWriter},         {"layout", kManifestLayout},
      {"kind", info.kind}, {"run_name", info.run_name},
  };
  if (info.timestamp) json["timestamp"] = to_json(*info.timestamp);
  json["records"] = table.records;
  json["bytes"] = table.bytes;
  json["xxh3_128"] = table.digest;
  try {
    return json.dump();
  } catch (const OrderedJson::type_error&) {  // thrown only for text that is not UTF-8
    throw UsageError("the run name is not UTF-8 and so cannot be written into a checkpoint");
  }
}

Manifest parse_manifest(std::string_view text) {
  if (text.size() > kMaxBytes) throw CorruptError("the manifest is too large to be one");
  const OrderedJson json = OrderedJson::parse(text.begin(), text.end(), nullptr, false);
  if (!json.is_object()) throw CorruptError("the manifest is not a JSON object");
  const auto schema = field_of<std::int64_t>(json, "schema");
  Manifest manifest;
  manifest.writer = field_of<std::string>(json, "writer");
  if (schema > kSchema) {
    throw ReaderMissingError(
        fmt::format("written by {}, with a manifest of schema {}; this version reads up to {}: "
                    "use a newer cairn",
                    manifest.writer, schema, kSchema));
  }
  if (schema < 1) throw CorruptError(fmt::format("the manifest has schema {}", schema));
  manifest.layout = field_of<std::string>(json, "layout");
  manifest.info.kind = field_of<std::string>(json, "kind");
  manifest.info.run_name = field_of<std::string>(json, "run_name");
  if (const auto found = json.find("timestamp"); found != json.end()) {
    manifest.info.timestamp = timestamp_of(*found);
  }
  manifest.records = field_of<std::uint64_t>(json, "records");
  manifest.bytes = field_of<std::uint64_t>(json, "bytes");
  manifest.digest = field_of<std::string>(json, "xxh3_128");
  return manifest;
}

std::string compare_with_records(const Manifest& manifest, const std::vector<FileRecord>& records) {
  const RecordTable table(records);
  if (table.records != manifest.records || table.bytes != manifest.bytes) {
    return fmt::format("the manifest describes {} records of {} bytes, the file has {} of {}",
                       manifest.records, manifest.bytes, table.records, table.bytes);
  }
  if (table.digest != manifest.digest) {
    return fmt::format("the records are not those of the manifest: digest {} instead of {}",
                       table.digest, manifest.digest);
  }
  return {};
}

}  // namespace cairn
