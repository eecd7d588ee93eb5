// Artifacts of which only lists tell: all that MLflow's servers say of a file is its name and size.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "storage/tree/tree.h"

namespace cairn::dbfs {

// The files of an answer of MLflow's: names without their folder; the version is the size.
std::vector<ListedName> listed_artifacts(const nlohmann::json& answer);

class ListedArtifacts : public Tree {
 public:
  std::optional<ObjectInfo> find_file(const std::string& path) final;
  bool has_folder(const std::string& path) final;
  std::optional<ListPage> list(const std::string& folder, const std::string& page) final;

 protected:
  // What the server lists; nothing for what is not there, and perhaps a file itself for its path.
  virtual ListPage entries(const std::string& folder, const std::string& page) = 0;
  // AlreadyExistsError when there is such a file.
  void refuse_existing(const std::string& path);
  // StorageError unless the server lists the file with that size.
  void verify_size(const std::string& path, std::uint64_t size);

 private:
  std::optional<ObjectInfo> find(const std::string& path);
};

}  // namespace cairn::dbfs
