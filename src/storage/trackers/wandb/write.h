// Writes an artifact of W&B with one file, as Composer's logger does.
#pragma once

#include <memory>
#include <string>

#include "cairn/bytes.h"

#include "storage/trackers/wandb/graphql.h"

namespace cairn::wandb {

struct ArtifactToWrite {
  std::string project;
  std::string run;         // the run's id: every artifact belongs to a run
  std::string collection;  // the artifact's name, without an alias
  std::string file;        // the name of the artifact's file
  std::string shown;       // for messages
};

// Makes a new version, which is `latest` unless another writer's version has replaced it by now. If
// W&B already has the content, W&B makes no new version, but makes the existing version `latest`.
// Returns false if W&B's answer does not confirm that the version is `latest`; a caller that
// depends on that must look. Throws StorageError.
bool write_artifact(const std::shared_ptr<GraphQl>& server, const ArtifactToWrite& artifact,
                    const SharedBytes& bytes);

// Makes the run, and its project, if they do not exist.
void make_run(GraphQl& server, const std::string& project, const std::string& run);

}  // namespace cairn::wandb
