#include "cairn/time.h"

const cairn::Time kTime(1.5, cairn::TimeUnit::kEpoch);
