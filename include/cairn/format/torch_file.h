// torch.save's zip files (".pt"): docs/formats/torch_file.md.
//
// What is written opens with torch.load of every PyTorch since 1.6, with weights_only=True in those
// that know it. What is read may come from anywhere: nothing in a file is run, and no allocation is
// larger than the bytes that justify it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/byte_source.h"
#include "cairn/value.h"

namespace cairn {

// One stored piece of a file: its name without the archive's prefix ("data.pkl", "data/0"), and
// where its bytes lie.
struct FileRecord {
  std::string name;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t crc32 = 0;
};

// Records that a caller adds to a file: names and contents. PyTorch ignores records that it does
// not know.
using ExtraRecords = std::vector<std::pair<std::string, std::string>>;

struct TorchFileWriteOptions {
  std::string prefix = "archive";  // folder name inside the zip
  // Returns extra records, which are written last, in this order. It is given all other records, so
  // that it can describe them. When only the file's size is asked for, the CRCs of tensors are 0:
  // the contents must then have the same lengths. nullptr: there are none.
  std::function<ExtraRecords(const std::vector<FileRecord>&)> extra_records = nullptr;
};

// The plan of a file: which bytes stand where, before any is written. Borrows the tensor bytes of
// the Value it was made from, which must live until it was written. Plans are immutable.
class TorchFilePlan {
 public:
  // UnsupportedError for a Value that torch.load could not read back.
  explicit TorchFilePlan(const Value& value);
  ~TorchFilePlan();
  TorchFilePlan(TorchFilePlan&&) noexcept;
  TorchFilePlan& operator=(TorchFilePlan&&) noexcept;

  // Exactly the bytes that write() gives with these options, without reading a tensor. The extra
  // records are asked for with CRCs of 0 for tensors, and must be as long as with the real ones.
  std::uint64_t size(const TorchFileWriteOptions& options = {}) const;
  // Streams the file into `sink`; CRCs are computed on the way. Memory use does not depend on the
  // size of the file.
  void write(ByteSink& sink, const TorchFileWriteOptions& options = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// An opened file, of torch.save or a TorchScript archive: the directory of its records, checked for
// consistency, and its object, decoded on demand. Tensors of the object are ranges of the source.
// Safe for concurrent reading.
class TorchFile {
 public:
  // Reads the directory and, in the same two reads of a file of PyTorch's layout, what it needs to
  // decode the object, unless that is more than 64 MiB. CorruptError, with offset, when it is not a
  // whole zip of this kind; UnsupportedError when it is something else, saying what; StorageError.
  // `tensors` gives the same bytes. If set, tensors become ranges of it, so that reading them can
  // verify them on the way.
  explicit TorchFile(const std::shared_ptr<const ByteSource>& source,
                     std::shared_ptr<const ByteSource> tensors = nullptr);
  // The same of bytes in memory; `file` names them in messages.
  TorchFile(SharedBytes bytes, std::string file);
  ~TorchFile();
  TorchFile(TorchFile&&) noexcept;
  TorchFile& operator=(TorchFile&&) noexcept;

  const std::vector<FileRecord>& records() const;  // in file order, without compressed ones
  // The records that have a CRC. Storages whose writer made only room for them
  // (torch.serialization.skip_data), which was filled later, have 0 in its place.
  const std::vector<FileRecord>& checked_records() const;
  // nullptr when there is none.
  const FileRecord* find_record(std::string_view name) const;
  SharedBytes bytes_of(const FileRecord& record) const;

  // The source, with what was read of it already in memory, where it stays: nothing of that is read
  // again.
  const ByteSource& source() const;

  // The object. Checks data.pkl's CRC and every tensor against its record, not the tensors' bytes.
  // Of a TorchScript archive the attributes of the module as a dict, modules in it as dicts, and
  // the constants of its code, if there are any, as "constants".
  //
  // An object of a class that is not data becomes a Foreign. Those of `data_classes`
  // ("module.name") are taken for data: an instance becomes the dict of its fields, or, without
  // fields, what its class was called with (an enum's value).
  Value read(const std::vector<std::string>& data_classes = {}) const;

  // Of a TorchScript archive only what its state_dict() has: parameters and buffers by the code's
  // word, under their own keys in the dicts of their modules. Throws as read() does;
  // UnsupportedError when the archive holds no module.
  Value read_script_weights() const;

  // Written by torch.jit.save or C++'s torch::save: docs/formats/torchscript.md.
  bool is_torchscript() const;

  // False when the writer left out every CRC (they are all zero): nothing can be checked then.
  bool has_checksums() const;
  // Whether the record's bytes match its CRC, if it has one. Reads them all.
  bool matches_crc(const FileRecord& record) const;

  // CorruptError when the header of a record contradicts the directory. The constructor looks at
  // them only in files of another layout than PyTorch's. `from`: the same bytes, where some of them
  // are at hand; by default what was opened.
  void check_headers(const ByteSource* from = nullptr) const;

  // True when every byte outside the records (headers, padding, directory) is exactly what
  // TorchFilePlan::write would have written for these records; sets `offset` to the first byte that
  // is not. Files of other writers with another layout give false. Implies check_headers().
  bool has_canonical_layout(std::uint64_t* offset, const ByteSource* from = nullptr) const;

  struct Impl;  // what cairn itself does with it: internal

 private:
  std::unique_ptr<Impl> impl_;
};

// What some bytes are, by content: "a torch.save file", "a TorchScript archive", "a safetensors
// file", "a plain pickle (protocol 4)", "an empty file". For messages.
std::string describe_bytes(ByteView bytes);

}  // namespace cairn
