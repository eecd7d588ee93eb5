// Composer's ComposerClassifier and its default loss (composer/models/tasks/classification.py).
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include "cairn/error.h"
#include "cairn/metrics/metrics.h"
#include "cairn/train/model.h"

namespace cairn {
namespace {

// The user's network as the attribute "module", which gives the names in checkpoints.
struct Wrapper : torch::nn::Module {
  explicit Wrapper(const std::shared_ptr<torch::nn::Module>& net)
      : torch::nn::Module("ComposerClassifier") {
    register_module("module", net);
  }
};

Metrics clones(const HandleList<Metric>& metrics) {
  Metrics result;
  for (const auto& metric : metrics) {
    result.emplace_back(metric->name(), metric->clone());
  }
  return result;
}

class Classifier final : public Model {
 public:
  Classifier(const std::shared_ptr<torch::nn::Module>& net,
             std::function<at::Tensor(const at::Tensor&)> forward, ClassifierOptions options)
      : module_(std::make_shared<Wrapper>(net)),
        forward_(std::move(forward)),
        options_(std::move(options)) {
    const Accuracy accuracy({.num_classes = options_.num_classes});
    if (!options_.train_metrics) options_.train_metrics = HandleList<Metric>{accuracy};
    if (!options_.val_metrics) options_.val_metrics = HandleList<Metric>{CrossEntropy(), accuracy};
    if (!options_.loss_fn) options_.loss_fn = soft_cross_entropy;
  }

  torch::nn::Module& module() override { return *module_; }
  Outputs forward(const Batch& batch) override { return forward_(batch[0]); }
  Losses loss(const Outputs& outputs, const Batch& batch) override {
    return options_.loss_fn(outputs.single(), batch[1]);
  }
  Metrics get_metrics(bool is_train) override {
    return clones(is_train ? *options_.train_metrics : *options_.val_metrics);
  }

 private:
  std::shared_ptr<Wrapper> module_;
  std::function<at::Tensor(const at::Tensor&)> forward_;
  ClassifierOptions options_;
};

}  // namespace

at::Tensor soft_cross_entropy(const at::Tensor& outputs, const at::Tensor& target) {
  if (outputs.dim() == target.dim() + 1) return at::cross_entropy_loss(outputs, target);
  if (outputs.sizes() != target.sizes()) {
    throw UsageError(fmt::format(
        "soft_cross_entropy: outputs have shape [{}], the target has [{}]; expected class indices "
        "(one dimension less) or probabilities (the same shape)",
        fmt::join(outputs.sizes(), ", "), fmt::join(target.sizes(), ", ")));
  }
  // The mean over samples if the probabilities of each sample sum to one. Otherwise a sample's
  // weight is the sum of its probabilities.
  const at::Tensor weight = target.sum();
  if (weight.item<double>() == 0) {
    throw UsageError("soft_cross_entropy: all target probabilities are zero");
  }
  return -(target * outputs.log_softmax(1)).sum() / weight;
}

std::shared_ptr<Model> make_classifier(const std::shared_ptr<torch::nn::Module>& net,
                                       std::function<at::Tensor(const at::Tensor&)> forward,
                                       ClassifierOptions options) {
  if (!net) throw UsageError("classifier: there is no module");
  return std::make_shared<Classifier>(net, std::move(forward), std::move(options));
}

}  // namespace cairn
