// Looking for the newest checkpoint, for the C interface.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cairn/checkpoint/checkpoint.h"

namespace cairn {

// The names that a cairn_saver gives, unless it is told others.
inline constexpr const char* kSaverNames = "step{batch}.pt";

// find_latest(). If `options` have no filename, looks for the names of a Trainer, of Checkpoints
// and of a cairn_saver, and then at all other checkpoints in the folder.
std::optional<FoundCheckpoint> find_newest(const std::string& folder, FindOptions options);

// The lines about checkpoints that a search passed over.
class SkippedLines {
 public:
  // `into`: where the text goes; may be null.
  explicit SkippedLines(char** into) : into_(into) {
    if (into_ != nullptr) *into_ = nullptr;
  }

  // For FindOptions::on_skip. Valid as long as this object.
  std::function<void(const std::string& path, const std::string& why)> collect() {
    return [this](const std::string& path, const std::string& why) { add(path, why); };
  }
  // Gives the text to the caller of the C interface. Throws std::bad_alloc.
  void hand_over();

 private:
  void add(const std::string& path, const std::string& why);

  char** into_;
  std::string lines_;
};

}  // namespace cairn
