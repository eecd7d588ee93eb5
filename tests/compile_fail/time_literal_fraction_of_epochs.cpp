#include "cairn/time.h"

using cairn::operator""_time;
const cairn::Time kTime = "1.5ep"_time;
