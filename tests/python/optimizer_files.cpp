// Writes the files that optimizers_test.py reads. optimizer_files OPTIMIZER_STEPS FOLDER runs each
// case of optimizer_steps.pt for three steps, and saves the optimizer's state_dict as
// FOLDER/CASE.pt. It also saves FOLDER/Lion.pt, of a user's optimizer with the gradients of the
// case Adam.
#include <torch/torch.h>

#include <iostream>

#include "cairn/checkpoint/checkpoint.h"

#include "testing/lion.h"
#include "testing/optimizer_cases.h"

namespace {

using cairn::testing::CaseRun;

void write(const cairn::OptimizerRecipe& recipe, const cairn::Value& file,
           const std::string& path) {
  CaseRun run(recipe, file, file.at("start").as_items());
  for (std::size_t k = 0; k < 3; ++k)
    run.step(k);
  cairn::save(cairn::Dict{{"model", cairn::state_dict(*run.module)}, {"optimizer", run.state()}},
              path);
}

void write_all(const std::string& steps, const std::string& folder) {
  const cairn::Value file = cairn::load(steps);
  for (const auto& [name, recipe] : cairn::testing::optimizer_cases()) {
    if (const cairn::Value* found = file.find(name)) {
      write(*recipe, *found, folder + "/" + name + ".pt");
    }
  }
  write(cairn::RecipeOf<cairn::testing::Lion>({.lr = 0.1, .weight_decay = 0.1}), file.at("Adam"),
        folder + "/Lion.pt");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: optimizer_files OPTIMIZER_STEPS FOLDER\n";
    return 2;
  }
  try {
    write_all(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "optimizer_files: " << e.what() << "\n";
    return 1;
  }
}
