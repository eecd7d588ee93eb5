// Shapes that several schedulers share.
#pragma once

#include <vector>

#include "cairn/export.h"
#include "cairn/time.h"

namespace CAIRN_PUBLIC cairn {
class State;
}  // namespace cairn

namespace cairn {

// Both curves go from 1 at fraction 0 to alpha_f at fraction 1 and beyond.
double cosine_anneal(double fraction, double alpha_f);
double polynomial_anneal(double fraction, double power, double alpha_f);

// gamma to the power of the number of milestones that the state has reached.
double multi_step(const State& state, const std::vector<Time>& milestones, double gamma,
                  double ssr);

}  // namespace cairn
