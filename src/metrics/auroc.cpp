// torchmetrics' AUROC. Without thresholds the state keeps every score and target, and the area is
// exact. With thresholds it keeps, for each threshold and class, a matrix of targets and answers.
#include <fmt/format.h>
#include <torch/torch.h>

#include <limits>

#include "cairn/error.h"
#include "cairn/metrics/classification.h"
#include "cairn/train/state_dict.h"

#include "metrics/answers.h"
#include "metrics/metric_state.h"

namespace cairn {
namespace {

using detail::AnswerTask;

at::Tensor no_value() { return torch::full({}, std::numeric_limits<float>::quiet_NaN()); }

// The exact area for scores [samples] and is_positive [samples].
at::Tensor exact_area(const at::Tensor& scores, const at::Tensor& is_positive) {
  const at::Tensor order = scores.argsort(0, /*descending=*/true);
  const at::Tensor sorted = scores.index_select(0, order);
  // Equal scores are one threshold: only the last of them is a point of the curve.
  const std::int64_t n = sorted.size(0);
  const at::Tensor is_point = torch::ones_like(sorted, sorted.options().dtype(at::kBool));
  is_point.slice(0, 0, n - 1).copy_(sorted.slice(0, 1).ne(sorted.slice(0, 0, n - 1)));
  const at::Tensor points = is_point.nonzero().flatten();
  const at::Tensor tps =
      is_positive.index_select(0, order).to(at::kLong).cumsum(0).index_select(0, points);
  const at::Tensor fps = points + 1 - tps;
  const auto rate = [](const at::Tensor& counts) {
    return torch::cat({torch::zeros({1}, counts.options().dtype(at::kFloat)),
                       ratio(counts, counts.slice(0, counts.size(0) - 1))});
  };
  return torch::trapz(rate(tps), rate(fps));
}

// The areas [classes] for matrices [thresholds, classes, 2, 2].
at::Tensor areas_at_thresholds(const at::Tensor& matrices) {
  const auto rate = [&](std::int64_t target) {
    const at::Tensor row = matrices.select(2, target);
    return ratio(row.select(-1, 1), row.sum(-1)).flip(0);
  };
  return torch::trapz(rate(1), rate(0), /*dim=*/0);
}

at::Tensor averaged(const at::Tensor& areas, const at::Tensor& positives, Average average) {
  if (average == Average::kNone) return areas;
  if (average == Average::kMacro) return areas.mean();
  return (areas * ratio(positives, positives.sum())).sum();
}

// The tensors under `key`, which have `dims` dimensions.
std::vector<at::Tensor> read_list(const std::string& metric, const Value& state, const char* key,
                                  std::int64_t dims) {
  const Value* list = state.is_dict() ? state.find(key) : nullptr;
  if (list == nullptr || !list->is_list()) {
    throw MismatchError(
        fmt::format("the saved state of metric {} has no list \"{}\": it was saved "
                    "by another metric, or with thresholds",
                    metric, key));
  }
  std::vector<at::Tensor> tensors;
  for (const Value& item : list->as_items()) {
    if (!item.is_tensor() || static_cast<std::int64_t>(item.as_tensor().shape.size()) != dims) {
      throw MismatchError(
          fmt::format("\"{}\" in the saved state of metric {} holds more than "
                      "tensors of {} dimensions",
                      key, metric, dims));
    }
    tensors.push_back(tensor_of(item.as_tensor()));
  }
  return tensors;
}

Value list_of(const std::vector<at::Tensor>& tensors) {
  List items;
  for (const at::Tensor& tensor : tensors)
    items.emplace_back(view_of(tensor));
  return items;
}

at::Tensor joined(const std::vector<at::Tensor>& tensors) {
  // A loaded state is on the CPU, and later updates may be on another device.
  std::vector<at::Tensor> on_one_device;
  for (const at::Tensor& tensor : tensors)
    on_one_device.push_back(tensor.to(tensors.back().device()));
  return torch::cat(on_one_device);
}

}  // namespace

AUROC::AUROC(const BinaryAUROCOptions& options)
    : AUROC({.task = AnswerTask::kBinary, .ignore_index = options.ignore_index}, Average::kMacro,
            options.thresholds) {}

AUROC::AUROC(const MulticlassAUROCOptions& options)
    : AUROC({.task = AnswerTask::kMulticlass,
             .classes = options.num_classes,
             .ignore_index = options.ignore_index},
            options.average, options.thresholds) {}

AUROC::AUROC(const detail::AnswerRules& rules, const Word<Average>& average,
             std::optional<std::int64_t> thresholds)
    : rules_(rules), average_(word_of(AUROC::name(), "average", average)), thresholds_(thresholds) {
  check_rules(AUROC::name(), rules_);
  if (average_ == Average::kMicro) refuse_word(AUROC::name(), "average", average);
  if (thresholds_ && *thresholds_ < 2) {
    throw UsageError(
        fmt::format("{}: thresholds is {}; it must be 2 or more", AUROC::name(), *thresholds_));
  }
}

std::string AUROC::name() const { return metric_name(rules_.task, "AUROC"); }

std::unique_ptr<Metric> AUROC::clone() const { return std::make_unique<AUROC>(*this); }

void AUROC::reset() {
  confmat_.reset();
  scores_.clear();
  targets_.clear();
}

void AUROC::update(const at::Tensor& outputs, const at::Tensor& target) {
  const torch::NoGradGuard no_grad;
  const bool is_binary = rules_.task == AnswerTask::kBinary;
  const bool fit = is_binary
                       ? outputs.sizes() == target.sizes()
                       : outputs.dim() == target.dim() + 1 && outputs.size(1) == rules_.classes &&
                             outputs.select(1, 0).sizes() == target.sizes();
  if (!fit || !outputs.is_floating_point()) {
    refuse_shapes(
        name(), outputs, target,
        is_binary ? "scores of the target's shape" : "scores with num_classes in dimension 1");
  }
  const Targets targets =
      read_targets(name(), target, is_binary ? 2 : rules_.classes, rules_.ignore_index);
  const at::Tensor counted = targets.counted.flatten();
  const at::Tensor flat =
      is_binary ? outputs.reshape({-1, 1}) : outputs.movedim(1, -1).reshape({-1, rules_.classes});
  const at::Tensor scores = probabilities(flat, counted.unsqueeze(1), rules_.task);
  if (thresholds_) {
    count(scores, targets.classes.flatten(), counted);
    return;
  }
  // Choosing what counts waits for the device, since the size of the result depends on the targets.
  const at::Tensor kept = is_binary ? scores.squeeze(1) : scores;
  const at::Tensor classes = target.flatten();
  scores_.push_back(rules_.ignore_index ? kept.index({counted}) : kept.clone());
  targets_.push_back(rules_.ignore_index ? classes.index({counted}) : classes.clone());
}

// scores: [samples, classes].
void AUROC::count(const at::Tensor& scores, const at::Tensor& target, const at::Tensor& counted) {
  const std::int64_t classes = rules_.classes;
  const std::int64_t bins = *thresholds_ + 1;
  const at::ScalarType dtype = scores.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor thresholds =
      torch::linspace(0, 1, *thresholds_, scores.options().dtype(at::kFloat)).to(dtype);
  // The number of thresholds that a score reaches.
  const at::Tensor bin = torch::bucketize(scores.to(dtype), thresholds, /*out_int32=*/false,
                                          /*right=*/true);
  const at::Tensor label = torch::arange(classes, target.options());
  const at::Tensor is_positive = rules_.task == AnswerTask::kBinary
                                     ? target.unsqueeze(1)
                                     : target.unsqueeze(1).eq(label).to(at::kLong);
  const at::Tensor samples = histogram((label * 2 + is_positive) * bins + bin,
                                       counted.unsqueeze(1).expand_as(bin), classes * 2 * bins)
                                 .reshape({classes, 2, bins});
  // [classes, 2, thresholds]: the samples that reach each threshold.
  const at::Tensor reached = samples.flip(-1).cumsum(-1).flip(-1).slice(-1, 1);
  const at::Tensor missed = samples.sum(-1, /*keepdim=*/true) - reached;
  const at::Tensor matrices = torch::stack({missed, reached}, -1).permute({2, 0, 1, 3});
  confmat_ = plus(confmat_, rules_.task == AnswerTask::kBinary ? matrices.squeeze(1).contiguous()
                                                               : matrices.contiguous());
}

at::Tensor AUROC::compute() {
  at::Tensor areas;
  at::Tensor positives;
  if (thresholds_) {
    if (!confmat_.defined()) return no_value();
    const at::Tensor matrices = confmat_.reshape({*thresholds_, rules_.classes, 2, 2});
    areas = areas_at_thresholds(matrices);
    positives = matrices[0].select(1, 1).sum(-1);
    if (confmat_.sum().item<std::int64_t>() == 0) return no_value();
  } else {
    if (scores_.empty()) return no_value();
    const at::Tensor scores = joined(scores_);
    const at::Tensor target = joined(targets_);
    if (target.numel() == 0) return no_value();
    if (rules_.task == AnswerTask::kBinary) return exact_area(scores, target);
    std::vector<at::Tensor> of_each;
    std::vector<at::Tensor> sizes;
    for (std::int64_t i = 0; i < rules_.classes; ++i) {
      of_each.push_back(exact_area(scores.select(1, i), target.eq(i)));
      sizes.push_back(target.eq(i).sum());
    }
    areas = torch::stack(of_each);
    positives = torch::stack(sizes);
  }
  return averaged(areas, positives, average_);
}

Value AUROC::state_dict() const {
  if (!thresholds_) {
    return Dict::ordered({{"preds", list_of(scores_)}, {"target", list_of(targets_)}});
  }
  std::vector<std::int64_t> shape = {*thresholds_, rules_.classes, 2, 2};
  if (rules_.task == AnswerTask::kBinary) shape.erase(shape.begin() + 1);
  return Dict::ordered(
      {{"confmat", view_of(confmat_.defined() ? confmat_ : torch::zeros(shape, at::kLong))}});
}

void AUROC::load_state_dict(const Value& state) {
  if (thresholds_) {
    std::vector<std::int64_t> shape = {*thresholds_, rules_.classes, 2, 2};
    if (rules_.task == AnswerTask::kBinary) shape.erase(shape.begin() + 1);
    confmat_ = metric_sum(name(), state, "confmat", shape, at::kLong);
    return;
  }
  std::vector<at::Tensor> scores =
      read_list(name(), state, "preds", rules_.task == AnswerTask::kBinary ? 1 : 2);
  std::vector<at::Tensor> targets = read_list(name(), state, "target", 1);
  bool fit = scores.size() == targets.size();
  for (std::size_t i = 0; fit && i < scores.size(); ++i) {
    fit = scores[i].size(0) == targets[i].size(0) &&
          (rules_.task == AnswerTask::kBinary || scores[i].size(1) == rules_.classes);
  }
  if (!fit) {
    throw MismatchError("\"preds\" and \"target\" in the saved state of metric " + name() +
                        " do not fit together, or are of another number of classes");
  }
  scores_ = std::move(scores);
  targets_ = std::move(targets);
}

Value AUROC::merge_states(const std::vector<Value>& states) const {
  if (thresholds_) return Metric::merge_states(states);
  List scores;
  List targets;
  for (const Value& state : states) {
    for (const Value& item : state.at("preds").as_items())
      scores.push_back(item);
    for (const Value& item : state.at("target").as_items())
      targets.push_back(item);
  }
  return Dict::ordered({{"preds", std::move(scores)}, {"target", std::move(targets)}});
}

}  // namespace cairn
