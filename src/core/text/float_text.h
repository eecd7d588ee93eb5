// Floats as Python writes them.
#pragma once

#include <string>

namespace cairn {

// repr(float): the shortest text that reads back as the same float. "36000.0", "0.1", "1e+16",
// "1e-05", "-0.0", "inf", "nan".
std::string python_float_repr(double value);

}  // namespace cairn
