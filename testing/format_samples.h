// A sample of each format that cairn reads. The tests of damage, the hostile cases, the fuzz
// targets and the tests of checksums use all samples. A new format gets its rows in
// format_samples.cpp.
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

// A small checkpoint of one format. fuzz/CMakeLists.txt also reads the rows of format_samples.cpp,
// and makes a fuzz target of each.
struct FormatSample {
  const char* format;       // SourceInfo::format
  const char* golden;       // A file or folder below tests/data.
  const char* part = "";    // If a folder: the file that is damaged.
  bool is_checked = false;  // Checksums cover every byte: no flip may go unnoticed.
};

void PrintTo(const FormatSample& sample, std::ostream* out);

// One sample for each format.
std::span<const FormatSample> format_samples();

// The files of a sample by name within its folder. A single file has the name "".
std::map<std::string, std::string> files_of(const FormatSample& sample);

// A sample in a store, named "sample". One of its files can be replaced.
class StoredSample {
 public:
  explicit StoredSample(const FormatSample& sample);

  void replace_part(ByteView bytes) { put(part_, bytes); }
  // Opens the sample and uses everything in it, except tensors over 1 MiB. With Access::kVerified
  // it verifies the sample first. Throws as open_source() does, and UnsupportedError if the sample
  // now has another format.
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
  std::uint64_t files_per_tensor = 0;  // Nested torch.save files that hold one tensor each.
};

void PrintTo(const WrittenSample& sample, std::ostream* out);

std::span<const WrittenSample> written_samples();

}  // namespace cairn::testing
