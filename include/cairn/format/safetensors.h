// safetensors files, Hugging Face's format for named tensors: docs/formats/safetensors.md.
//
// What is read passes every check of the reference implementation, and one more: no name may stand
// twice. What is written opens with it, and with everything that reads its files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/bytes.h"
#include "cairn/value.h"

namespace cairn {

// One tensor of a file, and where its bytes lie.
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

  // Reads only the header: with one read, or two when it is longer than a MiB, which is that of
  // some ten thousand tensors. CorruptError, with offset, for what the format does not allow;
  // UnsupportedError for a dtype or a shape that no PyTorch tensor has; StorageError.
  // `tensors`: as TorchFile's.
  explicit SafetensorsFile(std::shared_ptr<const ByteSource> source,
                           std::shared_ptr<const ByteSource> tensors = nullptr);
  // The same of bytes in memory; `file` names them in messages.
  SafetensorsFile(SharedBytes bytes, const std::string& file);

  // In the order of their bytes.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  // "__metadata__", in file order.
  const Metadata& metadata() const { return metadata_; }
  // nullptr when there is none of that name.
  const std::string* find_metadata(std::string_view name) const;

  // A dict of the tensors by their names, ranges of the source. Keeps it, not this object, alive.
  Value read() const;
  // All before the tensors: the header and its size.
  SharedBytes header() const { return header_; }

 private:
  std::shared_ptr<const ByteSource> source_;
  SharedBytes header_;
  std::vector<SafetensorsEntry> entries_;
  Metadata metadata_;
};

using NamedTensor = std::pair<std::string, TensorView>;

// The plan of a file: which bytes stand where, before any is written. Shares the tensors' storages.
// Immutable.
class SafetensorsPlan {
 public:
  // Tensors are written in the order of the reference: by dtype, the largest elements first, then
  // by name. Tensors that share a storage are written each in full. UnsupportedError naming the
  // tensor for a dtype that the format cannot hold; UsageError for two tensors of one name, and for
  // names and texts that are not UTF-8.
  // With `checksums`, texts in the metadata say what the bytes are (docs/formats/safetensors.md);
  // write() then goes over the tensors twice.
  explicit SafetensorsPlan(std::vector<NamedTensor> tensors,
                           const SafetensorsFile::Metadata& metadata = {}, bool checksums = false);

  std::uint64_t size() const;  // of the file
  // Streams the file. Memory: at most one lazy storage, or 64 MiB for a tensor that is not
  // contiguous. Errors of a tensor's bytes name the tensor.
  void write(ByteSink& sink) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace cairn
