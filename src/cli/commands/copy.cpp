// cairn copy: copies a checkpoint unchanged.
#include "cairn/checkpoint/copy.h"

#include <memory>
#include <optional>
#include <string>

#include "cli/shell/command.h"
#include "cli/shell/out_place.h"
#include "cli/view/progress_bar.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "storage/place.h"

namespace cairn::cli {
namespace {

struct CopyArgs {
  std::string in;
  std::string out;
  bool quick = false;
  CopyOptions copy;
};

int run_copy(CopyArgs options, Console& console) {
  check_out_place(options.out);
  options.copy.verify = options.quick ? Verify::kQuick : Verify::kFull;
  CopyResult result;
  {
    ProgressBar bar(console, {.what = "copying ", .total = 0});
    options.copy.on_progress = [&](std::uint64_t more) { bar.add(more); };
    result = copy_checkpoint(options.in, options.out, options.copy);
  }
  const std::string out = shown_place(result.path);
  if (console.json) {
    console.print_json({{"out", out}, {"objects", result.objects}, {"bytes", result.bytes}});
    return kDone;
  }
  if (console.quiet) return kDone;
  console.out << printable_line(out) << ": " << console.bytes(result.bytes);
  if (result.objects > 1) console.out << " in " << result.objects << " files";
  console.out << "\n";
  return kDone;
}

}  // namespace

Run define_copy(CLI::App& app) {
  const auto options = std::make_shared<CopyArgs>();
  app.add_option("IN", options->in, "a checkpoint of any format, a file or a folder")->required();
  app.add_option("OUT", options->out,
                 "its new name; with a slash at the end, the folder that it goes into")
      ->required();
  app.add_flag("--overwrite", options->copy.overwrite, "replace OUT when it exists");
  app.add_flag("--quick", options->quick, "do not check every byte of IN first");
  app.footer(
      "The bytes stay as they are; cairn convert makes other formats. OUT is there whole, or not "
      "at all.");
  return [options](Console& console) { return run_copy(*options, console); };
}

}  // namespace cairn::cli
