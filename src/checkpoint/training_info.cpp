#include "checkpoint/training_info.h"

namespace cairn {

CheckpointInfo training_info(const CheckpointSource& source) {
  if (auto info = source.info().checkpoint) return *info;
  const Value value = source.read();
  CheckpointInfo info;
  const Value* run_name = find_path(value, "state/run_name");
  if (run_name != nullptr && run_name->is_str()) info.run_name = run_name->as_str();
  if (const Value* timestamp = find_path(value, "state/timestamp/Timestamp")) {
    info.kind = "full";
    info.timestamp = Timestamp::from_value(*timestamp);
  } else if (find_path(value, "state/model") != nullptr) {
    info.kind = "weights";
  }
  return info;
}

}  // namespace cairn
