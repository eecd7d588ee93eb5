// Metrics of classifiers, with torchmetrics' names, definitions and state. classifier() uses them
// by default. The sums of metrics stay on the device of the outputs, so that an update does not
// wait for the device. The headers beside this one have more metrics: classification.h,
// language.h, mean.h, segmentation.h. For others derive from Metric.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "cairn/export.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/metric.h"

namespace CAIRN_PUBLIC cairn {

// The fraction of samples whose class has the highest score: torchmetrics' MulticlassAccuracy with
// average="micro". Outputs are scores with the classes in dimension 1, or classes; targets are
// class indices.
struct AccuracyOptions {
  // Only for the saved count of true negatives. nullopt: the width of the first outputs.
  std::optional<std::int64_t> num_classes = std::nullopt;
};
class Accuracy final : public Metric {
 public:
  explicit Accuracy(AccuracyOptions options = {}) : num_classes_(options.num_classes) {}
  explicit Accuracy(EmptyBraces) : Accuracy(AccuracyOptions()) {}  // Accuracy({.num_classes = 10})

  std::string name() const override { return "MulticlassAccuracy"; }
  std::unique_ptr<Metric> clone() const override;
  void reset() override;
  void update(const at::Tensor& outputs, const at::Tensor& target) override;
  at::Tensor compute() override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  std::optional<std::int64_t> num_classes_;
  at::Tensor correct_;  // int64 scalar on the outputs' device; undefined before the first update
  std::int64_t total_ = 0;
};

// The mean over updates of the mean cross-entropy (Composer's CrossEntropy). A short last batch
// counts as much as a full one. Targets are as in soft_cross_entropy().
struct CrossEntropyOptions {
  // The class index that does not count, such as the label of padding.
  std::int64_t ignore_index = -100;
};
class CrossEntropy final : public Metric {
 public:
  explicit CrossEntropy(CrossEntropyOptions options = {}) : ignore_index_(options.ignore_index) {}
  explicit CrossEntropy(EmptyBraces)  // CrossEntropy({.ignore_index = 0})
      : CrossEntropy(CrossEntropyOptions()) {}

  std::string name() const override { return "CrossEntropy"; }
  std::unique_ptr<Metric> clone() const override;
  void reset() override;
  void update(const at::Tensor& outputs, const at::Tensor& target) override;
  at::Tensor compute() override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  std::int64_t ignore_index_;
  at::Tensor sum_loss_;  // float32 scalar; undefined before the first update
  std::int64_t total_batches_ = 0;
};

}  // namespace cairn
