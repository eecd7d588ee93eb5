#include "format/checkpoint_plan.h"

namespace cairn {
namespace {

// Of a plan that does nothing until all checks are known.
class TailAtOnce final : public CheckpointPlan::Tail {
 public:
  explicit TailAtOnce(const CheckpointPlan& plan) : plan_(plan) {}

  void add(std::uint64_t /*check*/) override {}
  std::vector<std::string> finish(std::span<const std::uint64_t> checks) override {
    std::vector<std::string> texts(1);
    plan_.append_between(plan_.parts().size(), checks, texts[0]);
    return texts;
  }

 private:
  const CheckpointPlan& plan_;
};

}  // namespace

std::unique_ptr<CheckpointPlan::Tail> CheckpointPlan::begin_tail() const {
  return std::make_unique<TailAtOnce>(*this);
}

}  // namespace cairn
