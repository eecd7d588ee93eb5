// The cases of tests/data/torch-1.13/optimizer_steps.pt and adafactor.pt (write_optimizers.py) as
// recipes, for tests in C++ and programs that Python reads.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/optim/optimizers.h"
#include "cairn/train/state_dict.h"

namespace cairn::testing {

struct OptimizerCase {
  std::string name;
  std::shared_ptr<OptimizerRecipe> recipe;
};
inline void PrintTo(const OptimizerCase& made, std::ostream* out) {  // NOLINT: gtest's name
  *out << made.name;
}

using OptimizerCases = std::vector<OptimizerCase>;

inline auto adder(OptimizerCases& cases) {
  return [&]<class Recipe>(const char* name, const Recipe& recipe) {
    cases.push_back({name, std::make_shared<Recipe>(recipe)});
  };
}

// The optimizers of libtorch's C++ API, except LBFGS.
inline void add_old_cases(OptimizerCases& cases) {
  const auto add = adder(cases);
  add("SGD", SGD());
  add("SGD_momentum", SGD({.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.1}));
  add("SGD_nesterov", SGD({.lr = 0.1, .momentum = 0.9, .nesterov = true}));
  add("SGD_sparse", SGD({.lr = 0.1}));
  add("SGD_complex", SGD({.lr = 0.1, .momentum = 0.9}));
  add("Adam", Adam());
  add("Adam_options", Adam({.lr = 0.1, .betas = {0.8, 0.9}, .weight_decay = 0.1, .amsgrad = true}));
  add("Adam_complex", Adam({.lr = 0.1}));
  add("AdamW", AdamW());
  add("AdamW_options", AdamW({.lr = 0.1, .weight_decay = 0.1, .amsgrad = true}));
  add("AdamW_complex", AdamW({.lr = 0.1}));
  add("RMSprop", RMSprop());
  add("RMSprop_options",
      RMSprop({.lr = 0.1, .alpha = 0.9, .weight_decay = 0.1, .momentum = 0.5, .centered = true}));
  add("RMSprop_complex", RMSprop({.lr = 0.1, .momentum = 0.5, .centered = true}));
  add("Adagrad", Adagrad());
  add("Adagrad_options",
      Adagrad({.lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.1, .initial_accumulator_value = 0.5}));
  add("Adagrad_sparse", Adagrad({.lr = 0.1}));
  add("Adagrad_complex", Adagrad({.lr = 0.1}));
}

inline OptimizerCases optimizer_cases() {
  OptimizerCases cases;
  add_old_cases(cases);
  const auto add = adder(cases);
  add("Adadelta", Adadelta());
  add("Adadelta_options",
      Adadelta({.lr = 0.5, .rho = 0.8, .eps = 1e-5, .weight_decay = 0.1, .maximize = true}));
  add("Adadelta_complex", Adadelta());
  add("Adamax", Adamax());
  add("Adamax_options",
      Adamax({.lr = 0.1, .betas = {0.8, 0.9}, .weight_decay = 0.1, .maximize = true}));
  add("Adamax_complex", Adamax({.lr = 0.1}));
  add("NAdam", NAdam());
  add("NAdam_options",
      NAdam({.lr = 0.1, .betas = {0.8, 0.9}, .weight_decay = 0.1, .momentum_decay = 0.1}));
  add("RAdam", RAdam());
  add("RAdam_options", RAdam({.lr = 0.1, .betas = {0.8, 0.5}, .weight_decay = 0.1}));
  add("ASGD", ASGD());
  add("ASGD_options", ASGD({.lr = 0.1,
                            .lambd = 0.01,
                            .alpha = 0.5,
                            .t0 = 2,
                            .weight_decay = 0.1,
                            .maximize = true}));
  add("ASGD_complex", ASGD({.lr = 0.1}));
  add("Rprop", Rprop());
  add("Rprop_options",
      Rprop({.lr = 0.1, .etas = {0.4, 1.5}, .step_sizes = {0.01, 0.2}, .maximize = true}));
  add("Rprop_complex", Rprop());
  add("LBFGS", LBFGS());
  add("LBFGS_options",
      LBFGS({.lr = 0.5, .max_iter = 3, .history_size = 2, .line_search_fn = "strong_wolfe"}));
  add("SparseAdam", SparseAdam());
  add("SparseAdam_options", SparseAdam({.lr = 0.1, .betas = {0.8, 0.9}, .maximize = true}));
  add("Adafactor", Adafactor());
  add("Adafactor_options",
      Adafactor(
          {.lr = 0.5, .beta2_decay = -0.5, .eps = {1e-4, 1e-2}, .d = 1.5, .weight_decay = 0.1}));
  return cases;
}

// "w0", "w1", ... (Appended, because GCC 12 warns about `"w" + std::string` here: its bug 105651.)
inline std::string weight_name(std::size_t i) {
  std::string name = "w";
  return name.append(std::to_string(i));
}

// The weights of a case as a module, with its optimizer and its steps.
class CaseRun {
 public:
  CaseRun(const OptimizerRecipe& recipe, const Value& file, const List& weights) : file_(file) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      module->register_parameter(weight_name(i), tensor_of(weights[i].as_tensor()).clone());
    }
    optimizer = recipe.create(module->parameters());
  }

  void step(std::size_t k) {
    const List& gradients = file_.at("gradients").as_items();
    if (gradients.empty()) {  // LBFGS
      optimizer->step([&] {
        optimizer->zero_grad();
        at::Tensor value = loss();
        value.backward();
        return value;
      });
      return;
    }
    const List& of_step = gradients[k].as_items();
    for (std::size_t i = 0; i < of_step.size(); ++i) {
      module->parameters()[i].mutable_grad() = gradient_of(of_step[i]);
    }
    optimizer->step();
  }

  Value state() const { return optimizer_state_dict(*optimizer, *module); }

  std::shared_ptr<torch::nn::Module> module = std::make_shared<torch::nn::Module>();
  std::shared_ptr<torch::optim::Optimizer> optimizer;

 private:
  static at::Tensor gradient_of(const Value& value) {
    if (value.is_none()) return {};
    if (value.is_tensor()) return tensor_of(value.as_tensor());
    return torch::sparse_coo_tensor(tensor_of(value.at("rows").as_tensor()).unsqueeze(0),
                                    tensor_of(value.at("values").as_tensor()), {5, 3});
  }
  // `loss` of write_optimizers.py.
  at::Tensor loss() const {
    at::Tensor sum = module->parameters()[0].sum() * 0.1;
    for (const at::Tensor& parameter : module->parameters()) {
      sum = sum + (parameter.square() - 1).square().sum();
    }
    return sum;
  }

  const Value& file_;
};

}  // namespace cairn::testing
