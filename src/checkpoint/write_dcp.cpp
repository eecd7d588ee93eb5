#include "checkpoint/write_dcp.h"

#include "cairn/error.h"

#include "base/atomic_file.h"
#include "format/sharded/folder_plan.h"

namespace cairn {

std::uint64_t write_dcp(FileSystem& files, const Value& value, const std::string& folder) {
  sharded::FolderPlan plan(value);
  if (files.stat(folder, false)) {
    throw AlreadyExistsError(folder + " exists; a folder of torch.distributed.checkpoint is only " +
                             "written under a new name");
  }
  files.make_folders(folder);
  const std::string data_path = join_path(folder, sharded::kDataFile);
  AtomicFile data(files, data_path, {.expected_bytes = plan.data_size_bound()});
  plan.write_data(data);
  data.commit();
  const std::string metadata = plan.metadata();
  try {
    AtomicFile file(files, join_path(folder, sharded::kMetadataFile),
                    {.expected_bytes = metadata.size()});
    file.write(as_bytes(metadata));
    file.commit();
  } catch (...) {
    files.remove(data_path);
    throw;
  }
  return plan.data_size() + metadata.size();
}

}  // namespace cairn
