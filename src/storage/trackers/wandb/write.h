// An artifact of W&B that is written: one file, as Composer's logger does it.
#pragma once

#include <memory>
#include <string>

#include "cairn/bytes.h"

#include "storage/trackers/wandb/graphql.h"

namespace cairn::wandb {

struct ArtifactToWrite {
  std::string project;
  std::string run;         // its id: every artifact is some run's
  std::string collection;  // its name, without an alias
  std::string file;        // what its file is called
  std::string shown;       // for messages
};

// Makes a new version of it, which is `latest`, unless another writer's has become it by now. W&B
// makes none of content that it has: then that one becomes `latest`; false when its answer does not
// say so, and who needs it must look. StorageError.
bool write_artifact(const std::shared_ptr<GraphQl>& server, const ArtifactToWrite& artifact,
                    const SharedBytes& bytes);

// Makes the run, and its project, when they are not there.
void make_run(GraphQl& server, const std::string& project, const std::string& run);

}  // namespace cairn::wandb
