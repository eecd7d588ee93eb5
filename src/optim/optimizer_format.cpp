#include "optim/optimizer_format.h"

#include <array>
#include <cstring>

#include "cairn/error.h"
#include "cairn/train/state_dict.h"

#include "optim/format_reader.h"
#include "optim/layout.h"

namespace cairn {
namespace {

// --- The visitors of layout.h that write
// ----------------------------------------------------------

struct GroupWriter {
  Dict& group;
  const Dict& kept;  // Python-only options of the file that was loaded

  void number(const char* key, double value) { group.set(key, value); }
  void flag(const char* key, bool value) { group.set(key, value); }
  template <class Pair>
  void betas(const char* key, const Pair& betas) {
    group.set(key, Tuple{{std::get<0>(betas), std::get<1>(betas)}});
  }
  void python_only(const char* key, const Value& default_value) {
    const Value* value = kept.find(key);
    group.set(key, value != nullptr ? *value : default_value);
  }
  void must_be(const char* key, bool wanted) { group.set(key, wanted); }
  void must_be_if_present(const char* /*key*/, bool /*wanted*/) {}  // kept when it was there
};

template <class Number>
TensorView scalar(DType dtype, Number number) {
  const auto owner = std::make_shared<const Number>(number);
  return make_tensor(dtype, {}, {std::as_bytes(std::span(owner.get(), 1)), owner});
}

struct StateWriter {
  Dict& state;

  // PyTorch keeps a float32 scalar, in which counting ends at 2^24; it takes float64 as well.
  void step(const char* key, std::int64_t step) {
    constexpr std::int64_t kLastExact = 1 << 24;
    state.set(key, step <= kLastExact ? scalar(DType::kFloat32, static_cast<float>(step))
                                      : scalar(DType::kFloat64, static_cast<double>(step)));
  }
  void tensor(const char* key, const at::Tensor& value) { tensor_if(true, key, value); }
  void tensor_if(bool /*required*/, const char* key, const at::Tensor& value) {
    if (value.defined()) state.set(key, view_of(value));
  }
  void tensor_or_none(const char* key, const at::Tensor& value) {
    state.set(key, value.defined() ? Value(view_of(value)) : Value(None{}));
  }
};

// --- The interface over a layout
// ------------------------------------------------------------------

template <class Layout>
class FormatOf final : public OptimizerFormat {
  using Options = typename Layout::Options;
  using State = typename Layout::State;
  static constexpr bool kHasExtras = std::is_base_of_v<GroupExtras, Options>;

 public:
  std::string name() const override { return Layout::kName; }

  Dict write_group(const torch::optim::OptimizerOptions& options) const override {
    static const GroupExtras none;
    const GroupExtras* extras = find_extras(options);
    if (extras == nullptr) extras = &none;
    Dict group;
    GroupWriter writer{group, extras->python_only};
    Layout::visit_group(writer, static_cast<const Options&>(options));
    for (const auto& [key, value] : extras->python_only) {
      if (group.find(key) == nullptr) group.set(key, value);
    }
    if (extras->initial_lr) group.set("initial_lr", *extras->initial_lr);
    return group;
  }

  std::unique_ptr<torch::optim::OptimizerOptions> read_group(
      const GroupSource& source, std::vector<std::string>& misfits) const override {
    auto options = with_extras(source.live);
    GroupReader reader(source, misfits);
    Layout::visit_group(reader, static_cast<Options&>(*options));
    auto& extras = dynamic_cast<GroupExtras&>(*options);
    extras = reader.extras();
    // Composer's optimizers take the learning rate that they have for the initial one.
    if (kHasExtras && !extras.initial_lr) extras.initial_lr = options->get_lr();
    return options;
  }

  std::unique_ptr<torch::optim::OptimizerOptions> with_extras(
      const torch::optim::OptimizerOptions& options) const override {
    if (find_extras(options) != nullptr) return options.clone();
    if constexpr (!kHasExtras) {
      return std::make_unique<OptionsWithExtras<Options>>(static_cast<const Options&>(options));
    }
    return options.clone();
  }

  Dict write_state(const torch::optim::OptimizerParamState& state,
                   const torch::optim::OptimizerOptions& options) const override {
    Dict result;
    StateWriter writer{result};
    Layout::visit_state(writer, static_cast<const State&>(state),
                        static_cast<const Options&>(options));
    return result;
  }

  std::unique_ptr<torch::optim::OptimizerParamState> read_state(
      const StateSource& source, std::vector<std::string>& misfits) const override {
    auto state = std::make_unique<State>();
    StateReader reader(source, misfits);
    Layout::visit_state(reader, *state, static_cast<const Options&>(source.options));
    reader.refuse_the_rest();
    if constexpr (requires { Layout::is_empty(*state); }) {
      if (Layout::is_empty(*state)) return nullptr;
    }
    return state;
  }

  std::unique_ptr<torch::optim::OptimizerParamState> initial_state(
      const at::Tensor& parameter, const torch::optim::OptimizerOptions& options) const override {
    if constexpr (requires { &Layout::initial_state; }) {
      return Layout::initial_state(parameter, static_cast<const Options&>(options));
    } else {
      return nullptr;
    }
  }
};

template <class Layout>
const OptimizerFormat* format_if(const torch::optim::Optimizer& optimizer) {
  static const FormatOf<Layout> format;
  return dynamic_cast<const typename Layout::Optimizer*>(&optimizer) != nullptr ? &format : nullptr;
}

}  // namespace

const OptimizerFormat* find_format(const torch::optim::Optimizer& optimizer) {
  constexpr std::array kFormats = {format_if<SGDLayout>,           format_if<AdamLayout>,
                                   format_if<AdamWLayout>,         format_if<RMSpropLayout>,
                                   format_if<AdagradLayout>,       format_if<DecoupledSGDWLayout>,
                                   format_if<DecoupledAdamWLayout>};
  for (const auto& format : kFormats) {
    if (const OptimizerFormat* found = format(optimizer)) return found;
  }
  return nullptr;
}

const OptimizerFormat& format_of(const torch::optim::Optimizer& optimizer) {
  if (const OptimizerFormat* found = find_format(optimizer)) return *found;
  throw UnsupportedError(
      std::string("cairn cannot save or load an optimizer of class ") + typeid(optimizer).name() +
      "; use SGD, Adam, AdamW, RMSprop, Adagrad, DecoupledSGDW or DecoupledAdamW");
}

}  // namespace cairn
