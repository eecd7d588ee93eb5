// Model: what the Trainer trains (Composer's ComposerModel), and classifier(), which makes one from
// any torch::nn module.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "cairn/export.h"
#include "cairn/train/batch.h"
#include "cairn/train/handle.h"
#include "cairn/train/metric.h"

namespace torch::nn {
class Module;
}

namespace CAIRN_PUBLIC cairn {

// classifier(net) is enough for supervised classifiers; derive from Model for everything else:
//
//   struct Autoencoder final : cairn::Model {
//     torch::nn::Module& module() override { return *net; }
//     cairn::Outputs forward(const cairn::Batch& batch) override { return net->forward(batch[0]); }
//     cairn::Losses loss(const cairn::Outputs& outputs, const cairn::Batch& batch) override {
//       return torch::mse_loss(outputs.single(), batch[0]);
//     }
//     Net net;
//   };
//
// All methods are called on the training thread, with batches on the device. An exception ends
// fit(), with the batch and its shapes in the message.
class Model {
 public:
  virtual ~Model() = default;

  // The network whose parameters are trained and whose state_dict() is saved. Names in checkpoints
  // are the names in this module. Must always return the same module. The Trainer sets its training
  // mode.
  virtual torch::nn::Module& module() = 0;

  // Called for each microbatch, in training mode and with gradients. With an amp precision it is
  // called under autocast.
  virtual Outputs forward(const Batch& batch) = 0;

  // Mean losses over the batch, see Losses. The losses must be means, not sums, since microbatches
  // are weighed by their samples.
  virtual Losses loss(const Outputs& outputs, const Batch& batch) = 0;

  // The outputs for metrics and predict(), in evaluation mode, without gradients. `outputs` points
  // at the outputs of forward() if the Trainer has them; then the default returns them. Otherwise
  // `outputs` is nullptr, and the default calls forward(). Override it for a model that evaluates
  // in another way.
  virtual Outputs eval_forward(const Batch& batch, const Outputs* outputs);

  // New metrics, which the Trainer keeps. Default: none.
  virtual Metrics get_metrics(bool is_train);
  // Default: metric.update(outputs.single(), batch[1]).
  virtual void update_metric(const Batch& batch, const Outputs& outputs, Metric& metric);
};

// The type of TrainerOptions::model: an object of a class derived from Model, by value or by
// pointer.
class ModelHandle : public Handle<Model> {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  ModelHandle() = default;
  ModelHandle(std::nullptr_t) {}
  template <class M>
  requires std::constructible_from<Handle<Model>, M &&> ModelHandle(M&& model)
      : Handle<Model>(std::forward<M>(model)) {}
  // The compiler shows the line of the deleted constructor.
  // clang-format off
  template <class M>
  requires(!std::constructible_from<Handle<Model>, M&&>)
  ModelHandle(M&&) = delete;  // model: for a torch::nn module classifier(net), or derive from Model
  // clang-format on
  operator const std::shared_ptr<Model>&() const { return shared(); }
  // NOLINTEND(google-explicit-constructor)
};

struct ClassifierOptions {
  // Number of classes, which only metrics' state needs. nullopt: the width of the first output.
  std::optional<std::int64_t> num_classes = std::nullopt;
  // Defaults: train {Accuracy}, eval {CrossEntropy, Accuracy}, as Composer's.
  std::optional<HandleList<Metric>> train_metrics = std::nullopt;
  std::optional<HandleList<Metric>> val_metrics = std::nullopt;
  // (outputs, target) -> mean loss; default soft_cross_entropy.
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> loss_fn = nullptr;
};

// Composer's default loss. `target` holds class indices (-100 is ignored) or, with the shape of
// `outputs`, probabilities.
at::Tensor soft_cross_entropy(const at::Tensor& outputs, const at::Tensor& target);

// Composer's ComposerClassifier around `net`: batches are (input, target), and parameter names
// start with "module.". Shares ownership of `net`.
std::shared_ptr<Model> make_classifier(const std::shared_ptr<torch::nn::Module>& net,
                                       std::function<at::Tensor(const at::Tensor&)> forward,
                                       ClassifierOptions options);

namespace detail {

template <class Net>
concept HoldsModule = requires(std::remove_cvref_t<Net>& net, const at::Tensor& input) {
  net->forward(input);
};

}  // namespace detail

// As make_classifier(), for a std::shared_ptr<Net>, or for a module holder whose `forward(Tensor)`
// returns a Tensor:
//
//   torch::nn::Sequential net(torch::nn::Linear(64, 10));
//   .model = cairn::classifier(net, {.num_classes = 10}),
template <detail::HoldsModule Net>
std::shared_ptr<Model> classifier(Net net, ClassifierOptions options = {}) {
  auto forward = [net](const at::Tensor& input) mutable -> at::Tensor {
    return net->forward(input);
  };
  if constexpr (requires { net.ptr(); }) {
    return make_classifier(net.ptr(), std::move(forward), std::move(options));
  } else {
    return make_classifier(net, std::move(forward), std::move(options));
  }
}
// The compiler shows the line of the deleted function.
// clang-format off
template <class Net, std::integral Number>
std::shared_ptr<Model> classifier(Net, Number) = delete;  // classifier(net, {.num_classes = 10})
template <class Net>
requires(!detail::HoldsModule<Net>) std::shared_ptr<Model>
classifier(Net&&, ClassifierOptions = {}) = delete;  // make_shared<Net>(), with forward(Tensor)
// clang-format on

}  // namespace cairn
