#include "cairn/callbacks/export_for_inference.h"

#include <utility>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/names.h"
#include "cairn/dist/dist.h"
#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"
#include "cairn/train/state_dict.h"

#include "checkpoint/plan/save_pipeline.h"
#include "checkpoint/plan/write_safetensors.h"
#include "dist/team.h"
#include "storage/place.h"

namespace cairn {
namespace {

void save_safetensors(const Value& weights, const std::string& path,
                      const std::shared_ptr<ObjectStore>& given) {
  const NamedTensors named = name_tensors(weights, {});
  SaveJob job = {.value = weights,
                 .path = given ? path : shown_place(path),
                 .replace = Replace::kAll,
                 .checks_reads = true};
  job.write = [&named](ObjectStore& store, const SaveJob& save, const auto&) {
    return write_safetensors(store, save, named, {}).bytes;
  };
  save_now(store_of(path, given), job);
}

}  // namespace

ExportForInferenceCallback::ExportForInferenceCallback(ExportForInferenceOptions options)
    : options_(std::move(options)) {
  if (!options_.save_format.value()) {
    throw UsageError(
        "ExportForInferenceCallback: save_format is \"torch\" or \"safetensors\", not \"" +
        options_.save_format + "\": TorchScript and ONNX are made from Python's source code");
  }
  if (options_.save_path.empty()) throw UsageError("ExportForInferenceCallback needs save_path");
}

void ExportForInferenceCallback::fit_start(State& state, Logger& /*logger*/) {
  if (!state.sharding) return;
  throw UnsupportedError(
      "ExportForInferenceCallback: each rank of a sharded run has only a part of the weights: "
      "convert the last checkpoint with weights_only instead");
}

void ExportForInferenceCallback::fit_end(State& state, Logger& logger) {
  const std::string path =
      strict_format(NameFormat(options_.save_path), dist_variables(state.run_name));
  Team::of_job().do_on_first("exporting the weights", [&]() -> Value {
    const Value weights = cairn::state_dict(state.model->module());
    if (options_.save_format == ExportFormat::kSafetensors) {
      save_safetensors(weights, path, options_.save_object_store);
    } else {
      save(weights, path, {.store = options_.save_object_store});
    }
    logger.log_message("exported the weights to " + shown_place(path));
    return None{};
  });
}

}  // namespace cairn
