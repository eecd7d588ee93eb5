#include "cairn/schedulers/schedulers.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cairn/error.h"

#include "schedulers/convert_time.h"
#include "schedulers/curves.h"

namespace cairn {
namespace {

void require(double value, const char* what) {
  if (std::isnan(value)) throw UsageError(std::string(what) + " is required");
}

bool is_before(const State& state, const Time& time) { return current_time(state, time) < time; }

class FunctionScheduler final : public ComposerScheduler {
 public:
  explicit FunctionScheduler(std::function<double(const State&, double)> function)
      : function_(std::move(function)) {}
  double operator()(const State& state, double ssr) const override { return function_(state, ssr); }

 private:
  std::function<double(const State&, double)> function_;
};

}  // namespace

std::shared_ptr<ComposerScheduler> function_scheduler(
    std::function<double(const State& state, double ssr)> function) {
  if (!function) throw UsageError("function_scheduler: the function is empty");
  return std::make_shared<FunctionScheduler>(std::move(function));
}

double cosine_anneal(double fraction, double alpha_f) {
  const double angle = std::numbers::pi * std::clamp(fraction, 0.0, 1.0);
  return alpha_f + (1 - alpha_f) * (1 + std::cos(angle)) / 2;
}

double polynomial_anneal(double fraction, double power, double alpha_f) {
  return alpha_f + (1 - alpha_f) * std::pow(1 - std::min(1.0, fraction), power);
}

double multi_step(const State& state, const std::vector<Time>& milestones, double gamma,
                  double ssr) {
  double alpha = 1;
  for (const Time& milestone : milestones) {
    if (!is_before(state, convert_time(milestone, state, ssr))) alpha *= gamma;
  }
  return alpha;
}

double StepScheduler::operator()(const State& state, double ssr) const {
  const double steps = fraction_of(state, convert_time(options_.step_size, state, ssr));
  return std::pow(options_.gamma, std::floor(steps));
}

double MultiStepScheduler::operator()(const State& state, double ssr) const {
  return multi_step(state, options_.milestones, options_.gamma, ssr);
}

double ConstantScheduler::operator()(const State& state, double ssr) const {
  return is_before(state, convert_time(options_.t_max, state, ssr)) ? options_.alpha : 1.0;
}

double LinearScheduler::operator()(const State& state, double ssr) const {
  const double part = std::min(1.0, fraction_of(state, convert_time(options_.t_max, state, ssr)));
  return options_.alpha_i + part * (options_.alpha_f - options_.alpha_i);
}

ExponentialScheduler::ExponentialScheduler(ExponentialSchedulerOptions options)
    : options_(options) {
  require(options.gamma, "ExponentialScheduler: gamma");
}

double ExponentialScheduler::operator()(const State& state, double ssr) const {
  return std::pow(options_.gamma,
                  fraction_of(state, convert_time(options_.decay_period, state, ssr)));
}

double CosineAnnealingScheduler::operator()(const State& state, double ssr) const {
  return cosine_anneal(fraction_of(state, convert_time(options_.t_max, state, ssr)),
                       options_.alpha_f);
}

double CosineAnnealingWarmRestartsScheduler::operator()(const State& state, double ssr) const {
  const Time first = convert_time(options_.t_0, state, ssr);
  const std::int64_t now = current_time(state, first).value();
  std::int64_t length = first.value();
  std::int64_t end = length;
  if (length > 0 && options_.t_mult == 1) {  // no need to walk: all cycles are equal
    end = (now / length + 1) * length;
  }
  while (end <= now) {
    if (length <= 0) {
      throw UsageError(
          "CosineAnnealingWarmRestartsScheduler: a cycle has length 0; t_0 is too short, or t_mult "
          "is less than 1");
    }
    length = static_cast<std::int64_t>(options_.t_mult * static_cast<double>(length));
    end += length;
  }
  if (length <= 0) {
    throw UsageError("CosineAnnealingWarmRestartsScheduler: t_0 came out as " + first.to_string());
  }
  return cosine_anneal(static_cast<double>(now - (end - length)) / static_cast<double>(length),
                       options_.alpha_f);
}

PolynomialScheduler::PolynomialScheduler(PolynomialSchedulerOptions options) : options_(options) {
  require(options.power, "PolynomialScheduler: power");
}

double PolynomialScheduler::operator()(const State& state, double ssr) const {
  return polynomial_anneal(fraction_of(state, convert_time(options_.t_max, state, ssr)),
                           options_.power, options_.alpha_f);
}

}  // namespace cairn
