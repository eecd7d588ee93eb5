// cairn extract: writes parts of a checkpoint to a file or as JSON.
#include <memory>
#include <string>
#include <vector>

#include "cairn/checkpoint/checkpoint.h"
#include "cairn/checkpoint/ignore_keys.h"
#include "cairn/error.h"

#include "checkpoint/convert/local_shards.h"
#include "cli/shell/command.h"
#include "cli/shell/out_place.h"
#include "cli/shell/reading.h"
#include "cli/view/content/npy.h"
#include "cli/view/content/value_text.h"
#include "core/text/json.h"
#include "core/text/printable.h"
#include "io/memory/mapped_file.h"
#include "storage/listing.h"
#include "storage/place.h"
#include "storage/publish/replace.h"
#include "value/plain_json.h"
#include "value/value_path.h"

namespace cairn::cli {
namespace {

struct ExtractArgs {
  std::string path;
  std::vector<std::string> keys;
  std::string out;
  bool overwrite = false;
  Reading reading = {};
};

// Adds the topmost parts whose paths match. Value trees are at most a thousand levels deep.
class PartFinder {
 public:
  PartFinder(const std::string& pattern, Dict& parts) : pattern_(pattern), parts_(parts) {}

  bool find(const Value& value, const std::string& path) {
    if (!path.empty() && glob_match(pattern_, path)) {
      parts_.set(path, value);
      return true;
    }
    bool found = false;
    const std::string prefix = path.empty() ? "" : path + "/";
    if (value.is_dict()) {
      for (const auto& [key, child] : value.as_dict()) {
        found = find(child, prefix + key_text(key)) || found;
      }
    } else if (value.is_list() || value.is_tuple()) {
      std::size_t i = 0;
      for (const Value& item : value.as_items()) {
        found = find(item, prefix + std::to_string(i++)) || found;
      }
    }
    return found;
  }

 private:
  const std::string& pattern_;
  Dict& parts_;
};

// Returns the part that a single key names; otherwise a dict of the parts by their paths.
Value find_parts(const Value& root, const ExtractArgs& options) {
  if (options.keys.size() == 1) {
    if (const Value* part = find_path(root, options.keys.front())) return *part;
  }
  Dict parts;
  for (const std::string& key : options.keys) {
    if (const Value* part = find_path(root, key)) {
      parts.set(key, *part);
    } else if (!PartFinder(key, parts).find(root, "")) {
      throw NotFoundError(shown_place(options.path) + " has nothing at '" + key +
                          "'; `cairn inspect` shows the paths that there are");
    }
  }
  return parts;
}

// If the value is a dict with one entry, returns that entry: a pattern that matches one tensor
// means that tensor.
Value only_part(const Value& value) {
  return value.is_dict() && value.as_dict().size() == 1 ? value.as_dict().begin()->second : value;
}

void write(const Value& value, const ExtractArgs& options) {
  if (!options.out.ends_with(".npy")) {
    save(value, options.out, {.overwrite = options.overwrite});
    return;
  }
  const auto store = store_of(options.out, nullptr);
  remove_leftovers_of(*store, options.out);
  const auto file =
      store->begin(options.out, {.condition = condition_of(replace_if(options.overwrite))});
  write_npy(only_part(value), *file);
  check_mapped_reads();
  file->commit();
}

Json describe(const std::vector<std::pair<std::string, std::string>>& shards) {
  Json object = Json::object();
  for (const auto& [path, text] : shards) {
    object[path] = text;
  }
  return object;
}

void print_shards(const std::vector<std::pair<std::string, std::string>>& shards,
                  Console& console) {
  if (shards.empty()) return;
  const auto& [path, text] = shards.front();
  console.out << "only the shards that this file holds of distributed tensors: "
              << printable_line(path.empty() ? text : path + " " + text);
  if (shards.size() > 1) console.out << " and " << shards.size() - 1 << " more";
  console.out << "\n";
}

int run_extract(const ExtractArgs& options, Console& console) {
  check_out_place(options.out);
  check_extension(options.out, "npy",
                  "A name without an extension is a torch.save file, too; cairn convert --include "
                  "writes the other formats");
  const auto source = open_to_read(options.path, options.reading, console);
  const auto [value, shards] = local_shards(find_parts(source->read(), options));
  check_work(value, *source, options.path, options.reading);
  if (options.out.empty()) {
    const Json object = plain_json(value);
    check_mapped_reads();  // before anything is reported from these reads
    console.print_json(object);
    return kDone;
  }
  write(value, options);
  const auto info = store_of(options.out, nullptr)->stat(options.out);
  const std::uint64_t bytes = info ? info->size : 0;
  const std::string out = shown_place(options.out);
  if (console.json) {
    console.print_json({{"path", out},
                        {"bytes", bytes},
                        {"tensors", tensors_of(value).size()},
                        {"shards", describe(shards)}});
  } else if (!console.quiet) {
    console.out << printable_line(out) << ": " << printable_line(value_text(value)) << ", "
                << console.bytes(bytes) << "\n";
    print_shards(shards, console);
  }
  return kDone;
}

}  // namespace

Run define_extract(CLI::App& app) {
  const auto options = std::make_shared<ExtractArgs>();
  app.add_option("PATH", options->path, "a checkpoint of any format")->required();
  app.add_option("KEY", options->keys, "a path in it, or a pattern: state/model, 'state/*/lr'")
      ->required();
  app.add_option("-o,--out", options->out,
                 "write to this file: .pt, or .npy for one tensor; JSON to stdout without it");
  app.add_flag("--overwrite", options->overwrite, "replace the file when it exists");
  app.add_flag("--force", options->reading.force,
               "as --overwrite, and continue even if tensors show much more than the file holds");
  add_raw(app, options->reading);
  app.footer(
      "One path gives that part. Several paths, or a pattern, give a dict of parts by their paths. "
      "To choose parts and keep the tree, use cairn convert --include.");
  return [options](Console& console) {
    ExtractArgs given = *options;
    given.overwrite = given.overwrite || given.reading.force;
    return run_extract(given, console);
  };
}

}  // namespace cairn::cli
