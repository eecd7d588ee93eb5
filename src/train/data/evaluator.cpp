#include "cairn/train/evaluator.h"

namespace cairn {

EvaluatorList::EvaluatorList(DataSpec dataloader)
    : EvaluatorList(Evaluator{.dataloader = std::move(dataloader)}) {}

EvaluatorList::EvaluatorList(Evaluator evaluator) { items_.push_back(std::move(evaluator)); }

EvaluatorList::EvaluatorList(std::initializer_list<Evaluator> evaluators) : items_(evaluators) {}

EvaluatorList::EvaluatorList(std::vector<Evaluator> evaluators) : items_(std::move(evaluators)) {}

}  // namespace cairn
