#include "cairn/format/torch_file.h"

#include <libdeflate.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "cairn/error.h"

#include "base/checked.h"
#include "format/find_format.h"
#include "format/pickle/unpickle.h"
#include "format/zip/directory.h"

namespace cairn {
namespace {

std::uint32_t crc_of(ByteView bytes) { return libdeflate_crc32(0, bytes.data(), bytes.size()); }

}  // namespace

struct TorchFile::Impl {
  SharedBytes bytes;
  std::string file;
  zip::Directory directory = {};
  std::vector<FileRecord> records = {};
  std::unordered_map<std::string_view, const FileRecord*> by_name = {};
  bool has_checksums = false;

  const FileRecord* find(std::string_view name) const {
    const auto found = by_name.find(name);
    return found == by_name.end() ? nullptr : found->second;
  }
  ByteView bytes_of(const FileRecord& record) const {
    return bytes.view.subspan(record.offset, record.size);
  }
  bool matches_crc(const FileRecord& record) const {
    return !has_checksums || crc_of(bytes_of(record)) == record.crc32;
  }
  [[noreturn]] void corrupt(const std::string& what, std::uint64_t offset) const {
    throw CorruptError(file + ": " + what, file, offset);
  }

  void check_kind() const;
  void read_records();
  void check_kind_of_zip() const;
  void check_small_records() const;
  std::string_view checked_text(const FileRecord& record) const;
};

namespace {

// Cuts the storages out of the file, each once.
class RecordStorages final : public pickle::StorageLoader {
 public:
  explicit RecordStorages(const std::function<const FileRecord*(std::string_view)>& find,
                          const SharedBytes& bytes)
      : find_(find), bytes_(bytes) {}

  std::shared_ptr<const Storage> load(const pickle::StorageReference& reference) override {
    auto [entry, is_new] = loaded_.try_emplace(reference.key);
    Loaded& loaded = entry->second;
    if (is_new) loaded = {cut_out(reference), reference.dtype, reference.numel};
    if (loaded.dtype != reference.dtype || loaded.numel != reference.numel) {
      throw CorruptError("storage " + std::string(reference.key) +
                         " is given two dtypes or two lengths");
    }
    return loaded.storage;
  }

  void account_copy(std::uint64_t bytes) override {
    copied_ = checked_add(copied_, bytes);
    if (copied_ / 4 > bytes_.view.size()) {
      throw CorruptError("the file asks for copies of its storages again and again");
    }
  }

 private:
  struct Loaded {
    std::shared_ptr<const Storage> storage;
    std::optional<DType> dtype;
    std::uint64_t numel = 0;
  };

  std::shared_ptr<const Storage> cut_out(const pickle::StorageReference& reference) const {
    const std::string name = "data/" + std::string(reference.key);
    if (reference.location == "meta")
      throw UnsupportedError(name + " is of a meta tensor: no data");
    const FileRecord* record = find_(name);
    if (record == nullptr) throw CorruptError("record " + name + " is missing");
    const std::uint64_t item = reference.dtype ? item_size(*reference.dtype) : 1;
    const std::uint64_t expected = checked_multiply(reference.numel, item);
    if (record->size != expected) {
      throw CorruptError("record " + name + " has " + std::to_string(record->size) +
                         " bytes, its tensors need " + std::to_string(expected));
    }
    return std::make_shared<const Storage>(bytes_.part(record->offset, record->size),
                                           std::string(reference.location));
  }

  std::function<const FileRecord*(std::string_view)> find_;
  const SharedBytes& bytes_;
  std::unordered_map<std::string_view, Loaded> loaded_;
  std::uint64_t copied_ = 0;
};

}  // namespace

void TorchFile::Impl::check_kind() const {
  if (as_text(bytes.view).starts_with("PK\x03\x04")) return;
  const auto format = find_format(bytes.view);
  if (format) throw UnsupportedError(file + ": this is " + *format + ", not a torch.save file");
  corrupt("this is " + describe_bytes(bytes.view) + ", not a torch.save file", 0);
}

void TorchFile::Impl::read_records() {
  try {
    directory = zip::read_directory(bytes.view);
  } catch (const CorruptError& e) {
    corrupt(e.what(), e.offset());
  } catch (Error& e) {
    e.add_context(file);
    throw;
  }
  records.reserve(directory.entries.size());
  for (const zip::Entry& entry : directory.entries) {
    records.push_back(entry.record);
    has_checksums = has_checksums || entry.record.crc32 != 0;
  }
  for (const FileRecord& record : records) {
    by_name.emplace(record.name, &record);
  }
}

void TorchFile::Impl::check_kind_of_zip() const {
  if (find("constants.pkl") != nullptr) {
    throw UnsupportedError(
        file +
        ": this is a TorchScript archive (torch.jit.save or C++ torch::save), "
        "not a state dict; load it with torch.jit.load and save its state_dict()");
  }
  if (find("data.pkl") == nullptr) {
    throw UnsupportedError(file + ": this is a zip file without a data.pkl, not a torch.save file");
  }
  if (!directory.compressed.empty()) {
    throw UnsupportedError(file + ": record " + directory.compressed +
                           " is compressed; torch.save stores records as they are");
  }
}

std::string_view TorchFile::Impl::checked_text(const FileRecord& record) const {
  if (!matches_crc(record))
    corrupt("record " + record.name + " does not match its CRC", record.offset);
  return as_text(bytes_of(record));
}

void TorchFile::Impl::check_small_records() const {
  const FileRecord* version = find(".data/version");
  if (version == nullptr) version = find("version");
  if (version == nullptr) corrupt("record version is missing", 0);
  const std::string_view digits = checked_text(*version);
  int number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (number < 1 || number > 10) {
    corrupt("version is \"" + std::string(digits.substr(0, 20)) + "\", expected 1 to 10",
            version->offset);
  }
  const FileRecord* byteorder = find("byteorder");
  if (byteorder == nullptr) return;
  const std::string_view order = checked_text(*byteorder);
  if (order == "big") {
    throw UnsupportedError(file +
                           ": written on a big-endian machine; load and save it with PyTorch");
  }
  if (order != "little") corrupt("byteorder is neither little nor big", byteorder->offset);
}

TorchFile::TorchFile(SharedBytes bytes, std::string file)
    : impl_(std::make_unique<Impl>(Impl{.bytes = std::move(bytes), .file = std::move(file)})) {
  impl_->check_kind();
  impl_->read_records();
  impl_->check_kind_of_zip();
  impl_->check_small_records();
}
TorchFile::~TorchFile() = default;
TorchFile::TorchFile(TorchFile&&) noexcept = default;
TorchFile& TorchFile::operator=(TorchFile&&) noexcept = default;

const std::vector<FileRecord>& TorchFile::records() const { return impl_->records; }

const FileRecord* TorchFile::find_record(std::string_view name) const { return impl_->find(name); }

ByteView TorchFile::bytes_of(const FileRecord& record) const { return impl_->bytes_of(record); }

namespace {

// Rows for the classes by which plain data is wrapped; views of the names.
std::vector<pickle::Global> rows_of(const std::vector<std::string>& data_classes) {
  std::vector<pickle::Global> rows;
  for (const std::string_view name : data_classes) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) throw UsageError("a class without a module");
    rows.push_back({name.substr(0, dot), name.substr(dot + 1), pickle::make_object});
  }
  return rows;
}

}  // namespace

Value TorchFile::read(const std::vector<std::string>& data_classes) const {
  const FileRecord& record = *impl_->find("data.pkl");
  if (!impl_->matches_crc(record)) {
    impl_->corrupt("record data.pkl does not match its CRC", record.offset);
  }
  RecordStorages storages([this](std::string_view name) { return impl_->find(name); },
                          impl_->bytes);
  try {
    return pickle::unpickle(impl_->bytes_of(record), storages, rows_of(data_classes));
  } catch (const CorruptError& e) {
    const bool has_offset = e.offset() != CorruptError::kNoOffset;
    impl_->corrupt(e.what(), record.offset + (has_offset ? e.offset() : 0));
  } catch (Error& e) {
    e.add_context(impl_->file);
    throw;
  }
}

bool TorchFile::has_checksums() const { return impl_->has_checksums; }

bool TorchFile::matches_crc(const FileRecord& record) const { return impl_->matches_crc(record); }

bool TorchFile::has_canonical_layout(std::uint64_t* offset) const {
  return zip::is_canonical(impl_->directory, impl_->bytes.view, offset);
}

}  // namespace cairn
