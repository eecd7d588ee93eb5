// cairn diff: shows the differences between two checkpoints of any formats.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cairn/error.h"

#include "checkpoint/open/formats/weights.h"
#include "checkpoint/open/run_options.h"
#include "cli/shell/command.h"
#include "cli/shell/reading.h"
#include "cli/shell/size_option.h"
#include "cli/view/content/compare_values.h"
#include "cli/view/content/value_text.h"
#include "cli/view/progress_bar.h"
#include "cli/view/table.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "io/memory/mapped_file.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

struct DiffArgs {
  std::string a;
  std::string b;
  bool weights_only = false;
  Reading reading = {};
  CompareOptions compare = {};
};

// Names the weights as a file that has only weights does: "layer.weight" is the layer's weight.
// `path` is for messages.
Value named_weights(const Value& root, const std::string& path) {
  Dict weights;
  std::map<std::string, std::string> paths;
  for (const auto& [key, tensor] : tensors_of(weights_of(root))) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '/', '.');
    const auto [first, is_new] = paths.emplace(name, key);
    if (!is_new) {
      throw UsageError(path + ": the weights " + first->second + " and " + key +
                       " have one name, " + name + "; compare the files without --weights-only");
    }
    weights.set(std::move(name), *tensor);
  }
  if (weights.empty()) {
    throw UsageError(path + " holds no tensor, and so no weights to compare");
  }
  return weights;
}

Value weights_in(const CheckpointSource& source, const std::string& path) {
  const std::optional<Value> weights = source.state_dict();
  return named_weights(weights ? *weights : source.read(), shown_place(path));
}

struct Side {
  std::unique_ptr<CheckpointSource> source;  // for the names of damaged tensors
  Value value;
  RunOptions options = {};  // are not in `value`
};

Side read(const std::string& path, const DiffArgs& options, const Console& console) {
  Side side{.source = open_to_read(path, options.reading, console), .value = {}};
  side.value = options.weights_only ? weights_in(*side.source, path) : side.source->read();
  side.options = take_run_options(side.value);
  check_work(side.value, *side.source, path, options.reading);
  return side;
}

// An option of the runs that the checkpoints come from.
struct DifferentOption {
  std::string name;
  std::optional<std::string> a = std::nullopt;  // nullopt: that run has no such option
  std::optional<std::string> b = std::nullopt;
};

// Nothing is compared if one of the checkpoints has none, as Composer's.
std::vector<DifferentOption> different_options(const Side& a, const Side& b) {
  if (a.options.empty() || b.options.empty()) return {};
  std::map<std::string, DifferentOption> all;
  for (const auto& [name, text] : a.options)
    all[name].a = text;
  for (const auto& [name, text] : b.options)
    all[name].b = text;
  std::vector<DifferentOption> different;
  for (auto& [name, option] : all) {
    option.name = name;
    if (option.a != option.b) different.push_back(std::move(option));
  }
  return different;
}

std::uint64_t bytes_of_tensors(const Value& value) {
  std::uint64_t bytes = 0;
  for (const auto& [path, tensor] : tensors_of(value)) {
    bytes += byte_size(*tensor);
  }
  return bytes;
}

std::string both(const std::string& a, const std::string& b) { return a == b ? a : a + " / " + b; }

std::string distance_text(double distance) { return fmt::format("{:.4g}", distance); }

void print_tensors(const Differences& differences, Console& console) {
  if (differences.tensors.empty()) return;
  Table table({"TENSOR", "DTYPE", "SHAPE", ">DIFFERING", ">OF", ">MAX |Δ|", ">MEAN |Δ|"});
  for (const DifferentTensor& tensor : differences.tensors) {
    std::vector<Cell> row = {
        tensor.path,
        both(std::string(name(tensor.a->dtype)), std::string(name(tensor.b->dtype))) +
            (tensor.has_other_scale ? ", other scale" : ""),
        both(shape_text(tensor.a->shape), shape_text(tensor.b->shape))};
    if (tensor.distance) {
      row.emplace_back(std::to_string(tensor.distance->differing));
      row.emplace_back(std::to_string(tensor.distance->elements));
      row.emplace_back(distance_text(tensor.distance->max_abs));
      row.emplace_back(distance_text(tensor.distance->mean_abs));
    } else {
      row.insert(row.end(), 4, "-");
    }
    table.add(std::move(row));
  }
  table.print(console);
}

void print_values(const Differences& differences, Console& console) {
  if (differences.values.empty()) return;
  Table table({"VALUE", "A", "B"});
  for (const DifferentValue& value : differences.values) {
    table.add({value.path, value_text(*value.a), value_text(*value.b)});
  }
  table.print(console);
}

void print_options(const std::vector<DifferentOption>& options, Console& console) {
  if (options.empty()) return;
  Table table({"OPTION", "A", "B"});
  for (const DifferentOption& option : options) {
    table.add({printable_line(option.name), printable_line(option.a.value_or("-")),
               printable_line(option.b.value_or("-"))});
  }
  table.print(console);
  console.out << "\n";
}

std::string summary(const Differences& differences) {
  std::string text = "identical: ";
  if (!differences.empty()) {
    text = fmt::format("different: {} tensors, {} values, {} only in A, {} only in B; the same: ",
                       differences.tensors.size(), differences.values.size(),
                       differences.only_in_a.size(), differences.only_in_b.size());
  }
  text += fmt::format("{} tensors, {} values", differences.same_tensors, differences.same_values);
  if (differences.ignored > 0) {
    text += fmt::format(" ({} of the run ignored, see --wall-clock)", differences.ignored);
  }
  return text;
}

void print(const Differences& differences, Console& console) {
  for (const std::string& path : differences.only_in_a) {
    console.out << console.red("only in A  ") << printable_line(path) << "\n";
  }
  for (const std::string& path : differences.only_in_b) {
    console.out << console.green("only in B  ") << printable_line(path) << "\n";
  }
  print_tensors(differences, console);
  print_values(differences, console);
  console.out << summary(differences) << "\n";
}

Json describe(const TensorView& tensor) {
  return {{"dtype", name(tensor.dtype)}, {"shape", tensor.shape}};
}

Json finite_or_null(double number) { return std::isfinite(number) ? Json(number) : Json(); }

Json describe(const std::vector<DifferentOption>& options) {
  const auto text_or_null = [](const std::optional<std::string>& text) {
    return text ? Json(*text) : Json();
  };
  Json rows = Json::array();
  for (const DifferentOption& option : options) {
    rows.push_back(
        {{"name", option.name}, {"a", text_or_null(option.a)}, {"b", text_or_null(option.b)}});
  }
  return rows;
}

Json describe(const Differences& differences) {
  Json tensors = Json::array();
  for (const DifferentTensor& tensor : differences.tensors) {
    Json row = {{"path", tensor.path},      {"a", describe(*tensor.a)},
                {"b", describe(*tensor.b)}, {"elements", nullptr},
                {"differing", nullptr},     {"max_abs", nullptr},
                {"mean_abs", nullptr},      {"other_scale", tensor.has_other_scale}};
    if (tensor.distance) {
      row["elements"] = tensor.distance->elements;
      row["differing"] = tensor.distance->differing;
      row["max_abs"] = finite_or_null(tensor.distance->max_abs);
      row["mean_abs"] = finite_or_null(tensor.distance->mean_abs);
    }
    tensors.push_back(std::move(row));
  }
  Json values = Json::array();
  for (const DifferentValue& value : differences.values) {
    values.push_back(
        {{"path", value.path}, {"a", value_text(*value.a)}, {"b", value_text(*value.b)}});
  }
  return {{"identical", differences.empty()},
          {"only_in_a", differences.only_in_a},
          {"only_in_b", differences.only_in_b},
          {"tensors", std::move(tensors)},
          {"values", std::move(values)},
          {"same_tensors", differences.same_tensors},
          {"same_values", differences.same_values},
          {"ignored", differences.ignored}};
}

int run_diff(DiffArgs options, Console& console) {
  if (options.compare.atol && !std::isfinite(*options.compare.atol)) {
    throw UsageError(fmt::format("--atol {}: a finite number is needed", *options.compare.atol));
  }
  const Side a = read(options.a, options, console);
  const Side b = read(options.b, options, console);
  options.compare.tensors_only = options.weights_only;
  Differences differences;
  {
    ProgressBar bar(console, {.what = "diff", .total = bytes_of_tensors(a.value)});
    options.compare.on_progress = [&](std::uint64_t bytes) { bar.add(bytes); };
    differences = compare_values(a.value, b.value, options.compare);
    check_mapped_reads();  // before anything is reported from these reads
  }
  const std::vector<DifferentOption> options_of_runs = different_options(a, b);
  if (console.json) {
    Json answer = describe(differences);
    answer["options"] = describe(options_of_runs);
    console.print_json(answer);
  } else if (!console.quiet || !differences.empty()) {
    print_options(options_of_runs, console);
    print(differences, console);
  }
  return differences.empty() ? kDone : kNegativeAnswer;
}

}  // namespace

Run define_diff(CLI::App& app) {
  const auto options = std::make_shared<DiffArgs>();
  app.add_option("A", options->a, "a checkpoint of any format")->required();
  app.add_option("B", options->b, "another one, of any format")->required();
  app.add_flag("--weights-only", options->weights_only,
               "compare the model's tensors only, wherever each file has them");
  app.add_option("--atol", options->compare.atol,
                 "compare numbers instead of bits and dtypes, and allow this difference")
      ->check(zero_or_more("--atol 1e-6"));
  app.add_flag("--wall-clock", options->compare.wall_clock,
               "compare durations and the names of saved files, too");
  add_raw(app, options->reading);
  add_force(app, options->reading);
  app.footer(
      "Exit code 1 when there are differences. The options of the two runs are shown first, where "
      "they differ; they are no state, and do not change the exit code.");
  return [options](Console& console) { return run_diff(*options, console); };
}

}  // namespace cairn::cli
