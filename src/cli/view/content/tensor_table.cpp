#include "cli/view/content/tensor_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "cairn/foreign.h"

#include "cli/view/content/value_text.h"
#include "cli/view/path_match.h"
#include "cli/view/progress_bar.h"
#include "cli/view/table.h"
#include "core/text/json.h"
#include "io/threads/parallel.h"

namespace cairn::cli {
namespace {

void add_stats_cells(const TensorStats& stats, std::vector<Cell>& cells) {
  if (stats.finite) {
    for (const double number :
         {stats.finite->min, stats.finite->max, stats.finite->mean, stats.finite->std}) {
      cells.emplace_back(fmt::format("{:.4g}", number));
    }
  } else {
    cells.insert(cells.end(), 4, "-");
  }
  cells.emplace_back(std::to_string(stats.nan), stats.nan > 0 ? &Console::red : nullptr);
  cells.emplace_back(std::to_string(stats.inf), stats.inf > 0 ? &Console::red : nullptr);
  cells.emplace_back(fmt::format("{:.1f}%", 100 * stats.zero_share()));
  cells.emplace_back(stats.finite ? sparkline(stats.finite->histogram) : "");
}

Json describe(const TensorStats& stats) {
  Json object = {{"count", stats.count}, {"nan", stats.nan}, {"inf", stats.inf},
                 {"zeros", stats.zeros}, {"min", nullptr},   {"max", nullptr},
                 {"mean", nullptr},      {"std", nullptr},   {"histogram", nullptr}};
  if (stats.finite) {
    object["min"] = stats.finite->min;
    object["max"] = stats.finite->max;
    object["mean"] = stats.finite->mean;
    object["std"] = stats.finite->std;
    object["histogram"] = stats.finite->histogram;
  }
  return object;
}

Json describe(const DTensor& tensor) {
  std::vector<std::string> placements;
  for (const Placement& placement : tensor.placements) {
    placements.push_back(text_of(placement));
  }
  Json object = {{"shape", tensor.shape},
                 {"placements", std::move(placements)},
                 {"mesh", tensor.mesh.shape},
                 {"coordinate", nullptr}};
  if (tensor.mesh.coordinate) object["coordinate"] = *tensor.mesh.coordinate;
  return object;
}

}  // namespace

std::uint64_t TensorRow::bytes() const { return byte_size(*tensor); }

std::vector<TensorRow> find_tensors(const Value& value, const std::vector<std::string>& patterns) {
  std::unordered_map<const TensorView*, const Foreign*> distributed;  // by their shards
  for (const auto& [path, object] : foreign_objects(value)) {
    if (const TensorView* local = local_tensor(*object)) distributed.emplace(local, object);
  }
  std::vector<TensorRow> rows;
  for (const auto& [path, tensor] : tensors_of(value)) {
    if (!matches_path(patterns, path)) continue;
    rows.push_back({path, tensor});
    const auto object = distributed.find(tensor);
    if (object != distributed.end()) rows.back().distributed = find_dtensor(*object->second);
  }
  return rows;
}

void add_stats(std::vector<TensorRow>& rows, const Console& console) {
  std::uint64_t total = 0;
  for (const TensorRow& row : rows) {
    total += row.bytes();
  }
  ProgressBar bar(console, {.what = "stats", .total = total});
  for_each_parallel(rows.size(), [&](std::size_t i) {
    rows[i].stats = tensor_stats(*rows[i].tensor);
    bar.add(rows[i].bytes());
  });
}

void print_tensors(const std::vector<TensorRow>& rows, Console& console) {
  const bool with_stats = !rows.empty() && rows.front().stats.has_value();
  std::vector<std::string> titles = {"TENSOR", "DTYPE", "SHAPE", ">BYTES"};
  if (with_stats) {
    titles.insert(titles.end(),
                  {">MIN", ">MAX", ">MEAN", ">STD", ">NAN", ">INF", ">ZERO", "HISTOGRAM"});
  }
  Table table(titles);
  for (const TensorRow& row : rows) {
    const std::string shape =
        row.distributed ? placement_text(*row.distributed) : shape_text(row.tensor->shape);
    std::vector<Cell> cells = {row.path, std::string(name(row.tensor->dtype)), shape,
                               console.bytes(row.bytes())};
    if (row.stats) add_stats_cells(*row.stats, cells);
    table.add(std::move(cells));
  }
  table.print(console);
}

Json describe(const std::vector<TensorRow>& rows) {
  Json list = Json::array();
  for (const TensorRow& row : rows) {
    Json object = {{"path", row.path},
                   {"dtype", name(row.tensor->dtype)},
                   {"shape", row.tensor->shape},
                   {"bytes", row.bytes()}};
    if (row.stats) object["stats"] = describe(*row.stats);
    if (row.distributed) object["distributed"] = describe(*row.distributed);
    list.push_back(std::move(object));
  }
  return list;
}

}  // namespace cairn::cli
