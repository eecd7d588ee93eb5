// A file or folder whose format is being recognised, and the row of each format.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/open/source.h"
#include "io/bytes/windows.h"

namespace cairn {

struct Candidate {
  std::shared_ptr<ObjectStore> store = nullptr;
  std::string path;  // as the user gave it; for messages, and to find a folder's files
  bool is_folder = false;
  // The content of a file, without the containers removed so far. Its ends are read ahead.
  std::shared_ptr<Windows> source = nullptr;
  SharedBytes start = {};                    // the first KiB of `source`, which shows the format
  std::uint64_t stored_bytes = 0;            // the size of the file on disk
  std::vector<std::string> containers = {};  // removed so far, outermost first
  std::string scratch_folder = {};
  std::function<void(std::uint64_t bytes)> on_progress = nullptr;  // see OpenOptions; may be null
  Access access = Access::kVerified;

  // Sets the content to recognise next. Reads ahead, with one read, the bytes that recognising and
  // opening usually need.
  void set_content(std::shared_ptr<const ByteSource> content);
};

// One format, or one container around a format.
struct FormatRow {
  const char* name;  // SourceInfo::format, or the container's name
  bool (*matches)(const Candidate&);
  // A format's row has `open`. A container's row has `unwrap`, which returns the content, to be
  // recognised in turn.
  std::unique_ptr<CheckpointSource> (*open)(Candidate) = nullptr;
  Candidate (*unwrap)(Candidate) = nullptr;
};

// Each row is defined beside its reader and listed in source.cpp. compression() of
// compressed_source.h makes the rows of compressions.
extern const FormatRow kDcpFormat;
extern const FormatRow kDcpSafetensorsFormat;
extern const FormatRow kDeepSpeedFormat;
extern const FormatRow kModelFolderFormat;
extern const FormatRow kPickleFormat;
extern const FormatRow kRankTarFormat;
extern const FormatRow kSafetensorsFormat;
extern const FormatRow kShardIndexFormat;
extern const FormatRow kTarFormat;
extern const FormatRow kTorchLegacyFormat;
extern const FormatRow kTorchZipFormat;

}  // namespace cairn
