#include "train/optimizer/state_format.h"

#include <fmt/format.h>

#include "cairn/error.h"

#include "core/text/class_name.h"
#include "train/optimizer/layout_reader.h"
#include "train/optimizer/layout_writer.h"
#include "train/optimizer/torch_layouts.h"

namespace cairn {

Dict write_group(const OptimizerLayout& layout, const torch::optim::OptimizerOptions& options) {
  static const GroupExtras none;
  const GroupExtras* extras = find_extras(options);
  if (extras == nullptr) extras = &none;
  Dict group;
  GroupWriter writer(group, extras->loaded);
  layout.visit_group(writer, *options.clone());  // Visit a copy: visitors may write.
  writer.write_rest(extras->initial_lr);
  return group;
}

Dict write_state(const OptimizerLayout& layout, const LiveState& state) {
  Dict result;
  StateWriter writer(result, state.parameter, state.group.params());
  layout.visit_state(writer, *state.values.clone(), state.group.options());
  return result;
}

std::unique_ptr<torch::optim::OptimizerOptions> read_group(const OptimizerLayout& layout,
                                                           const GroupSource& source,
                                                           std::vector<std::string>& misfits) {
  auto options = layout.with_extras(source.live);
  GroupReader reader(source, misfits);
  layout.visit_group(reader, *options);
  auto& extras = dynamic_cast<GroupExtras&>(*options);
  extras = reader.extras();
  // Composer's optimizers take their current learning rate for the initial one.
  if (layout.has_initial_lr() && !extras.initial_lr) extras.initial_lr = options->get_lr();
  return options;
}

std::unique_ptr<torch::optim::OptimizerParamState> read_state(const OptimizerLayout& layout,
                                                              const StateSource& source,
                                                              std::vector<std::string>& misfits) {
  auto state = layout.make_state();
  StateReader reader(source, misfits);
  layout.visit_state(reader, *state, source.options);
  reader.refuse_the_rest();
  return layout.is_empty(*state) ? nullptr : std::move(state);
}

const OptimizerLayout* find_layout(const torch::optim::Optimizer& optimizer) {
  if (const auto* own = dynamic_cast<const OptimizerLayout*>(&optimizer)) return own;
  return find_torch_layout(optimizer);
}

const OptimizerLayout& layout_of(const torch::optim::Optimizer& optimizer) {
  if (const OptimizerLayout* found = find_layout(optimizer)) return *found;
  throw UnsupportedError(fmt::format(
      "the optimizer {} cannot be saved or loaded: it does not say what its state is. Do one of:\n"
      "  derive it from cairn::OptimizerOf (cairn/optim/own_optimizer.h)\n"
      "  give it the second base cairn::LayoutOf (cairn/train/optimizer_layout.h), "
      "a few lines\n"
      "  use an optimizer of cairn/optim/optimizers.h",
      class_name(typeid(optimizer))));
}

void OptimizerLayout::refuse_class(const char* what, const std::type_info& found) const {
  throw UsageError(fmt::format(
      "{}: its {} are a {}, not of the class that its layout names (LayoutOf<Options, State>): "
      "name the classes that the optimizer puts into its groups and states",
      python_name(), what, class_name(found)));
}

void GroupFields::pair(const char* key, std::tuple<double, double>& values) {
  std::array<double, 2> numbers = {std::get<0>(values), std::get<1>(values)};
  pair(key, numbers);
  values = {numbers[0], numbers[1]};
}

}  // namespace cairn
