#include "checkpoint/write_dcp.h"

#include "base/atomic_folder.h"
#include "format/sharded/folder_plan.h"

namespace cairn {

std::uint64_t write_dcp(FileSystem& files, const Value& value, const std::string& folder,
                        bool overwrite, const std::string& scratch_folder) {
  sharded::FolderPlan plan(value, scratch_folder);
  AtomicFolder building(files, folder, overwrite);
  building.add(sharded::kDataFile, plan.data_size_bound(),
               [&](ByteSink& sink) { plan.write_data(sink); });
  const std::string metadata = plan.metadata();
  building.add(sharded::kMetadataFile, metadata.size(),
               [&](ByteSink& sink) { sink.write(as_bytes(metadata)); });
  building.commit();
  return plan.data_size() + metadata.size();
}

}  // namespace cairn
