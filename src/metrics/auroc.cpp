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
  if (scores.numel() == 0) return no_value();
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

// A label of which no sample counts has no area, and does not count.
at::Tensor averaged(const at::Tensor& areas, const at::Tensor& positives, Average average) {
  if (average == Average::kNone) return areas;
  if (average == Average::kMacro) return areas.nanmean();
  return (areas.nan_to_num() * ratio(positives, positives.sum())).sum();
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

AUROC::AUROC(const MultilabelAUROCOptions& options)
    : AUROC({.task = AnswerTask::kMultilabel,
             .classes = options.num_labels,
             .ignore_index = options.ignore_index},
            options.average, options.thresholds) {}

AUROC::AUROC(const detail::AnswerRules& rules, const Word<Average>& average,
             std::optional<std::int64_t> thresholds)
    : rules_(rules), average_(word_of(AUROC::name(), "average", average)), thresholds_(thresholds) {
  check_rules(AUROC::name(), rules_);
  if (average_ == Average::kMicro && rules_.task != AnswerTask::kMultilabel) {
    refuse_word(AUROC::name(), "average", average, std::span(WordsOf<Average>::kAll).subspan<1>());
  }
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
  check_shapes(outputs, target);
  const bool is_multiclass = rules_.task == AnswerTask::kMulticlass;
  const Targets targets =
      read_targets(name(), target, is_multiclass ? rules_.classes : 2, rules_.ignore_index);
  // [samples, classes], and for several classes targets [samples, 1].
  const auto in_rows = [&](const at::Tensor& tensor, std::int64_t columns) {
    return columns == 1 ? tensor.reshape({-1, 1}) : tensor.movedim(1, -1).reshape({-1, columns});
  };
  const std::int64_t columns = is_multiclass ? 1 : rules_.classes;
  const at::Tensor counted = in_rows(targets.counted, columns);
  // Scores are logits if one of those that count says so; with labels, any, as in torchmetrics.
  const bool asks_all = rules_.task == AnswerTask::kMultilabel;
  const at::Tensor scores =
      probabilities(in_rows(outputs, rules_.classes),
                    asks_all ? torch::ones_like(counted) : counted, rules_.task);
  if (thresholds_) {
    const at::Tensor classes = in_rows(targets.classes, columns);
    const at::Tensor label = torch::arange(rules_.classes, classes.options());
    count(scores, is_multiclass ? classes.eq(label).to(at::kLong) : classes, counted);
    return;
  }
  keep(scores, in_rows(target, columns), counted);
}

void AUROC::check_shapes(const at::Tensor& outputs, const at::Tensor& target) const {
  bool fit = outputs.sizes() == target.sizes();
  const char* expected = "scores of the target's shape";
  if (rules_.task == AnswerTask::kMulticlass) {
    fit = outputs.dim() == target.dim() + 1 && outputs.size(1) == rules_.classes &&
          outputs.select(1, 0).sizes() == target.sizes();
    expected = "scores with num_classes in dimension 1";
  } else if (rules_.task == AnswerTask::kMultilabel) {
    fit = fit && outputs.dim() >= 2 && outputs.size(1) == rules_.classes;
    expected = "scores of the target's shape, with num_labels in dimension 1";
  }
  if (!fit || !outputs.is_floating_point()) refuse_shapes(name(), outputs, target, expected);
}

// As torchmetrics' state has them: labels with those that do not count, the others without.
void AUROC::keep(const at::Tensor& scores, const at::Tensor& target, const at::Tensor& counted) {
  const at::Tensor kept = rules_.task == AnswerTask::kBinary ? scores.squeeze(1) : scores;
  const at::Tensor targets = rules_.task == AnswerTask::kMultilabel ? target : target.squeeze(1);
  const bool drops = rules_.ignore_index && rules_.task != AnswerTask::kMultilabel;
  // Dropping waits for the device: the size of the result depends on the targets.
  const at::Tensor rows = counted.flatten();
  scores_.push_back(drops ? kept.index({rows}) : kept.clone());
  targets_.push_back(drops ? targets.index({rows}) : targets.clone());
}

// scores and is_positive: [samples, classes]. counted broadcasts.
void AUROC::count(const at::Tensor& scores, const at::Tensor& is_positive,
                  const at::Tensor& counted) {
  const std::int64_t classes = rules_.classes;
  const std::int64_t bins = *thresholds_ + 1;
  const at::ScalarType dtype = scores.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor thresholds =
      torch::linspace(0, 1, *thresholds_, scores.options().dtype(at::kFloat)).to(dtype);
  // The number of thresholds that a score reaches.
  const at::Tensor bin = torch::bucketize(scores.to(dtype), thresholds, /*out_int32=*/false,
                                          /*right=*/true);
  const at::Tensor label = torch::arange(classes, is_positive.options());
  const at::Tensor samples =
      histogram((label * 2 + is_positive) * bins + bin, counted.expand_as(bin), classes * 2 * bins)
          .reshape({classes, 2, bins});
  // [classes, 2, thresholds]: the samples that reach each threshold.
  const at::Tensor reached = samples.flip(-1).cumsum(-1).flip(-1).slice(-1, 1);
  const at::Tensor missed = samples.sum(-1, /*keepdim=*/true) - reached;
  const at::Tensor matrices = torch::stack({missed, reached}, -1).permute({2, 0, 1, 3});
  confmat_ = plus(confmat_, matrices.reshape(confmat_shape()).contiguous());
}

at::Tensor AUROC::compute() {
  if (thresholds_) {
    if (!confmat_.defined() || confmat_.sum().item<std::int64_t>() == 0) return no_value();
    const at::Tensor matrices = confmat_.reshape({*thresholds_, rules_.classes, 2, 2});
    if (average_ == Average::kMicro) {
      return areas_at_thresholds(matrices.sum(1, /*keepdim=*/true)).squeeze(0);
    }
    return averaged(areas_at_thresholds(matrices), matrices[0].select(1, 1).sum(-1), average_);
  }
  if (scores_.empty()) return no_value();
  const at::Tensor scores = joined(scores_);
  const at::Tensor target = joined(targets_);
  if (!has_counted(target)) return no_value();
  if (rules_.task == AnswerTask::kBinary) return exact_area(scores, target);
  if (average_ == Average::kMicro) return area_of_labels(scores.flatten(), target.flatten());
  std::vector<at::Tensor> areas;
  std::vector<at::Tensor> positives;
  for (std::int64_t i = 0; i < rules_.classes; ++i) {
    const at::Tensor of_class = scores.select(1, i);
    if (rules_.task == AnswerTask::kMulticlass) {
      areas.push_back(exact_area(of_class, target.eq(i)));
      positives.push_back(target.eq(i).sum());
    } else {
      areas.push_back(area_of_labels(of_class, target.select(1, i)));
      positives.push_back(target.select(1, i).eq(1).sum());
    }
  }
  return averaged(torch::stack(areas), torch::stack(positives), average_);
}

bool AUROC::has_counted(const at::Tensor& target) const {
  if (target.numel() == 0 || !rules_.ignore_index) return target.numel() != 0;
  return target.ne(*rules_.ignore_index).any().item<bool>();
}

// Both [samples], with those that do not count.
at::Tensor AUROC::area_of_labels(const at::Tensor& scores, const at::Tensor& target) const {
  if (!rules_.ignore_index) return exact_area(scores, target);
  const at::Tensor counted = target.ne(*rules_.ignore_index);
  return exact_area(scores.index({counted}), target.index({counted}));
}

std::vector<std::int64_t> AUROC::confmat_shape() const {
  if (rules_.task == AnswerTask::kBinary) return {*thresholds_, 2, 2};
  return {*thresholds_, rules_.classes, 2, 2};
}

Value AUROC::state_dict() const {
  if (!thresholds_) {
    return Dict::ordered({{"preds", list_of(scores_)}, {"target", list_of(targets_)}});
  }
  const at::Tensor confmat =
      confmat_.defined() ? confmat_ : torch::zeros(confmat_shape(), at::kLong);
  return Dict::ordered({{"confmat", view_of(confmat)}});
}

void AUROC::load_state_dict(const Value& state) {
  if (thresholds_) {
    confmat_ = metric_sum(name(), state, "confmat", confmat_shape(), at::kLong);
    return;
  }
  const bool is_multilabel = rules_.task == AnswerTask::kMultilabel;
  std::vector<at::Tensor> scores =
      read_list(name(), state, "preds", rules_.task == AnswerTask::kBinary ? 1 : 2);
  std::vector<at::Tensor> targets = read_list(name(), state, "target", is_multilabel ? 2 : 1);
  bool fit = scores.size() == targets.size();
  for (std::size_t i = 0; fit && i < scores.size(); ++i) {
    fit = scores[i].size(0) == targets[i].size(0) &&
          (rules_.task == AnswerTask::kBinary || scores[i].size(1) == rules_.classes) &&
          (!is_multilabel || targets[i].size(1) == rules_.classes);
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
