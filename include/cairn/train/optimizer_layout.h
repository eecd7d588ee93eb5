// Describes the content of Python's state_dict() of an optimizer: the keys of a parameter group and
// of a parameter's state. Each key is written down once, for saving and for loading.
//
// With cairn/optim/own_optimizer.h you write an optimizer of your own in a few lines. A class that
// already derives from torch::optim::Optimizer, with options and states in libtorch's form, adds a
// second base instead:
//
//   class Lion : public torch::optim::Optimizer, public cairn::LayoutOf<LionOptions, LionState> {
//     std::string python_name() const override { return "Lion"; }
//     void describe_group(cairn::GroupFields& group, LionOptions& options) const override {
//       group.number("lr", options.lr());
//       group.pair("betas", options.betas());
//     }
//     void describe_state(cairn::StateFields& state, LionState& values,
//                         const LionOptions&) const override {
//       state.tensor("exp_avg", values.exp_avg());
//     }
//
// Checkpoints then hold the optimizer's state, by parameter names, with the keys that Python's
// class of that name would write. The optimizer loads checkpoints of cairn and of Python.
#pragma once

#include <torch/optim/optimizer.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cairn/export.h"
#include "cairn/value.h"

namespace CAIRN_PUBLIC cairn {

// The keys of a parameter group, in Python's order. Saving reads the values, loading sets them. If
// a file lacks a key, or has the key with another type, the key is listed as a misfit, unless
// stated otherwise.
class GroupFields {
 public:
  virtual ~GroupFields() = default;

  void number(const char* key, double& value) { visit(key, value, std::nullopt); }
  // An option whose default in Python is an int (weight_decay=0): written as an int as long as it
  // has the default value.
  void number(const char* key, double& value, std::int64_t python_default) {
    visit(key, value, python_default);
  }
  // A count: an int in Python.
  virtual void whole(const char* key, std::int64_t& value) = 0;
  virtual void flag(const char* key, bool& value) = 0;
  // A flag that older releases of PyTorch do not write: if a file lacks it, `value` does not
  // change.
  virtual void newer_flag(const char* key, bool& value) = 0;
  virtual void text_or_none(const char* key, std::optional<std::string>& value) = 0;
  void pair(const char* key, std::array<double, 2>& values) { pair(key, values, None{}); }
  // As above, but written as `python_default`, a tuple, as long as `values` equals it.
  virtual void pair(const char* key, std::array<double, 2>& values,
                    const Value& python_default) = 0;
  void pair(const char* key, std::tuple<double, double>& values);
  virtual void pair(const char* key, std::pair<std::optional<double>, double>& values) = 0;

  // A key without effect in cairn ("foreach"): written as `value`, or as a loaded file had it.
  virtual void python_only(const char* key, const Value& value) = 0;
  // A key that cairn does not implement ("maximize"). Throws UnsupportedError for a file with
  // another value, since training would continue differently.
  virtual void must_be(const char* key, bool wanted) = 0;
  // As must_be(), but written only if a loaded file had it.
  virtual void must_be_if_present(const char* key, bool wanted) = 0;
  // A flag that newer releases write; kept in GroupExtras::loaded.
  virtual void flag_if_present(const char* key) = 0;

 private:
  virtual void visit(const char* key, double& value, std::optional<std::int64_t> as_int) = 0;
};

struct TensorField {
  bool required = true;                      // if false, written when defined, and may be absent
  bool or_none = false;                      // None in Python while undefined
  std::optional<Dims> shape = std::nullopt;  // nullopt: the parameter's shape
};

// The keys of a parameter's state, in Python's order.
class StateFields {
 public:
  virtual ~StateFields() = default;

  // The parameter, and all parameters of its group.
  virtual const at::Tensor& parameter() const = 0;
  virtual const std::vector<at::Tensor>& group() const = 0;

  // A tensor that is on the parameter's device after loading and, if it is a float, has the
  // parameter's dtype. On devices other than the CPU its elements arrive later, so describe_state()
  // and is_empty() must not read them.
  virtual void tensor(const char* key, at::Tensor& value, const TensorField& field) = 0;
  void tensor(const char* key, at::Tensor& value) { tensor(key, value, {}); }
  // A list of such tensors, each of TensorField's shape or None; written if there is one.
  virtual void tensors(const char* key, std::optional<std::vector<at::Tensor>>& values,
                       const TensorField& field) = 0;
  // A tensor without dimensions on the CPU, whose dtype is kept; also read from Python's numbers.
  // Written when defined, and may be absent if `required` is false.
  virtual void scalar(const char* key, at::Tensor& value, bool required) = 0;
  void scalar(const char* key, at::Tensor& value) { scalar(key, value, true); }
  // The number of steps in a float32 tensor, as in PyTorch since 1.12; also read from an int.
  virtual void step(const char* key, std::int64_t& value) = 0;
  // A Python int.
  virtual void count(const char* key, std::int64_t& value) = 0;
  // A Python float; written if there is one.
  virtual void number(const char* key, std::optional<double>& value) = 0;
};

// Python's entries of a parameter group besides the class's options. These entries are added with
// the group's first scheduler or load. Adding them invalidates earlier references to the group's
// options.
struct GroupExtras {
  std::optional<double> initial_lr = std::nullopt;  // group["initial_lr"]
  Dict loaded = {};  // the group in the last loaded file: keys that keep its form when saved again
};

template <class Options>
class OptionsWithExtras final : public Options, public GroupExtras {
 public:
  explicit OptionsWithExtras(const Options& options) : Options(options) {}
  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override {
    return std::make_unique<OptionsWithExtras>(*this);
  }
};

// The layout of one class of optimizer. Derive from LayoutOf, which knows the types.
class OptimizerLayout {
 public:
  virtual ~OptimizerLayout() = default;

  // The class's name in Python. Checkpoints store the state under this name.
  virtual std::string python_name() const = 0;
  // Whether step() needs a closure, which it may call several times (LBFGS).
  virtual bool needs_closure() const { return false; }
  // Whether groups have "initial_lr" from their construction on, as Composer's optimizers do.
  virtual bool has_initial_lr() const { return false; }

  virtual void visit_group(GroupFields& group, torch::optim::OptimizerOptions& options) const = 0;
  virtual void visit_state(StateFields& state, torch::optim::OptimizerParamState& values,
                           const torch::optim::OptimizerOptions& options) const = 0;
  virtual std::unique_ptr<torch::optim::OptimizerParamState> make_state() const = 0;
  // A copy with GroupExtras.
  virtual std::unique_ptr<torch::optim::OptimizerOptions> with_extras(
      const torch::optim::OptimizerOptions& options) const = 0;

  // The state of a parameter before its first step; nullptr: none.
  virtual std::unique_ptr<torch::optim::OptimizerParamState> initial_state(
      const at::Tensor& /*parameter*/, const torch::optim::OptimizerOptions& /*options*/) const {
    return nullptr;
  }
  // Whether a loaded state means that the parameter has no state.
  virtual bool is_empty(const torch::optim::OptimizerParamState& /*state*/) const { return false; }

 protected:
  // Throws UsageError: a group's options, or a state, are not of the class that the layout names.
  [[noreturn]] void refuse_class(const char* what, const std::type_info& found) const;
};

template <class Options, class State>
class LayoutOf : public OptimizerLayout {
  static_assert(std::is_base_of_v<torch::optim::OptimizerOptions, Options> &&
                    (!std::is_final_v<Options> || std::is_base_of_v<GroupExtras, Options>),
                "LayoutOf<Options, State>: Options derives from torch::optim::OptimizerOptions and "
                "is not final");
  static_assert(std::is_base_of_v<torch::optim::OptimizerParamState, State>,
                "LayoutOf<Options, State>: State derives from torch::optim::OptimizerParamState");

 protected:
  virtual void describe_group(GroupFields& group, Options& options) const = 0;
  virtual void describe_state(StateFields& state, State& values, const Options& options) const = 0;

  template <class Type, class Base>
  Type& as(Base& object, const char* what) const {
    auto* found = dynamic_cast<Type*>(&object);
    if (found == nullptr) refuse_class(what, typeid(object));
    return *found;
  }

 private:
  void visit_group(GroupFields& group, torch::optim::OptimizerOptions& options) const final {
    describe_group(group, as<Options>(options, "options"));
  }
  void visit_state(StateFields& state, torch::optim::OptimizerParamState& values,
                   const torch::optim::OptimizerOptions& options) const final {
    describe_state(state, as<State>(values, "state"), as<const Options>(options, "options"));
  }
  std::unique_ptr<torch::optim::OptimizerParamState> make_state() const final {
    return std::make_unique<State>();
  }
  std::unique_ptr<torch::optim::OptimizerOptions> with_extras(
      const torch::optim::OptimizerOptions& options) const final {
    if constexpr (!std::is_base_of_v<GroupExtras, Options>) {
      if (dynamic_cast<const GroupExtras*>(&options) == nullptr) {
        return std::make_unique<OptionsWithExtras<Options>>(as<const Options>(options, "options"));
      }
    }
    return options.clone();
  }
};

}  // namespace cairn
