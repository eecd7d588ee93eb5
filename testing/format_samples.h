// The formats that cairn reads, for everything that is done with each of them: the tests of damage,
// the hostile cases, the fuzz targets, and the tests of what has checksums. A new format gets its
// rows in format_samples.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <span>
#include <string>

#include "cairn/storage/object_store.h"
#include "cairn/value.h"

#include "checkpoint/open/source.h"

namespace cairn::testing {

// A small checkpoint of one format. fuzz/CMakeLists.txt reads its row, too, and makes a target.
struct FormatSample {
  const char* format;     // SourceInfo::format
  const char* golden;     // a file or folder below tests/data
  const char* part = "";  // of a folder: the file that is damaged
};

void PrintTo(const FormatSample& sample, std::ostream* out);

// One for each format.
std::span<const FormatSample> format_samples();

// The files of a sample by their names in its folder; of a file, itself by the name "".
std::map<std::string, std::string> files_of(const FormatSample& sample);

// A sample in a store, named "sample", of which one file can be replaced.
class StoredSample {
 public:
  explicit StoredSample(const FormatSample& sample);

  void replace_part(ByteView bytes) { put(part_, bytes); }
  // Opens it, and uses all that it holds: with Access::kVerified verifies it first. Tensors of more
  // than a MiB are left out. Throws as open_source() does; UnsupportedError if it is of another
  // format by now.
  Value use(Access access) const;

 private:
  void put(const std::string& name, ByteView bytes);

  std::shared_ptr<ObjectStore> store_ = memory_store();
  std::string format_;
  std::string part_;
};

// A way to write a checkpoint with checksums of all tensors.
struct WrittenSample {
  const char* name;
  // `value` is a dict of tensors and numbers.
  void (*write)(const Value& value, const std::string& path);
  std::uint64_t files_per_tensor = 0;  // torch.save files inside that hold one tensor each
};

void PrintTo(const WrittenSample& sample, std::ostream* out);

std::span<const WrittenSample> written_samples();

}  // namespace cairn::testing
