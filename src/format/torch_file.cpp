#include "cairn/format/torch_file.h"

#include <libdeflate.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>
#include <map>
#include <utility>

#include "cairn/error.h"

#include "core/hash/crc32.h"
#include "core/hash/seeded_hash.h"
#include "format/find_format.h"
#include "format/pickle/read/keyed_storages.h"
#include "format/pickle/read/script_weights.h"
#include "format/pickle/read/unpickle.h"
#include "format/read_within.h"
#include "format/zip/canonical.h"
#include "format/zip/directory.h"
#include "io/bytes/windows.h"
#include "io/read_fault.h"

namespace cairn {
namespace {

constexpr const char* kScriptConstants = "constants";
constexpr int kNewestVersion = 10;  // PyTorch's own limit

// A storage whose CRC is stated as 0 lacks one. The true CRC of its content may be 0, too: then
// skipping the check has the same result as the check.
bool lacks_crc(const FileRecord& record) {
  return record.crc32 == 0 && record.size > 0 && record.name.starts_with("data/");
}

// Finds records by their names, which are unique. An entry costs no allocation.
class RecordIndex {
 public:
  RecordIndex() = default;
  // `records` must outlive the index, and must not move.
  explicit RecordIndex(const std::vector<FileRecord>& records)
      : slots_(std::bit_ceil(2 * records.size() + 2)) {
    for (const FileRecord& record : records) {
      const std::uint64_t hash = seeded_hash(record.name);
      Slot& slot = slots_[find_place(record.name, hash)];
      if (slot.record == nullptr) slot = {hash, &record};
    }
  }

  const FileRecord* find(std::string_view name) const {
    return slots_.empty() ? nullptr : slots_[find_place(name, seeded_hash(name))].record;
  }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    const FileRecord* record = nullptr;
  };

  // Returns the index of the name's slot, or of the free slot that the name would get.
  std::size_t find_place(std::string_view name, std::uint64_t hash) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t place = hash & mask;
    for (; slots_[place].record != nullptr; place = (place + 1) & mask) {
      if (slots_[place].hash == hash && slots_[place].record->name == name) break;
    }
    return place;
  }

  std::vector<Slot> slots_;  // their number is a power of two; at most half are used
};

}  // namespace

struct TorchFile::Impl {
  std::shared_ptr<const ByteSource> source;
  std::shared_ptr<const ByteSource> tensors;  // the tensors are ranges of this source
  std::string file;
  Windows windows{source};
  zip::Directory directory = {};
  std::vector<FileRecord> records = {};
  // The records that have a CRC; empty if all records have one.
  std::vector<FileRecord> with_crc = {};
  RecordIndex by_name = {};
  bool has_checksums = false;
  bool is_big_endian = false;

  static const Impl& of(const TorchFile& opened) { return *opened.impl_; }

  bool is_script() const { return find("constants.pkl") != nullptr; }
  const FileRecord* find(std::string_view name) const { return by_name.find(name); }
  SharedBytes bytes_of(const FileRecord& record) const {
    return windows.view(record.offset, record.size);
  }
  bool matches_crc(const FileRecord& record) const {
    return !has_checksums || lacks_crc(record) || crc32(bytes_of(record).view) == record.crc32;
  }
  [[noreturn]] void corrupt(const std::string& what, std::uint64_t offset) const {
    throw CorruptError(file + ": " + what, file, offset);
  }

  void check_kind();
  void read_records();
  void check_kind_of_zip() const;
  void check_has_object() const;
  void check_compressed() const;
  void check_small_records();
  Value read_pickle(const FileRecord& record, const char* folder, MemoryBudget& budget,
                    std::span<const pickle::Global> more) const;
  SharedBytes checked(const FileRecord& record) const;
  std::string text_of(const zip::Entry& entry) const;
  pickle::ScriptClasses script_classes(MemoryBudget& budget) const;
  template <class Unpickle>
  Value run_pickle(const FileRecord& record, const char* folder, Unpickle run) const;
};

namespace {

// Makes the storages as ranges of the file. Storages of a big-endian file are byte-swapped each
// time they are asked for.
class RecordStorages final : public pickle::KeyedStorages {
 public:
  struct Source {
    const std::vector<FileRecord>& records;  // in the file's order
    std::function<const FileRecord*(const std::string&)> find;
    std::shared_ptr<const ByteSource> source;
    const char* folder;  // of the records: "data/"
    bool is_big_endian = false;
  };
  explicit RecordStorages(Source source) : source_(std::move(source)) {}

 private:
  std::shared_ptr<const Storage> make(const pickle::StorageReference& reference) override {
    const std::string name = source_.folder + std::string(reference.key);
    const FileRecord* record = find(name);
    if (record == nullptr) throw CorruptError("record " + name + " is missing");
    const std::uint64_t expected = byte_size(reference);
    if (record->size != expected) {
      throw CorruptError("record " + name + " has " + std::to_string(record->size) +
                         " bytes, its tensors need " + std::to_string(expected));
    }
    const std::uint64_t offset = record->offset;
    std::string location(reference.location);
    if (!source_.is_big_endian ||
        pickle::swapped_size(reference.dtype.value_or(DType::kUInt8)) == 1) {
      return storage_of(source_.source, offset, expected, std::move(location));
    }
    return storage_of(
        expected,
        [source = source_.source, offset, expected, dtype = reference.dtype.value()] {
          return pickle::swap_bytes(source->view(offset, expected), dtype);
        },
        std::move(location));
  }

  // `storage` has no dtype of its own. PyTorch takes the bytes of such a storage as they are,
  // whatever their order was, so nothing tells whether the bytes were swapped. Other tensors of the
  // file are not affected.
  std::shared_ptr<const Storage> storage_for_dtype(std::shared_ptr<const Storage> storage,
                                                   std::string_view key, DType dtype) override {
    if (!source_.is_big_endian || pickle::swapped_size(dtype) == 1) return storage;
    std::shared_ptr<const Storage>& unknown = unknown_[storage];
    if (unknown != nullptr) return unknown;
    const std::string what =
        source_.source->name() + ": record " + source_.folder + std::string(key) +
        " holds elements of " + std::string(name(dtype)) +
        " from a big-endian machine, and the file does not say in which order their "
        "bytes are; leave this tensor out, or save it there as another dtype";
    return unknown = storage_of(
               storage->size(), [what]() -> SharedBytes { throw UnsupportedError(what); },
               storage->location());
  }

  // The pickle usually asks for the records in file order. Then no search is needed.
  const FileRecord* find(const std::string& name) {
    const std::vector<FileRecord>& records = source_.records;
    const bool is_next = next_ < records.size() && records[next_].name == name;
    const FileRecord* const record = is_next ? &records[next_] : source_.find(name);
    if (record != nullptr) next_ = static_cast<std::size_t>(record - records.data()) + 1;
    return record;
  }

  Source source_;
  std::size_t next_ = 0;  // the index after the last record that was found
  // Replacements for storages whose byte order is unknown; reading one throws.
  std::map<std::shared_ptr<const Storage>, std::shared_ptr<const Storage>> unknown_;
};

}  // namespace

void TorchFile::Impl::check_kind() {
  constexpr std::string_view kStart = "PK\x03\x04";
  zip::fetch_ends(windows);
  const SharedBytes start = windows.view(0, std::min<std::uint64_t>(source->size(), kStart.size()));
  if (as_text(start.view) == kStart) return;
  refuse_format(source, file, "a torch.save file");
}

void TorchFile::Impl::read_records() {
  try {
    directory = zip::read_directory(windows);
  } catch (const CorruptError& e) {
    check_kind_of_zip();
    corrupt(e.what(), e.offset());
  } catch (Error& e) {
    e.add_context(file);
    throw;
  }
  records.reserve(directory.entries.size());
  for (const zip::Entry& entry : directory.entries) {
    if (entry.is_compressed()) continue;
    records.push_back(entry.record);
    has_checksums = has_checksums || entry.record.crc32 != 0;
  }
  if (std::ranges::any_of(records, lacks_crc)) {
    std::ranges::remove_copy_if(records, std::back_inserter(with_crc), lacks_crc);
  }
  by_name = RecordIndex(records);
}

// A zip of another program may break each of PyTorch's rules without being damaged.
void TorchFile::Impl::check_kind_of_zip() const {
  if (find("data.pkl") != nullptr) return;
  const auto format = find_format(source);
  if (format && !format->advice.empty()) refuse_format(source, file, "a torch.save file");
}

void TorchFile::Impl::check_has_object() const {
  if (find("data.pkl") == nullptr) throw UnsupportedError(file + ": the zip file has no data.pkl");
}

// Only records of TorchScript code may be compressed: this reader does not need these records.
void TorchFile::Impl::check_compressed() const {
  const zip::Entry* const compressed = zip::find_compressed(directory);
  if (compressed == nullptr) return;
  throw UnsupportedError(file + ": record " + compressed->record.name +
                         " is compressed, which torch.save does not do; " + kPackAgain);
}

SharedBytes TorchFile::Impl::checked(const FileRecord& record) const {
  SharedBytes bytes = bytes_of(record);
  if (has_checksums && crc32(bytes.view) != record.crc32)
    corrupt("record " + record.name + " does not match its CRC", record.offset);
  return bytes;
}

void TorchFile::Impl::check_small_records() {
  const FileRecord* version = find(".data/version");
  if (version == nullptr) version = find("version");
  if (version == nullptr) corrupt("record version is missing", 0);
  const SharedBytes version_bytes = checked(*version);
  const std::string_view digits = as_text(version_bytes.view);
  int number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (has_checksums && number > kNewestVersion) {
    throw ReaderMissingError(file + ": the file is of version " + std::to_string(number) +
                             ", written by a newer PyTorch; this cairn reads 1 to " +
                             std::to_string(kNewestVersion) + "; use a newer cairn");
  }
  if (number < 1 || number > kNewestVersion) {
    corrupt("version is \"" + std::string(digits.substr(0, 20)) + "\", expected 1 to " +
                std::to_string(kNewestVersion),
            version->offset);
  }
  const FileRecord* byteorder = find("byteorder");
  if (byteorder == nullptr) return;
  const SharedBytes order_bytes = checked(*byteorder);
  const std::string_view order = as_text(order_bytes.view);
  is_big_endian = order == "big";
  if (!is_big_endian && order != "little")
    corrupt("byteorder is neither little nor big", byteorder->offset);
}

TorchFile::TorchFile(SharedBytes bytes, std::string file)
    : TorchFile(source_of(std::move(bytes), std::move(file))) {}

TorchFile::TorchFile(const std::shared_ptr<const ByteSource>& source,
                     std::shared_ptr<const ByteSource> tensors)
    : impl_(std::make_unique<Impl>(Impl{.source = source,
                                        .tensors = tensors ? std::move(tensors) : source,
                                        .file = source->name()})) {
  impl_->check_kind();
  impl_->read_records();
  impl_->check_kind_of_zip();
  impl_->check_compressed();
  impl_->check_has_object();
  impl_->check_small_records();
}
TorchFile::~TorchFile() = default;
TorchFile::TorchFile(TorchFile&&) noexcept = default;
TorchFile& TorchFile::operator=(TorchFile&&) noexcept = default;

const std::vector<FileRecord>& TorchFile::records() const { return impl_->records; }

const std::vector<FileRecord>& TorchFile::checked_records() const {
  return impl_->with_crc.empty() ? impl_->records : impl_->with_crc;
}

const FileRecord* TorchFile::find_record(std::string_view name) const { return impl_->find(name); }

SharedBytes TorchFile::bytes_of(const FileRecord& record) const { return impl_->bytes_of(record); }

const ByteSource& TorchFile::source() const { return impl_->windows; }

namespace {

// Makes rows for the classes that wrap plain data. The rows are views of the names.
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

// Calls `run` with the pickle in `record` and with its storages, which are the records in `folder`.
template <class Unpickle>
Value TorchFile::Impl::run_pickle(const FileRecord& record, const char* folder,
                                  Unpickle run) const {
  const SharedBytes pickle = checked(record);
  RecordStorages storages({.records = records,
                           .find = [this](const std::string& name) { return find(name); },
                           .source = tensors,
                           .folder = folder,
                           .is_big_endian = is_big_endian});
  try {
    return run(pickle.view, storages);
  } catch (const CorruptError& e) {
    const bool has_offset = e.offset() != CorruptError::kNoOffset;
    corrupt(e.what(), record.offset + (has_offset ? e.offset() : 0));
  } catch (Error& e) {
    e.add_context(file);
    throw;
  }
}

Value TorchFile::Impl::read_pickle(const FileRecord& record, const char* folder,
                                   MemoryBudget& budget,
                                   std::span<const pickle::Global> more) const {
  return run_pickle(record, folder, [&](ByteView pickle, pickle::StorageLoader& storages) {
    return pickle::unpickle(pickle, storages, budget, more);
  });
}

Value TorchFile::read(const std::vector<std::string>& data_classes) const {
  std::uint64_t bytes = 0;
  for (const char* name : {"data.pkl", "constants.pkl"}) {
    if (const FileRecord* record = impl_->find(name)) bytes += record->size;
  }
  MemoryBudget budget(bytes);
  return read_within(*this, budget, data_classes);
}

Value read_within(const TorchFile& file, MemoryBudget& budget,
                  const std::vector<std::string>& data_classes) {
  const TorchFile::Impl& impl = TorchFile::Impl::of(file);
  const FileRecord& data = *impl.find("data.pkl");
  if (!impl.is_script()) return impl.read_pickle(data, "data/", budget, rows_of(data_classes));
  Value value = impl.read_pickle(data, "data/", budget, pickle::script_globals());
  const Value constants =
      impl.read_pickle(*impl.find("constants.pkl"), "constants/", budget, pickle::script_globals());
  const bool has_place = value.is_dict() && value.find(kScriptConstants) == nullptr;
  const bool has_constants = constants.is_tuple() && !constants.as_items().empty();
  if (has_place && has_constants) value.mutable_dict().set(kScriptConstants, constants);
  return value;
}

namespace {

constexpr std::string_view kCode = "code/";
constexpr std::string_view kPython = ".py";

bool is_code(const zip::Entry& entry) {
  return entry.record.name.starts_with(kCode) && entry.record.name.ends_with(kPython);
}

// Turns "code/__torch__/torch/nn/modules/rnn.py" into __torch__.torch.nn.modules.rnn.
std::string module_of(const zip::Entry& entry) {
  std::string module = entry.record.name.substr(
      kCode.size(), entry.record.name.size() - kCode.size() - kPython.size());
  std::replace(module.begin(), module.end(), '/', '.');
  return module;
}

}  // namespace

// Returns the record's content, decompressed. The caller must charge the size to its memory budget.
std::string TorchFile::Impl::text_of(const zip::Entry& entry) const {
  const FileRecord& record = entry.record;
  const SharedBytes bytes = windows.view(record.offset, entry.stored_size);
  const ByteView stored = bytes.view;
  if (!entry.is_compressed()) return std::string(as_text(stored));
  if (!entry.is_deflated()) {
    throw UnsupportedError(file + ": record " + record.name + " is compressed in an unknown way");
  }
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> inflate(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  if (inflate == nullptr) throw std::bad_alloc();
  std::string text(record.size, '\0');
  const auto result = libdeflate_deflate_decompress(inflate.get(), stored.data(), stored.size(),
                                                    text.data(), text.size(), nullptr);
  const bool is_whole =
      result == LIBDEFLATE_SUCCESS &&
      (!has_checksums || crc32(ByteView(std::as_bytes(std::span(text)))) == record.crc32);
  if (!is_whole) corrupt("record " + record.name + " does not match its CRC", record.offset);
  return text;
}

pickle::ScriptClasses TorchFile::Impl::script_classes(MemoryBudget& budget) const {
  pickle::ScriptClasses classes;
  for (const zip::Entry& entry : directory.entries) {
    if (!is_code(entry)) continue;
    budget.take(entry.record.size);
    pickle::add_script_classes(module_of(entry), text_of(entry), budget, classes);
    budget.give_back(entry.record.size);
  }
  return classes;
}

Value TorchFile::read_script_weights() const {
  const FileRecord& data = *impl_->find("data.pkl");
  std::uint64_t size = data.size;
  for (const zip::Entry& entry : impl_->directory.entries) {
    if (is_code(entry)) size += entry.stored_size;
  }
  MemoryBudget budget(size);
  pickle::ScriptClasses classes;
  try {
    classes = impl_->script_classes(budget);
  } catch (UnsupportedError& e) {
    e.add_context(impl_->file);
    throw;
  }
  return impl_->run_pickle(data, "data/", [&](ByteView pickle, pickle::StorageLoader& storages) {
    return pickle::unpickle_weights(pickle, storages, budget, classes);
  });
}

bool TorchFile::is_torchscript() const { return impl_->is_script(); }

bool TorchFile::has_checksums() const { return impl_->has_checksums; }

bool TorchFile::matches_crc(const FileRecord& record) const { return impl_->matches_crc(record); }

bool TorchFile::has_canonical_layout(std::uint64_t* offset, const ByteSource* from) const {
  return zip::is_canonical(impl_->directory, from != nullptr ? *from : *impl_->source, offset);
}

void TorchFile::check_headers(const ByteSource* from) const {
  try {
    zip::check_local_headers(impl_->directory, from != nullptr ? *from : *impl_->source);
  } catch (const CorruptError& e) {
    impl_->corrupt(e.what(), e.offset());
  }
}

}  // namespace cairn
