// Makes a shared pointer to a recipe, for the lists of the tests.
#pragma once

#include <memory>

#include "cairn/optim/optimizers.h"

namespace cairn::testing {

template <class Recipe>
std::shared_ptr<OptimizerRecipe> share(Recipe recipe) {
  return std::make_shared<Recipe>(recipe);
}

}  // namespace cairn::testing
