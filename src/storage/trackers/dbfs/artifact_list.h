// Artifacts that are known only from lists: MLflow's servers report only a file's name and size.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "storage/trackers/tree/tree.h"

namespace cairn::dbfs {

// The files in an answer of MLflow: names without their folder; the version is the size.
std::vector<ListedName> listed_artifacts(const Json& answer);

// The answer for a file's path lists only that file. nullopt for a folder's path, and if there is
// nothing.
std::optional<ObjectInfo> listed_itself(const Json& answer, const std::string& path);

class ListedArtifacts : public Tree {
 public:
  std::optional<ObjectInfo> find_file(const std::string& path) final;
  Look look(const std::string& path, const std::string& link, bool may_be_file) override;
  std::optional<ListPage> list(const std::string& folder, const std::string& page) final;

 protected:
  // A file or a folder. By default, looks in the list of its parent folder.
  virtual std::optional<ObjectInfo> find(const std::string& path);
  // The server's list of a folder. Empty if there is no such folder. For a file's path the list may
  // be the file itself.
  virtual ListPage entries(const std::string& folder, const std::string& page) = 0;
  // Throws AlreadyExistsError if there is such a file.
  void refuse_existing(const std::string& path);
  // Throws StorageError unless the server lists the file with that size.
  void verify_size(const std::string& path, std::uint64_t size);
};

}  // namespace cairn::dbfs
