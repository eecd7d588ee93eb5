// ExportForInferenceCallback: writes the weights of the trained model, for another program
// (composer/callbacks/export_for_inference.py).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "cairn/export.h"
#include "cairn/storage/object_store.h"
#include "cairn/train/callback.h"
#include "cairn/train/empty_braces.h"
#include "cairn/word.h"

namespace CAIRN_PUBLIC cairn {

enum class ExportFormat : std::uint8_t { kTorch, kSafetensors };
template <>
struct WordsOf<ExportFormat> {
  static constexpr std::array kAll = {"torch", "safetensors"};
};

//   ExportForInferenceCallback({.save_format = "safetensors", .save_path = "s3://bucket/net"})
struct ExportForInferenceOptions {
  // "torch": torch.load() returns the state dict. "safetensors": safetensors.torch.load_file()
  // does. Required.
  Word<ExportFormat> save_format = {};
  // A path or a URI, with dist variables such as {run_name}. An existing file is replaced.
  std::string save_path = {};
  std::shared_ptr<ObjectStore> save_object_store =
      nullptr;  // of save_path; null: save_path says it
};

// Writes the model's state dict at the end of each fit(), on rank 0, while the other ranks wait. It
// has the names of the module, and no state of training. With EMA these are the averages if a
// checkpoint is saved at the end of training, as in Composer.
//
// Composer exports TorchScript or ONNX, which are made from Python's source code. A program in
// Python, or in C++ with cairn::load_state_dict(), makes the module and loads these weights. For a
// sharded run fit() throws UnsupportedError before it trains: convert its last checkpoint with
// weights_only (cairn/checkpoint/convert.h).
class ExportForInferenceCallback final : public Callback {
 public:
  explicit ExportForInferenceCallback(ExportForInferenceOptions options);  // UsageError
  explicit ExportForInferenceCallback(
      EmptyBraces)  // ExportForInferenceCallback({.save_path = ...})
      : ExportForInferenceCallback(ExportForInferenceOptions()) {}
  template <detail::NeverMatches T>
  ExportForInferenceCallback(std::initializer_list<T>) = delete;

  std::string name() const override { return "ExportForInferenceCallback"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  bool may_change_batch() const override { return false; }
  void fit_start(State& state, Logger& logger) override;
  void fit_end(State& state, Logger& logger) override;

 private:
  ExportForInferenceOptions options_;
};

}  // namespace cairn
