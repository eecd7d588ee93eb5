// cairn convert: turns one kind of checkpoint into another.
#include "cairn/checkpoint/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cairn/error.h"

#include "cli/shell/command.h"
#include "cli/shell/out_place.h"
#include "cli/shell/reading.h"
#include "cli/shell/size_option.h"
#include "cli/view/progress_bar.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

struct ConvertArgs {
  std::vector<std::string> in;  // one, or one per rank; CLI11 first puts OUT at the end of `in`
  std::string out;
  std::string dtype;
  std::vector<std::string> renames;
  bool quick = false;
  Reading reading = {};
  ConvertOptions convert;
};

// Shows a progress bar for each stage.
class Bars {
 public:
  explicit Bars(const Console& console) : console_(console) {}

  void add(const std::string& stage, std::uint64_t more, std::uint64_t total) {
    const std::lock_guard lock(mutex_);
    if (stage != stage_) {
      bar_.reset();
      bar_.emplace(console_, ProgressBarOptions{.what = stage + " ", .total = total});
      stage_ = stage;
    }
    bar_->add(more);
  }

 private:
  const Console& console_;
  std::mutex mutex_;
  std::string stage_;
  std::optional<ProgressBar> bar_;
};

void parse(ConvertArgs& options) {
  if (options.out.empty()) {  // CLI11 puts all names into the first positional
    if (options.in.size() < 2) throw UsageError("OUT is required (see cairn convert --help)");
    options.out = std::move(options.in.back());
    options.in.pop_back();
  }
  for (const std::string& rename : options.renames) {
    const std::size_t sign = rename.find('=');
    if (sign == std::string::npos || sign == 0) {
      throw UsageError("--rename " + rename + ": FROM=TO is needed, as in --rename module.=");
    }
    options.convert.rename.emplace_back(rename.substr(0, sign), rename.substr(sign + 1));
  }
  if (options.dtype == "bf16") options.convert.dtype = DType::kBFloat16;
  if (options.dtype == "fp16") options.convert.dtype = DType::kFloat16;
  if (options.dtype == "fp32") options.convert.dtype = DType::kFloat32;
  options.convert.verify = options.quick ? Verify::kQuick : Verify::kFull;
  options.convert.raw = options.reading.raw;
  if (options.reading.force) options.convert.most_repetition = std::nullopt;
}

template <class Second>
Json json_of(const std::vector<std::pair<std::string, Second>>& pairs) {
  Json object = Json::object();
  for (const auto& [first, second] : pairs) {
    object[first] = second;
  }
  return object;
}

void print_json(const ConvertResult& result, const std::string& out, Console& console) {
  console.print_json({{"out", out},
                      {"format", result.format},
                      {"files", result.files},
                      {"bytes", result.bytes},
                      {"tensors", result.tensors},
                      {"left_out", result.left_out},
                      {"objects", json_of(result.objects)},
                      {"dropped", json_of(result.dropped)},
                      {"lost_attributes", json_of(result.lost_attributes)},
                      {"gathered", result.gathered},
                      {"differing", result.differing},
                      {"renamed_keys", json_of(result.renamed_keys)},
                      {"tied", json_of(result.tied)}});
}

// "a, b, c and 7 more"
std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxNames = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
    text += (i == 0 ? "" : ", ") + printable_line(names[i]);
  }
  if (names.size() > kMaxNames) text += fmt::format(" and {} more", names.size() - kMaxNames);
  return text;
}

// Prints the objects that cairn cannot look into.
void print_objects(const ConvertResult& result, Console& console) {
  std::vector<std::string> kept;
  for (const auto& [name, count] : result.objects) {
    kept.push_back(printable(count == 1 ? name : fmt::format("{} of {}", count, name)));
  }
  std::vector<std::string> dropped;
  for (const auto& [path, name] : result.dropped) {
    dropped.push_back(printable(fmt::format("{} ({})", path, name)));
  }
  if (!kept.empty()) {
    console.out << fmt::format(
        "objects written unchanged, for Python to make: {} (--drop-objects leaves them out)\n",
        list_of(kept));
  }
  if (!dropped.empty()) console.out << fmt::format("objects left out: {}\n", list_of(dropped));
  std::vector<std::string> lost;
  for (const auto& [path, names] : result.lost_attributes) {
    lost.push_back(printable(fmt::format("{} ({})", path, names)));
  }
  if (!lost.empty()) {
    console.out << fmt::format(
        "attributes of tensors left out, because no format can hold them: "
        "{}\n",
        list_of(lost));
  }
  std::vector<std::string> renamed;
  for (const auto& [name, key] : result.renamed_keys) {
    renamed.push_back(printable(fmt::format("\"{}\" (key {})", name, key)));
  }
  if (!renamed.empty()) {
    console.out << fmt::format("keys written as text, because the format has no other keys: {}\n",
                               list_of(renamed));
  }
}

void print(const ConvertResult& result, const std::string& out, Console& console) {
  console.out << fmt::format("{}: {}, {} tensors, {}", printable_line(out), result.format,
                             result.tensors, console.bytes(result.bytes));
  if (result.files.size() > 1) console.out << fmt::format(" in {} files", result.files.size());
  console.out << "\n";
  if (result.gathered > 0) {
    console.out << fmt::format("full tensors gathered from distributed ones: {}\n",
                               result.gathered);
  }
  if (!result.differing.empty()) {
    console.out << fmt::format("different between the files, taken from the first: {}\n",
                               list_of(result.differing));
  }
  if (!result.left_out.empty()) {
    console.out << fmt::format("left out, because not a tensor: {}\n", list_of(result.left_out));
  }
  print_objects(result, console);
  for (const auto& [name, keeper] : result.tied) {
    console.out << fmt::format("tied: {} is {}\n", printable_line(name), printable_line(keeper));
  }
}

int run_convert(ConvertArgs options, Console& console) {
  parse(options);
  check_out_place(options.out);
  if (options.convert.to.empty() && !options.convert.shard_bytes) {
    check_extension(options.out, "safetensors",
                    "--to torch, safetensors or dcp says what to write under this name");
  }
  ConvertResult result;
  {
    Bars bars(console);
    options.convert.on_progress = [&](const char* stage, std::uint64_t more, std::uint64_t total) {
      bars.add(stage, more, total);
    };
    result = convert_ranks(options.in, options.out, options.convert);
  }
  if (options.reading.raw) {
    for (const std::string& in : options.in)
      tell_raw(in, console);
  }
  const std::string out = shown_place(options.out);
  if (console.json) {
    print_json(result, out, console);
  } else if (!console.quiet) {
    print(result, out, console);
  }
  return kDone;
}

}  // namespace

Run define_convert(CLI::App& app) {
  const auto options = std::make_shared<ConvertArgs>();
  ConvertOptions& convert = options->convert;
  app.add_option("IN", options->in,
                 "a checkpoint of any format; the files of all ranks, where each saved its own")
      ->required();
  app.add_option("OUT", options->out,
                 "the output, as the last argument; its extension names the format");
  app.add_option("--to", convert.to,
                 "the output format, whatever the extension: torch, safetensors, dcp");
  app.add_flag("--weights-only", convert.weights_only,
               "the model's state dict only (state/model of a Composer checkpoint)");
  app.add_option("--include", convert.include, "only paths that match, such as 'state/model/*'")
      ->allow_extra_args(false);
  app.add_option("--exclude", convert.exclude, "leave out paths that match")
      ->allow_extra_args(false);
  app.add_option("--rename", options->renames,
                 "FROM=TO: replace FROM by TO at the beginning of the names of tensors")
      ->allow_extra_args(false);
  app.add_option("--dtype", options->dtype, "convert floating-point tensors to bf16, fp16 or fp32")
      ->check(CLI::IsMember({"bf16", "fp16", "fp32"}));
  app.add_flag("--drop-objects", convert.drop_objects,
               "leave out objects of classes that cairn does not know");
  app.add_option("--shard-size", convert.shard_bytes,
                 "write OUT as a folder of safetensors files of at most this size, such as 5GB")
      ->transform(size_above_zero());
  app.add_flag("--overwrite", convert.overwrite, "replace OUT when it exists");
  app.add_flag("--quick", options->quick,
               "do not check every byte of IN first; check converted data when it is read");
  add_raw(app, options->reading);
  add_force(app, options->reading);
  return [options](Console& console) { return run_convert(*options, console); };
}

}  // namespace cairn::cli
