#include "format/torch_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "cairn/error.h"

#include "core/hash/crc32.h"
#include "format/zip/names.h"
#include "io/memory/page_memory.h"

namespace cairn {
namespace {

constexpr std::string_view kPickleRecord = "data.pkl";
constexpr std::string_view kOrderRecord = "byteorder";
constexpr std::string_view kOrder = "little";
constexpr std::string_view kVersionRecord = "version";
constexpr std::string_view kVersionContent = "3\n";
constexpr std::string_view kStorageFolder = "data/";
constexpr std::size_t kFirstStorage = 2;  // the index of the first storage among the records
constexpr char kRoomByte = '.';           // STOP: a reader that continues finds only empty pickles

std::size_t digits_of(std::size_t number) {
  std::size_t digits = 1;
  for (; number >= 10; number /= 10) {
    ++digits;
  }
  return digits;
}

std::string storage_name(std::size_t index) {
  return std::string(kStorageFolder) + std::to_string(index);
}

std::uint32_t crc_of_text(std::string_view text) { return crc32(as_bytes(text)); }

}  // namespace

StoragePlaces::StoragePlaces(std::size_t prefix_size, std::uint64_t pickle_bytes)
    : prefix_size_(prefix_size) {
  place(kPickleRecord.size(), pickle_bytes);
  place(kOrderRecord.size(), kOrder.size());
}

std::uint64_t StoragePlaces::add(std::uint64_t size) {
  return place(kStorageFolder.size() + digits_of(records_.size() - kFirstStorage), size);
}

std::uint64_t StoragePlaces::place(std::size_t name_size, std::uint64_t size) {
  const zip::Placed record{end_, size};
  const std::uint64_t begin = end_ + zip::local_header_size(prefix_size_ + name_size, end_, size);
  records_.push_back(record);
  end_ = begin + size + zip::data_descriptor_size(record);
  return begin;
}

TorchPlan::TorchPlan(pickle::Encoded encoded, TorchFileWriteOptions options, Room room)
    : prefix_(options.prefix + "/"),
      pickle_(std::move(encoded.data_pkl)),
      options_(std::move(options)),
      places_(prefix_.size(), pickle_.size() + (room == Room::kToGrow ? encoded.room : 0)) {
  if (!zip::is_safe_name(options_.prefix) || options_.prefix.find('/') != std::string::npos) {
    throw UsageError("\"" + options_.prefix +
                     "\" cannot be the folder name inside a torch.save file");
  }
  pickle_crc_ = crc_of_text(pickle_);
  const std::string room_bytes(pickle_bytes() - pickle_.size(), kRoomByte);
  pickle_crc_ = crc32(as_bytes(room_bytes), pickle_crc_);
  places_.reserve(encoded.storages.size());
  parts_.reserve(encoded.storages.size());
  for (std::shared_ptr<const Storage>& storage : encoded.storages) {
    const std::uint64_t size = storage->size();
    parts_.push_back({.storage = std::move(storage), .offset = places_.add(size), .size = size});
  }
}

void TorchPlan::append_between(std::size_t index, std::span<const std::uint64_t> checks,
                               std::string& out) const {
  if (index == parts_.size()) return append_tail(checks, out);
  if (index == 0) {
    append_head(out);
  } else {
    zip::append_data_descriptor(out, places_.records()[kFirstStorage + index - 1],
                                static_cast<std::uint32_t>(checks[index - 1]));
  }
  const zip::Placed& record = places_.records()[kFirstStorage + index];
  zip::append_local_header(out, prefix_ + storage_name(index), record.header_offset, record.size);
}

void TorchPlan::append_head(std::string& out) const {
  const zip::Placed& pickle = places_.records()[0];
  const zip::Placed& order = places_.records()[1];
  reserve_pages(out, out.size() + pickle.size + 1024);
  zip::append_local_header(out, prefix_ + std::string(kPickleRecord), 0, pickle.size);
  out += pickle_;
  out.append(pickle.size - pickle_.size(), kRoomByte);
  zip::append_data_descriptor(out, pickle, pickle_crc_);
  zip::append_local_header(out, prefix_ + std::string(kOrderRecord), order.header_offset,
                           order.size);
  out += kOrder;
  zip::append_data_descriptor(out, order, crc_of_text(kOrder));
}

// Appends everything from the end of the last storage on: the record "version", the extra records,
// and the directory. If the file has no storages, appends the whole file.
void TorchPlan::append_tail(std::span<const std::uint64_t> checks, std::string& out) const {
  const std::uint64_t begin = tail_begin() - out.size();
  const std::vector<zip::Placed>& placed = places_.records();
  if (parts_.empty()) {
    append_head(out);
  } else {
    zip::append_data_descriptor(out, placed.back(), static_cast<std::uint32_t>(checks.back()));
  }
  std::vector<FileRecord> records;
  records.reserve(placed.size() + 2);
  std::string directory;
  const auto note = [&](std::string name, const zip::Placed& where, std::uint32_t crc) {
    const std::string full_name = prefix_ + name;
    zip::append_central_header(directory, full_name, where, crc);
    const std::uint64_t header =
        zip::local_header_size(full_name.size(), where.header_offset, where.size);
    records.push_back({std::move(name), where.header_offset + header, where.size, crc});
  };
  note(std::string(kPickleRecord), placed[0], pickle_crc_);
  note(std::string(kOrderRecord), placed[1], crc_of_text(kOrder));
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    note(storage_name(i), placed[kFirstStorage + i], static_cast<std::uint32_t>(checks[i]));
  }
  const auto append = [&](const std::string& name, std::string_view content) {
    const zip::Placed where{begin + out.size(), content.size()};
    const std::uint32_t crc = crc_of_text(content);
    zip::append_local_header(out, prefix_ + name, where.header_offset, where.size);
    out += content;
    zip::append_data_descriptor(out, where, crc);
    note(name, where, crc);
  };
  append(std::string(kVersionRecord), kVersionContent);
  const ExtraRecords extra =
      options_.extra_records ? options_.extra_records(records) : ExtraRecords();
  check_extra_names(extra);
  for (const auto& [name, content] : extra) {
    append(name, content);
  }
  out += directory;
  out += zip::end_of_directory({.offset = begin + out.size() - directory.size(),
                                .size = directory.size(),
                                .entries = records.size()});
}

std::uint64_t TorchPlan::size() const {
  const std::vector<std::uint64_t> no_checks(parts_.size());
  std::string tail;
  append_tail(no_checks, tail);
  return tail_begin() + tail.size();
}

void TorchPlan::check_extra_names(const ExtraRecords& extra) const {
  for (std::size_t i = 0; i < extra.size(); ++i) {
    check_name(extra[i].first);
    const std::string folded = zip::fold_case(extra[i].first);
    const auto is_same = [&](const auto& other) { return zip::fold_case(other.first) == folded; };
    if (std::any_of(extra.begin(), extra.begin() + static_cast<std::ptrdiff_t>(i), is_same)) {
      throw UsageError("extra record \"" + extra[i].first + "\": the name is taken");
    }
  }
}

// PyTorch looks names up without regard to case.
void TorchPlan::check_name(const std::string& name) const {
  if (!zip::is_safe_name(prefix_ + name)) {
    throw UsageError("\"" + prefix_ + name +
                     "\" cannot be the name of a record in a torch.save file");
  }
  const std::string folded = zip::fold_case(name);
  bool is_taken = folded == kPickleRecord || folded == kOrderRecord || folded == kVersionRecord;
  if (folded.starts_with(kStorageFolder)) {
    const std::string number = folded.substr(kStorageFolder.size());
    std::size_t index = 0;
    const auto parsed = std::from_chars(number.data(), number.data() + number.size(), index);
    is_taken = parsed.ec == std::errc() && number == std::to_string(index) && index < parts_.size();
  }
  if (is_taken) throw UsageError("extra record \"" + name + "\": the name is taken");
}

}  // namespace cairn
