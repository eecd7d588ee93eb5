// Each rank's report of the files that it has written, and rank 0's collection of these reports:
// steps 3 and 4 of commit_over_ranks.cpp.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/plan/folder_manifest.h"
#include "checkpoint/ranks/commit_over_ranks.h"
#include "checkpoint/ranks/name_on_machine.h"
#include "core/text/json.h"
#include "format/dcp/metadata/write_metadata.h"

namespace cairn {

struct PartReport {
  std::string id;         // of the attempt
  std::int64_t home = 0;  // the rank that made the folder of the files
  std::string machine;
  WrittenPart part;
  NameOnMachine name = {};  // MachineFolder::name()
};

// The text that is sent between ranks. parse_part_report() throws MeetingError.
std::string text_of(const PartReport& report);
PartReport parse_part_report(const std::string& text);
// Parses JSON that another rank wrote. Throws MeetingError.
Json parse_message(const std::string& text);

class PartReports {
 public:
  // Adds a report; call it in the order of the ranks. Throws UsageError if the report has a file
  // name that is already taken.
  void add(std::int64_t rank, PartReport report);

  const std::vector<RankPart>& parts() const { return parts_; }
  // All files, for the folder's manifest.
  const std::vector<ManifestFile>& files() const { return files_; }
  // The ranks that made a folder, without rank 0.
  const std::vector<std::int64_t>& homes() const { return homes_; }
  // The homes() whose machines keep whatever already has the checkpoint's name (is_kept()).
  // `of_rank_0`: the state of the name on rank 0's machine.
  std::vector<std::int64_t> homes_that_keep(const NameOnMachine& of_rank_0) const;

 private:
  std::set<std::string> names_of_files_ = {dcp::kMetadataFile, kFolderManifest};
  std::vector<RankPart> parts_;
  std::vector<ManifestFile> files_;
  std::set<std::string> machines_;
  std::vector<std::int64_t> homes_;
  std::vector<NameOnMachine> names_;  // of homes_
};

}  // namespace cairn
