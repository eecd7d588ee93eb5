// safetensors files, Hugging Face's format for named tensors: docs/formats/safetensors.md.
//
// Reading applies every check of the reference implementation, and one more: no name may occur
// twice. The reference implementation, and everything that reads its files, opens what cairn
// writes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/export.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

// One tensor of a file, and the range of its bytes.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  Dims shape;
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t size = 0;
};

// An opened file: its header, checked. Safe for concurrent reading.
class SafetensorsFile {
 public:
  using Metadata = std::vector<std::pair<std::string, std::string>>;

  // Reads only the header: with one read, or with two if it is longer than a MiB, which is the
  // header of about ten thousand tensors. Throws CorruptError, with offset, for what the format
  // does not allow; UnsupportedError for a dtype or a shape that no PyTorch tensor has;
  // StorageError. `tensors`: as in TorchFile's constructor.
  explicit SafetensorsFile(std::shared_ptr<const ByteSource> source,
                           std::shared_ptr<const ByteSource> tensors = nullptr);
  // As above, for bytes in memory; `file` names them in messages.
  SafetensorsFile(SharedBytes bytes, const std::string& file);

  // In the order of their bytes in the file.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  // "__metadata__", in file order.
  const Metadata& metadata() const { return metadata_; }
  // nullptr if the metadata has no such name.
  const std::string* find_metadata(std::string_view name) const;

  // A dict of the tensors by name. Tensors are ranges of the source, and keep the source alive, but
  // not this object.
  Value read() const;
  // The bytes before the tensors: the header and its size.
  SharedBytes header() const { return header_; }

 private:
  std::shared_ptr<const ByteSource> source_;
  SharedBytes header_;
  std::vector<SafetensorsEntry> entries_;
  Metadata metadata_;
};

using NamedTensor = std::pair<std::string, TensorView>;

// The layout of a file, decided before any byte is written. Shares the tensors' storages.
// Immutable.
class SafetensorsPlan {
 public:
  // Tensors are written in the order of the reference: by dtype, the largest elements first, then
  // by name. Tensors that share a storage are each written in full. Throws UnsupportedError naming
  // the tensor for a dtype that the format cannot hold; UsageError for two tensors of one name, and
  // for names and texts that are not UTF-8. With `checksums`, the metadata holds checksums of the
  // bytes (docs/formats/safetensors.md); write() then reads the tensors twice.
  explicit SafetensorsPlan(std::vector<NamedTensor> tensors,
                           const SafetensorsFile::Metadata& metadata = {}, bool checksums = false);

  std::uint64_t size() const;  // of the file
  // Streams the file. Memory: at most one lazy storage, or 64 MiB for a tensor that is not
  // contiguous. If a tensor's bytes cannot be read, the error names the tensor.
  void write(ByteSink& sink) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace cairn
