#include "format/zip/writer.h"

#include <libdeflate.h>

#include "cairn/error.h"

#include "format/zip/names.h"
#include "io/pieces.h"

namespace cairn::zip {
namespace {

constexpr std::size_t kZipPieceBytes = std::size_t{256} * 1024;

}  // namespace

Writer::Writer(ByteSink& sink, std::string prefix) : sink_(sink), prefix_(std::move(prefix)) {
  if (!is_safe_name(prefix_) || prefix_.find('/') != std::string::npos) {
    throw UsageError("\"" + prefix_ + "\" cannot be the folder name inside a torch.save file");
  }
}

void Writer::add(std::string_view name, const SharedBytes& bytes) {
  Entry entry = begin(name, bytes.view.size());
  for_each_piece(bytes, kZipPieceBytes, [&](ByteView piece) {
    entry.record.crc32 = libdeflate_crc32(entry.record.crc32, piece.data(), piece.size());
    sink_.write(piece);
  });
  end(std::move(entry));
}

void Writer::add_size(std::string_view name, std::uint64_t size) { end(begin(name, size)); }

Entry Writer::begin(std::string_view name, std::uint64_t size) {
  const std::string full = prefix_ + "/" + std::string(name);
  if (!is_safe_name(full)) {
    throw UsageError("\"" + full + "\" cannot be the name of a record in a torch.save file");
  }
  Entry entry{.record = {.name = std::string(name), .size = size}, .header_offset = offset_};
  write(local_header(full, offset_, size));
  entry.record.offset = offset_;
  offset_ += size;
  return entry;
}

void Writer::end(Entry entry) {
  write(data_descriptor(entry));
  entries_.push_back(std::move(entry));
}

void Writer::finish() {
  DirectoryExtent directory{.offset = offset_, .entries = entries_.size()};
  for (const Entry& entry : entries_) {
    write(central_header(prefix_ + "/" + entry.record.name, entry));
  }
  directory.size = offset_ - directory.offset;
  write(end_of_directory(directory));
}

void Writer::write(std::string_view text) {
  if (text.empty()) return;
  sink_.write(as_bytes(text));
  offset_ += text.size();
}

}  // namespace cairn::zip
