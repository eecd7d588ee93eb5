#include "cairn/time.h"

using cairn::operator""_time;
const cairn::Time kTime = "5"_time;
