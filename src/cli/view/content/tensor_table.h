// The tensors of an object in a table, one per row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cairn/dtensor.h"
#include "cairn/value.h"

#include "cli/view/console.h"
#include "cli/view/content/tensor_stats.h"
#include "core/text/json_fwd.h"

namespace cairn::cli {

struct TensorRow {
  std::string path;
  const TensorView* tensor;  // belongs to the object, which must outlive the row
  std::optional<TensorStats> stats = std::nullopt;
  // For the shard of a DTensor: the full tensor, and its distribution.
  std::optional<DTensor> distributed = std::nullopt;

  std::uint64_t bytes() const;
};

// The tensors that the patterns name: see matches_path().
std::vector<TensorRow> find_tensors(const Value& value, const std::vector<std::string>& patterns);

// Reads every tensor of the rows, on all cores, with a progress bar.
void add_stats(std::vector<TensorRow>& rows, const Console& console);

void print_tensors(const std::vector<TensorRow>& rows, Console& console);
Json describe(const std::vector<TensorRow>& rows);

}  // namespace cairn::cli
