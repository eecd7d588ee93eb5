// Finds the newest good checkpoint of a folder again and again, while a run saves there.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/folder/list_checkpoints.h"

namespace cairn::cli {

// A look lists the folder, and opens the checkpoints that have become the newest since the last
// look. Older ones are only listed.
class NewestCheckpoint {
 public:
  // `folder`: a name in `store`.
  NewestCheckpoint(std::shared_ptr<ObjectStore> store, std::string folder)
      : store_(std::move(store)), folder_(std::move(folder)) {}

  // Throws what list_checkpoints() throws.
  void look();

  // The furthest in training of those whose structure and sizes are good.
  const std::optional<ListedCheckpoint>& newest() const { return newest_; }
  std::size_t count() const { return count_; }
  const std::string& folder() const { return folder_; }
  // Names of the folders directly in this one that are no checkpoints by their names.
  const std::vector<std::string>& folders() const { return folders_; }

 private:
  struct Opened {
    ListedCheckpoint listed;  // before it was looked into
    ListedCheckpoint looked;
  };
  std::optional<ListedCheckpoint> looked_into(const ListedCheckpoint& listed);

  std::shared_ptr<ObjectStore> store_;
  std::string folder_;
  std::optional<ListedCheckpoint> newest_ = std::nullopt;
  std::size_t count_ = 0;
  std::vector<std::string> folders_ = {};
  std::map<std::string, Opened> opened_ = {};  // by path, as the last look left them
};

}  // namespace cairn::cli
