#include "checkpoint/plan/manifest.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "cairn/error.h"

#include "core/json.h"
#include "core/little_endian.h"
#include "core/writer.h"
#include "core/xxh3.h"
#include "io/read_fault.h"
#include "value/timestamp_fields.h"

namespace cairn {
namespace {

constexpr std::int64_t kSchema = 1;
constexpr std::size_t kMostBytes = std::size_t{64} << 10;

// A clock is in the manifest in microseconds.
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

// Whether `json` is a T and within its range: the library would cut off what does not fit.
template <class T>
bool holds(const OrderedJson& json) {
  if constexpr (std::is_same_v<T, std::string>) return json.is_string();
  if constexpr (std::is_same_v<T, std::uint64_t>) return json.is_number_unsigned();
  if (json.is_number_unsigned()) return std::in_range<std::int64_t>(json.get<std::uint64_t>());
  return json.is_number_integer();
}

// The field of that name and type. T is std::string, std::int64_t or std::uint64_t.
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

// The table of all records but the manifest itself, which cannot describe itself: hashed as it is
// made, some of it at a time.
class RecordTable {
 public:
  void add(const FileRecord& record) {
    if (record.name == kManifestRecord) return;
    append_little_endian<std::uint64_t>(some_, record.name.size());
    some_ += record.name;
    append_little_endian<std::uint64_t>(some_, record.offset);
    append_little_endian<std::uint64_t>(some_, record.size);
    append_little_endian<std::uint64_t>(some_, record.crc32);
    ++records_;
    bytes_ += record.size;
    if (some_.size() >= kSomeBytes) hash_some();
  }

  std::uint64_t records() const { return records_; }
  std::uint64_t bytes() const { return bytes_; }
  // Of all that was added.
  std::string digest() {
    hash_some();
    return hash_.digest128();
  }

 private:
  static constexpr std::size_t kSomeBytes = std::size_t{16} << 10;

  void hash_some() {
    hash_.write(as_bytes(some_));
    some_.clear();
  }

  std::string some_;
  Xxh3 hash_;
  std::uint64_t records_ = 0;
  std::uint64_t bytes_ = 0;
};

class ManifestRecord final : public ExtraRecords {
 public:
  explicit ManifestRecord(CheckpointInfo info) : info_(std::move(info)) {}

  void add(const FileRecord& record) override { table_.add(record); }
  std::vector<std::pair<std::string, std::string>> finish() override {
    OrderedJson json = {
        {"schema", kSchema},  {"writer", kWriter},          {"layout", kManifestLayout},
        {"kind", info_.kind}, {"run_name", info_.run_name},
    };
    if (info_.timestamp) json["timestamp"] = to_json(*info_.timestamp);
    json["records"] = table_.records();
    json["bytes"] = table_.bytes();
    json["xxh3_128"] = table_.digest();
    try {
      return {{std::string(kManifestRecord), json.dump()}};
    } catch (const OrderedJson::type_error&) {  // the only reason
      throw UsageError("the run name is not UTF-8 and cannot be written into a checkpoint");
    }
  }

 private:
  CheckpointInfo info_;
  RecordTable table_;
};

}  // namespace

std::unique_ptr<ExtraRecords> manifest_record(CheckpointInfo info) {
  return std::make_unique<ManifestRecord>(std::move(info));
}

Manifest parse_manifest(std::string_view text) {
  if (text.size() > kMostBytes) throw CorruptError("the manifest is too large to be one");
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
  RecordTable table;
  for (const FileRecord& record : records) {
    table.add(record);
  }
  if (table.records() != manifest.records || table.bytes() != manifest.bytes) {
    return fmt::format("the manifest describes {} records of {} bytes, the file has {} of {}",
                       manifest.records, manifest.bytes, table.records(), table.bytes());
  }
  const std::string digest = table.digest();
  if (digest != manifest.digest) {
    return fmt::format("the records are not those of the manifest: digest {} instead of {}", digest,
                       manifest.digest);
  }
  return {};
}

}  // namespace cairn
