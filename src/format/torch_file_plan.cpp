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

}  // namespace

struct TorchFilePlan::Impl {
  pickle::Encoded encoded;
};

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

void TorchFilePlan::write(ByteSink& sink, const TorchFileWriteOptions& options) const {
  zip::Writer zip(sink, options.prefix);
  zip.add("data.pkl", impl_->encoded.data_pkl);
  zip.add("byteorder", "little");
  for (std::size_t i = 0; i < impl_->encoded.storages.size(); ++i) {
    zip.add("data/" + std::to_string(i), impl_->encoded.storages[i]->bytes());
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

}  // namespace cairn
