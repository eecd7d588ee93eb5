#include "checkpoint/training_info.h"

namespace cairn {

CheckpointInfo training_info(const CheckpointSource& source) {
  const SourceInfo info = source.info();
  return info.checkpoint ? *info.checkpoint : training_info(info, source.read());
}

CheckpointInfo training_info(const SourceInfo& source, const Value& value) {
  if (source.checkpoint) return *source.checkpoint;
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
