#include "train/loop/failure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <exception>
#include <set>
#include <typeinfo>

#include "cairn/error.h"

#include "core/text/class_name.h"
#include "train/engine/event_failure.h"

namespace cairn {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  std::string text =
      fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
  if (!tensor.device().is_cpu()) text += " on " + tensor.device().str();
  return text;
}

std::string text_of(const Batch& batch) {
  std::string text;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (i > 0) text += ", ";
    if (batch.is_named()) text += "\"" + batch.names()[i] + "\": ";
    text += text_of(batch.tensors()[i]);
  }
  return text.empty() ? "no tensors" : text;
}

// The types of the parameters: "Float", or "Float and Half on cuda:0". Inputs usually need the same
// types.
std::string parameters_text(const torch::nn::Module& network) {
  std::set<std::string> kinds;
  for (const at::Tensor& parameter : network.parameters()) {
    std::string kind = c10::toString(parameter.scalar_type());
    if (!parameter.device().is_cpu()) kind += " on " + parameter.device().str();
    kinds.insert(std::move(kind));
  }
  return kinds.empty() ? "none" : fmt::format("{}", fmt::join(kinds, " and "));
}

std::string position(const LoopContext& context) {
  const State& state = context.state;
  if (context.predict_batch) {
    return fmt::format("prediction failed in batch {} (counted from 0)", *context.predict_batch);
  }
  if (state.dataloader != nullptr && state.dataloader != &state.train_dataloader) {
    return fmt::format("evaluation of \"{}\" failed in batch {} (counted from 0)",
                       state.dataloader_label, state.eval_timestamp.batch);
  }
  return fmt::format("training failed in batch {} of epoch {} (counted from 0)",
                     state.timestamp.batch_in_epoch, state.timestamp.epoch);
}

std::string place_of(const LoopContext& context, const std::string& doing) {
  std::string place = position(context);
  if (context.microbatches > 1) {
    place += fmt::format(", microbatch {} of {}", context.microbatch + 1, context.microbatches);
  }
  return fmt::format("{}, in {} (model {}, after the event {})", place, doing,
                     layer_class(network_of(context.state.model->module())),
                     name(context.engine.last_event()));
}

std::string details_of(const LoopContext& context, const std::string& layer) {
  const State& state = context.state;
  std::string details = layer.empty() ? "" : "\n  layer: " + layer;
  details += "\n  batch: " + text_of(state.batch);
  if (!state.outputs.empty()) details += "\n  outputs: " + text_of(state.outputs);
  const torch::nn::Module& network = network_of(state.model->module());
  return details + "\n  parameters of " + layer_class(network) + ": " + parameters_text(network);
}

bool is_of_the_standard_library(const std::exception& error) {
  return full_class_name(typeid(error)).starts_with("std::") &&
         dynamic_cast<const std::bad_alloc*>(&error) == nullptr;
}

// Rethrows an exception of libtorch or the standard library as a TrainingError, and any other
// exception unchanged.
[[noreturn]] void rethrow_as_training_error(const std::string& place, const std::string& details) {
  try {
    throw;
  } catch (const c10::Error& error) {
    const std::string reason = first_line(error.what_without_backtrace());
    std::throw_with_nested(TrainingError(place + ": " + reason + details));
  } catch (const std::exception& error) {
    if (!is_of_the_standard_library(error)) throw;
    std::throw_with_nested(TrainingError(place + ": " + error.what() + details));
  }
}

}  // namespace

const torch::nn::Module& network_of(const torch::nn::Module& module) {
  const auto children = module.named_children();
  const bool is_wrapper = module.name() == "ComposerClassifier" && children.size() == 1;
  return is_wrapper ? *children[0].value() : module;
}

void rethrow_from_batch(const LoopContext& context, const std::string& doing, bool has_batch,
                        const std::string& layer) {
  const std::string place = place_of(context, doing);
  try {
    throw;
  } catch (Error& error) {
    error.add_context(place);
    throw;
  } catch (...) {
    rethrow_as_training_error(place, has_batch ? details_of(context, layer) : "");
  }
}

void rethrow_from_event(const std::string& who, Event event, const State& state) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (...) {
    rethrow_as_training_error(
        fmt::format("{} failed at the event {}, after {} batches (epoch {})", who, name(event),
                    state.timestamp.batch, state.timestamp.epoch),
        "");
  }
}

}  // namespace cairn
