#include "cli/shell/out_place.h"

#include <algorithm>
#include <cctype>

#include "cairn/error.h"

#include "checkpoint/names/extension.h"
#include "cli/shell/nearest.h"
#include "core/text/printable.h"
#include "io/file.h"
#include "io/uri.h"
#include "storage/place.h"
#include "storage/publish/replace.h"

namespace cairn::cli {
namespace {

std::string lower_text(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The letters after the last dot of a name: "safetensor" of "model.safetensor". Empty if the dot
// belongs to the name: "lr0.1", "run.v2", ".hidden".
std::string last_word(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0) return {};
  const std::string last = lower_text(name.substr(dot + 1));
  return std::ranges::all_of(last, [](char c) { return c >= 'a' && c <= 'z'; }) ? last
                                                                                : std::string();
}

}  // namespace

void check_out_place(const std::string& place) {
  if (place == "-") {
    throw UsageError(
        "-: checkpoints are not written to standard output, and nothing was written. Name a file, "
        "a folder, or a place of a server (s3://bucket/name); a file that is named - is ./-");
  }
  if (split_uri(place).scheme != "memory") return;
  throw UsageError(printable_line(place) +
                   ": memory:// is the memory of this program, and ends with it: nothing was "
                   "written. Name a file, a folder, or a place of a server (s3://bucket/name)");
}

void write_out(const std::string& place, std::string_view text, bool overwrite) {
  const auto store = store_of(place, nullptr);
  const auto file = store->begin(place, {.condition = condition_of(replace_if(overwrite))});
  file->write(as_bytes(text));
  file->commit();
}

void check_extension(const std::string& place, const std::string& other,
                     const std::string& way_out) {
  if (place.ends_with('/')) return;
  const std::string name = base_name(place);
  if (!meant_extension(name).empty()) return;
  const std::string word = last_word(name);
  std::vector<std::string> known = {"pt", "pth", "bin", "ckpt", "tar", "tgz", other};
  if (word.empty() || std::ranges::find(known, word) != known.end()) return;
  const std::string meant = nearest(word, known);
  throw UsageError(printable_line(place) + ": no format has the extension \"." + word + "\"" +
                   (meant.empty() ? ": there are ." + other + ", .pt, .pth, .bin, .ckpt, .tar, .tgz"
                                  : "; did you mean \"." + meant + "\"?") +
                   (meant.empty() ? "; " : " ") + way_out);
}

}  // namespace cairn::cli
