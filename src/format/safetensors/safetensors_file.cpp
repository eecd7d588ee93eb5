#include <algorithm>

#include "cairn/error.h"
#include "cairn/format/safetensors.h"

#include "format/safetensors/header.h"

namespace cairn {

SafetensorsFile::SafetensorsFile(SharedBytes bytes, const std::string& file)
    : bytes_(std::move(bytes)) {
  try {
    auto header = safetensors::read_header(bytes_.view);
    entries_ = std::move(header.entries);
    metadata_ = std::move(header.metadata);
  } catch (const CorruptError& e) {
    throw CorruptError(file + ": " + e.what(), file, e.offset());
  } catch (Error& e) {
    e.add_context(file);
    throw;
  }
}

const std::string* SafetensorsFile::find_metadata(std::string_view name) const {
  const auto found = std::find_if(metadata_.begin(), metadata_.end(),
                                  [&](const auto& entry) { return entry.first == name; });
  return found == metadata_.end() ? nullptr : &found->second;
}

Value SafetensorsFile::read() const {
  Dict tensors;
  for (const SafetensorsEntry& entry : entries_) {
    tensors.set(entry.name,
                make_tensor(entry.dtype, entry.shape, bytes_.part(entry.offset, entry.size)));
  }
  return tensors;
}

}  // namespace cairn
