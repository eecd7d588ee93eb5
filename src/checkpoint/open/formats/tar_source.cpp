// A tar around a checkpoint.
#include <algorithm>

#include "cairn/error.h"

#include "checkpoint/names/extension.h"
#include "checkpoint/open/formats/candidate.h"
#include "format/tar/reader.h"
#include "io/bytes/source_part.h"

namespace cairn {
namespace {

// Chooses Composer's file. In other tars, chooses the only file.
const tar::File& choose(const std::vector<tar::File>& files) {
  const auto composers = std::find_if(
      files.begin(), files.end(), [](const tar::File& file) { return file.name == kTarMember; });
  if (composers != files.end()) return *composers;
  if (files.size() == 1) return files.front();
  std::string names;
  constexpr std::size_t kMaxNames = 5;
  for (std::size_t i = 0; i < std::min(files.size(), kMaxNames); ++i) {
    names += (i == 0 ? ": " : ", ") + files[i].name;
  }
  throw UnsupportedError("a tar of " + std::to_string(files.size()) + " files, none of them " +
                         std::string(kTarMember) + names +
                         (files.size() > kMaxNames ? ", ..." : "") +
                         "; unpack it and name the file or folder");
}

bool is_tar(const Candidate& candidate) {
  return !candidate.is_folder && tar::is_tar(candidate.start.view);
}

Candidate unwrap_tar(Candidate candidate) {
  try {
    const tar::File file = choose(tar::read_files(*candidate.source));
    candidate.set_content(part_of(candidate.source, file.offset, file.size, candidate.path));
    return candidate;
  } catch (const CorruptError& e) {
    throw CorruptError(candidate.path + ": " + e.what(), candidate.path, e.offset());
  } catch (Error& e) {
    e.add_context(candidate.path);
    throw;
  }
}

}  // namespace

constinit const FormatRow kTarFormat = {.name = "tar", .matches = is_tar, .unwrap = unwrap_tar};

}  // namespace cairn
