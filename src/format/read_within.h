// Reads one of several torch.save files that share one memory budget.
#pragma once

#include <string>
#include <vector>

#include "cairn/format/torch_file.h"

#include "io/memory/memory_budget.h"

namespace cairn {

// Reads the file as file.read() does, with a budget that other files use, too.
Value read_within(const TorchFile& file, MemoryBudget& budget,
                  const std::vector<std::string>& data_classes = {});

}  // namespace cairn
