// Checks of an optimizer's options.
#pragma once

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "cairn/error.h"

namespace cairn {

// Throws UsageError naming the optimizer and the first option that is out of range.
class OptionChecks {
 public:
  explicit OptionChecks(std::string_view optimizer) : optimizer_(optimizer) {}

  void not_negative(std::string_view option, double value) const {
    if (!(value >= 0)) refuse(option, value, "0 or more");
  }
  void positive(std::string_view option, double value) const {
    if (!(value > 0)) refuse(option, value, "more than 0");
  }
  void between(std::string_view option, double value, std::array<double, 2> limits) const {
    if (!(value >= limits[0] && value <= limits[1])) {
      refuse(option, value, fmt::format("from {} to {}", limits[0], limits[1]));
    }
  }
  void betas(const std::array<double, 2>& betas) const {
    for (const double beta : betas) {
      if (!(beta >= 0 && beta < 1)) refuse("betas", beta, "numbers in [0, 1)");
    }
  }
  void etas(const std::array<double, 2>& etas) const {
    if (!(etas[0] > 0 && etas[0] < 1)) refuse("etas", etas[0], "between 0 and 1, then more than 1");
    if (!(etas[1] > 1)) refuse("etas", etas[1], "between 0 and 1, then more than 1");
  }
  void nesterov(bool nesterov, double momentum, double dampening) const {
    if (nesterov && (momentum <= 0 || dampening != 0)) {
      throw UsageError(
          fmt::format("{}: nesterov needs a momentum and no dampening, found momentum "
                      "{} and dampening {}",
                      optimizer_, momentum, dampening));
    }
  }

  // Options that several optimizers have.
  void sgd(const auto& options) const {
    not_negative("lr", options.lr);
    not_negative("momentum", options.momentum);
    not_negative("weight_decay", options.weight_decay);
    nesterov(options.nesterov, options.momentum, options.dampening);
  }
  void adam(const auto& options) const {
    not_negative("lr", options.lr);
    betas(options.betas);
    not_negative("eps", options.eps);
    not_negative("weight_decay", options.weight_decay);
  }

 private:
  void refuse(std::string_view option, double value, std::string_view wanted) const {
    throw UsageError(fmt::format("{}: {} must be {}, found {}", optimizer_, option, wanted, value));
  }
  std::string_view optimizer_;
};

}  // namespace cairn
