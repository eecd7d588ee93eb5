// Reading one of many torch.save files that are paid for together.
#pragma once

#include <string>
#include <vector>

#include "cairn/format/torch_file.h"

#include "io/memory/memory_budget.h"

namespace cairn {

// As file.read(), from a budget that others use, too.
Value read_within(const TorchFile& file, MemoryBudget& budget,
                  const std::vector<std::string>& data_classes = {});

}  // namespace cairn
