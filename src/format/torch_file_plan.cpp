// Writing: the records, in PyTorch's order.
//
//  1. data.pkl      the object, with a number in place of every storage
//  2. byteorder     "little"
//  3. data/0 ...    the storages, in the order of first use
//  4. version       "3\n", the version of this layout
//  5. the caller's extra records
//
// No .format_version: it would let PyTorch compute where storages lie instead of looking.
#include <algorithm>

#include "cairn/error.h"
#include "cairn/format/torch_file.h"

#include "format/pickle/encode.h"
#include "format/zip/names.h"
#include "format/zip/writer.h"

namespace cairn {

namespace {

// PyTorch looks names up without regard to case.
void check_is_new(const std::string& name, const std::vector<zip::Entry>& entries) {
  const std::string key = zip::folded(name);
  const bool is_taken = std::any_of(entries.begin(), entries.end(), [&](const zip::Entry& entry) {
    return zip::folded(entry.record.name) == key;
  });
  if (is_taken) throw UsageError("extra record \"" + name + "\": the name is taken");
}

// Where the bytes go when only their number is asked for.
class NoSink final : public ByteSink {
 public:
  void write(ByteView /*bytes*/) override {}
};

}  // namespace

struct TorchFilePlan::Impl {
  // Every record of the file; `add_storage` adds one from what it is given.
  void write_records(zip::Writer& zip, const TorchFileWriteOptions& options,
                     auto&& add_storage) const;

  pickle::Encoded encoded;
};

void TorchFilePlan::Impl::write_records(zip::Writer& zip, const TorchFileWriteOptions& options,
                                        auto&& add_storage) const {
  zip.add("data.pkl", encoded.data_pkl);
  zip.add("byteorder", "little");
  for (std::size_t i = 0; i < encoded.storages.size(); ++i) {
    add_storage("data/" + std::to_string(i), *encoded.storages[i]);
  }
  zip.add("version", "3\n");
  if (options.extra_records) {
    std::vector<FileRecord> records;
    for (const zip::Entry& entry : zip.entries()) {
      records.push_back(entry.record);
    }
    for (const auto& [name, content] : options.extra_records(records)) {
      check_is_new(name, zip.entries());
      zip.add(name, content);
    }
  }
  zip.finish();
}

TorchFilePlan::TorchFilePlan(const Value& value)
    : impl_(std::make_unique<Impl>(Impl{pickle::encode(value)})) {}
TorchFilePlan::~TorchFilePlan() = default;
TorchFilePlan::TorchFilePlan(TorchFilePlan&&) noexcept = default;
TorchFilePlan& TorchFilePlan::operator=(TorchFilePlan&&) noexcept = default;

std::uint64_t TorchFilePlan::size_bound() const {
  // Two headers with Zip64 fields, padding, descriptor, and twice a name of up to 140 bytes.
  constexpr std::uint64_t kPerRecord = 512;
  std::uint64_t size = impl_->encoded.data_pkl.size() + 4 * kPerRecord;
  for (const auto& storage : impl_->encoded.storages) {
    size += storage->size() + kPerRecord;
  }
  return size;
}

std::uint64_t TorchFilePlan::size(const TorchFileWriteOptions& options) const {
  NoSink nowhere;
  zip::Writer zip(nowhere, options.prefix);
  impl_->write_records(zip, options, [&](const std::string& name, const Storage& storage) {
    zip.add_size(name, storage.size());
  });
  return zip.offset();
}

void TorchFilePlan::write(ByteSink& sink, const TorchFileWriteOptions& options) const {
  zip::Writer zip(sink, options.prefix);
  impl_->write_records(zip, options, [&](const std::string& name, const Storage& storage) {
    zip.add(name, storage.bytes());
  });
}

}  // namespace cairn
