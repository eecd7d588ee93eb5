// Composer's metrics of image segmentation, with its names, definitions and state. Outputs are
// scores of shape [samples, classes, ...], targets are classes of shape [samples, ...]. The sums
// stay on the device of the outputs. cairn.h leaves this header out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cairn/export.h"
#include "cairn/train/metric.h"

namespace CAIRN_PUBLIC cairn {

// The mean intersection over union of the classes that occur, in percent.
struct MIoUOptions {
  std::int64_t num_classes = 0;    // required
  std::int64_t ignore_index = -1;  // the target that does not count
};
class MIoU final : public Metric {
 public:
  // Throws UsageError unless num_classes is positive.
  explicit MIoU(MIoUOptions options);

  std::string name() const override { return "MIoU"; }
  std::unique_ptr<Metric> clone() const override;
  void reset() override;
  void update(const at::Tensor& outputs, const at::Tensor& target) override;
  at::Tensor compute() override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  MIoUOptions options_;
  at::Tensor total_intersect_;  // float64 [num_classes], as total_union_
  at::Tensor total_union_;
};

// The mean over updates and foreground classes of the Dice coefficient, in percent, rounded to two
// decimals. Class 0 is the background. An update without a foreground class in its targets counts
// 1 for that class if the outputs have none of it either, otherwise 0.
struct DiceOptions {
  std::int64_t num_classes = 0;  // required: foreground classes, one less than the outputs have
};
class Dice final : public Metric {
 public:
  // Throws UsageError unless num_classes is positive.
  explicit Dice(DiceOptions options);

  std::string name() const override { return "Dice"; }
  std::unique_ptr<Metric> clone() const override;
  void reset() override;
  void update(const at::Tensor& outputs, const at::Tensor& target) override;
  at::Tensor compute() override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  std::int64_t num_classes_;
  at::Tensor n_updates_;  // float32 [1]
  at::Tensor dice_;       // float32 [num_classes]
};

}  // namespace cairn
