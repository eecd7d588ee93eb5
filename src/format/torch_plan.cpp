#include "format/torch_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "cairn/error.h"

#include "core/crc32.h"
#include "format/zip/names.h"
#include "io/page_memory.h"

namespace cairn {
namespace {

constexpr std::string_view kPickleRecord = "data.pkl";
constexpr std::string_view kOrderRecord = "byteorder";
constexpr std::string_view kOrder = "little";
constexpr std::string_view kVersionRecord = "version";
constexpr std::string_view kVersion = "3\n";
constexpr std::string_view kStorageFolder = "data/";
constexpr std::size_t kFirstStorage = 2;  // among the records
constexpr char kRoomByte = '.';           // STOP: also who reads on finds nothing but empty pickles

std::size_t digits_of(std::size_t number) {
  std::size_t digits = 1;
  for (; number >= 10; number /= 10) {
    ++digits;
  }
  return digits;
}

// "archive/data/17", one after the other.
class StorageName {
 public:
  explicit StorageName(const std::string& prefix)
      : name_(prefix + std::string(kStorageFolder)), stem_(name_.size()) {}

  const std::string& of(std::size_t index) {
    std::array<char, 20> digits = {};
    const auto end = std::to_chars(digits.begin(), digits.end(), index).ptr;
    name_.resize(stem_);
    name_.append(digits.begin(), end);
    return name_;
  }

 private:
  std::string name_;
  std::size_t stem_;
};

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
  if (index == parts_.size()) {
    for (const std::string& text : tail_at_once(checks)) {
      out += text;
    }
    return;
  }
  if (index == 0) {
    append_head(out);
  } else {
    zip::append_data_descriptor(out, places_.records()[kFirstStorage + index - 1],
                                static_cast<std::uint32_t>(checks[index - 1]));
  }
  const zip::Placed& record = places_.records()[kFirstStorage + index];
  zip::append_local_header(out, StorageName(prefix_).of(index), record.header_offset, record.size);
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

// From the last storage's end on (of a file without storages, all of it): the record "version", the
// extra ones, and the directory, whose lines are made as the records come.
class TorchPlan::FileTail final : public CheckpointPlan::Tail {
 public:
  explicit FileTail(const TorchPlan& plan) : plan_(plan), name_(plan.prefix_) {
    if (plan.options_.extra_records) extra_ = plan.options_.extra_records();
    const std::vector<zip::Placed>& records = plan.places_.records();
    reserve_pages(directory_, 512 + records.size() * zip::central_header_size(
                                                         plan.prefix_.size() + kUsualName, {}));
    note(plan.prefix_ + std::string(kPickleRecord), records[0], plan.pickle_crc_);
    note(plan.prefix_ + std::string(kOrderRecord), records[1], crc_of_text(kOrder));
  }

  void add(std::uint64_t check) override {
    note(name_.of(added_), plan_.places_.records()[kFirstStorage + added_],
         static_cast<std::uint32_t>(check));
    ++added_;
  }

  std::vector<std::string> finish(std::span<const std::uint64_t> checks) override {
    std::string small;  // all but the directory
    if (plan_.parts_.empty()) {
      plan_.append_head(small);
    } else {
      small.reserve(512);  // without extra records it has less
      zip::append_data_descriptor(small, plan_.places_.records().back(),
                                  static_cast<std::uint32_t>(checks.back()));
    }
    const std::uint64_t begin = plan_.places_.end() - small.size();
    const auto add_small = [&](const std::string& name, std::string_view content) {
      const zip::Placed record{begin + small.size(), content.size()};
      const std::uint32_t crc = crc_of_text(content);
      zip::append_local_header(small, plan_.prefix_ + name, record.header_offset, record.size);
      small += content;
      zip::append_data_descriptor(small, record, crc);
      note(plan_.prefix_ + name, record, crc);
    };
    add_small(std::string(kVersionRecord), kVersion);
    const auto extra = extra_ != nullptr ? std::exchange(extra_, nullptr)->finish()
                                         : std::vector<std::pair<std::string, std::string>>();
    plan_.check_extra_names(extra);
    for (const auto& [name, content] : extra) {
      add_small(name, content);
    }
    directory_ += zip::end_of_directory(
        {.offset = begin + small.size(), .size = directory_.size(), .entries = noted_});
    std::vector<std::string> texts;
    texts.reserve(2);
    texts.push_back(std::move(small));
    texts.push_back(std::move(directory_));
    return texts;
  }

 private:
  static constexpr std::size_t kUsualName = 12;  // data/1234567

  void note(const std::string& full_name, const zip::Placed& placed, std::uint32_t crc) {
    zip::append_central_header(directory_, full_name, placed, crc);
    ++noted_;
    if (extra_ == nullptr) return;
    record_.name.assign(full_name, plan_.prefix_.size());
    record_.offset = placed.header_offset +
                     zip::local_header_size(full_name.size(), placed.header_offset, placed.size);
    record_.size = placed.size;
    record_.crc32 = crc;
    extra_->add(record_);
  }

  const TorchPlan& plan_;
  std::unique_ptr<ExtraRecords> extra_;
  StorageName name_;
  std::string directory_;
  std::uint64_t noted_ = 0;  // in it
  std::size_t added_ = 0;    // storages
  FileRecord record_;
};

std::unique_ptr<CheckpointPlan::Tail> TorchPlan::begin_tail() const {
  return std::make_unique<FileTail>(*this);
}

std::vector<std::string> TorchPlan::tail_at_once(std::span<const std::uint64_t> checks) const {
  const auto tail = begin_tail();
  for (const std::uint64_t check : checks) {
    tail->add(check);
  }
  return tail->finish(checks);
}

std::uint64_t TorchPlan::size() const {
  const std::vector<std::uint64_t> no_checks(parts_.size());
  std::uint64_t size = tail_begin();
  for (const std::string& text : tail_at_once(no_checks)) {
    size += text.size();
  }
  return size;
}

void TorchPlan::check_extra_names(
    const std::vector<std::pair<std::string, std::string>>& extra) const {
  for (std::size_t i = 0; i < extra.size(); ++i) {
    check_name(extra[i].first);
    const std::string folded = zip::folded(extra[i].first);
    const auto is_same = [&](const auto& other) { return zip::folded(other.first) == folded; };
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
  const std::string folded = zip::folded(name);
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
