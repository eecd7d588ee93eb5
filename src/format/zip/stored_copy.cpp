#include "format/zip/stored_copy.h"

#include <algorithm>
#include <tuple>

#include "cairn/error.h"

#include "core/hash/crc32.h"
#include "format/compression/codec.h"
#include "io/bytes/pieces.h"
#include "io/bytes/source_part.h"

namespace cairn::zip {
namespace {

// Passes on the content of one record, but no more bytes than its size.
class RecordSink final : public ByteSink {
 public:
  RecordSink(const Entry& entry, ByteSink& out) : entry_(entry), out_(out) {}

  void write(ByteView bytes) override {
    const std::uint64_t room = entry_.record.size - std::min(entry_.record.size, size_);
    size_ += bytes.size();
    bytes = bytes.first(std::min<std::uint64_t>(bytes.size(), room));
    crc_ = crc32(bytes, crc_);
    out_.write(bytes);
  }
  void check() const {
    const FileRecord& record = entry_.record;
    if (size_ != record.size) {
      fail(record, "expands to " + std::to_string(size_) + " bytes, but the zip directory says " +
                       std::to_string(record.size));
    }
    if (record.crc32 != 0 && record.crc32 != crc_) fail(record, "does not match its CRC");
  }

  [[noreturn]] static void fail(const FileRecord& record, const std::string& what) {
    throw CorruptError("record " + record.name + " " + what, {}, record.offset);
  }

 private:
  const Entry& entry_;
  ByteSink& out_;
  std::uint64_t size_ = 0;
  std::uint32_t crc_ = 0;
};

void write_content(const Entry& entry, const std::shared_ptr<const ByteSource>& source,
                   ByteSink& out) {
  const FileRecord& record = entry.record;
  RecordSink sink(entry, out);
  if (!entry.is_compressed()) {
    for_each_piece(*source, record.offset, record.size, [&](ByteView bytes) { sink.write(bytes); });
  } else if (entry.is_deflated()) {
    const auto stored = part_of(source, record.offset, entry.stored_size, source->name());
    try {
      decode(kDeflate, *stored, sink, ~std::uint64_t{0});
    } catch (const CorruptError& e) {
      RecordSink::fail(record, std::string("is damaged: ") + e.what());
    }
  } else {
    throw UnsupportedError("record " + record.name + " is compressed in an unknown way");
  }
  sink.check();
}

// Returns the entries in torch.save's order: the object, the storages by number, the rest
// unchanged.
std::vector<const Entry*> in_order(const Directory& directory) {
  constexpr std::string_view kFirst[] = {"data.pkl", "byteorder"};
  constexpr std::string_view kStorages = "data/";
  const auto key_of = [&](const Entry* entry) {
    const std::string& name = entry->record.name;
    const std::size_t group = name == kFirst[0]             ? 0
                              : name == kFirst[1]           ? 1
                              : name.starts_with(kStorages) ? 2
                              : name == "version"           ? 3
                                                            : 4;
    const std::size_t length = group == 2 ? name.size() : 0;
    return std::tuple(group, length, group == 2 ? std::string_view(name) : std::string_view());
  };
  std::vector<const Entry*> entries;
  for (const Entry& entry : directory.entries) {
    entries.push_back(&entry);
  }
  std::ranges::stable_sort(entries, {}, key_of);
  return entries;
}

}  // namespace

void write_stored(const Directory& directory, const std::shared_ptr<const ByteSource>& source,
                  ByteSink& out) {
  const std::vector<const Entry*> entries = in_order(directory);
  std::uint64_t at = 0;
  const auto write_text = [&](const std::string& text) {
    out.write(as_bytes(text));
    at += text.size();
  };
  std::string lines;
  for (const Entry* entry : entries) {
    const FileRecord& record = entry->record;
    const std::string name = directory.prefix + "/" + record.name;
    const Placed placed{at, record.size};
    std::string header;
    append_local_header(header, name, at, record.size);
    write_text(header);
    write_content(*entry, source, out);
    at += record.size;
    std::string descriptor;
    append_data_descriptor(descriptor, placed, record.crc32);
    write_text(descriptor);
    append_central_header(lines, name, placed, record.crc32);
  }
  const DirectoryExtent extent{.offset = at, .size = lines.size(), .entries = entries.size()};
  write_text(lines);
  write_text(end_of_directory(extent));
}

}  // namespace cairn::zip
