// torch.save's zip files (".pt"): docs/formats/torch_file.md.
//
// torch.load of every PyTorch since 1.6 opens what cairn writes, also with weights_only=True. Files
// to be read may come from anywhere: nothing in a file is run, and no allocation is larger than the
// bytes that justify it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cairn/byte_source.h"
#include "cairn/export.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

// One stored piece of a file: its name without the archive's prefix ("data.pkl", "data/0"), and the
// range of its bytes.
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
  // Returns extra records, which are written last, in this order. The argument holds all other
  // records, so that the extra ones can describe them. When only the file's size is computed, the
  // CRCs of tensors are 0; the contents must then have the same lengths. nullptr: there are none.
  std::function<ExtraRecords(const std::vector<FileRecord>&)> extra_records = nullptr;
};

// The layout of a file, decided before any byte is written. Borrows the tensor bytes of its Value,
// which must live until the file is written. Plans are immutable.
class TorchFilePlan {
 public:
  // Throws UnsupportedError for a Value that torch.load could not read back.
  explicit TorchFilePlan(const Value& value);
  ~TorchFilePlan();
  TorchFilePlan(TorchFilePlan&&) noexcept;
  TorchFilePlan& operator=(TorchFilePlan&&) noexcept;

  // The number of bytes that write() produces with these options; reads no tensor. Calls
  // extra_records with CRCs of 0 for tensors. The records that it returns must be as long as with
  // the real CRCs.
  std::uint64_t size(const TorchFileWriteOptions& options = {}) const;
  // Streams the file into `sink`, computing CRCs on the way. Memory use does not depend on the size
  // of the file.
  void write(ByteSink& sink, const TorchFileWriteOptions& options = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// An opened file of torch.save, or a TorchScript archive. Holds the directory of its records,
// checked for consistency, and decodes its object on demand. Tensors of the object are ranges of
// the source. Safe for concurrent reading.
class TorchFile {
 public:
  // Reads the directory, with two reads. In a file of PyTorch's layout these two reads also bring
  // what the object needs, unless that is more than 64 MiB. Throws CorruptError, with offset, if it
  // is not a whole zip of this kind; UnsupportedError, saying what the file is, if it is something
  // else; StorageError. `tensors` gives the same bytes as `source`. If set, tensors become ranges
  // of `tensors`, so that reading them can verify them on the way.
  explicit TorchFile(const std::shared_ptr<const ByteSource>& source,
                     std::shared_ptr<const ByteSource> tensors = nullptr);
  // As above, for bytes in memory; `file` names them in messages.
  TorchFile(SharedBytes bytes, std::string file);
  ~TorchFile();
  TorchFile(TorchFile&&) noexcept;
  TorchFile& operator=(TorchFile&&) noexcept;

  const std::vector<FileRecord>& records() const;  // in file order, without compressed ones
  // The records that have a CRC. A writer that reserves room for storages
  // (torch.serialization.skip_data) and fills it later leaves 0 in place of their CRCs.
  const std::vector<FileRecord>& checked_records() const;
  // nullptr if no record has that name.
  const FileRecord* find_record(std::string_view name) const;
  SharedBytes bytes_of(const FileRecord& record) const;

  // The source. Parts of the source that were read already stay in memory, and are not read again.
  const ByteSource& source() const;

  // Decodes the object. Checks data.pkl's CRC, and every tensor against its record, but not the
  // tensors' bytes. For a TorchScript archive returns the attributes of the module as a dict, with
  // its submodules as dicts. The constants of its code, if there are any, are in "constants".
  //
  // An object of an unknown class becomes a Foreign. An object of one of `data_classes`
  // ("module.name") becomes the dict of its fields. If such an object has no fields, it becomes the
  // argument of the call of its class (an enum's value).
  Value read(const std::vector<std::string>& data_classes = {}) const;

  // For a TorchScript archive: decodes only what the module's state_dict() has. The state_dict()
  // has the parameters and buffers that the code declares, under their own keys in the dicts of
  // their modules. Throws as read() does; UnsupportedError if the archive holds no module.
  Value read_script_weights() const;

  // Whether torch.jit.save or C++'s torch::save wrote the file: docs/formats/torchscript.md.
  bool is_torchscript() const;

  // False if the writer left out every CRC (all are zero): nothing can be checked then.
  bool has_checksums() const;
  // Whether the record's bytes match its CRC, if it has one. Reads all bytes of the record.
  bool matches_crc(const FileRecord& record) const;

  // Throws CorruptError if the header of a record contradicts the directory. The constructor checks
  // headers only in files of another layout than PyTorch's. `from`: the same bytes, if some of them
  // are in memory; default: the opened source.
  void check_headers(const ByteSource* from = nullptr) const;

  // True if every byte outside the records (headers, padding, directory) is what
  // TorchFilePlan::write would write for these records. Otherwise false, with `offset` at the first
  // byte that differs. Other writers' files with another layout give false. Includes
  // check_headers().
  bool has_canonical_layout(std::uint64_t* offset, const ByteSource* from = nullptr) const;

  struct Impl;  // cairn's own access to it: internal

 private:
  std::unique_ptr<Impl> impl_;
};

// Describes bytes by their content: "a torch.save file", "a TorchScript archive", "a safetensors
// file", "a plain pickle (protocol 4)", "an empty file". For messages.
std::string describe_bytes(ByteView bytes);

}  // namespace cairn
