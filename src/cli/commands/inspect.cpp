// cairn inspect: shows what a checkpoint is and what it holds. Without --stats no tensor is read.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "cairn/error.h"
#include "cairn/foreign.h"

#include "checkpoint/convert/lost_objects.h"
#include "checkpoint/open/run_options.h"
#include "checkpoint/open/training_info.h"
#include "cli/shell/command.h"
#include "cli/shell/folders.h"
#include "cli/shell/reading.h"
#include "cli/view/content/components.h"
#include "cli/view/content/tensor_table.h"
#include "cli/view/content/tree.h"
#include "cli/view/table.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "core/text/writer.h"
#include "io/memory/mapped_file.h"
#include "storage/place.h"
#include "value/timestamp_fields.h"

namespace cairn::cli {
namespace {

struct InspectArgs {
  std::string path;
  std::vector<std::string> tensors = {};  // patterns
  bool stats = false;
  bool options = false;
  TreePrinting tree = {};
  bool all = false;
  Reading reading = {};
};

struct Inspected {
  std::string path;  // without secrets, for messages
  std::unique_ptr<CheckpointSource> opened;
  Value value;
  SourceInfo source = {};
  CheckpointInfo training = {};
};

Inspected inspect(const InspectArgs& options, const Console& console) {
  Inspected inspected{.path = shown_place(options.path),
                      .opened = open_to_read(options.path, options.reading, console),
                      .value = {}};
  inspected.value = inspected.opened->read();
  inspected.source = inspected.opened->info();
  try {
    inspected.training = training_info(inspected.source, inspected.value);
  } catch (const MismatchError&) {
    // The content has something else in the place of Composer's timestamp.
  }
  return inspected;
}

std::string text_at(const Value& value, const char* path) {
  const Value* found = find_path(value, path);
  return found != nullptr && found->is_str() ? found->as_str() : "";
}

// "Composer 0.33.0, torch 2.6.0": the writer that the object names. The format may not tell the
// writer.
std::string writer_of(const Inspected& inspected) {
  constexpr const char* kVersion = "state/metadata/composer_env_info/composer_version";
  const std::string version = text_at(inspected.value, kVersion);
  if (version.empty() || inspected.source.checkpoint) return inspected.source.writer;
  const std::string torch = text_at(inspected.value, "state/metadata/torch_version");
  return (version.starts_with("cairn") ? version : "Composer " + version) +
         (torch.empty() ? "" : ", torch " + torch);
}

std::string format_text(const SourceInfo& source, const Console& console) {
  std::string text = source.description;
  for (auto it = source.containers.rbegin(); it != source.containers.rend(); ++it) {
    text += " in " + *it;
  }
  return text + ", " + console.bytes(source.bytes);
}

std::string writer_text(const Inspected& inspected) {
  const std::string writer = writer_of(inspected);
  return is_newer_cairn(writer) ? writer + ", newer than this " + kWriter : writer;
}

// The class of the root, if the root is an object of a foreign class; otherwise empty.
std::string class_of(const Inspected& inspected) {
  return inspected.value.is_foreign() ? inspected.value.as_foreign().class_name() : "";
}

std::string kind_text(const Inspected& inspected) {
  const CheckpointInfo& training = inspected.training;
  const std::string class_name = class_of(inspected);
  std::string text = training.kind == "full"      ? "full: training can go on from it"
                     : training.kind == "weights" ? "weights"
                     : class_name.empty()         ? "an object"
                                                  : "an object of " + class_name;
  return training.run_name.empty() ? text : text + "; run " + training.run_name;
}

// Describes in one line the tensors whose attributes are not kept. Empty if there are none.
std::string attributes_text(const Value& value) {
  const auto lost = lost_attributes(value);
  if (lost.empty()) return "";
  const auto& [path, names] = lost.front();
  return fmt::format("of {} tensors, read by Python alone, as {} ({})", lost.size(), path, names);
}

std::string position_text(const Timestamp& at) {
  return fmt::format(
      "epoch {}, batch {} ({} in the epoch), sample {}, token {}; {:.3g} s of training", at.epoch,
      at.batch, at.batch_in_epoch, at.sample, at.token, at.total_wct.total_seconds());
}

void print_head(const Inspected& inspected, Console& console) {
  std::vector<std::pair<std::string, std::string>> lines = {
      {"format", format_text(inspected.source, console)},
      {"writer", writer_text(inspected)},
      {"kind", kind_text(inspected)},
      {"attributes", attributes_text(inspected.value)}};
  if (inspected.training.timestamp) {
    lines.emplace_back("position", position_text(*inspected.training.timestamp));
  }
  if (const auto options = run_options(inspected.value); !options.empty()) {
    lines.emplace_back("options", std::to_string(options.size()) + ", see --options");
  }
  // For safetensors, the file's own metadata.
  for (const auto& [label, text] : inspected.source.notes) {
    lines.emplace_back(printable_line(label), text);
  }
  std::size_t width = 0;
  for (const auto& [label, text] : lines) {
    if (!text.empty()) width = std::max(width, label.size());
  }
  console.out << printable_line(inspected.path) << "\n";
  for (const auto& [label, text] : lines) {
    if (text.empty()) continue;
    console.out << console.dim(fmt::format("  {:<{}}  ", label, width)) << printable_line(text)
                << "\n";
  }
}

void print_options(const Inspected& inspected, Console& console) {
  Table table({"OPTION", "VALUE"});
  for (const auto& [name, text] : run_options(inspected.value))
    table.add({printable_line(name), printable_line(text)});
  table.print(console);
}

void print_components(const TreeNode& root, Console& console) {
  Table table({"PART", ">TENSORS", ">PARAMETERS", ">BYTES", ">VALUES"});
  const auto add = [&](const std::string& name, const Contents& contents) {
    table.add({name, std::to_string(contents.tensors), std::to_string(contents.parameters),
               console.bytes(contents.bytes), std::to_string(contents.values)});
  };
  for (const Component& component : components_of(root)) {
    add(component.path, component.contents);
  }
  add("all", root.contents);
  table.print(console);
}

Json describe(const Contents& contents) {
  return {{"tensors", contents.tensors},
          {"parameters", contents.parameters},
          {"bytes", contents.bytes},
          {"values", contents.values}};
}

Json describe(const Timestamp& at) {
  Json object = {{"seconds", at.total_wct.total_seconds()}};
  for (const TimestampCounter& counter : kTimestampCounters) {
    object[counter.name] = at.*counter.field;
  }
  return object;
}

Json object_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Json object = Json::object();
  for (const auto& [name, text] : pairs) {
    object[name] = text;
  }
  return object;
}

Json describe(const Inspected& inspected, const TreeNode& root) {
  const SourceInfo& source = inspected.source;
  Json components = Json::array();
  for (const Component& component : components_of(root)) {
    Json object = describe(component.contents);
    object["path"] = component.path;
    components.push_back(std::move(object));
  }
  const std::string class_name = class_of(inspected);
  return {
      {"path", inspected.path},
      {"format", source.format},
      {"description", source.description},
      {"containers", source.containers},
      {"writer", writer_of(inspected)},
      {"bytes", source.bytes},
      {"notes", object_of(source.notes)},
      {"kind", inspected.training.kind},
      {"class", class_name.empty() ? Json() : Json(class_name)},
      {"attributes", object_of(lost_attributes(inspected.value))},
      {"run_name", inspected.training.run_name},
      {"options", object_of(run_options(inspected.value))},
      {"position", inspected.training.timestamp ? describe(*inspected.training.timestamp) : Json()},
      {"components", std::move(components)},
      {"contents", describe(root.contents)},
      {"tensors", nullptr}};
}

int run_inspect(InspectArgs options, Console& console) {
  if (is_plain_folder(options.path)) options.path = newest_in(options.path);
  if (options.stats && options.tensors.empty()) options.tensors = {"*"};
  if (options.all) options.tree.most_children = std::numeric_limits<std::size_t>::max() - 1;
  const Inspected inspected = inspect(options, console);
  const TreeNode root = build_tree(inspected.value, std::max<std::size_t>(options.tree.depth, 2));
  std::vector<TensorRow> rows;
  if (!options.tensors.empty()) rows = find_tensors(inspected.value, options.tensors);
  if (!options.tensors.empty() && rows.empty()) {
    throw NotFoundError("no tensor of " + inspected.path + " matches " +
                        fmt::format("{}", fmt::join(options.tensors, " ")));
  }
  if (options.options && run_options(inspected.value).empty()) {
    throw NotFoundError(inspected.path +
                        " has no options of a run: only cairn's Trainer writes them");
  }
  if (options.stats) {
    List tensors;
    for (const TensorRow& row : rows) {
      tensors.emplace_back(*row.tensor);
    }
    check_work(tensors, *inspected.opened, options.path, options.reading);
    add_stats(rows, console);
  }
  check_mapped_reads();  // before anything is reported from these reads
  if (console.json) {
    Json object = describe(inspected, root);
    if (!options.tensors.empty()) object["tensors"] = describe(rows);
    console.print_json(object);
  } else if (options.options) {
    print_options(inspected, console);
  } else if (!options.tensors.empty()) {
    print_tensors(rows, console);
  } else {
    print_head(inspected, console);
    console.out << "\n";
    print_components(root, console);
    if (options.tree.depth > 0) console.out << "\n";
    print_tree(root, options.tree, console);
  }
  return kDone;
}

}  // namespace

Run define_inspect(CLI::App& app) {
  const auto options = std::make_shared<InspectArgs>();
  app.add_option("PATH", options->path,
                 "a checkpoint of any format, or a folder of them: the newest")
      ->required();
  app.add_option("--depth", options->tree.depth, "levels of the tree (0: none)")
      ->capture_default_str();
  app.add_flag("--all", options->all, "show long lists of the tree in full");
  CLI::Option* tensors = app.add_option(
      "--tensors", options->tensors,
      "list the tensors that the pattern names: 'state/model/*.weight', or a branch: "
      "state/model; may be given several times");
  tensors->type_name("GLOB")->allow_extra_args(false);
  CLI::Option* stats = app.add_flag(
      "--stats", options->stats,
      "read these tensors (or all) and show minimum, maximum, mean, standard deviation, "
      "NaN, Inf, the share of zeros and a histogram");
  app.add_flag("--options", options->options,
               "list the options of the Trainer that wrote it, and of its optimizer")
      ->excludes(tensors, stats);
  add_raw(app, options->reading);
  add_force(app, options->reading);
  app.footer(
      "Without --stats only headers are read, whatever the size. A tensor that occurs twice counts "
      "once in parameters and bytes. For a folder of checkpoints, the good one that is furthest in "
      "training is shown.");
  return [options](Console& console) { return run_inspect(*options, console); };
}

}  // namespace cairn::cli
