// A sample of each format that cairn reads. The tests of damage, the hostile cases, the fuzz
// targets and the tests of checksums use them all. A new format gets its rows in
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

// A small checkpoint of one format. fuzz/CMakeLists.txt also reads its row, and makes a target of
// it.
struct FormatSample {
  const char* format;     // SourceInfo::format
  const char* golden;     // A file or folder below tests/data.
  const char* part = "";  // If a folder: the file that is damaged.
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
  // Opens the sample and uses all that it holds. With Access::kVerified it is verified first.
  // Tensors over 1 MiB are left out. Throws as open_source() does, and UnsupportedError if the
  // sample is now of another format.
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
