#include "cairn/algorithms/draws.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>

#include "cairn/error.h"

namespace cairn {

// The first of two numbers that a Dirichlet distribution gives is distributed as Beta. For a small
// alpha both of libtorch's numbers underflow, so Joehnk's method is used, with logarithms. It draws
// x = u^(1/alpha) and y = v^(1/alpha) until x + y <= 1. Then x / (x + y) is distributed as Beta.
double Draws::beta(double alpha) {
  if (!(alpha > 0)) {
    throw UsageError(fmt::format("Draws::beta: alpha must be more than 0, found {}", alpha));
  }
  while (alpha <= 1) {
    const at::Tensor uniform = at::rand({2}, at::kDouble);
    const double log_x = std::log(uniform[0].item<double>()) / alpha;
    const double log_y = std::log(uniform[1].item<double>()) / alpha;
    if (std::exp(log_x) + std::exp(log_y) > 1) continue;
    const double share = 1 / (1 + std::exp(log_y - log_x));
    if (!std::isnan(share)) return share;
  }
  return at::_sample_dirichlet(at::full({2}, alpha, at::kDouble))[0].item<double>();
}

std::int64_t Draws::integer(std::int64_t low, std::int64_t high) {
  if (low >= high) {
    throw UsageError(
        fmt::format("Draws::integer: there is no integer from {} to below {}", low, high));
  }
  return at::randint(low, high, {1}, at::kLong).item<std::int64_t>();
}

at::Tensor Draws::permutation(std::int64_t size) { return at::randperm(size, at::kLong); }

at::Tensor Draws::choice(const at::Tensor& weights, std::int64_t count) {
  if (count < 0 || weights.dim() != 1 || count > weights.size(0)) {
    throw UsageError(fmt::format("Draws::choice: cannot choose {} of {} different positions", count,
                                 weights.numel()));
  }
  if (count == 0) return at::empty({0}, at::kLong);
  return at::multinomial(weights, count, /*replacement=*/false);
}

}  // namespace cairn
