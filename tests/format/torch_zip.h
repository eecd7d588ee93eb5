// Zips in PyTorch's layout, with records that no plan would write.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/hash/crc32.h"
#include "format/zip/layout.h"

namespace cairn::testing {

// Returns a zip with the records in the given order, in the folder "archive".
inline std::string torch_zip(const std::vector<std::pair<std::string, std::string>>& records) {
  std::string file;
  std::string central;
  for (const auto& [name, content] : records) {
    const std::string full = "archive/" + name;
    const zip::Placed record{file.size(), content.size()};
    const std::uint32_t crc = crc32(as_bytes(content));
    zip::append_local_header(file, full, record.header_offset, record.size);
    file += content;
    zip::append_data_descriptor(file, record, crc);
    zip::append_central_header(central, full, record, crc);
  }
  const zip::DirectoryExtent extent{file.size(), central.size(), records.size()};
  return file + central + zip::end_of_directory(extent);
}

}  // namespace cairn::testing
