#include "checkpoint/plan/write_dcp.h"

#include "checkpoint/plan/folder_manifest.h"
#include "checkpoint/plan/write_plan.h"
#include "checkpoint/plan/write_progress.h"
#include "core/hash/xxh3.h"
#include "format/dcp/folder_plan.h"
#include "io/memory/mapped_file.h"

namespace cairn {
namespace {

ManifestFile add_text(FolderWrite& building, const char* name, const std::string& text) {
  write_object(text, *building.begin(name, text.size()));
  Xxh3 hash;
  hash.write(as_bytes(text));
  return {.name = name, .bytes = text.size(), .xxh3_128 = hash.digest128()};
}

ManifestFile add_data(FolderWrite& building, const CheckpointPlan& plan, const SaveJob& job) {
  Xxh3 hash;
  WriteProgress progress(job, part_bytes(plan));
  write_object(plan, *building.begin(dcp::kDataFile, plan.size()), &hash, progress.of_attempt());
  return {.name = dcp::kDataFile, .bytes = plan.size(), .xxh3_128 = hash.digest128()};
}

}  // namespace

std::uint64_t write_dcp(ObjectStore& store, const SaveJob& job, const std::string& scratch_folder) {
  const dcp::FolderPlan plan(job.value, scratch_folder);
  const auto building = store.begin_folder(job.path, job.replace != Replace::kNever);
  const ManifestFile data = add_data(*building, plan.data(), job);
  const ManifestFile metadata = add_text(*building, dcp::kMetadataFile, plan.metadata());
  const ManifestFile manifest =
      add_text(*building, kFolderManifest, write_folder_manifest({.files = {data, metadata}}));
  if (job.checks_reads) check_mapped_reads();
  building->commit();
  return data.bytes + metadata.bytes + manifest.bytes;
}

std::uint64_t write_dcp(ObjectStore& store, const Value& value, const std::string& folder,
                        bool overwrite) {
  return write_dcp(store, {.value = value, .path = folder, .replace = replace_if(overwrite)}, {});
}

}  // namespace cairn
