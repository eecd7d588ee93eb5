#include "cli/view/tensor_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/view/path_match.h"
#include "cli/view/progress_bar.h"
#include "cli/view/table.h"
#include "cli/view/value_text.h"
#include "core/json.h"
#include "io/parallel.h"

namespace cairn::cli {
namespace {

using json = Json;

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

json describe(const TensorStats& stats) {
  json object = {{"count", stats.count}, {"nan", stats.nan}, {"inf", stats.inf},
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

}  // namespace

std::uint64_t TensorRow::bytes() const { return byte_size(*tensor); }

std::vector<TensorRow> find_tensors(const Value& value, const std::vector<std::string>& patterns) {
  std::vector<TensorRow> rows;
  for (const auto& [path, tensor] : tensors_of(value)) {
    if (matches_path(patterns, path)) rows.push_back({path, tensor});
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
    std::vector<Cell> cells = {row.path, std::string(name(row.tensor->dtype)),
                               shape_text(row.tensor->shape), console.bytes(row.bytes())};
    if (row.stats) add_stats_cells(*row.stats, cells);
    table.add(std::move(cells));
  }
  table.print(console);
}

json describe(const std::vector<TensorRow>& rows) {
  json list = json::array();
  for (const TensorRow& row : rows) {
    json object = {{"path", row.path},
                   {"dtype", name(row.tensor->dtype)},
                   {"shape", row.tensor->shape},
                   {"bytes", row.bytes()}};
    if (row.stats) object["stats"] = describe(*row.stats);
    list.push_back(std::move(object));
  }
  return list;
}

}  // namespace cairn::cli
