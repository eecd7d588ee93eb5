// Artifacts of which only lists tell: all that MLflow's servers say of a file is its name and size.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/text/json.h"
#include "storage/trackers/tree/tree.h"

namespace cairn::dbfs {

// The files of an answer of MLflow's: names without their folder; the version is the size.
std::vector<ListedName> listed_artifacts(const Json& answer);

// Of a file's path the one file in it; of a folder's, or of nothing, none.
std::optional<ObjectInfo> listed_itself(const Json& answer, const std::string& path);

class ListedArtifacts : public Tree {
 public:
  std::optional<ObjectInfo> find_file(const std::string& path) final;
  Look look(const std::string& path, const std::string& link, bool may_be_file) override;
  std::optional<ListPage> list(const std::string& folder, const std::string& page) final;

 protected:
  // A file or a folder. By default what the list of the folder that it is in says.
  virtual std::optional<ObjectInfo> find(const std::string& path);
  // What the server lists; nothing for what is not there, and perhaps a file itself for its path.
  virtual ListPage entries(const std::string& folder, const std::string& page) = 0;
  // AlreadyExistsError when there is such a file.
  void refuse_existing(const std::string& path);
  // StorageError unless the server lists the file with that size.
  void verify_size(const std::string& path, std::uint64_t size);
};

}  // namespace cairn::dbfs
