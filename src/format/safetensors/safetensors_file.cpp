#include <algorithm>

#include "cairn/detail/node_arena.h"
#include "cairn/error.h"
#include "cairn/format/safetensors.h"

#include "core/little_endian.h"
#include "format/find_format.h"
#include "format/safetensors/header.h"
#include "io/bytes/windows.h"

namespace cairn {

namespace {

// Returns the extent of the header, if its size was read already. Otherwise returns an extent that
// is enough for about ten thousand tensors: only the first bytes of the file tell the size, and
// reading more of every file would cost more than it saves.
Windows::Extent header_extent(const Windows& file) {
  constexpr std::uint64_t kHeadBytes = std::uint64_t{1} << 20;
  if (file.size() < safetensors::kSizeBytes || !file.has(0, safetensors::kSizeBytes)) {
    return {0, kHeadBytes};
  }
  const SharedBytes start = file.view(0, safetensors::kSizeBytes);
  const auto size = load_little_endian<std::uint64_t>(start.view.data());
  return {0, safetensors::kSizeBytes + std::min(size, safetensors::kMaxHeaderBytes)};
}

}  // namespace

SafetensorsFile::SafetensorsFile(SharedBytes bytes, const std::string& file)
    : SafetensorsFile(source_of(std::move(bytes), file)) {}

SafetensorsFile::SafetensorsFile(std::shared_ptr<const ByteSource> source,
                                 std::shared_ptr<const ByteSource> tensors)
    : source_(std::move(source)) {
  const std::string& file = source_->name();
  try {
    Windows windows(source_);
    windows.fetch({header_extent(windows)});
    auto header = safetensors::read_header(windows);
    header_ = header.bytes;
    entries_ = std::move(header.entries);
    metadata_ = std::move(header.metadata);
    if (tensors) source_ = std::move(tensors);
  } catch (const CorruptError& e) {
    check_no_stand_in(source_, file);
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
  const detail::NodeArena arena;
  Dict tensors;
  for (const SafetensorsEntry& entry : entries_) {
    tensors.set(entry.name, TensorView{.dtype = entry.dtype,
                                       .shape = entry.shape,
                                       .strides = contiguous_strides(entry.shape),
                                       .storage = storage_of(source_, entry.offset, entry.size)});
  }
  return tensors;
}

}  // namespace cairn
