#include "checkpoint/open/training_info.h"

#include <string>

#include "cairn/error.h"

namespace cairn {
namespace {

[[noreturn]] void refuse_state(const std::string& why) {
  throw CorruptError("it says that it holds a training state, but " + why);
}

}  // namespace

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

void check_training_state(const CheckpointSource& source) {
  const Value value = source.read();
  const Value* state = value.is_dict() ? value.find("state") : nullptr;
  if (state == nullptr || !state->is_dict()) refuse_state("there is no dict \"state\" in it");
  for (const char* name : {"model", "optimizers", "schedulers", "callbacks"}) {
    const Value* entry = state->find(name);
    if (entry == nullptr || entry->is_dict()) continue;
    refuse_state("its state/" + std::string(name) + " is of type " +
                 std::string(entry->type_name()));
  }
  if (state->find("model") == nullptr) refuse_state("its state has no model");
  const auto said = source.info().checkpoint;
  if (!said) return;  // then the timestamp was read from the state, so there is nothing to compare
  const Value* timestamp = find_path(value, "state/timestamp/Timestamp");
  if (timestamp == nullptr) refuse_state("its state has no timestamp");
  if (said->timestamp &&
      position(Timestamp::from_value(*timestamp)) != position(*said->timestamp)) {
    refuse_state("the timestamp of the state differs from that of its manifest");
  }
}

}  // namespace cairn
